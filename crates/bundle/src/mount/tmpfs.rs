use super::volume::parse_destination;
use super::{MountRequest, MountSource, Restrictions, Treatment, VolumeError};
use crate::value::parse_size;

/// Why a text is not a `--tmpfs`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TmpfsError {
    /// An unknown option.
    #[error(
        "invalid tmpfs option {0:?}: give size=, mode=, uid=, gid=, nr_inodes=, nr_blocks=, mpol= or a mount flag such as exec"
    )]
    Option(String),
    /// A known option with a wrong value.
    #[error("invalid tmpfs option {0:?}: sizes are like 64m or 50%, modes are octal, ids are numbers")]
    Value(String),
    /// The path.
    #[error(transparent)]
    Destination(#[from] VolumeError),
}

/// docker's default options, which precede the user's.
const DEFAULTS: [&str; 4] = ["noexec", "nosuid", "nodev", "rprivate"];

/// Parses `--tmpfs`: `DESTINATION[:OPTIONS]`. Later options win over earlier ones and over docker's `noexec`, `nosuid`,
/// `nodev`.
///
/// # Errors
/// [`TmpfsError`] holds the option.
pub fn parse_tmpfs(text: &str) -> Result<MountRequest, TmpfsError> {
    let (destination, options) = text.split_once(':').unwrap_or((text, ""));
    let given = options.split(',').filter(|option| !option.is_empty());
    let (options, readonly) = merge(given)?;
    Ok(MountRequest {
        destination: parse_destination(destination)?,
        source: MountSource::Tmpfs(options),
        readonly,
        restrictions: Restrictions::default(),
        treatment: Treatment::default(),
    })
}

/// Merges the defaults with the given options. Returns the options of the mount, and whether it is read-only.
pub(super) fn merge<'a>(given: impl Iterator<Item = &'a str>) -> Result<(Vec<String>, bool), TmpfsError> {
    let mut options: Vec<(&str, &str)> = Vec::new();
    for option in DEFAULTS
        .into_iter()
        .chain(given)
        .filter(|option| *option != "defaults")
    {
        let key = key(option)?;
        options.retain(|(earlier, _)| *earlier != key);
        options.push((key, option));
    }
    let readonly = options.iter().any(|(_, option)| *option == "ro");
    Ok((
        options.into_iter().map(|(_, option)| option.to_owned()).collect(),
        readonly,
    ))
}

/// Returns the key of an option: of two options with the same key only the later one counts.
fn key(option: &str) -> Result<&str, TmpfsError> {
    let Some((key, value)) = option.split_once('=') else {
        return flag(option).ok_or_else(|| TmpfsError::Option(option.to_owned()));
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let valid = match key {
        "size" => value
            .strip_suffix('%')
            .map_or_else(|| parse_size(value).is_ok(), digits),
        "nr_inodes" | "nr_blocks" => parse_size(value).is_ok(),
        "mode" => u32::from_str_radix(value, 8).is_ok_and(|mode| mode <= 0o7777),
        "uid" | "gid" => value.parse::<u32>().is_ok(),
        "mpol" => !value.is_empty(),
        _ => return Err(TmpfsError::Option(key.to_owned())),
    };
    if valid {
        Ok(key)
    } else {
        Err(TmpfsError::Value(option.to_owned()))
    }
}

/// Maps a flag and its negation to one common name.
fn flag(word: &str) -> Option<&'static str> {
    Some(match word {
        "ro" | "rw" => "ro",
        "suid" | "nosuid" => "suid",
        "dev" | "nodev" => "dev",
        "exec" | "noexec" => "exec",
        "sync" | "async" => "sync",
        "dirsync" => "dirsync",
        "atime" | "noatime" => "atime",
        "diratime" | "nodiratime" => "diratime",
        "relatime" | "norelatime" => "relatime",
        "strictatime" | "nostrictatime" => "strictatime",
        "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave" | "unbindable" | "runbindable" => {
            "propagation"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    fn options(text: &str) -> Result<String, TmpfsError> {
        parse_tmpfs(text).map(|request| match request.source {
            MountSource::Tmpfs(options) => options.join(","),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn defaults_and_overrides() {
        for (text, expected) in [
            ("/x", "noexec,nosuid,nodev,rprivate"),
            ("/x:", "noexec,nosuid,nodev,rprivate"),
            ("/x:defaults", "noexec,nosuid,nodev,rprivate"),
            (
                "/x:size=64m,mode=1777,exec",
                "nosuid,nodev,rprivate,size=64m,mode=1777,exec",
            ),
            ("/x:size=1,size=50%", "noexec,nosuid,nodev,rprivate,size=50%"),
            ("/x:ro,rw,shared", "noexec,nosuid,nodev,rw,shared"),
        ] {
            assert_eq!(options(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(parse_tmpfs("/x:ro").unwrap().readonly);
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("/x:foo", "invalid tmpfs option \"foo\""),
            ("/x:foo=1", "invalid tmpfs option \"foo\""),
            ("/x:bind", "invalid tmpfs option"),
            ("/x:size=big", "sizes are like"),
            ("/x:size=%", "sizes are like"),
            ("/x:mode=9", "modes are octal"),
            ("/x:uid=-1", "ids are numbers"),
            ("x", "must be absolute"),
            ("/", "can't be '/'"),
            ("", "must be absolute"),
        ] {
            let error = options(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = parse_tmpfs(&text);
        }
    }
}
