//! Lists of pools.

use super::record::Pool;
use crate::container::Container;
use crate::{EngineError, Home};
use tote_bundle::ContainerId;
use tote_image::Digest;
use tote_state::record::names_in;

/// Present state of a pool.
#[derive(Clone, Debug)]
pub struct PoolRow {
    /// Record of the pool.
    pub pool: Pool,
    /// Ids of the ready sandboxes.
    pub ready: Vec<ContainerId>,
    /// Reason why the last filling failed; empty if it succeeded.
    pub error: String,
}

/// Lists the names of the pools, in order.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let pools = records(home).unwrap_or_default().into_iter();
    pools.map(|pool| pool.name.to_string()).collect()
}

/// Lists the pools, by name.
///
/// # Errors
/// [`tote_state::StateError::Record`] if a record cannot be read.
pub fn pools(home: &Home) -> Result<Vec<PoolRow>, EngineError> {
    let row = |pool: Pool| PoolRow {
        ready: pool.ready(home),
        error: std::fs::read_to_string(home.pool(&pool.name).join(ERROR)).unwrap_or_default(),
        pool,
    };
    Ok(records(home)?.into_iter().map(row).collect())
}

/// Name of the file with the reason why the pool could not be filled.
pub const ERROR: &str = "error";

/// Reads all records. An unreadable one is an error, because the needs of its pool are unknown.
pub fn records(home: &Home) -> Result<Vec<Pool>, EngineError> {
    let mut pools = Vec::new();
    for name in names_in(&home.pools())? {
        if let Ok(name) = name.parse() {
            pools.extend(Pool::read(home, &name)?);
        }
    }
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(pools)
}

/// Lists the pools whose sandboxes are made of an image.
pub fn image_users(home: &Home, image: &Digest) -> Result<Vec<String>, EngineError> {
    let image = image.to_string();
    let mut pools = records(home)?;
    pools.retain(|pool| {
        pool.template.image_id.as_ref() == Some(&image)
            || crate::container::mounts_image(&pool.template, &image)
    });
    Ok(pools.into_iter().map(|pool| pool.name.to_string()).collect())
}

/// Lists the templates of the pools' containers, with the pools' names.
pub fn volume_users(home: &Home) -> Result<Vec<(String, Container)>, EngineError> {
    let pools = records(home)?.into_iter();
    Ok(pools
        .map(|pool| (format!("pool {}", pool.name), pool.template))
        .collect())
}
