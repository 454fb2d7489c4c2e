//! Overlayfs's options for a root.
//!
//! The kernel's treatment of them (measured on 6.18; the sources are `fs/overlayfs/params.c` and `fs/fsopen.c`):
//!
//! - `lowerdir+` takes a path as it is; `upperdir` and `workdir` remove backslashes; `lowerdir` splits at `:` and
//!   removes backslashes. The data of mount(2) is split at `,` before that.
//! - fsconfig(2) takes values of at most [`OverlayOptions::MAX_VALUE`] bytes. A longer path must be given as
//!   `/proc/self/fd/N`, on every kernel, or as a descriptor (`FSCONFIG_SET_FD`) since 6.13.
//! - A single lower layer without an upper one is refused (`EINVAL`): bind the layer instead.
//! - `userxattr` refuses `redirect_dir=off` and `metacopy=on`.
//! - A tmpfs supports `trusted.*` attributes on every relevant kernel, and `user.*` since 6.6. Before 6.6 a
//!   rootless container with a tmpfs as upper layer mounts, but cannot replace a directory of a lower layer.
//! - After `volatile`, the same work directory is refused until `work/incompat` is removed from it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Escapes a path for overlayfs: puts a backslash before `\`, `:` and `,`. Right for `lowerdir`, `upperdir` and
/// `workdir`, in fsconfig(2) as in the data of mount(2); wrong for `lowerdir+`, which removes nothing. Every other
/// byte stays, UTF-8 or not.
#[must_use]
pub fn escape_overlay(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let mut escaped = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if matches!(byte, b'\\' | b':' | b',') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    OsString::from_vec(escaped)
}

/// Options of an overlay, put together step by step.
///
/// No option needs an extended attribute that a container could not have: `index`, `metacopy` and `redirect_dir`
/// are off, whatever the kernel's defaults are, so that every program that knows whiteouts can read an upper
/// directory as a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayOptions {
    lowers: Vec<PathBuf>,
    contents: Option<PathBuf>,
    upper: Option<(PathBuf, PathBuf)>,
    volatile: bool,
    user_namespace: bool,
}

impl OverlayOptions {
    /// Maximum length of a value for fsconfig(2), in bytes.
    pub const MAX_VALUE: usize = 255;

    /// Describes a read-only overlay of `lowers`, the topmost first; at least two of them.
    #[must_use]
    pub fn new(lowers: Vec<PathBuf>) -> Self {
        OverlayOptions {
            lowers,
            contents: None,
            upper: None,
            volatile: false,
            user_namespace: false,
        }
    }

    /// Adds a layer that only provides contents: its files show where an empty file of a layer above names them,
    /// and nowhere else (Linux 6.16 without `metacopy=on`). It counts as a layer, so one layer above it suffices.
    #[must_use]
    pub fn contents(mut self, dir: PathBuf) -> Self {
        self.contents = Some(dir);
        self
    }

    /// Makes the overlay writable: `upper` receives the writes, `work` is an empty directory of the same mount.
    #[must_use]
    pub fn upper(mut self, upper: PathBuf, work: PathBuf) -> Self {
        self.upper = Some((upper, work));
        self
    }

    /// Disables all syncs, even at unmount, because the writes are not needed after a crash. For throw-away
    /// containers on a disk.
    #[must_use]
    pub fn volatile(mut self, volatile: bool) -> Self {
        self.volatile = volatile;
        self
    }

    /// Declares that the overlay is mounted in a user namespace other than the first: overlayfs's own attributes
    /// are then `user.*`.
    #[must_use]
    pub fn user_namespace(mut self, user_namespace: bool) -> Self {
        self.user_namespace = user_namespace;
        self
    }

