use super::{
    Bind, MountRequest, MountSource, Propagation, Recursion, Relabel, Restrictions, Treatment, Volume,
};
use crate::disk::{DiskError, disk_size};
use crate::name::is_restricted;
use crate::path::clean_absolute;

/// Why a text is not a `--volume`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// Too many or too few parts.
    #[error("invalid volume specification: '{0}': give [SOURCE:]DESTINATION[:OPTIONS], such as /src:/dst:ro")]
    Format(String),
    /// An unknown option, or two that contradict each other.
    #[error(
        "invalid mode: {0}: give options with commas between, each once: ro or rw, z or Z, U or O, nocopy, noexec, nosuid, \
         [r]private, [r]shared or [r]slave"
    )]
    Mode(String),
    /// The option exists only in podman.
    #[error("podman's option {option} is not supported: {advice}")]
    Podman {
        /// The option.
        option: String,
        /// Advice on an alternative.
        advice: &'static str,
    },
    /// A relative destination.
    #[error("invalid mount path: '{0}' mount path must be absolute")]
    Relative(String),
    /// The destination is the root.
    #[error("invalid specification: destination can't be '/'")]
    Root,
    /// A name of one character.
    #[error("volume name is too short, names should be at least two alphanumeric characters")]
    ShortName,
    /// The source is neither absolute nor a name.
    #[error(
        "{0:?} includes invalid characters for a local volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed; \
         if you intended to pass a host directory, use absolute path"
    )]
    Name(String),
    /// A disk with a size that it cannot have.
    #[error(transparent)]
    Disk(DiskError),
    /// An option for volumes on a path of the host, or the reverse.
    #[error("option {option} is not for {source_kind}")]
    Mixed {
        /// The option.
        option: &'static str,
        /// The kind of source it was given with.
        source_kind: &'static str,
    },
}

/// Parses `--volume`: `[SOURCE:]DESTINATION[:OPTIONS]`. An absolute path as the source is a path of the host, any
/// other source is a volume's name, that of a disk behind `disk:`. Without a source the volume is anonymous and belongs to the container alone.
///
/// # Errors
/// [`VolumeError`], worded as docker does.
pub fn parse_volume(text: &str) -> Result<MountRequest, VolumeError> {
    let format = || VolumeError::Format(text.to_owned());
    if let Some(rest) = text.strip_prefix(DISK).filter(|rest| !rest.starts_with('/')) {
        return parse_disk(rest, text);
    }
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let (source, destination, mode) = match *parts.as_slice() {
        [""] | ["", ..] => return Err(format()),
        [destination] => (None, destination, ""),
        // `/foo:rw`: a mode without a source.
        [_, mode] if Mode::parse(mode).is_some() => return Err(format()),
        [source, destination] => (Some(source), destination, ""),
        [source, destination, mode] => (Some(source), destination, mode),
        _ => return Err(format()),
    };
    let mode = Mode::parse(mode).ok_or_else(|| refused(mode))?;
    let treatment = mode.treatment()?;
    Ok(MountRequest {
        treatment,
        destination: parse_destination(destination)?,
        readonly: mode.readonly.unwrap_or(false),
        restrictions: Restrictions {
            noexec: mode.noexec.unwrap_or(false),
            nosuid: mode.nosuid.unwrap_or(false),
        },
        source: match source.map(|source| (source, clean_absolute(source))) {
            Some((_, Some(path))) => MountSource::Bind(mode.bind(path)?),
            Some((name, None)) => MountSource::Volume(mode.volume(Some(parse_volume_name(name)?))?),
            None => MountSource::Volume(mode.volume(None)?),
        },
    })
}

/// Beginning of a volume that is a disk. A volume whose name is `disk` is followed by a path.
const DISK: &str = "disk:";

/// Parses what follows [`DISK`]: `NAME[,size=SIZE]:DESTINATION[:OPTIONS]`.
fn parse_disk(rest: &str, text: &str) -> Result<MountRequest, VolumeError> {
    let format = || VolumeError::Format(text.to_owned());
    let (source, place) = rest.split_once(':').ok_or_else(format)?;
    let (name, size) = match source.split_once(',') {
        None => (source, None),
        Some((name, size)) => (name, Some(size.strip_prefix("size=").ok_or_else(format)?)),
    };
    let mut request = parse_volume(&format!("{name}:{place}"))?;
    let MountSource::Volume(volume) = &mut request.source else {
        return Err(VolumeError::Name(name.to_owned()));
    };
    volume.options = vec!["type=disk".to_owned()];
    if let Some(size) = size {
        disk_size(size).map_err(VolumeError::Disk)?;
        volume.options.push(format!("o=size={size}"));
    }
    Ok(request)
}

/// Explains why a third part is not a valid list of options.
fn refused(mode: &str) -> VolumeError {
    for option in mode.split(',') {
        let advice = match option {
            "idmap" => "see --userns keep-id, and U, which gives the files to the container's user",
            _ if option.starts_with("upperdir=") || option.starts_with("workdir=") => {
                "the layer of O is the container's own, and gone with it"
            }
            "dev" => "devices are never opened through it: --device gives the container a device",
            _ => continue,
        };
        return VolumeError::Podman {
            option: option.to_owned(),
            advice,
        };
    }
    VolumeError::Mode(mode.to_owned())
}

