//! Containers and volumes in `tote system df`, and their sizes.

use crate::containers::status;
use crate::text::{ago, cut, size, table};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tote_engine::container::{self, Entry};
use tote_engine::{ContainerSize, EngineError, Home, VolumeRow, VolumeSelection, container_size};

/// Most letters of a command in a table.
const MOST: usize = 20;

/// Containers and volumes with their sizes.
#[derive(Debug)]
pub(crate) struct Kept {
    containers: Vec<(Entry, ContainerSize)>,
    volumes: Vec<(VolumeRow, u64)>,
}

impl Kept {
    /// Measures every container and volume, which reads all of their directories.
    pub(crate) fn count(home: &Home) -> Result<Self, EngineError> {
        let entries = container::list(home)?.into_iter();
        let counted = entries.map(|entry| {
            let size = container_size(home, &entry);
            (entry, size)
        });
        Ok(Self {
            containers: counted.collect(),
            volumes: volumes(home)?,
        })
    }

    /// Builds a row for containers and one for volumes, in docker's fields.
    pub(crate) fn rows(&self) -> [Value; 2] {
        [
            of_containers(&self.containers).row(),
            of_volumes(&self.volumes).row(),
        ]
    }

    /// Returns the number of containers of an image, given by its id.
    pub(crate) fn of_image(&self, id: &str) -> usize {
        let entries = self.containers.iter();
        entries
            .filter(|(entry, _)| entry.container.image_id.as_deref() == Some(id))
            .count()
    }

    /// Formats tables with a line for each container and volume.
    pub(crate) fn tables(&self) -> String {
        tables(&self.containers, &self.volumes)
    }
}

/// Totals of one kind of object.
struct Kind {
    name: &'static str,
    total: usize,
    active: usize,
    bytes: u64,
    reclaimable: u64,
}

impl Kind {
    /// Builds a row in docker's fields.
    fn row(&self) -> Value {
        json!({
            "Type": self.name,
            "TotalCount": self.total.to_string(),
            "Active": self.active.to_string(),
            "Size": size(self.bytes),
            "Reclaimable": of_all(self.reclaimable, self.bytes),
        })
    }
}

/// Formats a part of a total as `1kB (50%)`; without the percentage if the total is 0.
pub(crate) fn of_all(part: u64, all: u64) -> String {
    match (part * 100).checked_div(all) {
        Some(percent) => format!("{} ({percent}%)", size(part)),
        None => size(part),
    }
}

pub(crate) fn cells(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Lists every volume with its size.
fn volumes(home: &Home) -> Result<Vec<(VolumeRow, u64)>, EngineError> {
    let rows = tote_engine::volumes(home, &VolumeSelection::default())?.into_iter();
    Ok(rows
        .map(|row| {
            let bytes = row.size().unwrap_or(0);
            (row, bytes)
        })
        .collect())
}

fn of_containers(containers: &[(Entry, ContainerSize)]) -> Kind {
    let idle = containers.iter().filter(|(entry, _)| !entry.state.runs());
    Kind {
        name: "Containers",
        total: containers.len(),
        active: containers.iter().filter(|(entry, _)| entry.state.runs()).count(),
        bytes: containers.iter().map(|(_, size)| size.written).sum(),
        reclaimable: idle.map(|(_, size)| size.written).sum(),
    }
}

fn of_volumes(volumes: &[(VolumeRow, u64)]) -> Kind {
    let idle = volumes.iter().filter(|(row, _)| row.containers.is_empty());
    Kind {
        name: "Local Volumes",
        total: volumes.len(),
        active: volumes
            .iter()
            .filter(|(row, _)| !row.containers.is_empty())
            .count(),
        bytes: volumes.iter().map(|(_, bytes)| bytes).sum(),
        reclaimable: idle.map(|(_, bytes)| bytes).sum(),
    }
}

/// Formats a table of the containers, and one of the volumes.
fn tables(containers: &[(Entry, ContainerSize)], volumes: &[(VolumeRow, u64)]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let mut lines = vec![cells(&[
        "CONTAINER ID",
        "IMAGE",
        "COMMAND",
        "LOCAL VOLUMES",
        "SIZE",
        "CREATED",
        "STATUS",
        "NAMES",
    ])];
    lines.extend(containers.iter().map(|(Entry { container, state, .. }, taken)| {
        vec![
            container.id.short().to_owned(),
            container.image.clone(),
            format!("{:?}", cut(&container.path_and_args.join(" "), MOST)),
            container::mounts(container)
                .filter(|mount| mount.volume)
                .count()
                .to_string(),
            size(taken.written),
            ago(&tote_engine::moment(container.created)),
            status(state, now),
            container.display().to_owned(),
        ]
    }));
    let mut text = format!("\nContainers space usage:\n\n{}", table(&lines));
    let mut lines = vec![cells(&["VOLUME NAME", "LINKS", "SIZE"])];
    lines.extend(
        volumes
            .iter()
            .map(|(row, bytes)| vec![row.name.clone(), row.containers.len().to_string(), size(*bytes)]),
    );
    text += &format!("\nLocal Volumes space usage:\n\n{}", table(&lines));
    text
}
