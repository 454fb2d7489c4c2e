//! Descriptors that the caller passes on: `--preserve-fds`, and the sockets of socket activation.

/// Variables of sd_listen_fds(3) for this process, and for the container's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    count: u32,
    names: Option<String>,
}

/// Upper bound of the descriptors: more than any service has.
const MOST: u32 = 1024;

impl Listen {
    /// Reads this process's environment; only variables that are meant for this very process count.
    #[must_use]
    pub fn look() -> Self {
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
        if meant && (1..=MOST).contains(&count) {
            Self { count, names }
        } else {
            Self::default()
        }
    }

    /// Returns the number of descriptors, from descriptor 3 on.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the variables for the process that has this id in its own namespace; empty if no descriptor is passed
    /// on.
    #[must_use]
    pub fn variables(&self, pid: u32) -> Vec<String> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut variables = vec![format!("LISTEN_FDS={}", self.count), format!("LISTEN_PID={pid}")];
        variables.extend(self.names.as_ref().map(|names| format!("LISTEN_FDNAMES={names}")));
        variables
    }
}

/// Returns the first of `count` descriptors from 3 on that is not open. Call it before anything is opened.
#[must_use]
pub fn missing_descriptor(count: u32) -> Option<u32> {
    // absence: each error is one of a descriptor that cannot be passed on, which the user is told
    (3..count.saturating_add(3)).find(|number| rustix::fs::lstat(format!("/proc/self/fd/{number}")).is_err())
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
        let listen = Listen::parse(Some("7"), Some("1"), Some("a".to_owned()), 7);
        assert_eq!(
            listen.variables(1),
            ["LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=a"]
        );
        assert!(Listen::default().variables(1).is_empty());
    }

    #[test]
    fn what_is_not_open() {
        assert_eq!(missing_descriptor(0), None);
        assert!(missing_descriptor(5000).is_some());
    }
}
