//! `--cache-from` and `--cache-to`.

use crate::EngineError;
use crate::{BuildFault, BuildOptionError};
use std::path::PathBuf;
use tote_image::Reference;

/// Default tag, in a layout and, for podman's form of the option, at a registry.
const TAG: &str = "latest";
/// Tag of the cache in a repository that is given without a tag, beside its images.
const OWN_TAG: &str = "buildcache";

/// Source of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheFrom {
    /// Directory with an OCI layout: `type=local`.
    Local {
        /// Path of the directory.
        src: PathBuf,
        /// Tag of the cache there.
        tag: String,
    },
    /// First of these names at a registry that has a cache: `type=registry`.
    Registry(Vec<String>),
}

/// Export of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTo {
    /// Destination of the cache.
    pub place: CachePlace,
    /// True for `mode=max`: includes the stages that the result only copies from.
    pub all_stages: bool,
    /// True for `ignore-error`: a failed export does not fail the build.
    pub may_fail: bool,
}

/// Destination of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachePlace {
    /// Directory with an OCI layout: `type=local`.
    Local {
        /// Path of the directory.
        dest: PathBuf,
        /// Tag of the cache there.
        tag: String,
    },
    /// Name at a registry: `type=registry`.
    Registry(String),
    /// Manifest of the image: `type=inline`.
    Inline,
}

/// Parses a value of `--cache-from`: `type=local,src=DIR`, `type=registry,ref=REF`, or references.
///
/// # Errors
/// `BuildOptionError::CacheFrom`.
pub fn parse_cache_from(text: &str) -> Result<Vec<CacheFrom>, EngineError> {
    parse(text, from, |name| names(name).map(CacheFrom::Registry)).map_err(|why| {
        BuildFault::Option(BuildOptionError::CacheFrom {
            text: text.to_owned(),
            why,
        })
        .into()
    })
}

/// Parses a value of `--cache-to`: `type=local,dest=DIR`, `type=registry,ref=REF`, `type=inline`, or references.
///
/// # Errors
/// `BuildOptionError::CacheTo`.
pub fn parse_cache_to(text: &str) -> Result<Vec<CacheTo>, EngineError> {
    let plain = |name: &str| {
        let mut names = names(name)?;
        Ok(CacheTo {
            // A bare repository is podman's form, and podman exports all stages.
            all_stages: names.len() > 1,
            place: CachePlace::Registry(target(&names.pop().unwrap_or_default())?),
            may_fail: false,
        })
    };
    parse(text, to, plain).map_err(|why| {
        BuildFault::Option(BuildOptionError::CacheTo {
            text: text.to_owned(),
            why,
        })
        .into()
    })
}

/// Lists the names for a bare reference: a repository without a tag may have an image that carries its cache, or a
/// cache beside its images. An export must not replace an image.
fn names(reference: &str) -> Result<Vec<String>, String> {
    let parsed = valid(reference)?;
    let last = reference.rsplit('/').next().unwrap_or_default();
    if parsed.digest().is_some() || last.contains(':') {
        return Ok(vec![reference.to_owned()]);
    }
    Ok(vec![reference.to_owned(), format!("{reference}:{OWN_TAG}")])
}

/// Checks a name before anything is built.
fn valid(reference: &str) -> Result<Reference, String> {
    Reference::parse(reference).map_err(|error| error.to_string())
}

/// Checks a name for a push.
fn target(reference: &str) -> Result<String, String> {
    match valid(reference)?.digest() {
        Some(_) => Err(format!("{reference} is a digest, which is no place to push to")),
        None => Ok(reference.to_owned()),
    }
}

/// Fields of a value, except its type.
type Fields<'a> = Vec<(&'a str, &'a str)>;