/// Parses a destination: absolute, cleaned, not the root.
pub(super) fn parse_destination(text: &str) -> Result<String, VolumeError> {
    match clean_absolute(text) {
        None => Err(VolumeError::Relative(text.to_owned())),
        Some(root) if root == "/" => Err(VolumeError::Root),
        Some(destination) => Ok(destination),
    }
}

/// Checks a volume's name: docker's characters, at least two of them, at most the length of a file's name.
pub(super) fn parse_volume_name(text: &str) -> Result<String, VolumeError> {
    if text.len() == 1 {
        Err(VolumeError::ShortName)
    } else if is_restricted(text) && text.len() <= 255 {
        Ok(text.to_owned())
    } else {
        Err(VolumeError::Name(text.to_owned()))
    }
}

/// The third part of a `--volume`.
#[derive(Default)]
struct Mode {
    readonly: Option<bool>,
    relabel: Option<Relabel>,
    propagation: Option<Propagation>,
    noexec: Option<bool>,
    nosuid: Option<bool>,
    treatment: Option<Treatment>,
    nocopy: Option<()>,
    consistency: Option<()>,
}

impl Mode {
    /// Parses the options; `None` for an unknown option and for two of the same kind.
    fn parse(text: &str) -> Option<Self> {
        let mut mode = Self::default();
        if text.is_empty() {
            return Some(mode);
        }
        for option in text.split(',') {
            let again = match option {
                "ro" | "rw" => mode.readonly.replace(option == "ro").is_some(),
                "z" => mode.relabel.replace(Relabel::Shared).is_some(),
                "Z" => mode.relabel.replace(Relabel::Private).is_some(),
                "U" => mode.treatment.replace(Treatment::Chowned).is_some(),
                "O" => mode.treatment.replace(Treatment::Overlaid).is_some(),
                "noexec" | "exec" => mode.noexec.replace(option == "noexec").is_some(),
                "nosuid" | "suid" => mode.nosuid.replace(option == "nosuid").is_some(),
                "nocopy" => mode.nocopy.replace(()).is_some(),
                // Options of docker for macOS, and options that name the default: accepted, without effect.
                "consistent" | "cached" | "delegated" | "copy" | "nodev" => {
                    mode.consistency.replace(()).is_some()
                }
                _ => mode.propagation.replace(Propagation::parse(option)?).is_some(),
            };
            if again {
                return None;
            }
        }
        Some(mode)
    }

    /// podman's `U` or `O`. With `O` the mount is an overlay, for which the options of binds have no meaning.
    fn treatment(&self) -> Result<Treatment, VolumeError> {
        let treatment = self.treatment.unwrap_or_default();
        let other = match (self.propagation, self.relabel) {
            (Some(propagation), _) => Some(propagation.as_str()),
            (None, Some(Relabel::Shared)) => Some("z"),
            (None, Some(Relabel::Private)) => Some("Z"),
            (None, None) => self.nocopy.map(|()| "nocopy"),
        };
        match other.filter(|_| treatment == Treatment::Overlaid) {
            Some(option) => Err(VolumeError::Mixed {
                option,
                source_kind: "an overlay, which O makes",
            }),
            None => Ok(treatment),
        }
    }

    fn bind(self, path: String) -> Result<Bind, VolumeError> {
        if self.nocopy.is_some() {
            return Err(VolumeError::Mixed {
                option: "nocopy",
                source_kind: "a path of the host, only for a volume",
            });
        }
        Ok(Bind {
            path,
            propagation: self.propagation.unwrap_or_default(),
            recursion: Recursion::Enabled,
            create: true,
            relabel: self.relabel,
        })
    }

