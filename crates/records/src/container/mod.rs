//! Records of containers: what is asked for, what is, and which process may change it.
//!
//! Two records and a lock, all found from the id ([`crate::Home`] has a map of the files):
//! - [`Container`] is the requested configuration, `containers/ID/container.json`. It is enough for a later start;
//!   nothing else of its creator is needed.
//! - [`State`] is the present state, `containers/ID/state.json`. Only the holder of the claim writes it.
//! - [`Claim`] is `live/ID`, locked: a process that changes a container holds it, and a monitor as long as it
//!   watches. A free claim is a leftover; a sweep clears the parts that it names.
//!
//! A container of `run --rm` in the foreground has no directory: both records are in `live/ID`, and go with it. They count
//! once the container's first process has marked them ([`claim::FirstProcess`]).
//! Lookups ([`find()`], [`list`]) treat it alike, except for [`Entry::kept`].
//!
//! A lookup returns the true state: a state "running" without a held claim is corrected before it is returned, and
//! the next command that takes the claim records the correction.

pub mod claim;
mod ended_by;
pub mod entry;
pub mod error;
mod failure;
pub mod fault;
pub mod find;
pub mod foreground;
pub mod link;
pub mod live;
mod mount_points;
pub mod name;
pub mod record;
pub mod record_lock;
pub mod report;
pub mod socket;
pub mod stamp;
pub mod state;
pub mod stopped;
mod stream_error;

pub use claim::Claim;
pub use ended_by::EndedBy;
pub use entry::{Entry, LostRecord};
pub use error::{LifeError, StartError, UndyingState};
pub use failure::{failure_line, listen_failure};
pub use fault::POINTS as FAULT_POINTS;
pub use find::{
    ImageUser, check_readable, find, image_users, is_newer, list, list_startable, list_whole, may_have_users,
    names, open, unread,
};
pub use link::{link_text, parse as parse_link};
pub use live::is_held;
pub use mount_points::{MountPoint, anonymous_name, mounts, mounts_image};
pub use record::{Container, absolute_image, as_text};
pub use report::{Report, listen};
pub use state::{
    Health, HealthResult, HealthStatus, ProcessId, State, Status, boot, change_state, keep_room, note_pause,
};
pub use stopped::was_stopped;
pub use stream_error::StreamError;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;
    use tote_bundle::ContainerId;

    /// Returns the id that consists of this byte.
    pub(super) fn id(byte: u8) -> ContainerId {
        ContainerId::from_bytes([byte; 32])
    }

    /// Makes a created container.
    pub(super) fn container(home: &Home, byte: u8, name: &str) -> Container {
        let text = format!(
            r#"{{"id":"{}","name":"{name}","image":"host","created":{byte}}}"#,
            id(byte)
        );
        let container: Container = serde_json::from_str(&text).unwrap();
        std::fs::create_dir_all(home.container(&container.id)).unwrap();
        name::take(home, &name.parse().unwrap(), &container.id, |_| {}).unwrap();
        container.write(home).unwrap();
        State::default().write(home, &container.id).unwrap();
        container
    }
}
