//! Secrets of a build.

use super::{BuildFault, BuildOptionError, SecretFault};
use crate::{EngineError, RequestError};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

/// Source of a secret's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// Path of a file.
    File(PathBuf),
    /// Name of a variable of the caller's environment.
    Variable(String),
}

/// Parses the value of `--secret`: `id=NAME[,src=FILE|,env=VARIABLE]`. An id alone means the variable of that name,
/// if it exists, otherwise the file.
///
/// # Errors
/// `BuildOptionError::SecretOption`.
pub fn parse_secret(
    text: &str,
    has_variable: &dyn Fn(&str) -> bool,
) -> Result<(String, SecretSource), EngineError> {
    let wrong = || BuildFault::Option(BuildOptionError::SecretOption(text.to_owned()));
    let (mut id, mut file, mut variable, mut kind) = (None, None, None, None);
    for field in text.split(',') {
        let (key, value) = field.split_once('=').ok_or_else(wrong)?;
        match key {
            "id" => id = Some(value.to_owned()),
            "src" | "source" => file = Some(value.to_owned()),
            "env" => variable = Some(value.to_owned()),
            "type" if ["file", "env"].contains(&value) => kind = Some(value),
            _ => return Err(wrong().into()),
        }
    }
    let id = id.filter(|id| !id.is_empty()).ok_or_else(wrong)?;
    let source = match (file, variable) {
        (Some(file), None) if kind == Some("env") => SecretSource::Variable(file),
        (Some(file), None) => SecretSource::File(file.into()),
        (None, Some(variable)) => SecretSource::Variable(variable),
        (None, None) if kind == Some("env") || kind.is_none() && has_variable(&id) => {
            SecretSource::Variable(id.clone())
        }
        (None, None) => SecretSource::File(id.clone().into()),
        (Some(_), Some(_)) => return Err(wrong().into()),
    };
    Ok((id, source))
}

/// Parses the value of `--ssh`: `default`, or `ID[=SOCKET]`. The default socket is that of the caller's agent, `own`.
///
/// # Errors
/// `BuildOptionError::AgentOption`, `BuildOptionError::NoOwnAgent`, or `BuildOptionError::AgentKey` for a file
/// that is not a socket.
pub fn parse_agent(text: &str, own: Option<PathBuf>) -> Result<(String, PathBuf), EngineError> {
    let (id, given) = match text.split_once('=') {
        Some((id, path)) => (
            id,
            Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
        ),
        None => (text, own),
    };
    let path = given.filter(|_| !id.is_empty());
    let path = path.ok_or_else(|| {
        if id.is_empty() || text.contains('=') {
            BuildFault::Option(BuildOptionError::AgentOption(text.to_owned()))
        } else {
            BuildFault::Option(BuildOptionError::NoOwnAgent(text.to_owned()))
        }
    })?;
    let found = std::fs::metadata(&path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "ssh",
            attempt: "find",
            path: path.clone(),
            source,
        })
    })?;
    if !found.file_type().is_socket() {
        return Err(BuildFault::Option(BuildOptionError::AgentKey(path)).into());
    }
    Ok((id.to_owned(), std::path::absolute(&path).unwrap_or(path)))
}

impl SecretSource {
    /// Reads the secret.
    pub fn read(&self, id: &str) -> Result<Vec<u8>, EngineError> {
        match self {
            Self::File(path) => std::fs::read(path).map_err(|source| {
                EngineError::Request(RequestError::File {
                    option: "secret",
                    attempt: "read",
                    path: path.clone(),
                    source,
                })
            }),
            Self::Variable(name) => match std::env::var_os(name) {
                Some(value) => Ok(std::os::unix::ffi::OsStringExt::into_vec(value)),
                None => Err(SecretFault::Missing(id.to_owned()).into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets() {
        let has = |name: &str| name == "TOKEN";
        let file = |path: &str| SecretSource::File(path.into());
        let variable = |name: &str| SecretSource::Variable(name.to_owned());
        for (text, id, source) in [
            ("id=a,src=/x", "a", file("/x")),
            ("id=a,source=x", "a", file("x")),
            ("id=a,env=B", "a", variable("B")),
            ("type=env,id=a,src=B", "a", variable("B")),
            ("id=TOKEN", "TOKEN", variable("TOKEN")),
            ("id=TOKEN,type=file", "TOKEN", file("TOKEN")),
            ("id=other", "other", file("other")),
        ] {
            assert_eq!(
                parse_secret(text, &has).unwrap(),
                (id.to_owned(), source),
                "{text}"
            );
        }
        for bad in [
            "",
            "src=/x",
            "id=",
            "id=a,x=y",
            "id=a,src=/x,env=B",
            "id=a,type=x",
        ] {
            assert!(parse_secret(bad, &has).is_err(), "{bad}");
        }
    }
}