fn parse<T>(
    text: &str,
    typed: fn(&str, Fields<'_>) -> Result<T, String>,
    plain: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let fields = || text.split(',').map(str::trim);
    if fields().all(|field| !field.is_empty() && !field.contains('=')) {
        return fields().map(plain).collect();
    }
    let mut kind = None;
    let mut rest = Vec::new();
    for field in fields() {
        match field.split_once('=') {
            Some((key, value)) if key.eq_ignore_ascii_case("type") => kind = Some(value),
            Some(pair) => rest.push(pair),
            None => return Err(format!("invalid value {field}")),
        }
    }
    let kind = kind.ok_or_else(|| "type required form> \"type=...\"".to_owned())?;
    Ok(vec![typed(kind, rest)?])
}

fn from(kind: &str, fields: Fields<'_>) -> Result<CacheFrom, String> {
    if !matches!(kind, "local" | "registry") {
        return Err(format!("unknown cache importer: {kind}"));
    }
    let (mut place, mut tag) = (None, TAG);
    for (key, value) in fields {
        match (kind, key) {
            ("local", "src") | ("registry", "ref") => place = Some(value),
            ("local", "tag") => tag = value,
            _ => return Err(unknown(kind, key)),
        }
    }
    let place = place.filter(|place| !place.is_empty());
    match (kind, place) {
        ("local", Some(src)) => Ok(CacheFrom::Local {
            src: src.into(),
            tag: tag.to_owned(),
        }),
        ("local", None) => Err("local cache importer requires src".to_owned()),
        (_, Some(name)) => valid(name).map(|_| CacheFrom::Registry(vec![name.to_owned()])),
        (_, None) => Err("registry cache importer requires ref".to_owned()),
    }
}

fn to(kind: &str, fields: Fields<'_>) -> Result<CacheTo, String> {
    if !matches!(kind, "local" | "registry" | "inline") {
        return Err(format!("unknown cache exporter: {kind:?}"));
    }
    let (mut place, mut tag, mut all_stages, mut may_fail) = (None, TAG, false, false);
    for (key, value) in fields {
        match (kind, key, value) {
            ("local", "dest", _) | ("registry", "ref", _) => place = Some(value),
            ("local", "tag", _) => tag = value,
            (_, "mode", "min" | "max") => all_stages = value == "max",
            (_, "ignore-error", "true" | "false") => may_fail = value == "true",
            // These values describe the only form in which a cache is written.
            (_, "compression", "gzip") | (_, "oci-mediatypes" | "image-manifest", "true") => {}
            (_, "mode" | "ignore-error" | "compression" | "oci-mediatypes" | "image-manifest", _) => {
                return Err(format!("invalid value {key}={value}"));
            }
            _ => return Err(unknown(kind, key)),
        }
    }
    let place = place.filter(|place| !place.is_empty());
    let place = match (kind, place) {
        ("local", Some(dest)) => CachePlace::Local {
            dest: dest.into(),
            tag: tag.to_owned(),
        },
        ("local", None) => return Err("local cache exporter requires dest".to_owned()),
        ("registry", Some(name)) => CachePlace::Registry(target(name)?),
        ("registry", None) => return Err("registry cache exporter requires ref".to_owned()),
        _ => CachePlace::Inline,
    };
    Ok(CacheTo {
        place,
        all_stages,
        may_fail,
    })
}

fn unknown(kind: &str, key: &str) -> String {
    format!("type={kind} has no {key:?}")
}

impl std::fmt::Display for CacheFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { src, .. } => write!(f, "{}", src.display()),
            Self::Registry(names) => f.write_str(names.first().map_or("", String::as_str)),
        }
    }
}

impl std::fmt::Display for CachePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { dest, .. } => write!(f, "{}", dest.display()),
            Self::Registry(name) => f.write_str(name),
            Self::Inline => f.write_str("the image"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let local = |src: &str, tag: &str| CacheFrom::Local {
            src: src.into(),
            tag: tag.into(),
        };
        let registry = |names: &[&str]| CacheFrom::Registry(names.iter().map(|&name| name.into()).collect());
        for (text, sources) in [
            ("type=local,src=d", vec![local("d", "latest")]),
            ("src=d,type=local,tag=v", vec![local("d", "v")]),
            ("type=registry,ref=r/a", vec![registry(&["r/a"])]),
            ("r:5000/a", vec![registry(&["r:5000/a", "r:5000/a:buildcache"])]),
            (
                "r/a:1,b",
                vec![registry(&["r/a:1"]), registry(&["b", "b:buildcache"])],
            ),
        ] {
            assert_eq!(parse_cache_from(text).unwrap(), sources, "{text}");
        }
        for (bad, why) in [
            ("type=gha", "unknown cache importer: gha"),
            ("type=inline", "unknown cache importer: inline"),
            ("type=local", "local cache importer requires src"),
            ("type=local,dest=d", "type=local has no \"dest\""),
            ("src=d", "type required form> \"type=...\""),
            ("type=local,d", "invalid value d"),
            ("", "invalid value "),
            ("A", "invalid reference: A: the repository must be in lower case"),
            (
                "type=registry,ref=A",
                "invalid reference: A: the repository must be in lower case",
            ),
        ] {
            let error = parse_cache_from(bad).unwrap_err().to_string();
            assert_eq!(error, format!("--cache-from {bad}: {why}"));
        }
    }

    #[test]
    fn places() {
        let to = |place, all_stages, may_fail| CacheTo {
            place,
            all_stages,
            may_fail,
        };
        let local = |dest: &str, tag: &str| CachePlace::Local {
            dest: dest.into(),
            tag: tag.into(),
        };
        let registry = |name: &str| CachePlace::Registry(name.into());
        for (text, place) in [
            ("type=local,dest=d", to(local("d", "latest"), false, false)),
            (
                "type=local,dest=d,mode=max,tag=v",
                to(local("d", "v"), true, false),
            ),
            (
                "type=registry,ref=r/a,mode=min",
                to(registry("r/a"), false, false),
            ),
            (
                "type=registry,ref=a,ignore-error=true,compression=gzip",
                to(registry("a"), false, true),
            ),
            ("type=inline", to(CachePlace::Inline, false, false)),
            ("r/a", to(registry("r/a:buildcache"), true, false)),
            ("r/a:1", to(registry("r/a:1"), false, false)),
        ] {
            assert_eq!(parse_cache_to(text).unwrap(), [place], "{text}");
        }
        for (bad, why) in [
            ("type=gha", "unknown cache exporter: \"gha\""),
            ("type=local,dest=", "local cache exporter requires dest"),
            ("type=registry", "registry cache exporter requires ref"),
            ("type=inline,mode=most", "invalid value mode=most"),
            ("dest=d", "type required form> \"type=...\""),
        ] {
            let error = parse_cache_to(bad).unwrap_err().to_string();
            assert_eq!(error, format!("--cache-to {bad}: {why}"));
        }
    }
}
