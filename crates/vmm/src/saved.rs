//! A machine that is saved, and others that go on from it: what QEMU is told of its memory and of devices that are not there.
//!
//! Guests that go on have the file of the memory in common, each with its own changes (MAP_PRIVATE). QEMU would open it to write, and a guest that
//! takes QEMU over is not to get such a descriptor: what it wrote there would be in the guests to come. So the file is one that its sandbox
//! cannot write to, and a filter of calls has QEMU's open(2) of it wait for this process, which answers with a descriptor to read.

use crate::VmmError;
use crate::arguments::empty_disk;
use crate::machine::{Begin, Machine, Template};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;
use tote_sys::{CallListener, Errno, Wait, read_memory};

/// Time in which QEMU opens its files: seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name of QEMU's object that is the guest's memory.
pub(crate) const MEMORY: &str = "memory";

/// Bytes of a disk that is not there.
const ABSENT: u64 = 1 << 20;

/// Hardware address of a network device that is not there.
const ABSENT_ADDRESS: &str = "02:00:00:00:00:01";

/// Files of a machine that goes on.
#[derive(Debug)]
pub(crate) struct Files {
    /// Its memory, to read.
    memory: OwnedFd,
    /// The state of its devices, a descriptor that QEMU inherits.
    pub(crate) state: OwnedFd,
}

impl Files {
    /// Opens the files of a machine that goes on from a template.
    pub(crate) fn open(machine: &Machine) -> Result<Option<Self>, VmmError> {
        let Begin::Resume(Template { memory, state, .. }) = &machine.begin else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = |path| rustix::fs::open(path, flags, Mode::empty());
        let files = || {
            let state = open(state)?;
            rustix::io::fcntl_setfd(&state, FdFlags::empty())?;
            Ok(Self {
                memory: open(memory)?,
                state,
            })
        };
        files().map(Some).map_err(VmmError::kernel("open the template"))
    }

    /// Gives QEMU the memory when it opens it, and lets it open everything else.
    pub(crate) fn hand_out(
        &self,
        machine: &Machine,
        listener: &CallListener,
        running: &mut dyn Starting,
    ) -> Result<(), VmmError> {
        let failed = |errno| VmmError::kernel("give the virtual machine monitor its memory")(errno);
        let path = machine
            .begin
            .template()
            .map(|template| template.memory.as_os_str().as_bytes());
        let wanted = [path.unwrap_or_default(), b"\0"].concat();
        while !running.is_open() {
            let [control, ended] = running.waits();
            let wait = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut fds = [wait(listener.as_fd()), wait(control), wait(ended)];
            let found = match Wait::within(PATIENCE).poll(&mut fds) {
                Ok(0) => return Err(failed(Errno::TIMEDOUT)),
                Err(Errno::INTR) => continue,
                found => found,
            };
            let [calls, speaks, has_ended] = fds.map(|fd| fd.revents().contains(PollFlags::IN));
            match found.and_then(|_| {
                if calls {
                    self.answer(listener, &wanted)
                } else {
                    Ok(())
                }
            }) {
                // The process has ended meanwhile.
                Ok(()) | Err(Errno::NOENT | Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
            if speaks {
                running.speak()?;
            }
            // The end of what it says stays readable, so it would be heard for ever.
            if !calls && (has_ended || !speaks) {
                // It has ended, which the caller finds.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers a call that waits.
    fn answer(&self, listener: &CallListener, wanted: &[u8]) -> Result<(), Errno> {
        let call = listener.receive()?;
        let mut name = vec![0; wanted.len()];
        if read_memory(call.thread, call.arguments[1], &mut name).is_ok() && name == wanted {
            listener.answer_with(&call, self.memory.as_fd())
        } else {
            listener.let_through(&call)
        }
    }
}

/// A process of QEMU that opens its files.
pub(crate) trait Starting {
    /// Returns descriptors that are readable when it has something to say, and when it has ended.
    fn waits(&self) -> [BorrowedFd<'_>; 2];

    /// Hears what it says.
    fn speak(&mut self) -> Result<(), VmmError>;

    /// True once it has opened all of its files.
    fn is_open(&self) -> bool;
}

/// Returns QEMU's words for a machine that is saved or goes on: its memory, and placeholders of devices that it has not.
pub(crate) fn words(machine: &Machine) -> Vec<(&'static str, String)> {
    let Some(template) = machine.begin.template() else {
        return Vec::new();
    };
    let is_saved = matches!(machine.begin, Begin::Save { .. });
    let share = if is_saved { "on" } else { "off" };
    let path = template.memory.display().to_string().replace(',', ",,");
    let memory = format!(
        "memory-backend-file,id={MEMORY},size={}M,share={share},mem-path={path}",
        machine.memory
    );
    let mut words = vec![("-object", memory)];
    if !is_saved {
        words.push(("-incoming", "defer".to_owned()));
    }
    words
}

/// Returns QEMU's words for the disks of the template that the machine has not. The disk that visitors bring files to is not among them.
pub(crate) fn absent_disks(machine: &Machine) -> impl Iterator<Item = (&'static str, String)> {
    let bus = machine.board.bus();
    let all = machine
        .begin
        .template()
        .map_or(0, |template| template.layout.disks);
    let first = match &machine.begin {
        Begin::Save { first, .. } => Some(first),
        Begin::Boot | Begin::Resume(_) => None,
    };
    let absent = machine.disks.len() + first.iter().len()..usize::from(all);
    let absent = absent.flat_map(move |at| {
        [
            (
                "-blockdev",
                format!("driver=null-co,node-name=absent{at},size={ABSENT},read-zeroes=on"),
            ),
            (
                "-device",
                format!("virtio-blk-{bus},drive=absent{at},serial=absent{at}"),
            ),
        ]
    });
    first
        .into_iter()
        .flat_map(move |serial| empty_disk(serial, bus))
        .chain(absent)
}

/// Returns QEMU's words for the network devices of the template that the machine has not.
pub(crate) fn absent_links(machine: &Machine) -> impl Iterator<Item = (&'static str, String)> {
    let all = machine
        .begin
        .template()
        .map_or(0, |template| template.layout.links);
    let absent = machine.links.len()..usize::from(all);
    let device = format!("virtio-net-{},mac={ABSENT_ADDRESS}", machine.board.bus());
    absent.map(move |_| ("-device", device.clone()))
}
