//! Records of secrets: `secrets/NAME.json`.

use super::SecretFault;
use crate::{EngineError, Home};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tote_state::StateError;
use tote_state::locked::locked;
use tote_state::new_id;
use tote_state::record::Kind;
use tote_state::record::{self, names_in, now};
use tote_state::records::{self, Records};
use tote_sys::best_effort;

const KIND: Kind = Kind {
    noun: "secret",
    remove: "tote secret rm",
};

/// End of the name of a record.
const SUFFIX: &str = ".json";

/// Number of digits of an id, podman's.
const ID: usize = 25;

/// Number of bytes that a secret stays below, podman's.
const LIMIT: usize = 512_000;

/// Record of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SecretRecord {
    pub id: String,
    /// Time of creation: nanoseconds since 1970.
    pub created: u64,
    /// Time of the last replacement.
    pub updated: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The bytes in base 64.
    data: String,
}

impl SecretRecord {
    /// Returns the bytes.
    ///
    /// # Errors
    /// [`SecretFault::File`] for a record that was changed by hand.
    pub(crate) fn bytes(&self, home: &Home, name: &str) -> Result<Vec<u8>, SecretFault> {
        STANDARD.decode(&self.data).map_err(|error| SecretFault::File {
            attempt: "read",
            path: path(home, name),
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, error),
        })
    }
}

fn path(home: &Home, name: &str) -> PathBuf {
    home.secrets().join(format!("{name}{SUFFIX}"))
}

/// A secret that is to be made.
#[derive(Clone, Debug, Default)]
pub struct NewSecret {
    /// Name of the secret.
    pub name: String,
    /// Driver, of which there is one: `file`.
    pub driver: String,
    /// Labels of the secret.
    pub labels: BTreeMap<String, String>,
    /// Bytes of the secret.
    pub data: Vec<u8>,
    /// True to replace an existing one.
    pub replace: bool,
    /// True to leave an existing one as it is.
    pub ignore: bool,
}

/// Makes a secret. Returns its id.
///
/// # Errors
/// [`SecretFault`] and [`EngineError::State`].
pub fn create(home: &Home, secret: NewSecret) -> Result<String, EngineError> {
    let NewSecret { name, data, .. } = &secret;
    if !is_name(name) {
        return Err(fault(SecretFault::Name(name.clone())));
    }
    if secret.driver != "file" {
        return Err(fault(SecretFault::Driver(secret.driver)));
    }
    if data.is_empty() || data.len() >= LIMIT {
        return Err(fault(SecretFault::Size(data.len())));
    }
    let _locked = lock(home)?;
    let former = match read(home, name) {
        Err(EngineError::State(StateError::Damaged(damaged))) if secret.replace => {
            damaged.removable(false).map_err(StateError::from)?;
            record::remove(&path(home, name))?;
            None
        }
        former => former?,
    };
    if let Some(former) = former.as_ref().filter(|_| !secret.replace) {
        return match secret.ignore {
            true => Ok(former.id.clone()),
            false => Err(fault(SecretFault::Taken(name.clone()))),
        };
    }
    let made = SecretRecord {
        id: new_id()?.to_string()[..ID].to_owned(),
        created: now(),
        updated: now(),
        labels: secret.labels.clone(),
        data: STANDARD.encode(data),
    };
    record::write(&path(home, name), &made)?;
    Ok(made.id)
}

/// Locks all changes of secrets, and removes what killed ones left.
fn lock(home: &Home) -> Result<Option<std::fs::File>, EngineError> {
    let dir = home.secrets();
    tote_state::closed::directory(&dir).map_err(EngineError::file("make", &dir))?;
    let locked = locked(&dir.join(".lock"), true, true)?;
    // A killed command has left the text that it was about to give a name.
    for file in names_in(&dir)?.iter().filter(|file| file.ends_with(".new")) {
        best_effort(std::fs::remove_file(dir.join(file)));
    }
    Ok(locked)
}

pub(crate) fn fault(fault: SecretFault) -> EngineError {
    fault.into()
}

