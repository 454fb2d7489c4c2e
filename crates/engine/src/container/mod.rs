//! Containers and their life: records, claims, and changes of state.
//!
//! Two records and a lock, all found from the id ([`crate::Home`] has a map of the files):
//! - [`Container`] is the requested configuration, `containers/ID/container.json`. It is enough for a later start;
//!   nothing else of its creator is needed.
//! - [`State`] is the present state, `containers/ID/state.json`. Only the holder of the claim writes it.
//! - [`Claim`] is `live/ID`, locked: a process that changes a container holds it, and a monitor as long as it
//!   watches. A free claim is a leftover; [`sweep`] clears the parts that it names.
//!
//! A container of `run --rm` in the foreground has no directory: both records are in `live/ID`, and go with it.
//! Lookups ([`find`], [`list`]) treat it alike, except for [`Entry::kept`].
//!
//! A lookup returns the true state: a state "running" without a held claim is corrected before it is returned, and
//! the next command that takes the claim records the correction.

mod attach;
mod attached;
mod born;
pub(crate) mod change;
mod claim;
mod create;
mod ends;
mod entry;
mod erase;
mod error;
mod failure;
pub(crate) mod fault;
mod find;
pub(crate) mod foreground;
mod launch;
mod life;
mod limits;
mod link;
mod live;
pub(crate) mod logging;
mod logs;
mod logs_of;
mod mount_points;
pub(crate) mod name;
mod record;
pub(crate) mod record_lock;
mod remove;
mod removing;
mod rename;
mod report;
mod restart;
mod socket;
mod stamp;
mod state;
mod stop;
mod stopped;
mod stream_error;
pub(crate) mod succession;
mod sweep;

pub use attach::attach;
pub use attached::{Attaching, run_attached, start_attached};
pub use change::{pause, unpause, update};
pub use claim::Claim;
pub use entry::{Entry, LostRecord};
pub use error::{LifeError, StartError};
pub use fault::POINTS as FAULT_POINTS;
pub use find::{find, list, names, open};
pub(crate) use launch::start_alone;
pub use launch::{run_detached, start};
pub use live::is_held;
pub use logs::{LogsOptions, logs};
pub use logs_of::logs_of;
pub(crate) use mount_points::mounts_image;
pub use mount_points::{MountPoint, mounts};
pub use record::Container;
pub(crate) use record::absolute_image;
pub use remove::{remove, remove_link, remove_named};
pub use rename::rename;
pub(crate) use state::change_state;
pub use state::{Health, HealthResult, HealthStatus, ProcessId, State, Status};
pub use stop::{StopOptions, check_restart, kill, stop, wait};
pub use stream_error::StreamError;
pub use sweep::sweep;
pub use tote_monitor::{Entry as LogEntry, Stream as LogStream, Streams};
pub use tote_state::events::Event;

pub(crate) use create::{Recorded, allot, create, discard, resolve, store, undo};
pub(crate) use find::{image_users, list_whole, may_have_users};

pub(crate) use erase::erase;
pub(crate) use failure::{failure_line, listen_failure};
pub(crate) use launch::{claim, mend_all, revive};
pub(crate) use link::{link_text, parse as parse_link};
pub(crate) use record::as_text;
pub(crate) use remove::{forget, prune, remove_members};
pub(crate) use report::{Report, listen};
pub(crate) use state::{boot, keep_room};
pub(crate) use stopped::was_stopped;

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
