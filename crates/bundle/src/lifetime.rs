//! `--restart`, `--log-driver` and `--log-opt`: what happens to a container after it has ended, and to its output.

use crate::value::{IntegerError, SizeError, parse_decimal_size, parse_integer};
use std::str::FromStr;

/// Value of `--restart`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Never restart.
    #[default]
    No,
    /// Restart after a failure; at most this number of times, 0 for no limit.
    OnFailure(u32),
    /// Restart whenever the container ends, unless the user stopped it; and again when the machine starts.
    Always,
    /// Like `Always`, but a container that the user stopped stays stopped when the machine starts.
    UnlessStopped,
}

/// Why a text is not a restart policy; docker's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// The word is not a policy.
    #[error(
        "invalid restart policy: unknown policy '{0}'; use one of 'no', 'always', 'on-failure', or 'unless-stopped'"
    )]
    Unknown(String),
    /// A count follows a policy that takes none.
    #[error("invalid restart policy: maximum retry count can only be used with 'on-failure'")]
    Count,
    /// The count is not a number.
    #[error("invalid restart policy: maximum retry count must be an integer")]
    Number,
    /// The count is less than zero.
    #[error("invalid restart policy: maximum retry count cannot be negative")]
    Negative,
}

impl FromStr for RestartPolicy {
    type Err = RestartError;

    fn from_str(text: &str) -> Result<Self, RestartError> {
        let (word, count) = match text.split_once(':') {
            Some((word, count)) => (word, Some(count)),
            None => (text, None),
        };
        match (word, count) {
            ("" | "no", None) => Ok(Self::No),
            ("always", None) => Ok(Self::Always),
            ("unless-stopped", None) => Ok(Self::UnlessStopped),
            ("on-failure", None) => Ok(Self::OnFailure(0)),
            ("on-failure", Some(count)) => match count.parse::<i64>() {
                Err(_) => Err(RestartError::Number),
                Ok(..0) => Err(RestartError::Negative),
                Ok(count) => Ok(Self::OnFailure(u32::try_from(count).unwrap_or(u32::MAX))),
            },
            ("no" | "always" | "unless-stopped", Some(_)) => Err(RestartError::Count),
            _ => Err(RestartError::Unknown(word.to_owned())),
        }
    }
}

impl RestartPolicy {
    /// Returns docker's word, without the number.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::OnFailure(_) => "on-failure",
            Self::Always => "always",
            Self::UnlessStopped => "unless-stopped",
        }
    }
}

/// `--sdnotify`: the process that tells the host's init that the container is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SdNotify {
    /// The program itself, by sd_notify(3).
    #[default]
    Container,
    /// The monitor of the container, once its program runs.
    Conmon,
    /// The monitor, once a health check has succeeded.
    Healthy,
    /// No process: the init is not told.
    Ignore,
}

/// Why a text is not a value of `--sdnotify`; podman's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid sdnotify value {0:?}: must be container, conmon, healthy or ignore")]
pub struct SdNotifyError(String);

impl FromStr for SdNotify {
    type Err = SdNotifyError;

    fn from_str(text: &str) -> Result<Self, SdNotifyError> {
        match text {
            "container" => Ok(Self::Container),
            "conmon" => Ok(Self::Conmon),
            "healthy" => Ok(Self::Healthy),
            "ignore" => Ok(Self::Ignore),
            other => Err(SdNotifyError(other.to_owned())),
        }
    }
}

/// The format in which a container's output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDriver {
    /// docker's default format.
    #[default]
    JsonFile,
    /// docker's `local`, whose files are private to docker. Here it is [`LogDriver::JsonFile`] with a limit on
    /// size.
    Local,
    /// podman's format.
    K8sFile,
    /// The output is not kept.
    None,
}

/// `--log-driver` and `--log-opt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChoice {
    /// The format of the log.
    pub driver: LogDriver,
    /// `max-size`: bytes at which the log file is rotated.
    size: Option<u64>,
    /// `max-file`: number of files, the current one included.
    files: Option<u32>,
    /// `labels`: names of the labels that every entry carries.
    pub labels: Vec<String>,
    /// `env`: names of the variables that every entry carries.
    pub env: Vec<String>,
    /// `labels-regex`: pattern of names of further labels that every entry carries.
    pub labels_regex: Option<String>,
    /// `env-regex`: pattern of names of further variables that every entry carries.
    pub env_regex: Option<String>,
    /// `tag`: template of the tag that every entry carries.
    pub tag: Option<String>,
}

impl LogChoice {
    /// Returns the bytes at which the log file is rotated; `None` if it never is.
    #[must_use]
    pub fn max_size(&self) -> Option<u64> {
        // docker's default for `local`.
        let usual = (self.driver == LogDriver::Local).then_some(20 << 20);
        self.size.or(usual)
    }

    /// Returns the number of files, the current one included.
    #[must_use]
    pub fn max_files(&self) -> u32 {
        self.files
            .unwrap_or(if self.driver == LogDriver::Local { 5 } else { 1 })
    }
}

