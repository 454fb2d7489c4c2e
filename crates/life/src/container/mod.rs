//! Life of containers: creation, start, watch, end and removal, on top of their records ([`tote_records::container`]).

mod attach;
mod attached;
mod born;
pub mod change;
mod create;
mod ends;
mod erase;
mod last;
mod launch;
mod life;
mod limits;
pub mod logging;
mod logs;
mod logs_of;
mod remove;
mod removing;
mod rename;
mod required;
mod restart;
mod still;
mod stop;
pub mod succession;
mod sweep;
mod target;

pub use attach::attach;
pub use attached::{Attaching, run_attached, start_attached};
pub use change::{pause, unpause, update};
pub use launch::start_alone;
pub use launch::{run_detached, start};
pub use logs::{LogsOptions, logs};
pub use logs_of::logs_of;
pub use remove::{remove, remove_link, remove_named};
pub use rename::rename;
pub use required::{dependents, start_required};
pub use still::{Stillness, keep_still};
pub use stop::{StopOptions, check_restart, kill, stop, wait};
pub use sweep::sweep;
pub use tote_monitor::{Entry as LogEntry, Stream as LogStream, Streams};
pub use tote_records::container::{
    Claim, Container, EndedBy, Entry, FAULT_POINTS, Health, HealthResult, HealthStatus, LifeError,
    LostRecord, MountPoint, ProcessId, StartError, State, Status, StreamError, find, is_held, list, mounts,
    names, open,
};
pub use tote_state::events::Event;

pub use create::{Recorded, allot, create, discard, resolve, store, undo};
pub use erase::erase;
pub use launch::{claim, mend_all, revive};
pub use remove::{forget, newer_record, prune, remove_members};
pub use tote_records::container::{
    Report, absolute_image, anonymous_name, as_text, boot, change_state, check_readable, claim, entry, error,
    failure_line, fault, foreground, image_users, is_newer, keep_room, link, link_text, list_whole, listen,
    listen_failure, live, may_have_users, mounts_image, name, parse_link, record, record_lock, report,
    socket, stamp, state, stopped, was_stopped,
};

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
