//! `--volumes-from`: mounts taken over from another container.

use super::volume::{parse_destination, parse_volume_name};
use super::{
    Bind, MountRequest, MountSource, Propagation, Recursion, Restrictions, Treatment, Volume, VolumeError,
};
use crate::path::clean_absolute;
use std::str::FromStr;

/// A value of `--volumes-from CONTAINER[:MODE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumesFrom {
    /// The container, by name or id, as written.
    pub container: String,
    /// True if all inherited mounts are read-only here, even those that are writable in the other container.
    pub readonly: bool,
}

/// Why a text names no container to take volumes from; docker's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumesFromError {
    /// The value is empty.
    #[error("volumes-from specification cannot be an empty string: give CONTAINER[:ro]")]
    Empty,
    /// An unknown mode, or one that only a container's own mount can have.
    #[error("invalid mode: {0}: give ro, rw, z or Z; everything else is inherited")]
    Mode(String),
}

impl FromStr for VolumesFrom {
    type Err = VolumesFromError;

    fn from_str(text: &str) -> Result<Self, VolumesFromError> {
        let (container, mode) = text.split_once(':').unwrap_or((text, "rw"));
        if container.is_empty() {
            return Err(VolumesFromError::Empty);
        }
        let (mut access, mut label) = (None, None);
        for word in mode.split(',') {
            let again = match word {
                "ro" | "rw" => access.replace(word),
                "z" | "Z" => label.replace(word),
                _ => Some(word),
            };
            if again.is_some() {
                return Err(VolumesFromError::Mode(mode.to_owned()));
            }
        }
        Ok(Self {
            container: container.to_owned(),
            readonly: access == Some("ro"),
        })
    }
}

impl MountRequest {
    /// Writes a bind mount or a named volume as one text, which [`parse_inherited`] reads back. `None` for a tmpfs
    /// and for an anonymous volume.
    #[must_use]
    pub fn inherited(&self) -> Option<String> {
        let access = if self.readonly { "ro" } else { "rw" };
        let mut access = access.to_owned();
        for option in self.restrictions.options().chain(self.treatment.option()) {
            access = format!("{access},{option}");
        }
        let (kind, source) = match &self.source {
            MountSource::Bind(bind) => {
                let recursion = match bind.recursion {
                    Recursion::Enabled => "enabled",
                    Recursion::Disabled => "disabled",
                    Recursion::Writable => "writable",
                };
                (
                    format!("bind {access} {} {recursion}", bind.propagation.as_str()),
                    bind.path.as_str(),
                )
            }
            MountSource::Volume(volume) => {
                let subpath = volume.subpath.as_deref().unwrap_or_default();
                let length = match subpath.len() {
                    0 => "-".to_owned(),
                    length => length.to_string(),
                };
                let name = volume.name.as_deref()?;
                let text = format!("volume {access} {length} - {} {name}{subpath}", name.len());
                return Some(text + &self.destination);
            }
            MountSource::Tmpfs(_) | MountSource::Image(_) => return None,
        };
        // A path may contain any character, so the length says where the first one ends.
        Some(format!("{kind} {} {source}{}", source.len(), self.destination))
    }
}