/// Why an option about the log is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The driver does not exist.
    #[error("logger: no log driver named '{0}' is registered: give json-file, local, k8s-file or none")]
    Driver(String),
    /// The driver exists in docker or podman, but sends the output to another program.
    #[error(
        "logger: the driver {0} is not there, because 'tote logs' could not read what it keeps: give json-file, local, k8s-file \
         or none; in a unit of systemd the journal has what 'tote run --rm' prints"
    )]
    Elsewhere(String),
    /// The driver does not know this option.
    #[error(
        "unknown log opt '{0}' for json-file log driver: give max-size, max-file, labels, labels-regex, env, env-regex, \
         tag, mode, max-buffer-size or compress"
    )]
    Option(String),
    /// The value of `max-size` is not a size.
    #[error("max-size")]
    Size(#[from] SizeError),
    /// The value of `max-file` is not a number in its range.
    #[error("max-file")]
    Files(#[from] IntegerError),
    /// The value of `max-buffer-size` is not a size.
    #[error("max-buffer-size")]
    Buffer(#[source] SizeError),
}

impl LogChoice {
    /// Applies an option by its long name; returns whether the name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, LogError> {
        match name {
            "log-driver" => {
                self.driver = match value {
                    "none" => LogDriver::None,
                    "" | "json-file" => LogDriver::JsonFile,
                    "local" => LogDriver::Local,
                    "k8s-file" => LogDriver::K8sFile,
                    "journald" | "syslog" | "fluentd" | "gelf" | "awslogs" | "splunk" | "gcplogs" => {
                        return Err(LogError::Elsewhere(value.to_owned()));
                    }
                    other => return Err(LogError::Driver(other.to_owned())),
                }
            }
            "log-opt" => self.set(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&mut self, option: &str) -> Result<(), LogError> {
        let unknown = || LogError::Option(option.to_owned());
        let (key, value) = option.split_once('=').ok_or_else(unknown)?;
        let names = || {
            value
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
        };
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        match (key, value) {
            ("max-size", "-1") => self.size = None,
            ("max-size", size) => self.size = Some(parse_decimal_size(size)?),
            // The range proves that the number fits.
            ("max-file", files) => self.files = Some(parse_integer(files, 1..=1000)?.unsigned_abs() as u32),
            ("labels", _) => self.labels = names().collect(),
            ("env", _) => self.env = names().collect(),
            ("labels-regex", pattern) => self.labels_regex = some(pattern),
            ("env-regex", pattern) => self.env_regex = some(pattern),
            ("tag", template) => self.tag = some(template),
            // Rotated files stay uncompressed: every reader of docker's files can read those.
            ("compress", "true" | "1" | "false" | "0") => {}
            // A container always waits for a slow disk, so nothing is lost; see the monitor.
            ("mode", "blocking" | "non-blocking") => {}
            ("max-buffer-size", size) => drop(parse_decimal_size(size).map_err(LogError::Buffer)?),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_policies() {
        for (text, policy) in [
            ("no", Ok(RestartPolicy::No)),
            ("always", Ok(RestartPolicy::Always)),
            ("unless-stopped", Ok(RestartPolicy::UnlessStopped)),
            ("on-failure", Ok(RestartPolicy::OnFailure(0))),
            ("on-failure:3", Ok(RestartPolicy::OnFailure(3))),
            ("on-failure:x", Err(RestartError::Number)),
            ("on-failure:-1", Err(RestartError::Negative)),
            ("always:3", Err(RestartError::Count)),
            ("often", Err(RestartError::Unknown("often".to_owned()))),
        ] {
            assert_eq!(text.parse(), policy, "{text}");
        }
    }

    #[test]
    fn logs() {
        let mut log = LogChoice::default();
        for (name, value) in [
            ("log-driver", "json-file"),
            ("log-opt", "max-size=10m"),
            ("log-opt", "max-file=3"),
        ] {
            assert_eq!(log.apply(name, value), Ok(true));
        }
        assert_eq!(
            (log.max_size(), log.max_files(), log.driver),
            (Some(10_000_000), 3, LogDriver::JsonFile)
        );
        let mut local = LogChoice::default();
        assert_eq!((local.max_size(), local.max_files()), (None, 1));
        assert_eq!(local.apply("log-driver", "local"), Ok(true));
        assert_eq!((local.max_size(), local.max_files()), (Some(20 << 20), 5));
        assert_eq!(local.apply("log-opt", "tag={{.Name}}"), Ok(true));
        assert_eq!(local.tag.as_deref(), Some("{{.Name}}"));
        assert_eq!(local.apply("log-opt", "labels-regex=^app"), Ok(true));
        assert_eq!(local.apply("log-opt", "env-regex=^APP_"), Ok(true));
        assert_eq!(
            (local.labels_regex.as_deref(), local.env_regex.as_deref()),
            (Some("^app"), Some("^APP_"))
        );
        for option in [
            "compress=true",
            "compress=false",
            "mode=non-blocking",
            "max-buffer-size=4m",
        ] {
            assert_eq!(local.apply("log-opt", option), Ok(true), "{option}");
        }
        for driver in ["journald", "syslog"] {
            let refused = local.apply("log-driver", driver);
            assert_eq!(refused, Err(LogError::Elsewhere(driver.to_owned())));
        }
        assert_eq!(log.apply("memory", "1"), Ok(false));
        assert!(log.apply("log-driver", "papyrus").is_err());
        for bad in [
            "max-size=x",
            "max-file=0",
            "compress=perhaps",
            "label-regex=x",
            "mode=perhaps",
            "max-buffer-size=x",
            "max-size",
        ] {
            assert!(log.apply("log-opt", bad).is_err(), "{bad}");
        }
    }
}
