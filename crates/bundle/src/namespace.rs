//! `--pid`, `--ipc`, `--uts`, `--userns`, `--cgroupns`: which namespaces are the container's own.

use std::str::FromStr;

/// Why a text is not a namespace mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// A word that the option does not know.
    #[error("invalid mode {mode:?}: give {expected}")]
    Mode {
        /// The mode as written.
        mode: String,
        /// The allowed modes.
        expected: &'static str,
    },
}

fn mode_error(mode: &str, expected: &'static str) -> ModeError {
    ModeError::Mode {
        mode: mode.to_owned(),
        expected,
    }
}

/// Returns the container that `container:ID` names; `None` if the text has another form or an empty ID.
fn peer(text: &str) -> Option<String> {
    text.strip_prefix("container:")
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

/// Value of `--pid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PidMode {
    /// The container's own namespace.
    #[default]
    Private,
    /// The host's namespace.
    Host,
    /// The namespace of another container, by id or name.
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

/// Value of `--ipc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IpcMode {
    /// The container's own namespace.
    #[default]
    Private,
    /// The container's own namespace, which other containers may join.
    Shareable,
    /// The container's own namespace, without `/dev/shm`.
    None,
    /// The host's namespace, with the host's `/dev/shm` and `/dev/mqueue`.
    Host,
    /// The namespace of another container, by id or name.
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

/// Value of `--uts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UtsMode {
    /// The container's own host name.
    #[default]
    Private,
    /// The host's host name.
    Host,
    /// The host name of another container, by id or name.
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

/// Value of `--cgroupns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupnsMode {
    /// The container's own namespace: its cgroup is the root that it sees.
    #[default]
    Private,
    /// The host's namespace.
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
    /// A cgroup where one is needed: below the caller's own or, if that cannot delegate controllers, above it.
    #[default]
    Enabled,
    /// The container gets no cgroup.
    Disabled,
    /// A cgroup within the caller's own; the caller itself first moves into a child of it, because a cgroup with
    /// processes cannot hand out controllers. For units whose init delegates their cgroup.
    Split,
}

impl FromStr for CgroupsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            // podman's `no-conmon` keeps the monitor out of a cgroup of its own; the monitor never gets one here.
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
    /// No user namespace for root; any other caller gets one, in which it is root.
    #[default]
    Default,
    /// No user namespace for root; any other caller gets the same as with `Default`.
    Host,
    /// Root inside is an unprivileged user outside, with the same ids for all containers.
    Remap,
    /// Like `Remap`, with a range of ids of the container's own.
    Auto,
    /// The caller has the same ids inside, or those that are given.
    KeepId(KeptIds),
}

/// Ids of the caller inside, with `keep-id:uid=ID,gid=ID`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptIds {
    /// User id; `None` for the one outside.
    pub uid: Option<u32>,
    /// Group id; `None` for the one outside.
    pub gid: Option<u32>,
}

impl KeptIds {
    fn parse(text: &str) -> Option<Self> {
        let mut kept = Self::default();
        for option in text.split(',') {
            let (key, value) = option.split_once('=')?;
            let id = Some(value.parse().ok()?);
            match key {
                "uid" => kept.uid = id,
                "gid" => kept.gid = id,
                _ => return None,
            }
        }
        Some(kept)
    }
}

impl FromStr for UsernsMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "" => Ok(Self::Default),
            "host" => Ok(Self::Host),
            "remap" => Ok(Self::Remap),
            "auto" => Ok(Self::Auto),
            "keep-id" => Ok(Self::KeepId(KeptIds::default())),
            _ => {
                let kept = text.strip_prefix("keep-id:").and_then(KeptIds::parse);
                let expected = "host, remap, auto, keep-id[:uid=ID,gid=ID] or nothing";
                kept.map(Self::KeepId).ok_or_else(|| mode_error(text, expected))
            }
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
        assert_eq!("keep-id".parse(), Ok(UsernsMode::KeepId(KeptIds::default())));
        let kept = KeptIds {
            uid: Some(5),
            gid: Some(6),
        };
        assert_eq!("keep-id:gid=6,uid=5".parse(), Ok(UsernsMode::KeepId(kept)));
    }

    #[test]
    fn unknown_modes_say_what_there_is() {
        for error in [
            "container:".parse::<PidMode>().unwrap_err(),
            "shareable".parse::<PidMode>().unwrap_err(),
            "hosts".parse::<IpcMode>().unwrap_err(),
            "container:".parse::<UtsMode>().unwrap_err(),
            "x".parse::<CgroupnsMode>().unwrap_err(),
            "keep-id:uid=me".parse::<UsernsMode>().unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.starts_with("invalid mode") && error.contains("host"),
                "{error}"
            );
        }
    }
}