/// Parses the text that [`MountRequest::inherited`] wrote. The text comes from a container's record, not from a
/// command line.
///
/// # Errors
/// [`VolumeError`].
pub fn parse_inherited(text: &str) -> Result<MountRequest, VolumeError> {
    let format = || VolumeError::Format(text.to_owned());
    let parts: Vec<&str> = text.splitn(6, ' ').collect();
    let [kind, access, propagation, recursion, length, paths] = *parts.as_slice() else {
        return Err(format());
    };
    let (access, rest) = access.split_once(',').unwrap_or((access, ""));
    let (mut restrictions, mut treatment) = (Restrictions::default(), Treatment::default());
    for option in rest.split(',').filter(|option| !option.is_empty()) {
        match option {
            "noexec" => restrictions.noexec = true,
            "nosuid" => restrictions.nosuid = true,
            "U" => treatment = Treatment::Chowned,
            "O" => treatment = Treatment::Overlaid,
            _ => return Err(format()),
        }
    }
    let length = length.parse().map_err(|_| format())?;
    let (source, mut destination) = paths.split_at_checked(length).ok_or_else(format)?;
    let source = match kind {
        "bind" => MountSource::Bind(Bind {
            path: clean_absolute(source).ok_or_else(|| VolumeError::Relative(source.to_owned()))?,
            propagation: Propagation::parse(propagation).ok_or_else(format)?,
            recursion: match recursion {
                "enabled" => Recursion::Enabled,
                "disabled" => Recursion::Disabled,
                "writable" => Recursion::Writable,
                _ => return Err(format()),
            },
            create: false,
            relabel: None,
        }),
        "volume" => MountSource::Volume(Volume {
            name: Some(parse_volume_name(source)?),
            subpath: match propagation {
                "-" => None,
                length => {
                    let length = length.parse().map_err(|_| format())?;
                    let (subpath, rest) = destination.split_at_checked(length).ok_or_else(format)?;
                    destination = rest;
                    Some(subpath.to_owned())
                }
            },
            // As docker does: the volume stays as the other container has it; this image's files are not copied
            // into it.
            copy: false,
            ..Volume::default()
        }),
        _ => return Err(format()),
    };
    Ok(MountRequest {
        destination: parse_destination(destination)?,
        source,
        readonly: access == "ro",
        restrictions,
        treatment,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::{parse_mount, parse_tmpfs, parse_volume};

    #[test]
    fn containers_and_modes() {
        for (text, container, readonly) in [
            ("db", "db", false),
            ("db:rw", "db", false),
            ("db:ro", "db", true),
            ("db:z", "db", false),
            ("db:ro,Z", "db", true),
        ] {
            let from: VolumesFrom = text.parse().unwrap();
            assert_eq!((&*from.container, from.readonly), (container, readonly), "{text}");
        }
        for text in ["", ":ro"] {
            assert_eq!(text.parse::<VolumesFrom>(), Err(VolumesFromError::Empty));
        }
        for mode in ["", "rwx", "ro,rw", "z,Z", "nocopy", "rslave", "ro:z"] {
            let parsed = format!("db:{mode}").parse::<VolumesFrom>();
            assert_eq!(parsed, Err(VolumesFromError::Mode(mode.to_owned())), "{mode}");
        }
    }

    #[test]
    fn mounts_come_back() {
        for request in [
            parse_volume("data:/da ta:ro,nocopy").unwrap(),
            parse_volume("data:/data:nocopy,nosuid,noexec").unwrap(),
            parse_volume("data:/data:nocopy,U").unwrap(),
            parse_mount("type=bind,source=/a,target=/b,U=true").unwrap(),
            parse_mount(
                "type=bind,source=/a b/c,target=/d: e,bind-recursive=disabled,bind-propagation=rslave",
            )
            .unwrap(),
            parse_mount("type=bind,source=/a,target=/1 2,readonly,bind-recursive=writable").unwrap(),
            parse_mount("source=db,target=/a/b,volume-subpath=x y/z").unwrap(),
        ] {
            let text = request.inherited().unwrap();
            assert_eq!(parse_inherited(&text).as_ref(), Ok(&request), "{text}");
        }
        assert_eq!(parse_volume("/data").unwrap().inherited(), None);
        assert_eq!(parse_tmpfs("/data").unwrap().inherited(), None);
        for text in [
            "",
            "bind rw rprivate enabled 99 /a/b",
            "bind rw rprivate enabled 1 a/b",
            "bind rw rprivate often 2 /a/b",
            "bind rw,fast rprivate enabled 2 /a/b",
            "volume rw - - 2 ab",
            "volume rw - - 2 ../b",
            "tmpfs rw - - 0 /b",
            "volume rw - - -1 /b",
        ] {
            assert!(parse_inherited(text).is_err(), "{text}");
        }
    }
}
