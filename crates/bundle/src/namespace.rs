//! `--pid`, `--ipc`, `--uts`, `--userns`, `--cgroupns`: which namespaces are the container's own.

use std::str::FromStr;

/// Why a text is not a namespace mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// A word that the option does not know.
    #[error("invalid mode {mode:?}: give {expected}")]
    Mode {
        /// What was written.
        mode: String,
        /// What may be.
        expected: &'static str,
    },
}

fn mode_error(mode: &str, expected: &'static str) -> ModeError {
    ModeError::Mode {
        mode: mode.to_owned(),
        expected,
    }
}

/// The container that `container:ID` names, or `None` where the text is something else or names nothing.
fn peer(text: &str) -> Option<String> {
    text.strip_prefix("container:")
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

/// `--pid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PidMode {
    /// Its own.
    #[default]
    Private,
    /// The host's.
    Host,
    /// Another container's, by id or name.
    Container(String),
}

impl FromStr for PidMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" | "private" => Ok(Self::Private),
            "host" => Ok(Self::Host),
            _ => peer(text)
                .map(Self::Container)
                .ok_or_else(|| mode_error(text, "private, host or container:ID")),
        }
    }
}

/// `--ipc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IpcMode {
    /// Its own.
    #[default]
    Private,
    /// Its own, which other containers may join.
    Shareable,
    /// Its own, and no `/dev/shm`.
    None,
    /// The host's, with the host's `/dev/shm` and `/dev/mqueue`.
    Host,
    /// Another container's, by id or name.
    Container(String),
}

impl FromStr for IpcMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" | "private" => Ok(Self::Private),
            "shareable" => Ok(Self::Shareable),
            "none" => Ok(Self::None),
            "host" => Ok(Self::Host),
            _ => peer(text)
                .map(Self::Container)
                .ok_or_else(|| mode_error(text, "private, shareable, none, host or container:ID")),
        }
    }
}

/// `--uts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UtsMode {
    /// Its own host name.
    #[default]
    Private,
    /// The host's.
    Host,
    /// Another container's, by id or name.
    Container(String),
}

impl FromStr for UtsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" | "private" => Ok(Self::Private),
            "host" => Ok(Self::Host),
            _ => peer(text)
                .map(Self::Container)
                .ok_or_else(|| mode_error(text, "private, host or container:ID")),
        }
    }
}

/// `--cgroupns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupnsMode {
    /// Its own cgroup is the root that it sees.
    #[default]
    Private,
    /// The host's.
    Host,
}

impl FromStr for CgroupnsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" | "private" => Ok(Self::Private),
            "host" => Ok(Self::Host),
            _ => Err(mode_error(text, "private or host")),
        }
    }
}

/// `--cgroups`: whether the container gets a cgroup, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupsMode {
    /// Where it is needed, below the caller's own or, where that can hand out nothing, above it.
    #[default]
    Enabled,
    /// None.
    Disabled,
    /// Within the caller's own, out of which the caller moves down: for units of an init that delegates theirs.
    Split,
}

impl FromStr for CgroupsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            // Whoever watches a container is never in a cgroup of its own making here.
            "" | "enabled" | "no-conmon" => Ok(Self::Enabled),
            "disabled" => Ok(Self::Disabled),
            "split" => Ok(Self::Split),
            _ => Err(mode_error(text, "enabled, disabled, no-conmon or split")),
        }
    }
}

/// `--userns`: how the caller makes the mappings that [`crate::Context`] carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsernsMode {
    /// None for root; root inside is the caller for everybody else.
    #[default]
    Default,
    /// None; for everybody else as the default.
    Host,
    /// Root inside is an unprivileged user outside, always the same.
    Remap,
    /// As `Remap`, with a range of ids of its own.
    Auto,
    /// The caller has the same id inside.
    KeepId,
}

impl FromStr for UsernsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" => Ok(Self::Default),
            "host" => Ok(Self::Host),
            "remap" => Ok(Self::Remap),
            "auto" => Ok(Self::Auto),
            "keep-id" => Ok(Self::KeepId),
            _ => Err(mode_error(text, "host, remap, auto, keep-id or nothing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_modes() {
        assert_eq!("container:web".parse(), Ok(PidMode::Container("web".to_owned())));
        assert_eq!("container:web".parse(), Ok(IpcMode::Container("web".to_owned())));
        assert_eq!("private".parse(), Ok(PidMode::Private));
        assert_eq!("shareable".parse(), Ok(IpcMode::Shareable));
        assert_eq!("none".parse(), Ok(IpcMode::None));
        assert_eq!("host".parse(), Ok(UtsMode::Host));
        assert_eq!("container:web".parse(), Ok(UtsMode::Container("web".to_owned())));
        assert_eq!("private".parse(), Ok(CgroupnsMode::Private));
        assert_eq!("".parse(), Ok(UsernsMode::Default));
        assert_eq!("keep-id".parse(), Ok(UsernsMode::KeepId));
    }

    #[test]
    fn unknown_modes_say_what_there_is() {
        for error in [
            "container:".parse::<PidMode>().unwrap_err(),
            "shareable".parse::<PidMode>().unwrap_err(),
            "hosts".parse::<IpcMode>().unwrap_err(),
            "container:".parse::<UtsMode>().unwrap_err(),
            "x".parse::<CgroupnsMode>().unwrap_err(),
            "keep-id:uid=1".parse::<UsernsMode>().unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.starts_with("invalid mode") && error.contains("host"),
                "{error}"
            );
        }
    }
}
