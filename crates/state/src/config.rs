//! Configuration files: the user's file if it exists, else the machine's.

use crate::StateError;
use serde::Deserialize;
use std::error::Error;
use std::path::{Path, PathBuf};
use tote_bundle::{DEFAULT_NETWORK, NetworkMode, NetworkModeError, POD_NETWORK, UNSAID};
use tote_driver::{Driver, DriverError};
use tote_store::ShareHost;

/// Paths of the files below the directories of configuration.
const STORAGE: &str = "tote/storage.json";
const NETWORK: &str = "tote/network.json";

/// Returns `$XDG_CONFIG_HOME`, or `~/.config`.
pub fn home() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))
}

/// Returns the value of an environment variable, if it is an absolute path.
pub fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Reads the configuration file `tote/NAME.json`, if it exists.
///
/// # Errors
/// [`StateError::Config`] if the file cannot be parsed.
pub fn read<T, E: Error + Send + Sync + 'static>(
    file: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, StateError> {
    let own = home().map(|directory| directory.join(file));
    for path in own.into_iter().chain([Path::new("/etc").join(file)]) {
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let parsed = parse(&text).map_err(|source| StateError::Config {
                    path,
                    source: source.into(),
                });
                return parsed.map(Some);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(StateError::File {
                    attempt: "read",
                    path,
                    source,
                });
            }
        }
    }
    Ok(None)
}

/// Content of `storage.json`: defaults for values that neither an option nor the environment gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageConfig {
    /// Driver of new containers.
    pub driver: Option<Driver>,
    /// Kind of sharing between new images and the host.
    pub share_host: Option<ShareHost>,
    /// Least number of files of an image whose metadata are kept in one file.
    pub erofs_from: Option<u64>,
}

/// Content of `storage.json` as written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    driver: Option<String>,
    share_host: Option<String>,
    erofs_from: Option<u64>,
}

impl StorageConfig {
    /// Reads the file; the default value if it does not exist.
    ///
    /// # Errors
    /// [`StateError::Config`] and [`StateError::File`].
    pub fn read() -> Result<Self, StateError> {
        Ok(read(STORAGE, Self::parse)?.unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, StorageConfigError> {
        let written: Written = serde_json::from_str(text).map_err(StorageConfigError::Json)?;
        let driver = written.driver.map(|name| name.parse());
        let share_host = written.share_host.map(|word| share_host(&word).ok_or(word));
        Ok(Self {
            driver: driver.transpose().map_err(StorageConfigError::Driver)?,
            share_host: share_host.transpose().map_err(StorageConfigError::ShareHost)?,
            erofs_from: written.erofs_from,
        })
    }
}

/// Why a text is not a configuration of storage.
#[derive(Debug, thiserror::Error)]
enum StorageConfigError {
    /// The text is not JSON, or has an unknown property.
    #[error("cannot parse the configuration of storage")]
    Json(#[source] serde_json::Error),
    #[error("driver")]
    Driver(#[source] DriverError),
    #[error("invalid share-host {0:?}: give reflink, hardlink or never")]
    ShareHost(String),
}

/// User of a default network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkUser {
    /// A container, or a pod.
    Container,
    /// A `RUN` of a build.
    Step,
}

impl NetworkUser {
    /// The environment variable that replaces what the file says.
    fn variable(self) -> &'static str {
        match self {
            Self::Container => "TOTE_NETWORK",
            Self::Step => "TOTE_BUILD_NETWORK",
        }
    }
}

/// Content of `network.json`: values of `--network` for commands without that option, and words for [`HostRules`] and [`Firewall`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NetworkConfig {
    container: Option<String>,
    build: Option<String>,
    publish: Option<String>,
    firewall: Option<String>,
}

/// The rules of the machine that clients of published ports have to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostRules {
    /// The rules for packets that the machine forwards, as with docker.
    #[default]
    Forward,
    /// The rules for packets to the machine's own programs.
    Input,
}

