//! `tote ls` and `tote init`: places of containers on disk.

use crate::about::VERSION;
use crate::home::home;
use crate::tell::print;
use crate::text;
use std::process::ExitCode;
use tote_engine::container::{self, Entry};
use tote_engine::{EngineError, Home, driver_of, status_word};
use tote_options::Parsed;

/// Returns the path that a container writes to: the file of its disk, its tree, or the directory of its changes.
pub(super) fn rootfs(home: &Home, entry: &Entry) -> String {
    let dir = home.container(&entry.container.id);
    let places = ["disk", "tree", "upper", "private"].map(|name| dir.join(name));
    let place = places.iter().find(|path| path.try_exists().unwrap_or(false));
    place.map_or_else(String::new, |path| path.display().to_string())
}

pub(crate) fn ls(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let mut rows = vec![
        ["NAME", "DEVICE", "MOUNTPOINT", "STATUS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for entry in container::list(&home)? {
        let disk = home.container(&entry.container.id).join("disk");
        let device = if disk.try_exists().unwrap_or(false) {
            disk.display().to_string()
        } else {
            driver_of(&entry.container)
        };
        let pid = entry.state.pid();
        let mount_point = match pid {
            0 => "-".to_owned(),
            pid => format!("/proc/{pid}/root"),
        };
        rows.push(vec![
            entry.container.display().to_owned(),
            device,
            mount_point,
            status_word(&entry.state).to_owned(),
        ]);
    }
    Ok(print(&text::table(&rows)))
}

pub(crate) fn init(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let machine = tote_engine::look_at_machine(&home);
    let usable = machine
        .drivers
        .iter()
        .filter(|(_, usable)| usable.starts_with("yes"));
    let drivers: Vec<&str> = usable.map(|(name, _)| *name).collect();
    Ok(print(&format!(
        "tote {VERSION} is ready at {}\ncontainers: {}, of which {} run\nimages: {}\nvolumes: {}\ndrivers: {}\ncgroups: {}\n",
        home.root().display(),
        machine.containers,
        machine.running + machine.paused,
        machine.images,
        tote_engine::volume_names(&home).len(),
        drivers.join(", "),
        machine.cgroups,
    )))
}
