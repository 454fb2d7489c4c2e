//! `--health-cmd` and its kin.

use crate::value::{
    BooleanError, GoDurationError, IntegerError, parse_boolean, parse_go_duration, parse_integer,
};

/// A container's health check; docker's `Healthcheck`. Times are nanoseconds; zero stands for the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healthcheck {
    /// `NONE`; or `CMD` and argv; or `CMD-SHELL` and a line. Empty if not given.
    pub test: Vec<String>,
    /// Time from the end of one check to the start of the next.
    pub interval: u64,
    /// Time after which a check that has not ended counts as failed.
    pub timeout: u64,
    /// Time after the start during which failures do not count.
    pub start_period: u64,
    /// The interval during the start period.
    pub start_interval: u64,
    /// Number of failures in a row that make a container unhealthy.
    pub retries: u64,
}

/// Options of `run` about the health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// `--no-healthcheck`.
    pub none: bool,
    /// `--health-on-failure`.
    pub on_failure: OnFailure,
    /// All other options about it.
    pub check: Healthcheck,
}

/// Action when a container becomes unhealthy; podman's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Only the state says it.
    #[default]
    None,
    /// The container is killed; then its restart policy decides.
    Kill,
    /// The container is stopped, as by `stop`, and stays so.
    Stop,
    /// The container is stopped and started again, whatever its restart policy says.
    Restart,
}

/// Why an option about the health check is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The text is neither true nor false.
    #[error(transparent)]
    Boolean(#[from] BooleanError),
    /// The text is not a number of retries.
    #[error(transparent)]
    Integer(#[from] IntegerError),
    /// The text is not a duration.
    #[error(transparent)]
    Duration(#[from] GoDurationError),
    /// The duration is negative.
    #[error("cannot be negative")]
    Negative,
    /// The duration is below docker's lower limit.
    #[error("cannot be less than 1ms")]
    Short,
    /// The action is unknown.
    #[error("invalid action {0:?}: give none, kill, stop or restart")]
    Action(String),
}

impl HealthOptions {
    /// Applies an option by its long name; returns whether the name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, HealthError> {
        let check = &mut self.check;
        match name {
            "health-cmd" => check.test = test(value),
            "health-interval" => check.interval = time(value)?,
            "health-timeout" => check.timeout = time(value)?,
            "health-start-period" => check.start_period = time(value)?,
            "health-start-interval" => check.start_interval = time(value)?,
            "health-retries" => check.retries = retries(value)?,
            "health-on-failure" => {
                self.on_failure = match value {
                    "" | "none" => OnFailure::None,
                    "kill" => OnFailure::Kill,
                    "stop" => OnFailure::Stop,
                    "restart" => OnFailure::Restart,
                    _ => return Err(HealthError::Action(value.to_owned())),
                }
            }
            "no-healthcheck" => self.none = parse_boolean(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn test(line: &str) -> Vec<String> {
    match line {
        "" => Vec::new(),
        // podman's spelling of --no-healthcheck.
        "none" => vec!["NONE".to_owned()],
        line => vec!["CMD-SHELL".to_owned(), line.to_owned()],
    }
}

fn time(text: &str) -> Result<u64, HealthError> {
    let nanoseconds = parse_go_duration(text)?;
    match u64::try_from(nanoseconds) {
        Err(_) => Err(HealthError::Negative),
        Ok(1..1_000_000) => Err(HealthError::Short),
        Ok(nanoseconds) => Ok(nanoseconds),
    }
}

fn retries(text: &str) -> Result<u64, IntegerError> {
    parse_integer(text, 0..=i64::from(i32::MAX)).map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use crate::RunOptions;

    #[test]
    fn times_are_checked() {
        let mut options = RunOptions::default();
        for bad in ["-1s", "1us", "x", ""] {
            assert!(options.set("health-timeout", bad).is_err(), "{bad}");
        }
        options.set("health-timeout", "0").unwrap();
        assert!(options.set("health-retries", "-1").is_err());
    }

    #[test]
    fn actions() {
        use super::OnFailure;
        let mut options = RunOptions::default();
        for (text, action) in [
            ("kill", OnFailure::Kill),
            ("stop", OnFailure::Stop),
            ("restart", OnFailure::Restart),
            ("none", OnFailure::None),
        ] {
            options.set("health-on-failure", text).unwrap();
            assert_eq!(options.health.on_failure, action);
        }
        assert!(options.set("health-on-failure", "reboot").is_err());
    }
}