/// The environment variable that replaces the file's word for [`HostRules`].
const PUBLISH: &str = "TOTE_PUBLISH";

/// Treatment of firewalls that let nothing pass that none of their rules is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Firewall {
    /// They get exceptions for networks that are up, where they expect exceptions of others.
    #[default]
    Admit,
    /// They stay as they are.
    Leave,
}

/// The environment variable that replaces the file's word for [`Firewall`].
const FIREWALL: &str = "TOTE_FIREWALL";

/// The rules that clients of ports pass that are published now: the environment's word, else that of `network.json`.
///
/// # Errors
/// [`StateError::Config`] if it is another word, and [`StateError::File`].
pub fn host_rules() -> Result<HostRules, StateError> {
    setting(PUBLISH, |written| written.publish, rules_of)
}

/// Returns the treatment of other programs' firewalls: the environment's word, else that of `network.json`.
///
/// # Errors
/// [`StateError::Config`] if it is another word, and [`StateError::File`].
pub fn firewall() -> Result<Firewall, StateError> {
    setting(FIREWALL, |written| written.firewall, firewall_of)
}

/// A setting of `network.json` that is a word, or that of an environment variable.
fn setting<T: Default>(
    variable: &str,
    written: fn(NetworkConfig) -> Option<String>,
    read_word: fn(&str) -> Result<T, NetworkConfigError>,
) -> Result<T, StateError> {
    if let Some(word) = std::env::var(variable).ok().filter(|word| !word.is_empty()) {
        return read_word(&word).map_err(|source| StateError::Config {
            path: variable.into(),
            source: source.into(),
        });
    }
    let found = read(NETWORK, |text| {
        let config: NetworkConfig = serde_json::from_str(text).map_err(NetworkConfigError::Json)?;
        written(config).map_or(Ok(T::default()), |word| read_word(&word))
    })?;
    Ok(found.unwrap_or_default())
}

fn firewall_of(word: &str) -> Result<Firewall, NetworkConfigError> {
    match word {
        "admit" => Ok(Firewall::Admit),
        "leave" => Ok(Firewall::Leave),
        _ => Err(NetworkConfigError::Firewall(word.to_owned())),
    }
}

fn rules_of(word: &str) -> Result<HostRules, NetworkConfigError> {
    match word {
        "forward" => Ok(HostRules::Forward),
        "input" => Ok(HostRules::Input),
        _ => Err(NetworkConfigError::Publish(word.to_owned())),
    }
}

/// Returns the value of `--network` for a command without that option: the environment's, else that of `network.json`, else
/// [`UNSAID`].
///
/// # Errors
/// [`StateError::Config`] if it is not a value of that option, and [`StateError::File`].
pub fn network_of(user: NetworkUser) -> Result<String, StateError> {
    let variable = user.variable();
    if let Ok(value) = std::env::var(variable)
        && !value.is_empty()
    {
        let parsed = checked(user, value).map_err(|source| StateError::Config {
            path: variable.into(),
            source: source.into(),
        });
        return parsed;
    }
    let written = read(NETWORK, |text| of_file(user, text))?.flatten();
    Ok(written.unwrap_or_else(|| UNSAID.to_owned()))
}

fn of_file(user: NetworkUser, text: &str) -> Result<Option<String>, NetworkConfigError> {
    let written: NetworkConfig = serde_json::from_str(text).map_err(NetworkConfigError::Json)?;
    let value = match user {
        NetworkUser::Container => written.container,
        NetworkUser::Step => written.build,
    };
    value.map(|value| checked(user, value)).transpose()
}

