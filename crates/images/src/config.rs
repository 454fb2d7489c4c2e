use tote_bundle::{DEFAULT_PATH, ImageConfig};
use tote_image::ContainerConfig;

/// Extracts the part of an image's configuration that decides how a container runs. An image without a `PATH` gets
/// the usual one.
pub fn runtime_config(config: &ContainerConfig) -> ImageConfig {
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
        healthcheck: config
            .healthcheck
            .as_ref()
            .map(|check| healthcheck(check, &config.shell)),
    }
}

/// Converts a health check. Negative numbers count as unset. A `CMD-SHELL` line goes to the image's
/// own shell, if it names one.
fn healthcheck(check: &tote_image::Healthcheck, shell: &[String]) -> tote_bundle::Healthcheck {
    let mut test = check.test.clone();
    if let [kind, line] = &test[..]
        && kind == "CMD-SHELL"
        && !shell.is_empty()
    {
        let words = shell.iter().chain([line]).cloned();
        test = std::iter::once("CMD".to_owned()).chain(words).collect();
    }
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    tote_bundle::Healthcheck {
        test,
        interval: positive(check.interval),
        timeout: positive(check.timeout),
        start_period: positive(check.start_period),
        start_interval: positive(check.start_interval),
        retries: positive(check.retries),
    }
}
