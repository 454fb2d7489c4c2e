//! `--build-context` and `--annotation`: values with names.

use super::{BuildContext, BuildFault, BuildOptionError};
use crate::EngineError;
use std::path::{Path, PathBuf};

/// Target of a name of `--build-context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedContext {
    /// Directory on this machine.
    Directory(PathBuf),
    /// Repository or archive at an address.
    Remote(BuildContext),
    /// Name of an image.
    Image(String),
    /// Image of an OCI layout.
    Layout {
        /// Directory of the layout.
        dir: PathBuf,
        /// Tag or digest as `:TAG` or `@DIGEST`; empty for the only image.
        image: String,
    },
}

/// Prefix of the names of images in a layout.
pub(crate) const LAYOUT: &str = "oci-layout://";

/// Returns the name of an image of a layout within a build. `dir` is absolute, `image` as in
/// [`NamedContext::Layout`].
#[must_use]
pub fn layout_name(dir: &Path, image: &str) -> String {
    format!("{LAYOUT}{}{image}", dir.display())
}

/// Splits off `:TAG` or `@DIGEST` behind the directory of a layout.
pub(crate) fn split_layout(text: &str) -> (&str, &str) {
    let name = text.rfind('/').map_or(0, |slash| slash + 1);
    let at = text[name..].find(['@', ':']).map_or(text.len(), |at| name + at);
    text.split_at(at)
}

/// Schemes of images, docker's and podman's.
const IMAGES: [&str; 3] = ["docker-image://", "container-image://", "docker://"];

/// Parses the value of `--build-context`: `NAME=DIRECTORY`, `NAME=URL`, `NAME=docker-image://IMAGE` or
/// `NAME=oci-layout://DIR[:TAG|@DIGEST]`.
///
/// # Errors
/// `BuildOptionError::ContextOption` or `RepositoryFault::Repository`.
pub fn parse_context(text: &str) -> Result<(String, NamedContext), EngineError> {
    let wrong = || BuildFault::Option(BuildOptionError::ContextOption(text.to_owned()));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || value.is_empty() {
        return Err(wrong().into());
    }
    let image = IMAGES.iter().find_map(|scheme| value.strip_prefix(scheme));
    let what = match image {
        Some("") => return Err(wrong().into()),
        Some(image) => NamedContext::Image(image.to_owned()),
        None if let Some(layout) = value.strip_prefix(LAYOUT) => {
            let (dir, image) = split_layout(layout);
            if dir.is_empty() {
                return Err(wrong().into());
            }
            NamedContext::Layout {
                dir: dir.into(),
                image: image.to_owned(),
            }
        }
        None if let Some(remote) = BuildContext::remote(value)? => NamedContext::Remote(remote),
        None if value.contains("://") => return Err(wrong().into()),
        None => NamedContext::Directory(PathBuf::from(value)),
    };
    Ok((name.to_owned(), what))
}

/// Parses the value of `--annotation`: `[manifest:]KEY=VALUE`.
///
/// # Errors
/// `BuildOptionError::Annotation`.
pub fn parse_annotation(text: &str) -> Result<(String, String), EngineError> {
    let wrong = || BuildFault::Option(BuildOptionError::Annotation(text.to_owned()));
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let key = match key.split_once(':') {
        Some(("manifest", key)) => key,
        // Docker's builder can annotate other levels as well, which this one does not produce.
        Some((what, _)) if what.split(['[', ',']).any(is_level) => return Err(wrong().into()),
        _ => key,
    };
    if key.is_empty() {
        return Err(wrong().into());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn is_level(word: &str) -> bool {
    ["manifest", "index", "manifest-descriptor", "index-descriptor"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts() {
        let directory = |path: &str| NamedContext::Directory(path.into());
        let layout = |dir: &str, image: &str| NamedContext::Layout {
            dir: dir.into(),
            image: image.to_owned(),
        };
        for (text, name, what) in [
            ("src=../src", "src", directory("../src")),
            ("a/b:1=x=y", "a/b:1", directory("x=y")),
            ("l=oci-layout://d/e", "l", layout("d/e", "")),
            ("l=oci-layout:///a:b/c:1", "l", layout("/a:b/c", ":1")),
            ("l=oci-layout://c@sha256:00", "l", layout("c", "@sha256:00")),
            (
                "alpine=docker-image://a:1",
                "alpine",
                NamedContext::Image("a:1".to_owned()),
            ),
        ] {
            assert_eq!(parse_context(text).unwrap(), (name.to_owned(), what));
        }
        for (text, address) in [
            ("a=https://x/y.tar", "https://x/y.tar"),
            ("a=https://x/y.git#z", "-"),
        ] {
            let (_, what) = parse_context(text).unwrap();
            let NamedContext::Remote(context) = what else {
                panic!("{text}: {what:?}")
            };
            assert_eq!(context.path(), Path::new(address));
        }
        for bad in [
            "",
            "a",
            "a=",
            "=b",
            "a=docker-image://",
            "a=ftp://x.example/y",
            "a=https://x.example/y.git#-z",
            "a=oci-layout://",
            "a=oci-layout://:tag",
        ] {
            assert!(parse_context(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn annotations() {
        for (text, key, value) in [
            ("a=b", "a", "b"),
            ("a.b/c=", "a.b/c", ""),
            ("manifest:a=b=c", "a", "b=c"),
            ("x:y=z", "x:y", "z"),
        ] {
            assert_eq!(
                parse_annotation(text).unwrap(),
                (key.to_owned(), value.to_owned())
            );
        }
        for bad in [
            "",
            "a",
            "=b",
            "manifest:=b",
            "index:a=b",
            "manifest[linux/amd64]:a=b",
        ] {
            assert!(parse_annotation(bad).is_err(), "{bad}");
        }
    }
}