fn checked(user: NetworkUser, value: String) -> Result<String, NetworkConfigError> {
    let mode: NetworkMode = value.parse().map_err(NetworkConfigError::Mode)?;
    match (&mode, user) {
        (NetworkMode::Container(_), _) => Err(NetworkConfigError::Shared(value)),
        _ if value == POD_NETWORK => Err(NetworkConfigError::Shared(value)),
        (NetworkMode::Networks(_), NetworkUser::Step)
            if mode
                .attachments()
                .iter()
                .any(|one| one.network != DEFAULT_NETWORK) =>
        {
            Err(NetworkConfigError::Step(value))
        }
        _ => Ok(value),
    }
}

/// Why a text is not a configuration of networks.
#[derive(Debug, thiserror::Error)]
enum NetworkConfigError {
    /// The text is not JSON, or has an unknown property.
    #[error("cannot parse the configuration of networks")]
    Json(#[source] serde_json::Error),
    #[error(transparent)]
    Mode(NetworkModeError),
    #[error("invalid network {0:?}: a default cannot be the network of one container or pod")]
    Shared(String),
    #[error("invalid network {0:?}: steps of a build have default, bridge, none or host")]
    Step(String),
    #[error(
        "invalid publish {0:?}: give forward or input, the rules of this machine that clients of published ports pass"
    )]
    Publish(String),
    #[error(
        "invalid firewall {0:?}: give admit or leave, for firewalls of this machine that let nothing pass that they do not know"
    )]
    Firewall(String),
}

/// Parses a word for the kind of sharing with the host.
pub fn share_host(word: &str) -> Option<ShareHost> {
    match word {
        "reflink" => Some(ShareHost::Reflink),
        "hardlink" => Some(ShareHost::HardLink),
        "never" => Some(ShareHost::Never),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let text = r#"{"container": "lab", "build": "host"}"#;
        for (user, value) in [(NetworkUser::Container, "lab"), (NetworkUser::Step, "host")] {
            assert_eq!(of_file(user, text).unwrap().as_deref(), Some(value));
            assert_eq!(of_file(user, "{}").unwrap(), None);
        }
        for (user, text) in [
            (NetworkUser::Container, ""),
            (NetworkUser::Container, r#"{"run": "none"}"#),
            (NetworkUser::Container, r#"{"container": "container:a"}"#),
            (NetworkUser::Container, r#"{"container": "-"}"#),
            (NetworkUser::Step, r#"{"build": "lab"}"#),
        ] {
            assert!(of_file(user, text).is_err(), "{text}");
        }
    }

    #[test]
    fn published_ports_pass_one_kind_of_rules() {
        assert_eq!(rules_of("forward").unwrap(), HostRules::Forward);
        assert_eq!(rules_of("input").unwrap(), HostRules::Input);
        assert!(rules_of("").is_err());
        assert_eq!(
            of_file(NetworkUser::Container, r#"{"publish": "input"}"#).unwrap(),
            None
        );
    }

    #[test]
    fn firewalls_are_told_or_left() {
        assert_eq!(firewall_of("admit").unwrap(), Firewall::Admit);
        assert_eq!(firewall_of("leave").unwrap(), Firewall::Leave);
        assert!(firewall_of("docker").is_err());
        let text = r#"{"firewall": "leave"}"#;
        assert_eq!(of_file(NetworkUser::Container, text).unwrap(), None);
    }

    #[test]
    fn storage() {
        let text = r#"{"driver": "split", "share-host": "never", "erofs-from": 0}"#;
        let known = StorageConfig::parse(text).unwrap();
        assert_eq!(known.erofs_from, Some(0));
        assert_eq!(known.driver, Some(Driver::Split));
        assert_eq!(known.share_host, Some(ShareHost::Never));
        assert_eq!(StorageConfig::parse("{}").unwrap(), StorageConfig::default());
        for text in [
            "",
            r#"{"driver": "fast"}"#,
            r#"{"share-host": "all"}"#,
            r#"{"drive": "split"}"#,
            r#"{"erofs-from": -1}"#,
        ] {
            assert!(StorageConfig::parse(text).is_err(), "{text}");
        }
    }
}
