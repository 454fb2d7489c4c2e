//! What pools there are.

use super::record::Pool;
use crate::Home;
use tote_bundle::ContainerId;
use tote_image::Digest;

/// One pool as it is now.
#[derive(Clone, Debug)]
pub struct PoolRow {
    /// What its sandboxes are made from.
    pub pool: Pool,
    /// The ids of those that wait.
    pub ready: Vec<ContainerId>,
    /// Why it could not be filled the last time; empty where it could.
    pub error: String,
}

/// Names of the pools, in order.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    records(home)
        .into_iter()
        .map(|pool| pool.name.to_string())
        .collect()
}

/// The pools, by name.
#[must_use]
pub fn pools(home: &Home) -> Vec<PoolRow> {
    let row = |pool: Pool| PoolRow {
        ready: pool.ready(home),
        error: std::fs::read_to_string(home.pool(&pool.name).join(ERROR)).unwrap_or_default(),
        pool,
    };
    records(home).into_iter().map(row).collect()
}

/// Why the pool could not be filled.
pub(super) const ERROR: &str = "error";

fn records(home: &Home) -> Vec<Pool> {
    let entries = std::fs::read_dir(home.pools()).into_iter().flatten().flatten();
    let mut pools: Vec<Pool> = entries
        .filter_map(|entry| Pool::read(home, &entry.file_name().to_str()?.parse().ok()?))
        .collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    pools
}

/// The pools whose sandboxes are made of an image.
pub(crate) fn image_users(home: &Home, image: &Digest) -> Vec<String> {
    let image = image.to_string();
    let mut pools = records(home);
    pools.retain(|pool| pool.template.image_id.as_ref() == Some(&image));
    pools.into_iter().map(|pool| pool.name.to_string()).collect()
}

/// What containers of the pools are like, with the pools' names.
pub(crate) fn volume_users(home: &Home) -> impl Iterator<Item = (String, crate::container::Container)> {
    let pools = records(home).into_iter();
    pools.map(|pool| (format!("pool {}", pool.name), pool.template))
}
