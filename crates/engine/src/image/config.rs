use tote_bundle::{DEFAULT_PATH, ImageConfig};
use tote_image::ContainerConfig;

/// The part of an image's configuration that decides how a container runs. An image without a `PATH` has the usual one.
pub(crate) fn runtime_config(config: &ContainerConfig) -> ImageConfig {
    let mut env = config.env.clone();
    if !env.iter().any(|variable| variable.starts_with("PATH=")) {
        env.push(format!("PATH={DEFAULT_PATH}"));
    }
    ImageConfig {
        entrypoint: config.entrypoint.clone(),
        cmd: config.cmd.clone(),
        env,
        user: config.user.clone(),
        working_dir: config.working_dir.clone(),
        volumes: config.volumes.iter().cloned().collect(),
        labels: config.labels.clone(),
        stop_signal: config.stop_signal.clone(),
        exposed_ports: config.exposed_ports.iter().cloned().collect(),
    }
}
