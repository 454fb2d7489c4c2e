//! `RUN --mount`.

use crate::error::{FlagReason, Reason};
use crate::spelling::similar;

/// The keys of `--mount`.
const KEYS: [&str; 19] = [
    "type",
    "target",
    "dst",
    "destination",
    "source",
    "src",
    "from",
    "id",
    "env",
    "readonly",
    "ro",
    "readwrite",
    "rw",
    "required",
    "sharing",
    "mode",
    "uid",
    "gid",
    "size",
];

/// A mount that exists while a command runs, and leaves no trace in the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Kind of the mount.
    pub kind: MountKind,
    /// Path in the container. Without it, some kinds use a default path and the others the working directory.
    pub target: Option<String>,
    /// Path in `from` that is mounted.
    pub source: Option<String>,
    /// A stage, image or named context to mount from; `None` for the build's context.
    pub from: Option<String>,
    /// True if the mount is read-only; `None` selects the default of the kind.
    pub read_only: Option<bool>,
    /// Id of the cache, secret or agent.
    pub id: Option<String>,
    /// Rule for builds that use a cache at the same time.
    pub sharing: Sharing,
    /// True if it is an error that the secret or agent was not given.
    pub required: bool,
    /// Name of the environment variable that holds the secret.
    pub env: Option<String>,
    /// Permission bits of the mounted file or directory.
    pub mode: Option<u32>,
    /// User id of its owner.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Maximum size of a tmpfs in bytes.
    pub size: Option<u64>,
}

/// Kind of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountKind {
    /// Files of the context or of another stage.
    #[default]
    Bind,
    /// A directory that outlives the build.
    Cache,
    /// An empty directory in memory.
    Tmpfs,
    /// A file that the user has given to the builder.
    Secret,
    /// The socket of an SSH agent.
    Ssh,
}

/// Rule for builds that use a cache at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Builds share the cache.
    #[default]
    Shared,
    /// Each build gets a cache of its own.
    Private,
    /// Builds wait for one another.
    Locked,
}

/// A `--mount` as written, with variables not yet replaced: `KEY=VALUE` and flags between commas, as a line of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountFlag {
    /// Fields, with the keys in lower case.
    fields: Vec<(String, Option<String>)>,
}

impl MountFlag {
    /// Splits the text. Errors that do not depend on variables are found here, before anything is built.
    pub(crate) fn parse(text: &str) -> Result<Self, Reason> {
        let split = |field: String| match field.split_once('=') {
            Some((key, value)) => (key.trim().to_ascii_lowercase(), Some(value.to_owned())),
            None => (field.trim().to_ascii_lowercase(), None),
        };
        let flag = Self {
            fields: fields(text).into_iter().map(split).collect(),
        };
        // The stages are planned before any variable is known.
        if flag.from().is_some_and(has_variable) {
            return Err(Reason::Flag(FlagReason::MountFrom));
        }
        let values = flag.fields.iter().filter_map(|(_, value)| value.as_deref());
        if !values.clone().any(|value| value.contains(['$', '\\', '"', '\''])) {
            flag.resolve::<Reason>(&|value| Ok(value.to_owned()))?;
        }
        Ok(flag)
    }

    /// Returns the stage, image or named context to mount from.
    #[must_use]
    pub fn from(&self) -> Option<&str> {
        let last = self.fields.iter().rev().find(|(key, _)| key == "from");
        last.and_then(|(_, value)| value.as_deref())
    }

    /// Builds the mount; `expand` replaces variables in every value.
    ///
    /// # Errors
    /// The errors of `expand`; and [`Reason`] for an unknown key or an invalid value.
    pub fn resolve<E: From<Reason>>(&self, expand: &dyn Fn(&str) -> Result<String, E>) -> Result<Mount, E> {
        let mut mount = Mount::default();
        for (key, value) in &self.fields {
            let value = value.as_deref().map(expand).transpose()?;
            mount.set(key, value.as_deref())?;
        }
        Ok(mount)
    }
}

/// True if docker's builder sees a variable in the text.
fn has_variable(text: &str) -> bool {
    text.find('$').is_some_and(|at| at + 1 < text.len())
}

