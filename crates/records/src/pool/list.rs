//! Lists of pools.

use super::record::{FILE, KIND, Pool};
use crate::container::Container;
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, Name};
use tote_image::Digest;
use tote_state::record::{is_there, names_in};
use tote_state::records::{self, Records};

/// Present state of a pool.
#[derive(Clone, Debug)]
pub struct PoolRow {
    /// Record of the pool.
    pub pool: Pool,
    /// Ids of the ready sandboxes.
    pub ready: Vec<ContainerId>,
    /// Reason why the last filling failed, or why the record cannot be used; empty if all is well.
    pub error: String,
    /// True if the record cannot be used, so that only the name is known.
    pub damaged: bool,
}

/// Lists the names of the pools, in order, also of those whose records cannot be used. A directory without a record is what a
/// removal has left.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    // absence: completions of a shell
    let mut names = names_in(&home.pools()).unwrap_or_default();
    names.retain(|name| match name.parse::<Name>() {
        Ok(pool) => !matches!(is_there(&home.pool(&pool).join(FILE)), Ok(false)),
        Err(_) => false,
    });
    names.sort();
    names
}

/// Lists the pools, by name.
///
/// # Errors
/// [`EngineError::State`] if the pools cannot be listed.
pub fn pools(home: &Home) -> Result<Vec<PoolRow>, EngineError> {
    let pools = records(home)?;
    let row = |(_, pool): (String, Pool)| PoolRow {
        // absence: a text for people
        ready: pool.ready(home),
        error: std::fs::read_to_string(home.pool(&pool.name).join(ERROR)).unwrap_or_default(),
        pool,
        damaged: false,
    };
    let mut rows: Vec<_> = pools.whole.into_iter().map(row).collect();
    rows.extend(pools.damaged.into_iter().filter_map(|damaged| {
        Some(PoolRow {
            pool: Pool::unknown(damaged.name.parse().ok()?),
            ready: Vec::new(),
            error: damaged.told(),
            damaged: true,
        })
    }));
    rows.sort_by(|one, other| one.pool.name.cmp(&other.pool.name));
    Ok(rows)
}

/// Name of the file with the reason why the pool could not be filled.
pub const ERROR: &str = "error";

/// Reads all records.
pub fn records(home: &Home) -> Result<Records<Pool>, EngineError> {
    let place = |name: &str| {
        let pool: Name = name.parse().ok()?;
        Some((name.to_owned(), home.pool(&pool).join(FILE)))
    };
    Ok(records::list(KIND, &home.pools(), place)?)
}

/// Lists the pools whose sandboxes are made of an image.
pub fn image_users(home: &Home, image: &Digest) -> Result<Vec<String>, EngineError> {
    let image = image.to_string();
    let mut pools = records(home)?.whole;
    pools.retain(|(_, pool)| {
        pool.template.image_id.as_ref() == Some(&image)
            || crate::container::mounts_image(&pool.template, &image)
    });
    Ok(pools.into_iter().map(|(name, _)| name).collect())
}

/// Lists the templates of the pools' containers, with the pools' names.
pub fn volume_users(home: &Home) -> Result<Vec<(String, Container)>, EngineError> {
    let pools = records(home)?.whole.into_iter();
    Ok(pools
        .map(|(name, pool)| (format!("pool {name}"), pool.template))
        .collect())
}
