//! Lists and descriptions of secrets.

use super::SecretFault;
use super::record::{SecretRecord, all, fault, find};
use crate::look::{Pattern, moment};
use crate::{EngineError, Home};
use std::collections::BTreeMap;

/// Secret in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// Id of the secret.
    pub id: String,
    /// Name of the secret.
    pub name: String,
    /// Time of creation, as RFC 3339 has it.
    pub created: String,
    /// Time of the last replacement.
    pub updated: String,
    /// Labels of the secret.
    pub labels: BTreeMap<String, String>,
    /// Reason why the secret cannot be used, and the remedy; empty for one that can.
    pub error: String,
}

/// Lists the secrets that these filters select, by name: `name=PATTERN` and `id=PREFIX`, alternatives each.
///
/// # Errors
/// [`SecretFault::Filter`].
pub fn secrets(home: &Home, filters: &[String]) -> Result<Vec<SecretRow>, EngineError> {
    let (mut patterns, mut prefixes) = (Vec::new(), Vec::new());
    for filter in filters {
        let invalid = || fault(SecretFault::Filter(filter.clone()));
        match filter.split_once('=').ok_or_else(invalid)? {
            ("name", pattern) => patterns.push(Pattern::parse(pattern).ok_or_else(invalid)?),
            ("id", prefix) => prefixes.push(prefix),
            _ => return Err(invalid()),
        }
    }
    let secrets = all(home)?;
    let mut rows: Vec<_> = secrets
        .whole
        .into_iter()
        .map(|(name, record)| row(name, record))
        .collect();
    rows.extend(secrets.damaged.into_iter().map(|damaged| SecretRow {
        error: damaged.told(),
        created: String::new(),
        updated: String::new(),
        ..row(damaged.name, SecretRecord::default())
    }));
    rows.retain(|row| {
        let is_named = patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_in(&row.name));
        is_named && (prefixes.is_empty() || prefixes.iter().any(|prefix| row.id.starts_with(prefix)))
    });
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

fn row(name: String, record: SecretRecord) -> SecretRow {
    SecretRow {
        id: record.id,
        name,
        created: moment(record.created),
        updated: moment(record.updated),
        labels: record.labels,
        error: String::new(),
    }
}

/// Asks whether a secret exists.
///
/// # Errors
/// [`EngineError::State`].
pub fn exists(home: &Home, wanted: &str) -> Result<bool, EngineError> {
    match find(home, wanted) {
        Ok(_) | Err(EngineError::State(tote_state::StateError::Damaged(_))) => Ok(true),
        Err(error) if matches!(error.part(), Some(SecretFault::Missing(_))) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Secret with all that a description of it tells.
#[derive(Clone, Debug)]
pub struct SecretDetails {
    /// The secret.
    pub row: SecretRow,
    /// Its bytes, if they were asked for.
    pub bytes: Option<Vec<u8>>,
}

/// Looks at a secret; at its bytes only if `shows`.
///
/// # Errors
/// [`SecretFault::Missing`].
pub fn inspect(home: &Home, wanted: &str, shows: bool) -> Result<SecretDetails, EngineError> {
    let (name, record) = find(home, wanted)?;
    let bytes = shows.then(|| record.bytes(home, &name).map_err(fault));
    Ok(SecretDetails {
        bytes: bytes.transpose()?,
        row: row(name, record),
    })
}
