//! Places of containers on disk.

use tote_engine::container::Entry;
use tote_engine::{Home, driver_of, status_word};

/// Returns the path that a container writes to: the file of its disk, its tree, or the directory of its changes.
pub(crate) fn rootfs(home: &Home, entry: &Entry) -> String {
    let dir = home.container(&entry.container.id);
    let places = ["disk", "tree", "upper", "private"].map(|name| dir.join(name));
    // absence: a text for people
    let place = places.iter().find(|path| path.try_exists().unwrap_or(false));
    place.map_or_else(String::new, |path| path.display().to_string())
}

/// Lists containers with the device or directory that each writes to, and the path of its root directory, in rows below
/// headings.
#[must_use]
pub fn places(home: &Home, entries: &[Entry]) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["NAME", "DEVICE", "MOUNTPOINT", "STATUS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for entry in entries {
        let disk = home.container(&entry.container.id).join("disk");
        // absence: a text for people
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
    rows
}
