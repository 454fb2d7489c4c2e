use super::csv::{self, CsvError};
use super::volume::{parse_destination, parse_volume_name};
use super::{
    Bind, MountRequest, MountSource, Propagation, Recursion, Restrictions, TmpfsError, Treatment, Volume,
    VolumeError, tmpfs,
};
use crate::path::clean_absolute;
use crate::value::parse_size;

/// Why a text is not a `--mount`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountOptionError {
    /// The quotes are wrong.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// The text is empty.
    #[error("value is empty: give type=bind|volume|tmpfs|image,source=SOURCE,target=DESTINATION")]
    Empty,
    /// A name or value has white space around it.
    #[error("invalid option '{0}': option should not have whitespace")]
    Whitespace(String),
    /// A name that needs a value has none.
    #[error("invalid field '{0}' must be a key=value pair")]
    NoValue(String),
    /// The name is unknown.
    #[error(
        "unknown option '{0}': give type, source, target, readonly, bind-propagation, bind-recursive, bind-create-src, \
         volume-nocopy, volume-driver, volume-opt, volume-label, volume-subpath, tmpfs-size or tmpfs-mode"
    )]
    Unknown(String),
    /// The value is wrong.
    #[error("invalid value for {key}: {value} (must be {expected})")]
    Value {
        /// The option.
        key: String,
        /// Its value.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// The option belongs to another type of mount.
    #[error("cannot mix '{prefix}-*' options with mount type '{kind}'")]
    Mixed {
        /// `bind`, `volume` or `tmpfs`.
        prefix: &'static str,
        /// The type.
        kind: &'static str,
    },
    /// A field is missing but needed, or given but not allowed.
    #[error("invalid mount config for type \"{kind}\": field {field} must {must}")]
    Field {
        /// The type.
        kind: &'static str,
        /// The field.
        field: &'static str,
        /// `not be empty` or its like.
        must: &'static str,
    },
    /// The option only goes together with `readonly`.
    #[error("option '{0}' requires 'readonly' to be specified in conjunction")]
    NeedsReadonly(&'static str),
    /// The destination or the volume's name.
    #[error(transparent)]
    Path(#[from] VolumeError),
    /// The options of a tmpfs.
    #[error(transparent)]
    Tmpfs(#[from] TmpfsError),
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Bind,
    #[default]
    Volume,
    Tmpfs,
    Image,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Volume => "volume",
            Self::Tmpfs => "tmpfs",
            Self::Image => "image",
        }
    }
}

/// The fields of a `--mount`, before the check that they go together.
#[derive(Default)]
struct Fields {
    kind: Kind,
    source: String,
    target: String,
    readonly: bool,
    /// podman's `U`; a file system in memory is the container's user's to write in any case.
    chown: bool,
    /// podman's `rw`: the container may write to its view of an image.
    writable: Option<bool>,
    propagation: Option<Propagation>,
    recursion: Option<Recursion>,
    create: Option<bool>,
    nocopy: Option<bool>,
    /// True if `volume-driver` was given; its only value is `local`.
    driver: bool,
    /// `volume-opt` and `volume-label`.
    options: Vec<String>,
    labels: Vec<String>,
    subpath: Option<String>,
    size: Option<u64>,
    mode: Option<u32>,
    /// `bind-recursive=writable` or `readonly`: both have a meaning only for a read-only mount.
    needs_readonly: Option<&'static str>,
}

/// Parses `--mount`: comma-separated `key=value`, as docker takes them.
///
/// # Errors
/// [`MountOptionError`], worded as docker does.
pub fn parse_mount(text: &str) -> Result<MountRequest, MountOptionError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(MountOptionError::Empty);
    }
    let mut fields = Fields::default();
    for field in csv::split(text)? {
        fields.set(&field)?;
    }
    fields.finish()
}

fn value_error(key: &str, value: &str, expected: &'static str) -> MountOptionError {
    MountOptionError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        expected,
    }
}

/// Explains what to use in place of a type of mount that other engines have.
fn other_type(kind: &str, value: &str) -> MountOptionError {
    let advice = match kind {
        "npipe" => {
            "bind, volume, tmpfs or image: named pipes are Windows', and a socket or FIFO is mounted by type=bind"
        }
        "cluster" => {
            "bind, volume, tmpfs or image: volumes of a cluster are a swarm's, and a volume of this machine is type=volume"
        }
        "devpts" => "bind, volume, tmpfs or image: every container has a devpts of its own at /dev/pts",
        _ => "bind, volume, tmpfs or image",
    };
    value_error("type", value, advice)
}

