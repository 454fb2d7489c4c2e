//! `--restart`, `--log-driver` and `--log-opt`: what becomes of a container that has ended, and of what it said.

use crate::value::{IntegerError, SizeError, parse_decimal_size, parse_integer};
use std::str::FromStr;

/// `--restart`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Never.
    #[default]
    No,
    /// When it has failed; at most so often, 0 for any number of times.
    OnFailure(u32),
    /// Whenever it ends, unless somebody stopped it; and again when the machine starts.
    Always,
    /// The same, but a container that was stopped stays so when the machine starts.
    UnlessStopped,
}

/// Why a text is no restart policy; docker's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// A word that is none.
    #[error(
        "invalid restart policy: unknown policy '{0}'; use one of 'no', 'always', 'on-failure', or 'unless-stopped'"
    )]
    Unknown(String),
    /// A number behind one that takes none.
    #[error("invalid restart policy: maximum retry count can only be used with 'on-failure'")]
    Count,
    /// Something else than a number.
    #[error("invalid restart policy: maximum retry count must be an integer")]
    Number,
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
            ("on-failure", Some(count)) => count
                .parse()
                .map(Self::OnFailure)
                .map_err(|_| RestartError::Number),
            ("no" | "always" | "unless-stopped", Some(_)) => Err(RestartError::Count),
            _ => Err(RestartError::Unknown(word.to_owned())),
        }
    }
}

impl RestartPolicy {
    /// docker's word, without the number.
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

/// `--sdnotify`: what tells the host's init that the container is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SdNotify {
    /// The program itself, by sd_notify(3).
    #[default]
    Container,
    /// Whoever watches it, once its program runs.
    Conmon,
    /// The same, once a health check has succeeded.
    Healthy,
    /// Nothing: the init is none of its business.
    Ignore,
}

/// Why a text is no value of `--sdnotify`; podman's words.
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

/// Who keeps what a container says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDriver {
    /// docker's usual one.
    #[default]
    JsonFile,
    /// docker's `local`, whose files nobody else is to read: those of [`LogDriver::JsonFile`], but never endless.
    Local,
    /// podman's.
    K8sFile,
    /// Nobody.
    None,
}

/// `--log-driver` and `--log-opt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChoice {
    /// Who keeps it.
    pub driver: LogDriver,
    /// `max-size`: bytes from which a file is put aside.
    size: Option<u64>,
    /// `max-file`: how many files there are.
    files: Option<u32>,
    /// `labels`: those that every entry carries.
    pub labels: Vec<String>,
    /// `env`: the variables that every entry carries.
    pub env: Vec<String>,
    /// `tag`: a template of what every entry carries.
    pub tag: Option<String>,
}

impl LogChoice {
    /// Bytes from which a file is put aside, if ever.
    #[must_use]
    pub fn max_size(&self) -> Option<u64> {
        // docker's, for `local`.
        let usual = (self.driver == LogDriver::Local).then_some(20 << 20);
        self.size.or(usual)
    }

    /// How many files there are.
    #[must_use]
    pub fn max_files(&self) -> u32 {
        self.files
            .unwrap_or(if self.driver == LogDriver::Local { 5 } else { 1 })
    }
}

/// Why a log is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A driver that there is not.
    #[error("logger: no log driver named '{0}' is registered: give json-file, local, k8s-file or none")]
    Driver(String),
    /// A driver that hands everything to somebody else.
    #[error(
        "logger: the driver {0} is not there, because 'tote logs' could not read what it keeps: give json-file, local, k8s-file \
         or none; in a unit of systemd the journal has what 'tote run --rm' prints"
    )]
    Elsewhere(String),
    /// Something that the driver does not know.
    #[error(
        "unknown log opt '{0}' for json-file log driver: give max-size, max-file, labels, env, tag, mode, max-buffer-size or \
         compress"
    )]
    Option(String),
    /// A size.
    #[error("max-size")]
    Size(#[from] SizeError),
    /// A number.
    #[error("max-file")]
    Files(#[from] IntegerError),
    /// A size of what is kept in memory.
    #[error("max-buffer-size")]
    Buffer(#[source] SizeError),
}

impl LogChoice {
    /// Takes an option by its long name; whether it is one of these.
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
        match (key, value) {
            ("max-size", "-1") => self.size = None,
            ("max-size", size) => self.size = Some(parse_decimal_size(size)?),
            // The range proves that the number fits.
            ("max-file", files) => self.files = Some(parse_integer(files, 1..=1000)?.unsigned_abs() as u32),
            ("labels", _) => self.labels = names().collect(),
            ("env", _) => self.env = names().collect(),
            ("tag", template) => self.tag = Some(template.to_owned()).filter(|tag| !tag.is_empty()),
            // Files that were put aside stay as they are: every reader of docker's files reads them so.
            ("compress", "true" | "1" | "false" | "0") => {}
            // A container always waits for a disk that is slow, and nothing is lost; see the monitor.
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
            "labels-regex=x",
            "mode=perhaps",
            "max-buffer-size=x",
            "max-size",
        ] {
            assert!(log.apply("log-opt", bad).is_err(), "{bad}");
        }
    }
}
