//! Options that change one small thing each: what the container is called in its domain, how it resolves names, what is
//! written down of it, what its program begins with.

use crate::host::HostError;
use crate::mount::{VolumesFrom, VolumesFromError};
use crate::options::{OptionError, RunOptions, ValueError, not_empty};
use crate::port::{PortError, parse_expose};
use crate::refused::{self, RefusedError};
use crate::value::{PairError, parse_boolean, parse_label, parse_size};
use std::collections::BTreeMap;

const LEAST_DISK: u64 = 1 << 20;

/// Those options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailOptions {
    /// `--volumes-from`, in order. What those containers have is in [`crate::RunOptions::mounts`] as soon as the caller has
    /// looked.
    pub volumes_from: Vec<VolumesFrom>,
    /// `--domainname`; empty where there is none.
    pub domainname: String,
    /// `--dns-search`; `.` is no domain at all.
    pub dns_search: Vec<String>,
    /// `--dns-option`
    pub dns_options: Vec<String>,
    /// `--expose`, each port as `80/tcp`.
    pub exposed: Vec<String>,
    /// `--label-file`: paths as written; the caller reads each and gives its text to
    /// [`crate::RunOptions::add_label_files`].
    pub label_files: Vec<String>,
    /// `--attach`; what is attached where nothing is said depends on other options.
    pub attach: Vec<Stream>,
    /// `--no-hosts`: `/etc/hosts` is the image's.
    pub no_hosts: bool,
    /// `--umask`: of the first process; `None` is 022.
    pub umask: Option<u32>,
    /// `--unsetenv`: variables that it has not, whoever sets them by default.
    pub unset: Vec<String>,
    /// `--unsetenv-all`: it has only variables that options set.
    pub unset_all: bool,
    /// `--env-host`: the caller puts its own environment into [`Self::host_env`].
    pub env_host: bool,
    /// `NAME=value` each, which everything else that sets a variable wins over.
    pub host_env: Vec<String>,
    /// `--tz`: a name below /usr/share/zoneinfo, or `local`; the caller reads it.
    pub timezone: Option<String>,
}

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why one of these options is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetailError {
    /// `--volumes-from`
    #[error(transparent)]
    VolumesFrom(#[from] VolumesFromError),
    /// `--expose`
    #[error(transparent)]
    Port(#[from] PortError),
    /// One that means nothing here.
    #[error(transparent)]
    Refused(#[from] RefusedError),
    /// `--attach`
    #[error("valid streams are STDIN, STDOUT and STDERR")]
    Stream,
    /// `--umask`
    #[error("invalid umask {0}: give an octal number up to 0777, such as 0027")]
    Umask(String),
    /// `--tz`
    #[error("unknown time zone {0:?}: give one such as Europe/Berlin, or local")]
    Timezone(String),
    /// `--storage-opt` without a value.
    #[error("invalid storage option: give size=SIZE, such as size=10g")]
    StorageFormat,
    /// `--storage-opt` of another key.
    #[error("unknown option {0}: of storage options there is size")]
    StorageKey(String),
}

impl DetailOptions {
    /// Whether the name was one of these.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "volumes-from" => self.volumes_from.push(value.parse().map_err(DetailError::from)?),
            "domainname" => self.domainname = parse_domain_name(value)?,
            "dns-search" => self.dns_search.push(parse_search(value)?),
            "dns-option" => self.dns_options.push(parse_resolver_option(value)?),
            "expose" => self
                .exposed
                .extend(parse_expose(value).map_err(DetailError::from)?),
            "label-file" => self.label_files.push(not_empty(value)?),
            "attach" => self.attach.push(match value.to_ascii_lowercase().as_str() {
                "stdin" => Stream::Stdin,
                "stdout" => Stream::Stdout,
                "stderr" => Stream::Stderr,
                _ => return Err(DetailError::Stream.into()),
            }),
            "no-hosts" => self.no_hosts = parse_boolean(value)?,
            "umask" => self.umask = Some(parse_umask(value)?),
            "unsetenv" => self.unset.push(not_empty(value)?),
            "unsetenv-all" => self.unset_all = parse_boolean(value)?,
            "env-host" => self.env_host = parse_boolean(value)?,
            "host-env" => self.host_env.push(value.to_owned()),
            "tz" => self.timezone = parse_timezone(value)?,
            _ => return Ok(refused::check(name, value).map_err(DetailError::from)?),
        }
        Ok(true)
    }
}

impl RunOptions {
    /// Takes the texts of the files given with `--label-file`, in order: a label on each line, blank lines and those that
    /// begin with `#` passed over. A later file wins over an earlier one, and `--label` over all of them.
    ///
    /// # Errors
    /// [`OptionError::LabelFile`] holds what is wrong with the line.
    pub fn add_label_files(&mut self, texts: &[String]) -> Result<(), OptionError> {
        let mut labels = BTreeMap::new();
        for text in texts {
            labels.extend(parse_label_file(text).map_err(OptionError::LabelFile)?);
        }
        labels.extend(std::mem::take(&mut self.labels));
        self.labels = labels;
        Ok(())
    }
}

fn parse_label_file(text: &str) -> Result<Vec<(String, String)>, PairError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(parse_label).collect()
}

/// `--disk-size`
pub(crate) fn disk_size(value: &str) -> Result<u64, ValueError> {
    let size = parse_size(value)?;
    if size < LEAST_DISK {
        return Err(ValueError::LittleDisk);
    }
    Ok(size)
}