    /// Returns the options for fsconfig(2), in this order: key, and value or `None` for a flag. If they fit into
    /// one value, all layers are in `lowerdir`, which every kernel knows, and otherwise one by one in `lowerdir+`
    /// (Linux 6.7).
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, Option<OsString>)> {
        let mut parameters = Vec::with_capacity(self.lowers.len() + 6);
        let together = self.lowerdir();
        let is_alone = self.lowers.len() == 1 && self.contents.is_none();
        if is_alone || together.len() <= Self::MAX_VALUE {
            parameters.push(("lowerdir", Some(together)));
        } else {
            let value = |key, layer: &PathBuf| (key, Some(layer.clone().into_os_string()));
            parameters.extend(self.lowers.iter().map(|lower| value("lowerdir+", lower)));
            parameters.extend(self.contents.iter().map(|dir| value("datadir+", dir)));
        }
        parameters.extend(self.beside_lowers());
        parameters
    }

    /// Returns the options for mount(2), which takes less than a page of them: `lowerdir=…,upperdir=…`, escaped.
    /// For kernels before 6.7.
    #[must_use]
    pub fn data(&self) -> OsString {
        let mut data = OsString::from("lowerdir=");
        data.push(self.lowerdir());
        for (key, value) in self.beside_lowers() {
            data.push(",");
            data.push(key);
            if let Some(value) = value {
                data.push("=");
                data.push(value);
            }
        }
        data
    }

    fn lowerdir(&self) -> OsString {
        let lowers: Vec<OsString> = self.lowers.iter().map(|lower| escape_overlay(lower)).collect();
        let mut layers = lowers.join(OsStr::new(":"));
        if let Some(dir) = &self.contents {
            layers.push("::");
            layers.push(escape_overlay(dir));
        }
        layers
    }

    fn beside_lowers(&self) -> Vec<(&'static str, Option<OsString>)> {
        let mut parameters = Vec::with_capacity(6);
        if let Some((upper, work)) = &self.upper {
            parameters.push(("upperdir", Some(escape_overlay(upper))));
            parameters.push(("workdir", Some(escape_overlay(work))));
            parameters.push(("index", Some("off".into())));
            if !self.user_namespace {
                parameters.push(("metacopy", Some("off".into())));
                // With "off", redirects that a layer brings along would still be followed.
                parameters.push(("redirect_dir", Some("nofollow".into())));
            }
            if self.volatile {
                parameters.push(("volatile", None));
            }
        }
        if self.user_namespace {
            parameters.push(("userxattr", None));
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_backslashes_are_escaped_and_other_bytes_kept() {
        for (path, escaped) in [
            (&b"/a/b"[..], &b"/a/b"[..]),
            (b"/a:b", b"/a\\:b"),
            (b"/a,b", b"/a\\,b"),
            (b"/a\\b", b"/a\\\\b"),
            (b"/\xff\xfe:", b"/\xff\xfe\\:"),
            (b"", b""),
        ] {
            assert_eq!(
                escape_overlay(Path::new(OsStr::from_bytes(path))).as_bytes(),
                escaped
            );
        }
    }

    fn words(options: &OverlayOptions) -> Vec<String> {
        let word = |(key, value): (&str, Option<OsString>)| match value {
            Some(value) => format!("{key}={}", value.to_str().unwrap()),
            None => key.to_owned(),
        };
        options.parameters().into_iter().map(word).collect()
    }

    #[test]
    fn a_throw_away_root_is_volatile_and_needs_no_attributes() {
        let options = OverlayOptions::new(vec!["/l:1".into()])
            .upper("/u:p".into(), "/w".into())
            .volatile(true);
        let expected = [
            "lowerdir=/l\\:1",
            "upperdir=/u\\:p",
            "workdir=/w",
            "index=off",
            "metacopy=off",
            "redirect_dir=nofollow",
            "volatile",
        ];
        assert_eq!(words(&options), expected);
        assert_eq!(options.data().to_str().unwrap(), expected.join(","));
    }

    #[test]
    fn several_layers_go_together_where_they_fit() {
        let options = OverlayOptions::new(vec!["/top:1".into(), "/base".into()]).user_namespace(true);
        assert_eq!(words(&options), ["lowerdir=/top\\:1:/base", "userxattr"]);
        assert_eq!(
            options.data().to_str().unwrap(),
            "lowerdir=/top\\:1:/base,userxattr"
        );
    }

    #[test]
    fn layers_with_long_names_go_one_by_one_and_unescaped() {
        let long = format!("/top:{}", "x".repeat(247));
        let options = OverlayOptions::new(vec![long.clone().into(), "/b".into()]);
        assert_eq!(
            words(&options),
            [format!("lowerdir+={long}"), "lowerdir+=/b".to_owned()]
        );
        let options = OverlayOptions::new(vec![long[..251].into(), "/b".into()]);
        assert_eq!(
            words(&options)[0].len(),
            "lowerdir=".len() + OverlayOptions::MAX_VALUE
        );
    }

    #[test]
    fn contents_are_a_layer_after_two_colons_or_one_by_itself() {
        let options = OverlayOptions::new(vec!["/t:1".into()]).contents("/c:1".into());
        assert_eq!(words(&options), ["lowerdir=/t\\:1::/c\\:1"]);
        let long = format!("/t:{}", "x".repeat(252));
        let options = OverlayOptions::new(vec![long.clone().into()]).contents("/c:1".into());
        assert_eq!(
            words(&options),
            [format!("lowerdir+={long}"), "datadir+=/c:1".to_owned()]
        );
    }

    #[test]
    fn a_user_namespace_gets_no_option_that_conflicts_with_userxattr() {
        let options = OverlayOptions::new(vec!["/l".into()])
            .upper("/u".into(), "/w".into())
            .user_namespace(true);
        assert_eq!(
            words(&options),
            [
                "lowerdir=/l",
                "upperdir=/u",
                "workdir=/w",
                "index=off",
                "userxattr"
            ]
        );
    }

    #[test]
    fn without_an_upper_layer_nothing_is_volatile() {
        let options = OverlayOptions::new(vec!["/a".into(), "/b".into()]).volatile(true);
        assert_eq!(words(&options), ["lowerdir=/a:/b"]);
    }
}
