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
        healthcheck: config.healthcheck.as_ref().map(healthcheck),
    }
}

/// What is negative in it stands for nothing.
fn healthcheck(check: &tote_image::Healthcheck) -> tote_bundle::Healthcheck {
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    tote_bundle::Healthcheck {
        test: check.test.clone(),
        interval: positive(check.interval),
        timeout: positive(check.timeout),
        start_period: positive(check.start_period),
        start_interval: positive(check.start_interval),
        retries: positive(check.retries),
    }
}
