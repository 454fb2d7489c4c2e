//! Descriptors that the caller passes on to the container: `--preserve-fds`, and those of socket activation.

use crate::OciError;

/// What sd_listen_fds(3) says to this process, and is to say to the container's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listen {
    count: u32,
    names: Option<String>,
}

impl Listen {
    /// From this process's environment; only what is meant for this very process counts.
    pub(crate) fn look() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        Self::parse(
            variable("LISTEN_PID").as_deref(),
            variable("LISTEN_FDS").as_deref(),
            variable("LISTEN_FDNAMES"),
            std::process::id(),
        )
    }

    fn parse(pid: Option<&str>, fds: Option<&str>, names: Option<String>, own: u32) -> Self {
        let meant = pid.and_then(|pid| pid.parse().ok()) == Some(own);
        let count = fds.and_then(|fds| fds.parse().ok()).unwrap_or(0);
        if meant && (1..=1024).contains(&count) {
            Self { count, names }
        } else {
            Self::default()
        }
    }

    /// The container's process is PID 1 of its namespace, which is what runc says as well.
    pub(crate) fn add_to(&self, environment: &mut Vec<String>) {
        if self.count > 0 {
            environment.push(format!("LISTEN_FDS={}", self.count));
            environment.push("LISTEN_PID=1".to_owned());
            environment.extend(self.names.as_ref().map(|names| format!("LISTEN_FDNAMES={names}")));
        }
    }
}

/// How many descriptors from 3 on the program keeps. To be asked before anything is opened.
///
/// # Errors
/// One that is to be kept is not there.
pub(crate) fn count(preserve: u32, listen: &Listen) -> Result<u32, OciError> {
    let count = preserve.saturating_add(listen.count);
    for number in 3..count.saturating_add(3) {
        if !is_open(number) {
            return Err(OciError::Usage(format!(
                "please check that preserved-fd {} (of {preserve}) is present",
                number - 2
            )));
        }
    }
    Ok(count)
}

fn is_open(number: u32) -> bool {
    rustix::fs::lstat(format!("/proc/self/fd/{number}")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_for_this_process() {
        let parse = |pid, fds| Listen::parse(pid, fds, None, 7).count;
        assert_eq!(parse(Some("7"), Some("2")), 2);
        assert_eq!(parse(Some("8"), Some("2")), 0);
        assert_eq!(parse(None, Some("2")), 0);
        assert_eq!(parse(Some("7"), Some("-1")), 0);
        assert_eq!(parse(Some("7"), Some("99999")), 0);
        let mut environment = Vec::new();
        Listen::parse(Some("7"), Some("1"), Some("a".to_owned()), 7).add_to(&mut environment);
        assert_eq!(environment, ["LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=a"]);
    }

    #[test]
    fn what_is_to_be_kept_must_be_there() {
        assert_eq!(count(0, &Listen::default()).unwrap(), 0);
        let error = count(5000, &Listen::default()).unwrap_err().to_string();
        assert!(error.contains("preserved-fd"), "{error}");
    }
}
