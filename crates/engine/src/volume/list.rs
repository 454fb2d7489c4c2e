//! What volumes there are.

use super::VolumeFault;
use super::record::{ANONYMOUS, VolumeRecord, is_name};
use crate::container::{self, Container, Entry};
use crate::look::label::{has_label, label};
use crate::look::{Pattern, moment, tree_size};
use crate::{EngineError, Home};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use tote_bundle::ContainerId;
use tote_state::record::{RecordError, is_there, names_in};

/// Which volumes to list: each filter must apply, but names and drivers are alternatives.
#[derive(Clone, Debug, Default)]
pub struct VolumeSelection {
    /// `KEY=VALUE` each.
    pub filters: Vec<String>,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    /// Its name; a long number where nobody named it.
    pub name: String,
    /// When it was made: nanoseconds since 1970.
    pub created: u64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where its files are.
    pub mountpoint: PathBuf,
    /// Whether nobody named it.
    pub anonymous: bool,
    /// The containers that have it, by id.
    pub containers: Vec<String>,
}

impl VolumeRow {
    /// Bytes of its files; `None` where this user may not look.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        tree_size(&self.mountpoint)
    }
}

/// Names of the volumes, as far as they can be had.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    all_names(home).unwrap_or_default()
}

/// Whether there is a volume of that name.
///
/// # Errors
/// [`EngineError::State`].
pub fn exists(home: &Home, name: &str) -> Result<bool, EngineError> {
    Ok(all_names(home)?.iter().any(|other| other == name))
}

fn all_names(home: &Home) -> Result<Vec<String>, EngineError> {
    let mut names = names_in(&home.volumes())?;
    names.retain(|name| is_name(name));
    names.sort();
    Ok(names)
}

/// The containers and pools that have volumes.
#[derive(Default)]
struct VolumeUsers {
    /// The containers that there are, by id.
    containers: BTreeSet<String>,
    /// The containers and pools that have a volume, by its name.
    by_volume: BTreeMap<String, Vec<String>>,
}

impl VolumeUsers {
    fn of(entries: Vec<Entry>, pools: Vec<(String, Container)>) -> Self {
        let mut users = Self::default();
        let containers: Vec<_> = entries
            .into_iter()
            .map(|Entry { container, .. }| (container.id.to_string(), container))
            .collect();
        users
            .containers
            .extend(containers.iter().map(|(id, _)| id.clone()));
        for (user, container) in containers.into_iter().chain(pools) {
            let named: BTreeSet<String> = crate::look::mounts(&container)
                .filter(|mount| mount.volume && !mount.source.is_empty())
                .map(|mount| mount.source)
                .collect();
            for name in named {
                users.by_volume.entry(name).or_default().push(user.clone());
            }
        }
        users
    }
}

/// Every volume, by name, for who removes some; and why its own record cannot be read, of one of which it cannot.
///
/// # Errors
/// The record of a container or a pool cannot be read, so that nobody knows which volumes are needed.
pub(super) fn all(home: &Home) -> Result<Vec<(VolumeRow, Option<EngineError>)>, EngineError> {
    let pools = crate::pool::volume_users(home)?;
    let users = VolumeUsers::of(container::list_whole(home)?, pools);
    let names = all_names(home)?.into_iter();
    let rows = names.map(|name| {
        let (record, lost) = match VolumeRecord::read(home, &name) {
            Ok(record) => (record, None),
            Err(error) => (None, Some(error)),
        };
        (row(home, name, record, &users), lost)
    });
    Ok(rows.collect())
}

/// The same for who only looks: what cannot be read has no volumes, and no labels.
fn all_readable(home: &Home) -> Result<Vec<VolumeRow>, EngineError> {
    let pools = crate::pool::volume_users(home).unwrap_or_default();
    let users = VolumeUsers::of(container::list(home)?, pools);
    let names = all_names(home)?.into_iter();
    let rows = names.map(|name| {
        let record = VolumeRecord::read(home, &name).ok().flatten();
        row(home, name, record, &users)
    });
    Ok(rows.collect())
}

fn row(home: &Home, name: String, record: Option<VolumeRecord>, users: &VolumeUsers) -> VolumeRow {
    let mountpoint = home.volumes().join(&name).join("_data");
    let record = record.unwrap_or_else(|| VolumeRecord {
        created: made(home, &name),
        ..VolumeRecord::default()
    });
    let mut containers = users.by_volume.get(&name).cloned().unwrap_or_default();
    containers.extend(record.container.filter(|owner| users.containers.contains(owner)));
    VolumeRow {
        mountpoint,
        created: record.created,
        anonymous: record.labels.contains_key(ANONYMOUS),
        labels: record.labels,
        containers,
        name,
    }
}

