//! Templates: machines that were saved when their guests were ready, from which others go on.
//!
//! A template is named by the hash of everything that must be the same: kernel, program, VMM, processor, memory, number of processors, devices.
//! So a start looks for one name, and a template that fits no start any more is only a directory that `prune` removes.

use super::VmFault;
use super::host::machine;
use super::kernel::{Files, files, in_use, locked, put_in_place, unfinished};
use super::user;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::{RunOptions, VmOptions};
use tote_state::record::{Damaged, Kind};
use tote_state::records::{self, Records};
use tote_state::{StateError, record};
use tote_sys::best_effort;
use tote_vmm::{Accel, Begin, Board, Layout, Machine, Qemu, Template};

/// Names of files, in the state root as well as in sandboxes.
pub(crate) const MEMORY: &str = "memory";
pub(crate) const STATE: &str = "state";
const RECORD: &str = "template.json";

/// Devices of each template: the image, the container's writes and two volumes; one network. The spare disk is that of each machine.
const LAYOUT: Layout = Layout { disks: 4, links: 1 };

/// Bytes of `/proc/cpuinfo` that are about the first processor.
const CPUINFO: u64 = 4096;

/// A name that no template has, or more than one.
#[derive(Debug, thiserror::Error)]
#[error("no such template: {0}")]
pub struct NoTemplate(String);

tote_records::part!(NoTemplate);
impl tote_records::PartError for NoTemplate {
    fn hint(&self) -> Option<String> {
        Some("tote vm template ls lists them".to_owned())
    }
}

/// A template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmTemplate {
    /// Name in the state root.
    pub id: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Memory of its machines in MiB.
    pub memory: u64,
    /// Number of their processors.
    pub processors: u32,
    /// Time of its making: nanoseconds since 1970.
    pub created: u64,
}

/// A template as `vm template ls` shows it.
#[derive(Debug)]
pub struct VmTemplateRow {
    /// The template.
    pub template: VmTemplate,
    /// Bytes that it takes on the disk.
    pub size: u64,
    /// True if a start with this memory and these processors goes on from it.
    pub fits: bool,
    /// Damage of the record, if only the name of the template is known.
    pub damaged: Option<Damaged>,
}

/// A template that fits a machine: its files on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Fitting {
    pub(crate) id: String,
    pub(crate) memory: PathBuf,
    pub(crate) state: PathBuf,
}

impl Fitting {
    /// The way in which the machine begins; its paths are those of the sandbox.
    pub(crate) fn begin(&self) -> Begin {
        Begin::Resume(Template {
            memory: super::attend::place(MEMORY),
            state: super::attend::place(STATE),
            layout: LAYOUT,
        })
    }
}

fn directory(home: &Home) -> PathBuf {
    home.vm().join("templates")
}

/// Returns the name of the template from which a machine would go on.
fn name(kernel: &Files, machine: &Machine) -> Result<String, EngineError> {
    let vmm = machine
        .program
        .metadata()
        .map_err(VmFault::file("look at", &machine.program))?;
    // The directory has a name that follows from what is in it.
    let files = kernel.initramfs.parent().and_then(Path::file_name);
    let mut text = format!(
        "tote template 4\n{files:?}\n{} {} {} {} {}.{}\n{} {} {} {} {LAYOUT:?} {:?}\n",
        machine.program.display(),
        vmm.dev(),
        vmm.ino(),
        vmm.size(),
        vmm.mtime(),
        vmm.mtime_nsec(),
        machine.accel.name(),
        machine.board.name(),
        machine.memory,
        machine.processors,
        machine.spare.as_ref().map(|spare| &spare.serial),
    );
    // The guest counts the ticks of this machine's processor.
    let path = Path::new("/proc/cpuinfo");
    let mut about = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(CPUINFO).read_to_string(&mut about));
    read.map_err(VmFault::file("read", path))?;
    text.extend(about.lines().find(|line| line.starts_with("model name")));
    let hash = Sha256::digest(text.as_bytes());
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// True for machines of which templates are known to go on: QEMU's translator executes them, and they have no PCI.
fn may_be_saved(machine: &Machine) -> bool {
    (machine.accel, machine.board) == (Accel::Tcg, Board::Microvm)
}

/// Returns the template from which a machine goes on, if there is one. A machine with other devices than templates have boots, and so does one
/// whose disks come and go.
pub(crate) fn fitting(
    home: &Home,
    kernel: &Files,
    (machine, links): (&Machine, usize),
) -> Result<Option<Fitting>, EngineError> {
    let all = directory(home);
    let has_room =
        (1..=usize::from(LAYOUT.disks)).contains(&machine.disks.len()) && links <= usize::from(LAYOUT.links);
    if !has_room
        || !may_be_saved(machine)
        || machine.grows
        || machine.shares.is_some()
        || !record::is_there(&all)?
    {
        return Ok(None);
    }
    let id = name(kernel, machine)?;
    let dir = all.join(&id);
    let found = Fitting {
        memory: dir.join(MEMORY),
        state: dir.join(STATE),
        id,
    };
    Ok(record::is_there(&found.memory)?.then_some(found))
}

