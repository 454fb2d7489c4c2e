//! Files of configuration: of each the user's where there is one, else the machine's.

use crate::StateError;
use serde::Deserialize;
use std::error::Error;
use std::path::{Path, PathBuf};
use tote_driver::{Driver, DriverError};
use tote_store::ShareHost;

/// Below the directories of configuration.
const STORAGE: &str = "tote/storage.json";

/// `$XDG_CONFIG_HOME`, or `~/.config`.
pub fn home() -> Option<PathBuf> {
    directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))
}

/// What a variable of the environment says, if it is an absolute path.
pub fn directory(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Reads such a file, `tote/NAME.json`, if there is one.
///
/// # Errors
/// [`StateError::Config`] of one that does not say what it should.
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

/// `storage.json`: what holds where neither an option nor the environment says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageConfig {
    /// The driver of new containers.
    pub driver: Option<Driver>,
    /// What new images share with the host.
    pub share_host: Option<ShareHost>,
}

/// The same as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    driver: Option<String>,
    share_host: Option<String>,
}

impl StorageConfig {
    /// Reads the file, if there is one.
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
        })
    }
}

/// Why a text is no configuration of storage.
#[derive(Debug, thiserror::Error)]
enum StorageConfigError {
    /// Not JSON, or with a property that there is not.
    #[error("cannot parse the configuration of storage")]
    Json(#[source] serde_json::Error),
    #[error("driver")]
    Driver(#[source] DriverError),
    #[error("invalid share-host {0:?}: give reflink, hardlink or never")]
    ShareHost(String),
}

/// What is shared with the host, by its word.
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
    fn storage() {
        let known = StorageConfig::parse(r#"{"driver": "split", "share-host": "never"}"#).unwrap();
        assert_eq!(known.driver, Some(Driver::Split));
        assert_eq!(known.share_host, Some(ShareHost::Never));
        assert_eq!(StorageConfig::parse("{}").unwrap(), StorageConfig::default());
        for text in [
            "",
            r#"{"driver": "fast"}"#,
            r#"{"share-host": "all"}"#,
            r#"{"drive": "split"}"#,
        ] {
            assert!(StorageConfig::parse(text).is_err(), "{text}");
        }
    }
}