/// The volumes that nobody named and that a container was given. One whose record cannot be read stays.
///
/// # Errors
/// [`EngineError::State`]: it cannot be said what volumes there are.
pub(crate) fn given_to(home: &Home, id: &ContainerId) -> Result<Vec<String>, EngineError> {
    let mut names = Vec::new();
    for name in all_names(home)? {
        if owner(home, &name)?.as_deref() == Some(id.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a volume was made for a container that gave it no name.
///
/// # Errors
/// As [`given_to`].
pub(super) fn is_anonymous(home: &Home, name: &str) -> Result<bool, EngineError> {
    Ok(is_name(name) && owner(home, name)?.is_some())
}

/// The container that a volume was made for. A volume with a damaged record, or a newer tote's, counts as nobody's.
fn owner(home: &Home, name: &str) -> Result<Option<String>, EngineError> {
    match VolumeRecord::read(home, name) {
        Err(EngineError::Record(RecordError::Damaged { .. } | RecordError::Newer { .. })) => Ok(None),
        record => Ok(record?.and_then(|record| record.container)),
    }
}

/// When a volume was made that has no record: its directory does not change after that.
fn made(home: &Home, name: &str) -> u64 {
    let modified = std::fs::metadata(home.volumes().join(name)).and_then(|meta| meta.modified());
    let since = modified
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// The volumes that are asked for, by name.
///
/// # Errors
/// [`VolumeFault::Filter`].
pub fn volumes(home: &Home, selection: &VolumeSelection) -> Result<Vec<VolumeRow>, EngineError> {
    let filters: Vec<Filter> = selection
        .filters
        .iter()
        .map(|text| Filter::parse(text).ok_or_else(|| VolumeFault::Filter(text.clone())))
        .collect::<Result<_, _>>()?;
    let by_use = filters.iter().any(|filter| matches!(filter, Filter::Dangling(_)));
    let mut rows = if by_use {
        let readable = |(row, lost): (_, Option<EngineError>)| lost.map_or(Ok(row), Err);
        all(home)?.into_iter().map(readable).collect::<Result<_, _>>()?
    } else {
        all_readable(home)?
    };
    rows.retain(|row| fit(&filters, row));
    Ok(rows)
}

/// A volume as `docker volume inspect` shows it.
///
/// # Errors
/// [`VolumeFault::Missing`].
pub fn inspect(home: &Home, name: &str) -> Result<Value, EngineError> {
    if !is_name(name) || !is_there(&home.volumes().join(name))? {
        return Err(VolumeFault::Missing(name.to_owned()).into());
    }
    let record = VolumeRecord::read(home, name)?;
    let options = record.as_ref().map(|record| &record.options);
    let options = options
        .filter(|options| !options.is_empty())
        .map_or(Value::Null, |options| json!(options));
    let row = row(home, name.to_owned(), record, &VolumeUsers::default());
    Ok(json!({
        "CreatedAt": moment(row.created),
        "Driver": "local",
        "Labels": row.labels,
        "Mountpoint": row.mountpoint.display().to_string(),
        "Name": row.name,
        "Options": options,
        "Scope": "local",
    }))
}

pub(super) enum Filter {
    Dangling(bool),
    Driver(String),
    Name(Pattern),
    Label {
        key: String,
        value: Option<String>,
        has: bool,
    },
}

impl Filter {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(unwanted) = text.strip_prefix("label!=") {
            let (key, value) = label(unwanted);
            return Some(Self::Label {
                key,
                value,
                has: false,
            });
        }
        let (key, value) = text.split_once('=')?;
        Some(match (key, value) {
            ("dangling", "true" | "1") => Self::Dangling(true),
            ("dangling", "false" | "0") => Self::Dangling(false),
            ("driver", driver) => Self::Driver(driver.to_owned()),
            ("name", pattern) => Self::Name(Pattern::parse(pattern)?),
            ("label", text) => {
                let (key, value) = label(text);
                Self::Label {
                    key,
                    value,
                    has: true,
                }
            }
            _ => return None,
        })
    }

    fn fits(&self, row: &VolumeRow) -> bool {
        match self {
            Self::Dangling(dangling) => row.containers.is_empty() == *dangling,
            Self::Driver(driver) => driver == "local",
            Self::Name(pattern) => pattern.is_in(&row.name),
            Self::Label { key, value, has } => has_label(&row.labels, key, value.as_deref()) == *has,
        }
    }
}

pub(super) fn fit(filters: &[Filter], row: &VolumeRow) -> bool {
    let names = || filters.iter().filter(|filter| matches!(filter, Filter::Name(_)));
    let named = names().next().is_none() || names().any(|filter| filter.fits(row));
    let others = filters.iter().filter(|filter| !matches!(filter, Filter::Name(_)));
    named && others.into_iter().all(|filter| filter.fits(row))
}
