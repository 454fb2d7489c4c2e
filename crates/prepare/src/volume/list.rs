//! Lists of volumes.

use super::VolumeFault;
use super::record::{ANONYMOUS, VolumeRecord, is_name};
use crate::container::{self, Container, Entry, LostRecord};
use crate::look::Pattern;
use crate::look::label::{has_label, label};
use crate::tree_size;
use crate::{EngineError, Home};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use tote_bundle::ContainerId;
use tote_state::StateError;
use tote_state::record::{is_there, names_in};
use tote_sys::chain;

/// Selection of volumes to list: each filter must apply, but names and drivers are alternatives.
#[derive(Clone, Debug, Default)]
pub struct VolumeSelection {
    /// Filters, `KEY=VALUE` each.
    pub filters: Vec<String>,
}

/// Volume in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    /// Name of the volume; a long hexadecimal number for an anonymous one.
    pub name: String,
    /// Time of creation: nanoseconds since 1970.
    pub created: u64,
    /// Labels of the volume.
    pub labels: BTreeMap<String, String>,
    /// Directory of the files.
    pub mountpoint: PathBuf,
    /// True for an anonymous volume.
    pub anonymous: bool,
    /// Ids of the containers that use the volume.
    pub containers: Vec<String>,
    /// Reason why the record of the volume cannot be used, and the remedy; empty for one that can. Containers can use its files all
    /// the same.
    pub error: String,
}

impl VolumeRow {
    /// Measures the files in bytes; `None` if this user may not read them.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        tree_size(&self.mountpoint)
    }
}

/// Lists the names of the volumes; empty after an error.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    all_names(home).unwrap_or_default()
}

/// Asks whether a volume of that name exists.
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

/// Containers and pools that use volumes.
#[derive(Default)]
struct VolumeUsers {
    /// Ids of the existing containers.
    containers: BTreeSet<String>,
    /// Containers and pools that use a volume, by its name.
    by_volume: BTreeMap<String, Vec<String>>,
    /// Containers and pools that may use every volume, because their records cannot be read.
    unread: Vec<String>,
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
            let named: BTreeSet<String> = container::mounts(&container)
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

/// Lists every volume, by name, for a removal; with the error of an unreadable record.
///
/// A container or a pool whose record cannot be read counts as a user of every volume, because it may be one.
///
/// # Errors
/// Fails if the containers or the pools cannot be listed.
pub(crate) fn all(home: &Home) -> Result<Vec<(VolumeRow, Option<EngineError>)>, EngineError> {
    let pools = crate::pool::volume_users(home)?;
    let entries = container::list(home)?;
    let dead = entries
        .iter()
        .filter(|entry| entry.lost == Some(LostRecord::Container));
    let mut unread: Vec<String> = dead.map(|entry| entry.container.id.to_string()).collect();
    let damaged = crate::pool::records(home)?.damaged.into_iter();
    unread.extend(damaged.map(|pool| format!("pool {}", pool.name)));
    let users = VolumeUsers {
        unread,
        ..VolumeUsers::of(entries, pools)
    };
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

/// Lists every volume for display: unreadable records count as empty.
fn all_readable(home: &Home) -> Result<Vec<VolumeRow>, EngineError> {
    let pools = crate::pool::volume_users(home).unwrap_or_default();
    let users = VolumeUsers::of(container::list(home)?, pools);
    let names = all_names(home)?.into_iter();
    let rows = names.map(|name| match VolumeRecord::read(home, &name) {
        Ok(record) => row(home, name, record, &users),
        Err(error) => VolumeRow {
            error: format!(
                "{}: 'tote volume rm -f {name}' removes volume {name}",
                chain(&error)
            ),
            ..row(home, name, None, &users)
        },
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
    containers.extend(users.unread.iter().cloned());
    VolumeRow {
        mountpoint,
        created: record.created,
        anonymous: record.labels.contains_key(ANONYMOUS),
        labels: record.labels,
        containers,
        name,
        error: String::new(),
    }
}

/// Lists the anonymous volumes that were made for a container. One with an unreadable record is left out.
///
/// # Errors
/// [`EngineError::State`] if the volumes cannot be listed.
pub fn given_to(home: &Home, id: &ContainerId) -> Result<Vec<String>, EngineError> {
    let mut names = Vec::new();
    for name in all_names(home)? {
        if owner(home, &name)?.as_deref() == Some(id.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Asks whether a volume was made for a container as an anonymous one.
///
/// # Errors
/// Those of [`given_to`].
pub(crate) fn is_anonymous(home: &Home, name: &str) -> Result<bool, EngineError> {
    Ok(is_name(name) && owner(home, name)?.is_some())
}

/// Returns the container for which a volume was made. A volume with a damaged record, or one of a
/// newer tote, has no owner.
fn owner(home: &Home, name: &str) -> Result<Option<String>, EngineError> {
    match VolumeRecord::read(home, name) {
        Err(EngineError::State(StateError::Record(why))) if why.is_lost() || why.is_newer() => Ok(None),
        record => Ok(record?.and_then(|record| record.container)),
    }
}

/// Returns the creation time of a volume without a record: its directory does not change later.
fn made(home: &Home, name: &str) -> u64 {
    let modified = std::fs::metadata(home.volumes().join(name)).and_then(|meta| meta.modified());
    let since = modified
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// Lists the selected volumes, by name.
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

/// Volume with all that a description of it tells.
#[derive(Clone, Debug)]
pub struct VolumeDetails {
    /// The volume, without its users.
    pub row: VolumeRow,
    /// Options of its driver.
    pub options: BTreeMap<String, String>,
}

/// Looks at a volume.
///
/// # Errors
/// [`VolumeFault::Missing`].
pub fn inspect(home: &Home, name: &str) -> Result<VolumeDetails, EngineError> {
    if !is_name(name) || !is_there(&home.volumes().join(name))? {
        return Err(VolumeFault::Missing(name.to_owned()).into());
    }
    let record = VolumeRecord::read(home, name)?;
    let options = record.as_ref().map(|record| record.options.clone());
    Ok(VolumeDetails {
        row: row(home, name.to_owned(), record, &VolumeUsers::default()),
        options: options.unwrap_or_default(),
    })
}

pub(crate) enum Filter {
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
    pub(crate) fn parse(text: &str) -> Option<Self> {
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

pub(crate) fn fit(filters: &[Filter], row: &VolumeRow) -> bool {
    let names = || filters.iter().filter(|filter| matches!(filter, Filter::Name(_)));
    let named = names().next().is_none() || names().any(|filter| filter.fits(row));
    let others = filters.iter().filter(|filter| !matches!(filter, Filter::Name(_)));
    named && others.into_iter().all(|filter| filter.fits(row))
}