fn boolean(key: &str, value: Option<&str>) -> Result<bool, MountOptionError> {
    match value {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(value_error(
            key,
            other,
            "one of \"true\", \"1\", \"false\", or \"0\"",
        )),
    }
}

/// Cleans a path that stays inside the directory that it starts from; docker's rule, by which a `..` may stand where
/// it leads no further up.
fn inside(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!path.starts_with('/')).then(|| match parts.is_empty() {
        true => ".".to_owned(),
        false => parts.join("/"),
    })
}

impl Fields {
    fn set(&mut self, field: &str) -> Result<(), MountOptionError> {
        let (key, value) = field
            .split_once('=')
            .map_or((field, None), |(key, value)| (key, Some(value)));
        if key.trim() != key || value.is_some_and(|value| value.trim() != value) {
            return Err(MountOptionError::Whitespace(field.to_owned()));
        }
        let key = key.to_ascii_lowercase();
        match key.as_str() {
            "readonly" | "ro" => self.readonly = boolean(&key, value)?,
            "rw" | "readwrite" => self.writable = Some(boolean(&key, value)?),
            "u" | "chown" => self.chown = boolean(&key, value)?,
            "volume-nocopy" => self.nocopy = Some(boolean(&key, value)?),
            "bind-create-src" => self.create = Some(boolean(&key, value)?),
            "bind-nonrecursive" => {
                self.recursion = Some(if boolean(&key, value)? {
                    Recursion::Disabled
                } else {
                    Recursion::Enabled
                });
            }
            _ => match value {
                Some("") => return Err(value_error(&key, "", "not empty")),
                Some(value) => self.set_value(&key, value)?,
                None => return Err(MountOptionError::NoValue(field.to_owned())),
            },
        }
        Ok(())
    }