/// Reads the record of a secret by its exact name.
pub(crate) fn read(home: &Home, name: &str) -> Result<Option<SecretRecord>, EngineError> {
    if !is_name(name) {
        return Ok(None);
    }
    Ok(KIND.read(name, &path(home, name))?)
}

/// Reads all secrets.
///
/// # Errors
/// [`EngineError::State`].
pub(crate) fn all(home: &Home) -> Result<Records<SecretRecord>, EngineError> {
    let place = |file: &str| {
        let name = file.strip_suffix(SUFFIX).filter(|name| is_name(name))?;
        Some((name.to_owned(), path(home, name)))
    };
    Ok(records::list(KIND, &home.secrets(), place)?)
}

/// Finds a secret by its name, its id or a unique beginning of the id.
pub(crate) fn find(home: &Home, wanted: &str) -> Result<(String, SecretRecord), EngineError> {
    if let Some(record) = read(home, wanted)? {
        return Ok((wanted.to_owned(), record));
    }
    let mut found = all(home)?.whole;
    found.retain(|(_, record)| !wanted.is_empty() && record.id.starts_with(wanted));
    match found.len() {
        0 => Err(fault(SecretFault::Missing(wanted.to_owned()))),
        1 => Ok(found.remove(0)),
        _ => Err(fault(SecretFault::Ambiguous(wanted.to_owned()))),
    }
}

/// Removes a secret; containers that were made with it keep their copies. Returns its id, or the name of a secret whose record cannot
/// be used. A secret that a newer tote has made needs `force`.
///
/// # Errors
/// [`SecretFault::Missing`], [`SecretFault::File`].
pub fn remove(home: &Home, wanted: &str, force: bool) -> Result<String, EngineError> {
    let _locked = lock(home)?;
    let (name, id) = match find(home, wanted) {
        Ok((name, record)) => (name, record.id),
        Err(EngineError::State(StateError::Damaged(damaged))) => {
            let name = damaged.name.clone();
            damaged.removable(force).map_err(StateError::from)?;
            (name.clone(), name)
        }
        Err(error) => return Err(error),
    };
    record::remove(&path(home, &name))?;
    Ok(id)
}

/// True for a valid name: one that is a file's name here, without `=` and `,`, which options of `run` are made of.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=200).contains(&name.len())
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str, data: &[u8]) -> NewSecret {
        NewSecret {
            name: name.to_owned(),
            driver: "file".to_owned(),
            data: data.to_owned(),
            ..NewSecret::default()
        }
    }

    #[test]
    fn names_ids_and_replacement() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = create(&home, new("a.new", b"one\n\0")).unwrap();
        let again = create(&home, new("a.new", b"two")).unwrap_err();
        assert!(matches!(again.part(), Some(SecretFault::Taken(_))));
        let ignored = NewSecret {
            ignore: true,
            ..new("a.new", b"two")
        };
        assert_eq!(create(&home, ignored).unwrap(), id);
        let (name, record) = find(&home, &id[..6]).unwrap();
        assert_eq!(
            (&*name, record.bytes(&home, &name).unwrap()),
            ("a.new", b"one\n\0".to_vec())
        );
        let replaced = NewSecret {
            replace: true,
            ..new("a.new", b"two")
        };
        assert_ne!(create(&home, replaced).unwrap(), id);
        assert_eq!(all(&home).unwrap().whole[0].0, "a.new");
        for name in ["", "a/b", "..", "a=b", "a,b", "\u{e4}"] {
            assert!(create(&home, new(name, b"x")).is_err(), "{name}");
        }
        assert!(create(&home, new("b", b"")).is_err() && create(&home, new("b", &[1; LIMIT])).is_err());
        let left = home.secrets().join("b.new");
        std::fs::write(&left, "half").unwrap();
        remove(&home, "a.new", false).unwrap();
        assert!(!left.try_exists().unwrap());
        assert!(find(&home, "a.new").is_err() && find(&home, "").is_err());
    }
}
