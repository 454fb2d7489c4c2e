//! `--secret`: the secrets of a container, and their places; podman's form.

use crate::path::clean_absolute;
use std::str::FromStr;

/// Directory of secrets that are files.
const DIRECTORY: &str = "/run/secrets/";

/// A secret that a container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRequest {
    /// Name or id of the secret, as written.
    pub source: String,
    /// The form in which the container has it.
    pub form: SecretForm,
}

/// The form of a secret in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// A file.
    File {
        /// Path in the container: absolute and clean, never `/`.
        target: String,
        /// Permission bits of the file.
        mode: u32,
        /// Id of the user in the container whose file it is.
        uid: u32,
        /// Id of the group in the container.
        gid: u32,
    },
    /// A variable of the program with this name.
    Variable(String),
}

/// Why a text does not say which secret a container has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// No secret is named.
    #[error(
        "no secret is named: give SECRET[,type=mount|env][,target=TARGET][,mode=OCTAL][,uid=ID][,gid=ID]"
    )]
    Empty,
    /// A part without a value.
    #[error("option {0} must be in form option=value")]
    Form(String),
    /// An option with a wrong name or value.
    #[error("invalid option {option:?}: {expected}")]
    Option {
        /// The option as written.
        option: String,
        /// Advice on valid values.
        expected: &'static str,
    },
    /// An option of files for a variable.
    #[error("UID, GID, Mode options cannot be set with secret type env")]
    FileOnly,
}

impl FromStr for SecretRequest {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let mut parts = text.split(',').peekable();
        let first = parts.next_if(|first| !first.contains('='));
        let mut source = first.unwrap_or_default();
        let (mut target, mut is_variable, mut of_file) = (None, false, false);
        let (mut mode, mut uid, mut gid) = (0o444, 0, 0);
        for option in parts {
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| SecretError::Form(option.to_owned()))?;
            let wrong = |expected| SecretError::Option {
                option: option.to_owned(),
                expected,
            };
            let id = || {
                value
                    .parse()
                    .map_err(|_| wrong("give the number of a user or a group"))
            };
            of_file |= matches!(key, "mode" | "uid" | "gid" | "UID" | "GID");
            match key {
                "source" => source = value,
                "target" if value.is_empty() => return Err(wrong("give a path, or the name of a variable")),
                "target" => target = Some(value),
                "type" => {
                    is_variable = match value {
                        "mount" => false,
                        "env" => true,
                        _ => return Err(wrong("type is mount or env")),
                    }
                }
                "mode" => {
                    let bits = u32::from_str_radix(value, 8).ok().filter(|bits| *bits <= 0o7777);
                    mode = bits.ok_or_else(|| wrong("give an octal mode such as 0400"))?;
                }
                "uid" | "UID" => uid = id()?,
                "gid" | "GID" => gid = id()?,
                _ => return Err(wrong("there are type, target, mode, uid and gid")),
            }
        }
        if source.is_empty() {
            return Err(SecretError::Empty);
        }
        let target = target.unwrap_or(source);
        let form = match is_variable {
            true if of_file => return Err(SecretError::FileOnly),
            true => SecretForm::Variable(target.to_owned()),
            false => SecretForm::File {
                target: place(target).ok_or_else(|| SecretError::Option {
                    option: format!("target={target}"),
                    expected: "give a path of a file",
                })?,
                mode,
                uid,
                gid,
            },
        };
        Ok(Self {
            source: source.to_owned(),
            form,
        })
    }
}

/// Returns the path of a target: a relative one is below [`DIRECTORY`], and stays there.
fn place(target: &str) -> Option<String> {
    let is_below = !target.starts_with('/');
    let path = match is_below {
        true => clean_absolute(&format!("{DIRECTORY}{target}")),
        false => clean_absolute(target),
    };
    path.filter(|path| path != "/" && (!is_below || path.starts_with(DIRECTORY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(target: &str, mode: u32, uid: u32, gid: u32) -> SecretForm {
        let target = target.to_owned();
        SecretForm::File {
            target,
            mode,
            uid,
            gid,
        }
    }

    #[test]
    fn forms() {
        for (text, source, form) in [
            ("key", "key", file("/run/secrets/key", 0o444, 0, 0)),
            ("source=key", "key", file("/run/secrets/key", 0o444, 0, 0)),
            (
                "key,target=a/b,mode=0400",
                "key",
                file("/run/secrets/a/b", 0o400, 0, 0),
            ),
            ("key,target=/etc/../x,uid=5,gid=6", "key", file("/x", 0o444, 5, 6)),
            (
                "key,type=mount,UID=7",
                "key",
                file("/run/secrets/key", 0o444, 7, 0),
            ),
            ("key,type=env", "key", SecretForm::Variable("key".to_owned())),
            (
                "key,target=PASSWORD,type=env",
                "key",
                SecretForm::Variable("PASSWORD".to_owned()),
            ),
        ] {
            let expected = SecretRequest {
                source: source.to_owned(),
                form,
            };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refused() {
        for (text, part) in [
            ("", "no secret is named"),
            (",type=env", "no secret is named"),
            ("type=env", "no secret is named"),
            ("key,ro", "option ro must be in form"),
            ("key,type=file", "type is mount or env"),
            ("key,mode=9", "an octal mode"),
            ("key,mode=77777", "an octal mode"),
            ("key,uid=root", "the number of a user"),
            ("key,target=", "give a path"),
            ("key,target=../x", "give a path of a file"),
            ("key,target=/", "give a path of a file"),
            ("key,size=1", "there are type"),
            ("key,type=env,mode=0400", "cannot be set with secret type env"),
        ] {
            let error = text.parse::<SecretRequest>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
