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
            // podman-compose has docker's start_interval in this option of podman's.
            "health-start-interval" | "health-startup-interval" => check.start_interval = time(value)?,
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
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match line {
        "" => Vec::new(),
        // podman's spelling of --no-healthcheck.
        "none" => words(&["NONE"]),
        line => of_json(line).unwrap_or_else(|| words(&["CMD-SHELL", line])),
    }
}

/// Parses podman's JSON list: several words are a program and its arguments, a single one is for a shell, and the first may say which
/// it is, as in a Dockerfile. No shell could execute such a line.
fn of_json(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = serde_json::from_str(line).ok()?;
    let kind = match words.first()?.to_uppercase().as_str() {
        "NONE" => return Some(vec!["NONE".to_owned()]),
        kind @ ("CMD" | "CMD-SHELL") if words.len() > 1 => {
            let kind = kind.to_owned();
            words.remove(0);
            kind
        }
        _ if words.len() == 1 => "CMD-SHELL".to_owned(),
        _ => "CMD".to_owned(),
    };
    words.insert(0, kind);
    Some(words)
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
    fn commands() {
        for (given, expected) in [
            ("true", &["CMD-SHELL", "true"][..]),
            ("[ -f /x ]", &["CMD-SHELL", "[ -f /x ]"]),
            ("none", &["NONE"]),
            (r#"["NONE"]"#, &["NONE"]),
            (r#"["test -f /x"]"#, &["CMD-SHELL", "test -f /x"]),
            (r#"["test","-f","/x"]"#, &["CMD", "test", "-f", "/x"]),
            (r#"["CMD-SHELL","test -f /x"]"#, &["CMD-SHELL", "test -f /x"]),
            (r#"["CMD","test","x"]"#, &["CMD", "test", "x"]),
            ("[]", &["CMD-SHELL", "[]"]),
            ("[1]", &["CMD-SHELL", "[1]"]),
        ] {
            let mut options = RunOptions::default();
            options.set("health-cmd", given).unwrap();
            assert_eq!(options.health.check.test, expected, "{given}");
        }
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