impl Mount {
    fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), Reason> {
        let bad = || {
            Reason::Flag(FlagReason::MountValue {
                key: key.to_owned(),
                value: value.unwrap_or_default().to_owned(),
            })
        };
        let flag = || match value.map(str::to_ascii_lowercase).as_deref() {
            None | Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(_) => Err(bad()),
        };
        // Only flags may lack a value; every other key needs one that is not empty.
        let text = value.filter(|value| !value.is_empty()).ok_or_else(bad);
        // chown(2) takes the highest number for "leave it"; the bound used here is that of all user ids.
        let number = || {
            let number = value.and_then(|value| value.parse::<u32>().ok());
            number.filter(|id| *id <= i32::MAX as u32).ok_or_else(bad)
        };
        match key {
            "type" => {
                self.kind = match text? {
                    "bind" => MountKind::Bind,
                    "cache" => MountKind::Cache,
                    "tmpfs" => MountKind::Tmpfs,
                    "secret" => MountKind::Secret,
                    "ssh" => MountKind::Ssh,
                    _ => return Err(bad()),
                }
            }
            "target" | "dst" | "destination" => self.target = Some(text?.to_owned()),
            "source" | "src" => self.source = Some(text?.to_owned()),
            "from" => self.from = Some(text?.to_owned()),
            "id" => self.id = Some(text?.to_owned()),
            "env" => self.env = Some(text?.to_owned()),
            "readonly" | "ro" => self.read_only = Some(flag()?),
            "readwrite" | "rw" => self.read_only = Some(!flag()?),
            "required" => self.required = flag()?,
            "sharing" => {
                self.sharing = match text? {
                    "shared" => Sharing::Shared,
                    "private" => Sharing::Private,
                    "locked" => Sharing::Locked,
                    _ => return Err(bad()),
                }
            }
            "mode" => self.mode = Some(u32::from_str_radix(text?, 8).map_err(|_| bad())?),
            "uid" => self.uid = Some(number()?),
            "gid" => self.gid = Some(number()?),
            "size" => self.size = Some(bytes(text?).ok_or_else(bad)?),
            _ => {
                return Err(Reason::Flag(FlagReason::MountKey {
                    name: key.to_owned(),
                    suggestion: similar(key, &KEYS),
                }));
            }
        }
        Ok(())
    }
}

/// Splits a line of CSV into fields. A field that begins with a quote may contain commas, and doubled quotes.
fn fields(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(next) = chars.next() {
        let empty = fields.last().is_none_or(String::is_empty);
        match next {
            '"' if quoted && chars.next_if_eq(&'"').is_none() => {
                quoted = false;
                continue;
            }
            '"' if !quoted && empty => {
                quoted = true;
                continue;
            }
            ',' if !quoted => {
                fields.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(field) = fields.last_mut() {
            field.push(next);
        }
    }
    fields
}

/// Parses a number with an optional unit of 1024: `64m`, `1GiB`.
fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = lower.split_at(digits);
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Mount, Reason> {
        MountFlag::parse(text)?.resolve(&|value| Ok(value.replace("$N", "7")))
    }

    #[test]
    fn mounts() {
        let mount = parse("type=cache,target=/c,id=x,sharing=locked,mode=0755,uid=1,gid=2,rw").unwrap();
        assert_eq!(
            (mount.kind, mount.sharing, mount.mode),
            (MountKind::Cache, Sharing::Locked, Some(0o755))
        );
        assert_eq!(
            (mount.uid, mount.gid, mount.read_only),
            (Some(1), Some(2), Some(false))
        );
        assert_eq!(parse("type=tmpfs,dst=/t,size=64m").unwrap().size, Some(64 << 20));
        assert_eq!(
            parse("type=secret,required,env=X").unwrap().env.as_deref(),
            Some("X")
        );
        assert_eq!(
            parse("\"target=/a,b\",from=base").unwrap().target.as_deref(),
            Some("/a,b")
        );
        // Without a target, the mount is at the working directory.
        assert_eq!(parse("from=binaries").unwrap().target, None);
        for (bad, error) in [
            ("type=x,target=/", "invalid value \"x\" for type of --mount"),
            ("target=/,evil=1", "unexpected key 'evil' in --mount"),
            (
                "typ=cache,target=/",
                "unexpected key 'typ' in --mount (did you mean type?)",
            ),
            (
                "taregt=/",
                "unexpected key 'taregt' in --mount (did you mean target?)",
            ),
            ("target", "invalid value \"\" for target of --mount"),
            (
                "target=/,uid=4294967295",
                "invalid value \"4294967295\" for uid of --mount",
            ),
            ("target=/,mode=9", "invalid value \"9\" for mode of --mount"),
            ("target=/,ro=maybe", "invalid value \"maybe\" for ro of --mount"),
            (
                "type=tmpfs,target=/,size=99999999999999g",
                "invalid value \"99999999999999g\" for size of --mount",
            ),
        ] {
            assert_eq!(MountFlag::parse(bad).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn variables_are_replaced_before_values_are_read() {
        let mount = parse("type=cache,target=/c$N,uid=$N,mode=0$N$N$N,size=$N").unwrap();
        assert_eq!(
            (mount.uid, mount.mode, mount.size),
            (Some(7), Some(0o777), Some(7))
        );
        assert_eq!(mount.target.as_deref(), Some("/c7"));
        let later = MountFlag::parse("type=$N,target=/").unwrap();
        let error = later.resolve::<Reason>(&|_| Ok("x".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "invalid value \"x\" for type of --mount");
        for text in ["from=$X,target=/a", "target=/$N,from=a${N}"] {
            assert_eq!(
                MountFlag::parse(text),
                Err(Reason::Flag(FlagReason::MountFrom)),
                "{text}"
            );
        }
    }
}