    fn set_value(&mut self, key: &str, value: &str) -> Result<(), MountOptionError> {
        match key {
            "type" => {
                self.kind = match value.to_ascii_lowercase().as_str() {
                    "bind" => Kind::Bind,
                    "volume" => Kind::Volume,
                    "tmpfs" => Kind::Tmpfs,
                    "image" => Kind::Image,
                    other => return Err(other_type(other, value)),
                }
            }
            "source" | "src" => value.clone_into(&mut self.source),
            "target" | "dst" | "destination" => value.clone_into(&mut self.target),
            // An option of docker for macOS; it has no effect on Linux.
            "consistency" => {}
            "bind-propagation" => {
                let propagation = Propagation::parse(&value.to_ascii_lowercase());
                let expected = "[r]private, [r]shared or [r]slave";
                self.propagation = Some(propagation.ok_or_else(|| value_error(key, value, expected))?);
            }
            "bind-recursive" => self.set_recursion(key, value)?,
            "volume-driver" if value == "local" => self.driver = true,
            "volume-driver" => return Err(value_error(key, value, "local, the only driver that there is")),
            "volume-opt" => self.options.push(value.to_owned()),
            "volume-label" => self.labels.push(value.to_owned()),
            "volume-subpath" => {
                let expected = "a relative path inside the volume";
                self.subpath = Some(inside(value).ok_or_else(|| value_error(key, value, expected))?);
            }
            "tmpfs-size" => {
                let size = parse_size(value).map_err(|_| value_error(key, value, "a size such as 64m"))?;
                self.size = Some(size);
            }
            "tmpfs-mode" => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                self.mode = Some(mode.ok_or_else(|| value_error(key, value, "an octal mode such as 1777"))?);
            }
            _ => return Err(MountOptionError::Unknown(key.to_owned())),
        }
        Ok(())
    }

    fn set_recursion(&mut self, key: &str, value: &str) -> Result<(), MountOptionError> {
        let (recursion, needs_readonly) = match value {
            "enabled" => (Recursion::Enabled, None),
            "disabled" => (Recursion::Disabled, None),
            "writable" => (Recursion::Writable, Some("bind-recursive=writable")),
            "readonly" => (Recursion::Enabled, Some("bind-recursive=readonly")),
            _ => {
                let expected = "\"enabled\", \"disabled\", \"writable\", or \"readonly\"";
                return Err(value_error(key, value, expected));
            }
        };
        self.recursion = Some(recursion);
        self.needs_readonly = needs_readonly;
        Ok(())
    }

    fn finish(self) -> Result<MountRequest, MountOptionError> {
        let kind = self.kind.as_str();
        let mixed = |prefix| Err(MountOptionError::Mixed { prefix, kind });
        let field = |field, must| Err(MountOptionError::Field { kind, field, must });
        if self.kind != Kind::Bind
            && (self.propagation.is_some() || self.recursion.is_some() || self.create.is_some())
        {
            return mixed("bind");
        }
        let describes = !self.options.is_empty() || !self.labels.is_empty();
        if self.kind != Kind::Volume
            && (self.nocopy.is_some() || self.driver || describes || self.subpath.is_some())
        {
            return mixed("volume");
        }
        if self.subpath.is_some() && self.source.is_empty() {
            return field(
                "source",
                "not be empty with volume-subpath: a volume without a name is empty at first",
            );
        }
        if describes && self.source.is_empty() {
            return field(
                "source",
                "not be empty with volume-opt and volume-label: a volume without a name takes none",
            );
        }
        if self.kind != Kind::Tmpfs && (self.size.is_some() || self.mode.is_some()) {
            return mixed("tmpfs");
        }
        if self.kind != Kind::Image && self.writable.is_some() {
            return Err(MountOptionError::Unknown("rw".to_owned()));
        }
        if let Some(option) = self.needs_readonly.filter(|_| !self.readonly) {
            return Err(MountOptionError::NeedsReadonly(option));
        }
        if self.target.is_empty() {
            return field("target", "not be empty");
        }
        let destination = parse_destination(&self.target)?;
        let source = match self.kind {
            Kind::Bind if self.source.is_empty() => return field("source", "not be empty"),
            Kind::Image if self.source.is_empty() => return field("source", "not be empty"),
            Kind::Tmpfs if !self.source.is_empty() => return field("source", "not be specified"),
            Kind::Bind => MountSource::Bind(Bind {
                path: clean_absolute(&self.source)
                    .ok_or_else(|| VolumeError::Relative(self.source.clone()))?,
                propagation: self.propagation.unwrap_or_default(),
                recursion: self.recursion.unwrap_or_default(),
                create: self.create.unwrap_or(false),
                relabel: None,
            }),
            Kind::Volume => MountSource::Volume(Volume {
                name: (!self.source.is_empty())
                    .then(|| parse_volume_name(&self.source))
                    .transpose()?,
                // The image's files belong to the volume as a whole.
                copy: !self.nocopy.unwrap_or(false) && self.subpath.is_none(),
                relabel: None,
                options: self.options,
                labels: self.labels,
                subpath: self.subpath,
            }),
            Kind::Tmpfs => MountSource::Tmpfs(self.tmpfs_options()?),
            Kind::Image => MountSource::Image(self.source),
        };
        Ok(MountRequest {
            destination,
            source,
            // podman's default for images.
            readonly: self.readonly || self.kind == Kind::Image && self.writable != Some(true),
            restrictions: Restrictions::default(),
            treatment: match self.kind {
                Kind::Image => Treatment::Overlaid,
                Kind::Bind | Kind::Volume if self.chown => Treatment::Chowned,
                _ => Treatment::Shared,
            },
        })
    }

    fn tmpfs_options(&self) -> Result<Vec<String>, TmpfsError> {
        // docker's rule: 0 selects the kernel's default.
        let size = self
            .size
            .filter(|size| *size != 0)
            .map(|size| format!("size={size}"));
        let mode = self
            .mode
            .filter(|mode| *mode != 0)
            .map(|mode| format!("mode={mode:o}"));
        let readonly = self.readonly.then(|| "ro".to_owned());
        let given: Vec<String> = [readonly, mode, size].into_iter().flatten().collect();
        Ok(tmpfs::merge(given.iter().map(String::as_str))?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    #[test]
    fn binds() {
        let text = "type=bind,src=/a,dst=/b,ro,bind-propagation=rslave,bind-nonrecursive";
        let request = parse_mount(text).unwrap();
        assert!(request.readonly && request.destination == "/b");
        let MountSource::Bind(bind) = request.source else {
            panic!("{:?}", request.source)
        };
        assert_eq!((&*bind.path, bind.propagation), ("/a", Propagation::Rslave));
        assert!(bind.recursion == Recursion::Disabled && !bind.create);
        let commas = parse_mount("type=bind,\"source=/a,b\",destination=/c,readonly=false").unwrap();
        assert!(matches!(commas.source, MountSource::Bind(bind) if bind.path == "/a,b") && !commas.readonly);
    }

    #[test]
    fn volumes_and_tmpfs() {
        let request = parse_mount("source=db,target=/data,volume-driver=local,volume-nocopy").unwrap();
        let MountSource::Volume(volume) = request.source else {
            panic!("{:?}", request.source)
        };
        assert_eq!((volume.name.as_deref(), volume.copy), (Some("db"), false));
        let request = parse_mount("type=tmpfs,target=/t,tmpfs-size=64m,tmpfs-mode=1770,readonly").unwrap();
        let MountSource::Tmpfs(options) = request.source else {
            panic!("{:?}", request.source)
        };
        assert_eq!(
            options.join(","),
            "noexec,nosuid,nodev,rprivate,ro,mode=1770,size=67108864"
        );
    }

    #[test]
    fn images() {
        for (text, readonly) in [
            ("", true),
            (",rw=true", false),
            (",rw=false", true),
            (",ro", true),
        ] {
            let request =
                parse_mount(&format!("type=image,source=alpine,\"target=/a,\"\"b\"{text}")).unwrap();
            assert_eq!(
                (request.readonly, request.treatment),
                (readonly, Treatment::Overlaid)
            );
            let again = MountRequest {
                source: MountSource::Image("sha256:1".to_owned()),
                ..request.clone()
            };
            assert_eq!(parse_mount(&request.of_image("sha256:1")), Ok(again), "{text}");
        }
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("", "value is empty"),
            ("type=bind,target=/b", "field source must not be empty"),
            ("type=bind,source=/a", "field target must not be empty"),
            ("type=bind,source=a,target=/b", "must be absolute"),
            ("type=bind,source=/a,target=b", "must be absolute"),
            ("type=bind,source=/a,target=/", "can't be '/'"),
            (
                "type=foo,target=/b",
                "invalid value for type: foo (must be bind, volume, tmpfs or image)",
            ),
            (
                "type=tmpfs,source=/a,target=/b",
                "field source must not be specified",
            ),
            (
                "type=tmpfs,target=/b,bind-propagation=shared",
                "cannot mix 'bind-*' options with mount type 'tmpfs'",
            ),
            (
                "type=bind,source=/a,target=/b,volume-nocopy",
                "cannot mix 'volume-*'",
            ),
            (
                "target=/b,tmpfs-size=1",
                "cannot mix 'tmpfs-*' options with mount type 'volume'",
            ),
            ("type=image,target=/b", "field source must not be empty"),
            ("source=a,target=/b,rw=true", "unknown option 'rw'"),
            ("target=/b,foo=1", "unknown option 'foo'"),
            ("target=/b,foo", "invalid field 'foo' must be a key=value pair"),
            ("target", "invalid field 'target'"),
            ("target=/b,ro=maybe", "invalid value for ro: maybe"),
            ("target =/b", "whitespace"),
            ("target=", "invalid value for target"),
            (
                "type=tmpfs,target=/b,tmpfs-size=big",
                "invalid value for tmpfs-size: big",
            ),
            (
                "type=tmpfs,target=/b,tmpfs-mode=9",
                "invalid value for tmpfs-mode: 9",
            ),
            (
                "type=bind,source=/a,target=/b,bind-recursive=writable",
                "requires 'readonly'",
            ),
            (
                "type=bind,source=/a,target=/b,bind-propagation=x",
                "invalid value for bind-propagation: x",
            ),
            ("source=../x,target=/b", "use absolute path"),
            ("target=\"/b\"", "bare \""),
        ] {
            let error = parse_mount(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>(), key in "(type|src|target|ro|tmpfs-size)", value in any::<String>()) {
            let _parsed = (parse_mount(&text).is_ok(), parse_mount(&format!("{key}={value},target=/x")).is_ok());
        }
    }
}
