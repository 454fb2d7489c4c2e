//! Options of docker's that select among alternatives of which tote has a single one. That value is accepted; any
//! other is refused with the reason.

use crate::isolation::IsolationError;

/// Why such an option is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedError {
    /// `--gpus`
    #[error(
        "could not select device driver \"\" with capabilities: [[gpu]]: no vendor's hook is run here: give the nodes with \
         --device, such as --device /dev/dri"
    )]
    Gpus,
    /// `--runtime`
    #[error(
        "unknown or invalid runtime name: {0}: tote is always the runtime; runc and crun are accepted as names for it"
    )]
    Runtime(String),
    /// `--isolation`
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    /// `--group-add keep-groups`
    #[error("keep-groups keeps the caller's groups and no other: leave out the other --group-add")]
    KeepGroups,
    /// `--volume-driver`
    #[error("error looking up volume plugin {0}: plugin not found: only local is supported")]
    VolumeDriver(String),
}

/// Checks the option's value; returns whether the name is one of these options.
pub(crate) fn check(name: &str, value: &str) -> Result<bool, RefusedError> {
    let refused = match (name, value) {
        ("gpus", _) => RefusedError::Gpus,
        // Linux has had no such limit since 5.16, and docker's daemon ignores it as well.
        ("disable-content-trust" | "kernel-memory", _) => return Ok(true),
        ("runtime", "" | "tote" | "runc" | "crun" | "io.containerd.runc.v2") => return Ok(true),
        ("runtime", _) => RefusedError::Runtime(value.to_owned()),
        ("isolation", _) if value.is_empty() || value.eq_ignore_ascii_case("default") => return Ok(true),
        ("isolation", _) => IsolationError::Unknown(value.to_owned()).into(),
        ("volume-driver", "" | "local") => return Ok(true),
        ("volume-driver", _) => RefusedError::VolumeDriver(value.to_owned()),
        _ => return Ok(false),
    };
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_there_is() {
        for (name, value) in [
            ("runtime", "runc"),
            ("runtime", "tote"),
            ("isolation", "default"),
            ("isolation", ""),
            ("volume-driver", "local"),
            ("kernel-memory", "1g"),
        ] {
            assert_eq!(check(name, value), Ok(true), "--{name} {value}");
        }
        for (name, value) in [
            ("runtime", "runsc"),
            ("isolation", "hyperv"),
            ("volume-driver", "nfs"),
            ("gpus", "all"),
        ] {
            assert!(check(name, value).is_err(), "--{name} {value}");
        }
        assert_eq!(check("name", "runc"), Ok(false));
    }
}