    fn volume(self, name: Option<String>) -> Result<Volume, VolumeError> {
        if let Some(propagation) = self.propagation {
            return Err(VolumeError::Mixed {
                option: propagation.as_str(),
                source_kind: "a volume, only for a path of the host",
            });
        }
        Ok(Volume {
            name,
            copy: self.nocopy.is_none(),
            relabel: self.relabel,
            ..Volume::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks() {
        for (text, name, options) in [
            ("disk:data:/x", "data", &["type=disk"][..]),
            ("disk:data,size=1g:/x", "data", &["type=disk", "o=size=1g"]),
            ("disk:/x", "disk", &[]),
        ] {
            let request = parse_volume(text).unwrap();
            let MountSource::Volume(volume) = request.source else {
                panic!("{text}")
            };
            assert_eq!(volume.name.as_deref(), Some(name));
            assert_eq!(volume.options, options);
            assert_eq!((&*request.destination, request.readonly), ("/x", false));
        }
        assert!(parse_volume("disk:data:/x:ro,noexec").unwrap().readonly);
        for text in [
            "disk:data",
            "disk:data,1g:/x",
            "disk:data,size=1:/x",
            "disk::/x",
            "disk:a:/x",
        ] {
            assert!(parse_volume(text).is_err(), "{text}");
        }
    }
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn binds() {
        let request = parse_volume("/src/../a:/dst/:ro,Z,rslave").unwrap();
        assert_eq!((&*request.destination, request.readonly), ("/dst", true));
        let MountSource::Bind(bind) = request.source else {
            panic!("{:?}", request.source)
        };
        assert_eq!(
            (&*bind.path, bind.propagation, bind.relabel),
            ("/a", Propagation::Rslave, Some(Relabel::Private))
        );
        assert!(bind.create && bind.recursion == Recursion::Enabled);
    }

    #[test]
    fn restrictions() {
        for (text, noexec, nosuid) in [
            ("/a:/b", false, false),
            ("/a:/b:exec,suid,nodev", false, false),
            ("/a:/b:noexec", true, false),
            ("db:/b:ro,nosuid,noexec", true, true),
        ] {
            let found = parse_volume(text).unwrap().restrictions;
            assert_eq!(found, Restrictions { noexec, nosuid }, "{text}");
        }
    }

    #[test]
    fn treatments() {
        for (text, treatment, readonly) in [
            ("/a:/b", Treatment::Shared, false),
            ("/a:/b:U", Treatment::Chowned, false),
            ("db:/b:U,z", Treatment::Chowned, false),
            ("/a:/b:O", Treatment::Overlaid, false),
            ("db:/b:ro,O", Treatment::Overlaid, true),
        ] {
            let request = parse_volume(text).unwrap();
            assert_eq!(
                (request.treatment, request.readonly),
                (treatment, readonly),
                "{text}"
            );
        }
    }

    #[test]
    fn volumes() {
        for (text, name, copy, readonly) in [
            ("/data", None, true, false),
            ("db:/data", Some("db"), true, false),
            ("db:/data:nocopy,ro", Some("db"), false, true),
            ("db:/data:rw,cached", Some("db"), true, false),
            // `/ro` is not an option but a destination; relative destinations are refused below.
            ("db:/ro", Some("db"), true, false),
        ] {
            let request = parse_volume(text).unwrap();
            assert_eq!(request.readonly, readonly, "{text}");
            let MountSource::Volume(volume) = request.source else {
                panic!("{text}")
            };
            assert_eq!((volume.name.as_deref(), volume.copy), (name, copy), "{text}");
        }
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("", "invalid volume specification: ''"),
            (":/x", "invalid volume specification"),
            ("/a:ro", "invalid volume specification"),
            ("/a:/b:ro:z", "invalid volume specification"),
            ("/a:/b:foo", "invalid mode: foo"),
            ("/a:/b:U,O", "invalid mode: U,O"),
            ("/a:/b:O,rslave", "option rslave is not for an overlay"),
            ("db:/b:O,nocopy", "option nocopy is not for an overlay"),
            (
                "/a:/b:O,upperdir=/c",
                "podman's option upperdir=/c is not supported: the layer",
            ),
            ("/a:/b:ro,dev", "podman's option dev"),
            ("/a:/b:exec,noexec", "invalid mode"),
            ("/a:/b:ro,rw", "invalid mode: ro,rw"),
            ("/a:/b:shared,slave", "invalid mode"),
            ("/a:/b:ro,", "invalid mode"),
            ("/a:b", "must be absolute"),
            ("/a:", "invalid volume specification"),
            ("/", "destination can't be '/'"),
            ("/a:/../.", "destination can't be '/'"),
            ("x:/b", "too short"),
            ("./src:/b", "use absolute path"),
            ("a/b:/b", "use absolute path"),
            ("..:/b", "use absolute path"),
            ("/a:/b:nocopy", "nocopy is not for a path"),
            ("db:/b:rshared", "rshared is not for a volume"),
        ] {
            let error = parse_volume(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _parsed = parse_volume(&text);
        }

        #[test]
        fn destinations_are_absolute(text in "[a-z./:,]{0,30}") {
            if let Ok(request) = parse_volume(&text) {
                prop_assert!(request.destination.len() > 1 && request.destination.starts_with('/'));
                prop_assert!(!request.destination.split('/').any(|part| part == ".."));
            }
        }

        #[test]
        fn parts_read_back(
            source in "(/[a-z]{1,8}){1,3}", destination in "(/[a-z]{1,8}){1,3}", readonly in any::<bool>(), spread in 0usize..6
        ) {
            let spread = ["private", "rprivate", "shared", "rshared", "slave", "rslave"][spread];
            let mode = if readonly { "ro" } else { "rw" };
            let request = parse_volume(&format!("{source}:{destination}:{mode},{spread}")).unwrap();
            prop_assert_eq!(&request.destination, &destination);
            prop_assert_eq!(request.readonly, readonly);
            let MountSource::Bind(bind) = request.source else { panic!("not a bind mount") };
            prop_assert_eq!(bind.path, source);
            prop_assert_eq!(bind.propagation.as_str(), spread);
        }
    }
}