/// Makes a template for machines with this memory and number of processors, with the kernel in use; one that is there already stays.
///
/// # Errors
/// [`VmFault`]; nothing has changed then.
pub fn create(
    home: &Home,
    memory: Option<&str>,
    processors: Option<&str>,
) -> Result<VmTemplate, EngineError> {
    // In the words of `--isolation`, so that both mean the same.
    let text =
        |name: &str, value: Option<&str>| value.map(|value| format!(",{name}={value}")).unwrap_or_default();
    let words = format!("vm{}{}", text("memory", memory), text("cpus", processors));
    let mut options = RunOptions::default();
    options.set("isolation", &words)?;
    let kernel = files(home, false)?;
    let vm = options.vm.unwrap_or_default();
    let machine = machine(home, (&vm, &RunOptions::default()), &[], false)?;
    if !may_be_saved(&machine) {
        let (option, reason) = ("a template", "machines with KVM, and those of type q35, boot");
        return Err(VmFault::Option { option, reason }.into());
    }
    let dir = directory(home);
    let _lock = locked(&dir)?;
    let id = name(&kernel, &machine)?;
    let place = dir.join(&id);
    match KIND.read(&id, &place.join(RECORD)) {
        Ok(Some(there)) => return Ok(there),
        Ok(None) => {}
        Err(StateError::Damaged(damaged)) if damaged.why.is_lost() => {
            tote_sys::remove_tree(&place).map_err(VmFault::file("remove", &place))?;
        }
        Err(error) => return Err(error.into()),
    }
    let template = VmTemplate {
        id,
        kernel: kernel.release.clone(),
        memory: machine.memory,
        processors: machine.processors,
        created: record::now(),
    };
    let new = unfinished(&dir)?;
    let made = user::new(home.caller)
        .and_then(|user| Ok(save(user, &kernel, machine, &new)?))
        .and_then(|()| Ok(record::write(&new.join(RECORD), &template)?))
        .and_then(|()| Ok(put_in_place(&new, &place)?));
    if made.is_err() {
        best_effort(tote_sys::remove_tree(&new));
    }
    made.map(|()| template)
}

/// Saves a machine into a directory. Its guest has run the kernel and tote, and nothing of anyone else's, so QEMU needs no sandbox around its
/// own; as root's it has no right.
fn save(user: Option<u32>, kernel: &Files, machine: Machine, new: &Path) -> Result<(), VmFault> {
    let (memory_path, state_path) = (new.join(MEMORY), new.join(STATE));
    let make = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let memory = open(&memory_path, make, "make")?;
    let state = open(&state_path, make, "make")?;
    let changed = |path: &Path| {
        let path = path.to_owned();
        move |errno: tote_sys::Errno| VmFault::file("change", path)(errno.into())
    };
    rustix::fs::ftruncate(&memory, machine.memory << 20).map_err(changed(&memory_path))?;
    let owner = user.map(|user| (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(user)));
    rustix::fs::fchown(&memory, owner.map(|(uid, _)| uid), owner.map(|(_, gid)| gid))
        .map_err(changed(&memory_path))?;
    let given = |path: &Path| open(path, OFlags::RDONLY, "open");
    let (vmlinux, initramfs) = (given(&kernel.vmlinux)?, given(&kernel.initramfs)?);
    let system = given(&kernel.system)?;
    // A user without rights cannot reach the state root, so QEMU has descriptors.
    for fd in [&memory, &vmlinux, &initramfs, &system] {
        rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(changed(new))?;
    }
    let place = |fd: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    let machine = Machine {
        kernel: place(&vmlinux),
        initramfs: place(&initramfs),
        system: super::kernel::system(place(&system)),
        begin: Begin::Save {
            template: Template {
                memory: place(&memory),
                state: PathBuf::new(),
                layout: LAYOUT,
            },
            word: tote_guest::TEMPLATE.to_owned(),
            first: tote_guest::IMAGE_DISK.to_owned(),
        },
        ..machine
    };
    let given = state
        .as_fd()
        .try_clone_to_owned()
        .map_err(VmFault::file("hold", &state_path))?;
    tote_vmm::save(&Qemu { user }, &machine, given)?;
    let own = (rustix::process::geteuid(), rustix::process::getegid());
    rustix::fs::fchown(&memory, Some(own.0), Some(own.1)).map_err(changed(&memory_path))?;
    for (fd, path) in [(&memory, &memory_path), (&state, &state_path)] {
        // A power cut must not leave a guest with holes in its memory.
        rustix::fs::fchmod(fd, Mode::from_raw_mode(0o444)).map_err(changed(path))?;
        rustix::fs::fsync(fd).map_err(changed(path))?;
    }
    Ok(())
}

