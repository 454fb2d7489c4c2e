//! A Totefile: an environment in one file.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Reason why a text is not a Totefile.
#[derive(Debug, thiserror::Error)]
pub enum TotefileError {
    /// The text is not TOML, or has other keys or types.
    #[error("{0}")]
    Syntax(String),
    /// A path inside that is not absolute, or leads upwards.
    #[error("{key}: {path:?} is not an absolute path without '..'")]
    Path {
        /// The key.
        key: &'static str,
        /// The path.
        path: String,
    },
    /// A source outside the Totefile's directory.
    #[error("files: {path:?} is not a path below the Totefile's directory")]
    Source {
        /// The path.
        path: String,
    },
    /// A name of a variable that cannot be one.
    #[error("env: {0:?} is not a name of a variable")]
    Variable(String),
}

/// A Totefile. Every key may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Totefile {
    /// Name of the image.
    pub name: String,
    /// Nodes by name or `NAME=VERSION`.
    pub packages: Vec<String>,
    /// Files: each path inside with its source, relative to the Totefile.
    pub files: BTreeMap<String, String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// User, and group after a colon.
    pub user: String,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub workdir: String,
    /// Directories that programs write to: each container has a volume there.
    pub writable: Vec<String>,
}

impl Totefile {
    /// Parses a Totefile.
    ///
    /// # Errors
    /// [`TotefileError`].
    pub fn parse(text: &str) -> Result<Self, TotefileError> {
        let file: Self = toml::from_str(text)
            .map_err(|error| TotefileError::Syntax(error.to_string().trim().to_owned()))?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), TotefileError> {
        let inside = |key, path: &String| match is_plain(path.strip_prefix('/')) {
            true => Ok(()),
            false => Err(TotefileError::Path {
                key,
                path: path.clone(),
            }),
        };
        for (path, source) in &self.files {
            inside("files", path)?;
            let relative = source.strip_prefix("./").unwrap_or(source);
            if !is_plain(Some(relative)) {
                return Err(TotefileError::Source { path: source.clone() });
            }
        }
        self.writable
            .iter()
            .try_for_each(|path| inside("writable", path))?;
        if !self.workdir.is_empty() && self.workdir != "/" {
            inside("workdir", &self.workdir)?;
        }
        let bad = self
            .env
            .keys()
            .find(|name| name.is_empty() || name.contains(['=', '\0']));
        bad.map_or(Ok(()), |name| Err(TotefileError::Variable(name.clone())))
    }
}

/// True if a path has names only.
fn is_plain(path: Option<&str>) -> bool {
    path.is_some_and(|path| {
        !path.contains('\0') && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_one() {
        let text = r#"
name = "web"
packages = ["nginx", "libc6=2.36-9"]
command = ["nginx", "-g", "daemon off;"]
user = "www-data"
writable = ["/var/log/nginx"]
workdir = "/srv"

[env]
A = "b"

[files]
"/etc/x.conf" = "./x.conf"
"#;
        let file = Totefile::parse(text).unwrap();
        assert_eq!(file.packages, ["nginx", "libc6=2.36-9"]);
        assert_eq!(file.files["/etc/x.conf"], "./x.conf");
        assert_eq!(file.env["A"], "b");
    }

    #[test]
    fn mistakes_are_told() {
        for (text, told) in [
            ("packages = 1", "invalid type"),
            ("package = []", "unknown field `package`"),
            (
                "writable = [\"var\"]",
                "writable: \"var\" is not an absolute path",
            ),
            ("[files]\n\"/a/../b\" = \"x\"", "files: \"/a/../b\""),
            (
                "[files]\n\"/a\" = \"../x\"",
                "files: \"../x\" is not a path below",
            ),
            (
                "[files]\n\"/a\" = \"/etc/shadow\"",
                "files: \"/etc/shadow\" is not a path below",
            ),
            ("[env]\n\"A=\" = \"x\"", "env: \"A=\""),
            ("[", "TOML parse error"),
        ] {
            let error = Totefile::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
