//! Registers of the child: results of operations that later operations need.

use crate::Errno;
use crate::Parcel;
use crate::brought::Brought;
use crate::fresh::Fresh;
use crate::text::Text;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Results of earlier operations that later ones need.
pub(crate) struct Registers<'a> {
    /// The child's end of the conversation.
    pub(crate) channel: BorrowedFd<'a>,
    /// Parcels of the next gates, which are open already.
    pub(crate) parcels: &'a [Parcel<'a>],
    /// Child's end of the conversation with the command that starts the container.
    pub(crate) conversation: Option<OwnedFd>,
    /// The container's root.
    pub(crate) root: Option<OwnedFd>,
    /// Root that the current one covers.
    pub(crate) beneath: Option<OwnedFd>,
    /// The container's procfs, through a descriptor that no path leads to.
    pub(crate) proc: Option<OwnedFd>,
    /// The host's procfs.
    pub(crate) own_proc: Option<OwnedFd>,
    /// The container's devpts.
    pub(crate) devpts: Option<OwnedFd>,
    /// A null device that is mounted in the container: its own, or the host's on a read-only mount.
    pub(crate) null: Option<OwnedFd>,
    /// An empty read-only directory.
    pub(crate) empty: Option<OwnedFd>,
    /// The user namespace by whose maps mounts show owners.
    pub(crate) idmap: Option<OwnedFd>,
    /// A tree that the parent has opened.
    pub(crate) tree: Option<OwnedFd>,
    /// Whether mounts of this namespace are shared with others.
    pub(crate) shares: bool,
    /// Tmpfs that was mounted last, as long as all later mounts are inside it.
    pub(crate) fresh: Option<Fresh>,
    /// The slave of the console.
    pub(crate) terminal: Option<OwnedFd>,
    /// Program that a taker has brought, in place of the planned one.
    pub(crate) brought: Option<Brought>,
    /// True if a cgroup that the child has entered took no real-time process, until the parent has been told.
    pub(crate) demoted: bool,
    /// Text that a failing operation adds to its errno.
    pub(crate) text: Text,
}

impl<'a> Registers<'a> {
    /// Makes the registers of a child that has performed no operation yet.
    pub(crate) fn new(channel: BorrowedFd<'a>) -> Self {
        Self {
            channel,
            parcels: &[],
            conversation: None,
            root: None,
            beneath: None,
            proc: None,
            own_proc: None,
            devpts: None,
            null: None,
            empty: None,
            idmap: None,
            tree: None,
            shares: false,
            fresh: None,
            terminal: None,
            brought: None,
            demoted: false,
            text: Text::EMPTY,
        }
    }

    /// Returns the container's root; a list that uses it before mounting it is wrong.
    pub(crate) fn root(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.root.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Returns the channel that is listened to: the conversation with the command that starts the container, once
    /// there is one.
    pub(crate) fn listens(&self) -> BorrowedFd<'_> {
        self.conversation.as_ref().map_or(self.channel, AsFd::as_fd)
    }
}