fn open(path: &Path, flags: OFlags, attempt: &'static str) -> Result<OwnedFd, VmFault> {
    let opened = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    opened.map_err(|errno| VmFault::file(attempt, path)(errno.into()))
}

const KIND: Kind = Kind {
    noun: "template",
    remove: "tote vm template rm",
};

/// Lists the templates, the oldest first.
///
/// # Errors
/// [`EngineError`]: the templates cannot be listed.
pub fn list(home: &Home) -> Result<Vec<VmTemplateRow>, EngineError> {
    let dir = directory(home);
    // Without a kernel, or a VMM, no template fits; the next `vm setup` mends the record of a kernel.
    let kernel = match in_use(home) {
        Err(EngineError::State(StateError::Record(why))) if !why.is_passing() => None,
        kernel => kernel?,
    };
    let kernel = kernel.and_then(|_| files(home, true).ok());
    let mut rows = Vec::new();
    let place = |id: &str| (!id.starts_with('.')).then(|| (id.to_owned(), dir.join(id).join(RECORD)));
    let templates: Records<VmTemplate> = records::list(KIND, &dir, place)?;
    for damaged in templates.damaged {
        rows.push(VmTemplateRow {
            template: VmTemplate {
                id: damaged.name.clone(),
                kernel: "damaged".to_owned(),
                memory: 0,
                processors: 0,
                created: 0,
            },
            size: size(&dir.join(&damaged.name)),
            fits: false,
            damaged: Some(damaged),
        });
    }
    for (id, template) in templates.whole {
        let options = VmOptions {
            memory: Some(template.memory << 20),
            processors: Some(template.processors),
            ..VmOptions::default()
        };
        let wanted = kernel.as_ref().and_then(|kernel| {
            let machine = machine(home, (&options, &RunOptions::default()), &[], true).ok()?;
            name(kernel, &machine).ok()
        });
        rows.push(VmTemplateRow {
            fits: wanted.as_ref() == Some(&id),
            size: size(&dir.join(&id)),
            template,
            damaged: None,
        });
    }
    rows.sort_by_key(|row| row.template.created);
    Ok(rows)
}

/// Returns the names of all templates.
fn names(dir: &Path) -> Result<Vec<String>, EngineError> {
    let mut names = record::names_in(dir)?;
    names.retain(|name| !name.starts_with('.'));
    Ok(names)
}

/// Returns the bytes that the files of a directory take on the disk.
fn size(dir: &Path) -> u64 {
    let files = [MEMORY, STATE, RECORD].map(|name| dir.join(name).metadata());
    files
        .into_iter()
        .flatten()
        .map(|found| found.blocks() * 512)
        .sum()
}

/// Removes a template, by its name or a beginning of it that no other one has. Machines that go on from it keep it.
///
/// # Errors
/// No template has that id; [`VmFault::File`].
pub fn remove(home: &Home, id: &str) -> Result<String, EngineError> {
    let dir = directory(home);
    let mut fit = names(&dir)?.into_iter().filter(|name| name.starts_with(id));
    let (Some(name), None) = (fit.next().filter(|_| !id.is_empty()), fit.next()) else {
        return Err(NoTemplate(id.to_owned()).into());
    };
    let _lock = locked(&dir)?;
    let path = dir.join(&name);
    // A start finds it whole, or not at all.
    let gone = unfinished(&dir)?;
    let moved = std::fs::rename(&path, gone.join("old"));
    best_effort(tote_sys::remove_tree(&gone));
    match moved {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(NoTemplate(name).into()),
        Err(error) => Err(VmFault::file("remove", path)(error).into()),
        Ok(()) => Ok(name),
    }
}

/// Removes the templates that fit no start any more, and those whose records are lost; returns their names and the bytes that they
/// took.
///
/// # Errors
/// Those of [`list`] and [`remove`].
pub fn prune(home: &Home) -> Result<(Vec<String>, u64), EngineError> {
    let (mut names, mut bytes) = (Vec::new(), 0);
    let goes = |row: &VmTemplateRow| match &row.damaged {
        Some(damaged) => damaged.why.is_lost(),
        None => !row.fits,
    };
    for row in list(home)?.into_iter().filter(goes) {
        names.push(remove(home, &row.template.id)?);
        bytes += row.size;
    }
    Ok((names, bytes))
}
