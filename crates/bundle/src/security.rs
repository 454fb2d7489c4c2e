//! `--security-opt`.

use crate::path::clean_absolute;
use crate::value::parse_boolean;

/// The choice of a system call filter; another crate compiles it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SeccompChoice {
    /// docker's default profile.
    #[default]
    Default,
    /// No filter.
    Unconfined,
    /// The profile in the file at this path, as written.
    File(String),
    /// This profile, which is the engine's own.
    Given(Box<tote_spec::Seccomp>),
}

/// Settings of all `--security-opt` together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityOptions {
    /// `no-new-privileges`.
    pub no_new_privileges: bool,
    /// `seccomp=`; `None` if not given. See [`crate::RunOptions::seccomp`].
    pub seccomp: Option<SeccompChoice>,
    /// `apparmor=`: a profile's name or `unconfined`.
    pub apparmor: Option<String>,
    /// `label=`: SELinux options, each as written (`disable`, `user:…`, `role:…`, `type:…`, `level:…`).
    pub labels: Vec<String>,
    /// `systempaths=unconfined` or `unmask=ALL`: no path is masked or read-only except those of `mask`.
    pub system_paths_unconfined: bool,
    /// `mask=`: paths that are masked in addition to the default ones.
    pub mask: Vec<String>,
    /// `unmask=`: paths that are neither masked nor read-only; `*` stands for anything but `/`.
    pub unmask: Vec<String>,
}

/// Why a text is not a `--security-opt`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// An unknown key, or a key without its value.
    #[error(
        "invalid --security-opt: {0:?}: give no-new-privileges, seccomp=FILE, apparmor=PROFILE, label=OPTION, \
         systempaths=unconfined, mask=PATH or unmask=PATH"
    )]
    Option(String),
    /// A path that is not absolute.
    #[error("invalid --security-opt: {0:?}: the paths must be absolute, with a colon between two")]
    Path(String),
    /// `label=` with an unknown type.
    #[error(
        "invalid --security-opt: {0:?}: give label=disable or one of user, role, type, level as label=type:NAME"
    )]
    Label(String),
}

impl SecurityOptions {
    /// Takes one `--security-opt`.
    ///
    /// # Errors
    /// [`SecurityError`] holds the option.
    pub fn set(&mut self, option: &str) -> Result<(), SecurityError> {
        let error = || SecurityError::Option(option.to_owned());
        if option == "no-new-privileges" {
            self.no_new_privileges = true;
            return Ok(());
        }
        let (key, value) = option
            .split_once('=')
            .or_else(|| option.split_once(':'))
            .ok_or_else(error)?;
        if value.is_empty() {
            return Err(error());
        }
        match key {
            "no-new-privileges" => self.no_new_privileges = parse_boolean(value).map_err(|_| error())?,
            "seccomp" => {
                self.seccomp = Some(match value {
                    "builtin" | "default" => SeccompChoice::Default,
                    "unconfined" => SeccompChoice::Unconfined,
                    file => SeccompChoice::File(file.to_owned()),
                });
            }
            "apparmor" => self.apparmor = Some(value.to_owned()),
            "label" => {
                let known = value == "disable"
                    || value.split_once(':').is_some_and(|(kind, name)| {
                        matches!(kind, "user" | "role" | "type" | "level" | "filetype") && !name.is_empty()
                    });
                if !known {
                    return Err(SecurityError::Label(option.to_owned()));
                }
                self.labels.push(value.to_owned());
            }
            "systempaths" if value == "unconfined" => self.system_paths_unconfined = true,
            "unmask" if value.eq_ignore_ascii_case("all") => self.system_paths_unconfined = true,
            "mask" => self.mask.extend(paths(option, value)?),
            "unmask" => self.unmask.extend(paths(option, value)?),
            _ => return Err(error()),
        }
        Ok(())
    }
}

fn paths(option: &str, value: &str) -> Result<Vec<String>, SecurityError> {
    value
        .split(':')
        .map(|path| clean_absolute(path).ok_or_else(|| SecurityError::Path(option.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let mut security = SecurityOptions::default();
        for option in [
            "no-new-privileges:true",
            "seccomp=/etc/a=b.json",
            "apparmor=unconfined",
            "label=type:svirt_t",
            "label:disable",
            "mask=/proc/a:/proc/b/",
            "unmask=/proc/kcore",
        ] {
            security.set(option).unwrap();
        }
        let expected = SecurityOptions {
            no_new_privileges: true,
            seccomp: Some(SeccompChoice::File("/etc/a=b.json".to_owned())),
            apparmor: Some("unconfined".to_owned()),
            labels: vec!["type:svirt_t".to_owned(), "disable".to_owned()],
            system_paths_unconfined: false,
            mask: vec!["/proc/a".to_owned(), "/proc/b".to_owned()],
            unmask: vec!["/proc/kcore".to_owned()],
        };
        assert_eq!(security, expected);
        for option in ["no-new-privileges=false", "seccomp=unconfined", "unmask=ALL"] {
            security.set(option).unwrap();
        }
        assert!(!security.no_new_privileges && security.system_paths_unconfined);
        assert_eq!(security.seccomp, Some(SeccompChoice::Unconfined));
        security.set("no-new-privileges").unwrap();
        assert!(security.no_new_privileges);
    }

    #[test]
    fn refused() {
        for option in [
            "",
            "seccomp",
            "seccomp=",
            "foo=bar",
            "no-new-privileges=maybe",
            "systempaths=x",
            "mask=proc",
            "label=x",
        ] {
            let error = SecurityOptions::default().set(option).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("invalid --security-opt: {option:?}")),
                "{error}"
            );
        }
    }
}