/// `--storage-opt`: the value of its only key.
pub(crate) fn storage_size(value: &str) -> Result<&str, DetailError> {
    match value.split_once('=') {
        Some(("size", size)) => Ok(size),
        Some((key, _)) => Err(DetailError::StorageKey(key.to_owned())),
        None => Err(DetailError::StorageFormat),
    }
}

/// A path that leads nowhere else.
fn parse_timezone(text: &str) -> Result<Option<String>, DetailError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
    if text.starts_with('/') || !text.bytes().all(plain) {
        return Err(DetailError::Timezone(text.to_owned()));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn parse_umask(text: &str) -> Result<u32, DetailError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let mask = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| digits && *mask <= 0o777);
    mask.ok_or_else(|| DetailError::Umask(text.to_owned()))
}

/// What setdomainname(2) takes, and nothing that would break hosts(5).
fn parse_domain_name(text: &str) -> Result<String, HostError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if text.len() <= 64 && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(HostError::Domainname(text.to_owned()))
    }
}

/// docker's rule: labels of letters, digits and inner dashes, one letter at least, or `.` alone.
fn parse_search(text: &str) -> Result<String, HostError> {
    let domain = text.trim_matches(' ');
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
    };
    let labels = domain.strip_suffix('.').unwrap_or(domain);
    let has_letter = domain.bytes().any(|byte| byte.is_ascii_alphabetic());
    if domain == "." || (has_letter && domain.len() < 255 && labels.split('.').all(label)) {
        Ok(domain.to_owned())
    } else {
        Err(HostError::Search(text.to_owned()))
    }
}

/// Whatever the resolver may know, as long as it is one word.
fn parse_resolver_option(text: &str) -> Result<String, HostError> {
    let plain = |byte: u8| byte.is_ascii_graphic();
    if !text.is_empty() && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(HostError::ResolverOption(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> DetailOptions {
        let mut options = DetailOptions::default();
        for (name, value) in pairs {
            assert_eq!(options.apply(name, value), Ok(true), "--{name} {value}");
        }
        options
    }

    #[test]
    fn all_are_taken() {
        let options = set(&[
            ("volumes-from", "db:ro"),
            ("domainname", "example.com"),
            ("dns-search", "."),
            ("dns-search", "corp.example.com."),
            ("dns-option", "ndots:2"),
            ("expose", "80"),
            ("expose", "90-91/udp"),
            ("label-file", "labels"),
            ("attach", "STDIN"),
            ("attach", "stderr"),
            ("no-hosts", "true"),
            ("umask", "0027"),
            ("unsetenv", "A"),
            ("unsetenv-all", "true"),
            ("tz", "Etc/GMT+3"),
            ("env-host", "true"),
            ("host-env", "A=1"),
            ("runtime", "runc"),
        ]);
        assert_eq!(options.timezone.as_deref(), Some("Etc/GMT+3"));
        assert!(options.env_host && options.host_env == ["A=1"]);
        assert!(options.volumes_from[0].readonly && options.no_hosts && options.unset_all);
        assert_eq!(options.domainname, "example.com");
        assert_eq!(options.dns_search, [".", "corp.example.com."]);
        assert_eq!(options.dns_options, ["ndots:2"]);
        assert_eq!(options.exposed, ["80/tcp", "90/udp", "91/udp"]);
        assert_eq!(options.attach, [Stream::Stdin, Stream::Stderr]);
        assert_eq!((options.umask, options.unset), (Some(0o27), vec!["A".to_owned()]));
        assert_eq!(DetailOptions::default().apply("memory", "1g"), Ok(false));
    }

    #[test]
    fn wrong_values() {
        for (name, value) in [
            ("volumes-from", ""),
            ("domainname", "a b"),
            ("domainname", "a\nb"),
            ("dns-search", ""),
            ("dns-search", "-a.b"),
            ("dns-search", "a..b"),
            ("dns-search", "10.0.0.1"),
            ("dns-search", "a b"),
            ("dns-option", ""),
            ("dns-option", "a\nnameserver 1.2.3.4"),
            ("expose", "x"),
            ("label-file", ""),
            ("attach", "stdall"),
            ("tz", "/etc/passwd"),
            ("tz", "../../../etc/passwd"),
            ("tz", "a b"),
            ("umask", "8"),
            ("umask", "1777"),
            ("umask", "+7"),
            ("unsetenv", ""),
            ("gpus", "all"),
        ] {
            let applied = DetailOptions::default().apply(name, value);
            assert!(applied.is_err(), "--{name} {value}");
        }
    }

    #[test]
    fn labels_of_files() {
        let mut options = RunOptions::default();
        options.set("label", "a=said").unwrap();
        let texts = ["a=1\r\n# b=2\n\n  c=x y \nd\n".to_owned(), "c=later\n".to_owned()];
        options.add_label_files(&texts).unwrap();
        let labels: Vec<_> = options
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(labels, ["a=said", "c=later", "d="]);
        for text in ["=1", "a b=1"] {
            assert!(options.add_label_files(&[text.to_owned()]).is_err(), "{text}");
        }
    }

    #[test]
    fn storage_options() {
        assert_eq!(storage_size("size=10g"), Ok("10g"));
        assert_eq!(storage_size("size"), Err(DetailError::StorageFormat));
        let other = storage_size("dm.basesize=1").unwrap_err();
        assert_eq!(
            other.to_string(),
            "unknown option dm.basesize: of storage options there is size"
        );
    }
}
