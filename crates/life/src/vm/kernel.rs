//! Kernels of guests in the state root, and this program as guests and attendants have it.
//!
//! A kernel is named by the hash of its files, and the file `kernel` names the one in use. This program is copied for the
//! sandboxes, which cannot reach it otherwise, and onto a disk for guests. These, and what else machines begin with, are named by what the file
//! system says of the program's file, so that a newer program makes them anew, in its own way, at its first start of a machine.

use super::VmFault;
use crate::{EngineError, Home};
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use tote_kernel::{Boot, Kernel, lean, unpack};
use tote_state::{StateError, closed, record};
use tote_sys::best_effort;
use tote_vmm::Disk;

/// Names of files, in the state root as well as in sandboxes.
pub(crate) const VMLINUX: &str = "vmlinux";
pub(crate) const INITRAMFS: &str = "initramfs";
pub(crate) const SYSTEM: &str = "system";
const MODULES: &str = "modules.cpio";
const RECORD: &str = "kernel.json";
const IN_USE: &str = "kernel";
const LOCK: &str = ".lock";

/// Beginning of the names of unfinished directories; the holder of the lock removes those of killed commands.
const UNFINISHED: &str = ".new-";

/// Modules of every guest: the devices of its machine, and the file systems of its container.
const WANTED: [&str; 6] = [
    "virtio_mmio",
    "virtio_blk",
    "virtio_console",
    "erofs",
    "overlay",
    "ext4",
];

/// Modules of guests with a certain device, by its number among virtio's kinds; and whether a kernel may lack it: Debian's for virtual
/// machines have no 9p. Without PCI's, the others are not seen there.
const BY_DEVICE: [(&str, u32, bool); 8] = [
    ("virtio_pci", tote_guest::PCI, false),
    ("virtio_net", 1, false),
    ("virtio_balloon", 5, false),
    ("virtiofs", tote_guest::VIRTIOFS, false),
    (NINE_P, tote_guest::NINE_P, true),
    ("9p", tote_guest::NINE_P, true),
    ("virtio_scsi", tote_guest::VIRTIO_SCSI, false),
    ("sd_mod", tote_guest::VIRTIO_SCSI, false),
];

/// Module of the device of 9p.
const NINE_P: &str = "9pnet_virtio";

/// Modules that a kernel may have built in under another name, or lack.
const OPTIONAL: [&str; 2] = ["crc32c_generic", "virtio_rng"];

/// Origin of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmSource {
    /// The newest kernel that this machine has installed.
    Machine,
    /// A package of Debian, or a directory with `boot/` and `lib/modules/`.
    Path(PathBuf),
    /// An image of a kernel, and the directory of its modules, whose name is the release.
    Image {
        /// The image: bzImage or ELF.
        image: PathBuf,
        /// The directory.
        modules: PathBuf,
    },
}

/// A kernel that is ready for guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmKernel {
    /// Name in the state root.
    pub hash: String,
    /// Release, as in `uname -r`.
    pub release: String,
    /// Origin, as it was given.
    pub from: String,
    /// Bytes of the kernel.
    pub size: u64,
    /// The modules in the order in which guests load them, with their sizes in bytes.
    pub modules: Vec<(String, u64)>,
    /// Names of the modules that guests of the tote that made it ready need, where they are not built in.
    #[serde(default)]
    wanted: Vec<String>,
}

/// Returns the names of all modules that a guest may need.
fn wanted() -> Vec<String> {
    let by_device = BY_DEVICE.iter().filter(|(.., is_optional)| !is_optional);
    let names = WANTED.iter().chain(by_device.map(|(name, ..)| name));
    names.map(|name| (*name).to_owned()).collect()
}

/// Makes a kernel ready for guests, and the one in use.
///
/// # Errors
/// [`VmFault`]; nothing has changed then.
pub fn setup(home: &Home, source: &VmSource) -> Result<VmKernel, EngineError> {
    let dir = home.vm();
    let _lock = locked(&dir)?;
    let guest = match source {
        VmSource::Machine => Kernel::below(Path::new("/")).and_then(|kernel| ready(&kernel)),
        VmSource::Image { image, modules } => Kernel::of(image, modules).and_then(|kernel| ready(&kernel)),
        VmSource::Path(path) if is_directory(path)? => Kernel::below(path).and_then(|kernel| ready(&kernel)),
        VmSource::Path(package) => {
            let unpacked = unfinished(&dir)?;
            let kernel = unpack(package, &unpacked)
                .and_then(|()| Kernel::below(&unpacked))
                .and_then(|kernel| ready(&kernel));
            best_effort(tote_sys::remove_tree(&unpacked));
            kernel
        }
    };
    let guest = guest.map_err(VmFault::Kernel)?;
    let hash = Sha256::new()
        .chain_update(&guest.vmlinux)
        .chain_update(&guest.initramfs)
        .finalize();
    let kernel = VmKernel {
        hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        release: guest.release,
        from: match source {
            VmSource::Machine => "this machine".to_owned(),
            VmSource::Path(path) | VmSource::Image { image: path, .. } => path.display().to_string(),
        },
        size: guest.vmlinux.len() as u64,
        modules: guest.modules,
        wanted: wanted(),
    };
    put(&dir, &kernel, &guest.vmlinux, &guest.initramfs)?;
    forget_programs(&dir);
    Ok(kernel)
}

fn ready(kernel: &Kernel) -> Result<tote_kernel::Guest, tote_kernel::KernelError> {
    kernel.make(&WANTED, &OPTIONAL, &BY_DEVICE)
}

fn is_directory(path: &Path) -> Result<bool, VmFault> {
    let found = path.metadata().map_err(VmFault::file("open", path))?;
    Ok(found.is_dir())
}

/// Takes the lock of the directory, and removes what killed commands have left in it.
pub(crate) fn locked(dir: &Path) -> Result<File, EngineError> {
    closed::directory(dir).map_err(VmFault::file("make", dir))?;
    let path = dir.join(LOCK);
    let lock = tote_state::locked::locked_within(&path, true, Some(tote_sys::WORK_LOCK))?;
    let lost = || VmFault::file("lock", &path)(ErrorKind::NotFound.into());
    let lock = lock.ok_or_else(lost)?;
    for name in record::names_in(dir)? {
        if name.starts_with(UNFINISHED) {
            best_effort(tote_sys::remove_tree(&dir.join(name)));
        }
    }
    Ok(lock)
}

/// Makes a directory for what is not finished.
pub(crate) fn unfinished(dir: &Path) -> Result<PathBuf, VmFault> {
    let path = dir.join(format!("{UNFINISHED}{}", std::process::id()));
    let made = DirBuilder::new().mode(0o700).create(&path);
    made.map_err(VmFault::file("make", &path))?;
    Ok(path)
}

/// Writes a file that sandboxes read or execute.
fn write(path: &Path, mode: u32, content: &[u8]) -> Result<(), VmFault> {
    closed::write_new(path, content).map_err(VmFault::file("write", path))?;
    let open = File::open(path).map_err(VmFault::file("open", path))?;
    rustix::fs::fchmod(&open, Mode::from_raw_mode(mode))
        .map_err(|errno| VmFault::file("change the mode of", path)(errno.into()))
}

/// Puts a finished directory in its place, unless that has the same already.
pub(crate) fn put_in_place(from: &Path, to: &Path) -> Result<(), VmFault> {
    if let Some(above) = to.parent() {
        closed::directory(above).map_err(VmFault::file("make", above))?;
    }
    match std::fs::rename(from, to) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
            ) =>
        {
            best_effort(tote_sys::remove_tree(from));
            Ok(())
        }
        renamed => renamed.map_err(VmFault::file("make", to)),
    }
}

fn put(dir: &Path, kernel: &VmKernel, vmlinux: &[u8], modules: &[u8]) -> Result<(), EngineError> {
    let new = unfinished(dir)?;
    write(&new.join(VMLINUX), 0o444, vmlinux)?;
    write(&new.join(MODULES), 0o444, modules)?;
    record::write(&new.join(RECORD), kernel)?;
    let place = dir.join("kernels").join(&kernel.hash);
    put_in_place(&new, &place)?;
    // A kernel that was there keeps its files, which its name tells; its record may be damaged.
    let path = place.join(RECORD);
    if is_lost(record::read::<VmKernel>(&path)) {
        record::remove(&path)?;
        record::write(&path, kernel)?;
    }
    if is_lost(record::read::<String>(&dir.join(IN_USE))) {
        record::remove(&dir.join(IN_USE))?;
    }
    record::write(&dir.join(IN_USE), &kernel.hash)?;
    Ok(())
}

fn is_lost<T>(read: Result<Option<T>, StateError>) -> bool {
    matches!(read, Err(StateError::Record(why)) if why.is_lost())
}

/// Removes copies of programs: those that are needed are made again. Machines that run have them open.
fn forget_programs(dir: &Path) {
    best_effort(tote_sys::remove_tree(&dir.join("programs")));
}

/// Returns the kernel in use; `None` before `vm setup`.
///
/// # Errors
/// [`EngineError::State`]: a record cannot be read.
pub(crate) fn in_use(home: &Home) -> Result<Option<VmKernel>, EngineError> {
    let dir = home.vm();
    let Some(hash) = record::read::<String>(&dir.join(IN_USE))? else {
        return Ok(None);
    };
    // The name of a directory, and nothing else.
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash {
        return Ok(None);
    }
    Ok(record::read(&dir.join("kernels").join(hash).join(RECORD))?)
}

/// Files of a machine, on this one.
#[derive(Debug)]
pub(crate) struct Files {
    pub release: String,
    /// True if the kernel has 9p.
    pub has_nine_p: bool,
    pub program: PathBuf,
    pub vmlinux: PathBuf,
    pub initramfs: PathBuf,
    /// Disk of every guest, with tote.
    pub system: PathBuf,
}

/// Returns the files of a machine; those that have this program in them are made if they are not there, but not for a plan that is
/// only shown.
pub(crate) fn files(home: &Home, dry: bool) -> Result<Files, EngineError> {
    let kernel = in_use(home)?.ok_or(VmFault::NoKernel)?;
    if kernel.wanted != wanted() {
        return Err(VmFault::OldKernel.into());
    }
    let dir = home.vm();
    let of_kernel = dir.join("kernels").join(&kernel.hash);
    let own = Path::new("/proc/self/exe");
    let program = own.metadata().map_err(VmFault::file("look at", own))?;
    let name = format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}-{}",
        program.dev(),
        program.ino(),
        program.size(),
        program.mtime(),
        program.mtime_nsec(),
        &kernel.hash[..16],
    );
    let place = dir.join("programs").join(name);
    let files = Files {
        program: place.join("tote"),
        vmlinux: place.join(VMLINUX),
        initramfs: place.join(INITRAMFS),
        system: place.join(SYSTEM),
        has_nine_p: kernel.modules.iter().any(|(name, _)| name == NINE_P),
        release: kernel.release,
    };
    if !dry && !record::is_there(&files.system)? {
        let _lock = locked(&dir)?;
        if !record::is_there(&files.system)? {
            make_program(&dir, own, &of_kernel, &place)?;
        }
    }
    Ok(files)
}

/// Returns the length of the part of a program that the kernel loads: what debuggers read stands behind it, and a guest would
/// have it in memory.
fn loaded(program: &[u8]) -> Option<usize> {
    let field = |at: usize, length: usize| {
        let bytes = program.get(at..at + length)?;
        let number = bytes
            .iter()
            .rev()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    };
    program.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (table, size, count) = (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?);
    let mut end = table.checked_add(size.checked_mul(count)?)?;
    for number in 0..count {
        let at = table + number * size;
        end = end.max(field(at + 8, 8)?.checked_add(field(at + 32, 8)?)?);
    }
    Some(end).filter(|end| *end <= program.len())
}

/// Describes the disk of every guest, with tote.
pub(crate) fn system(file: PathBuf) -> Disk {
    Disk {
        serial: tote_sys::FIRST_STAGE_DISK.to_owned(),
        file,
        readonly: true,
    }
}

/// Makes the copy of this program, the disk with it, the initramfs that leads to that, and the kernel as a VMM loads it.
fn make_program(dir: &Path, own: &Path, kernel: &Path, place: &Path) -> Result<(), VmFault> {
    let read = |path: &Path| {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(VmFault::file("read", path))
    };
    let (mut program, modules) = (read(own)?, read(&kernel.join(MODULES))?);
    let vmlinux = read(&kernel.join(VMLINUX))?;
    program.truncate(loaded(&program).unwrap_or(program.len()));
    let boot = Boot::of(&modules, tote_guest::PCI).map_err(VmFault::Kernel)?;
    let new = unfinished(dir)?;
    let mut disk = Vec::new();
    boot.write_disk(&program, &mut disk)
        .map_err(VmFault::file("make", new.join(SYSTEM)))?;
    write(&new.join("tote"), 0o555, &program)?;
    write(&new.join(SYSTEM), 0o444, &disk)?;
    write(&new.join(VMLINUX), 0o444, &lean(&vmlinux).unwrap_or(vmlinux))?;
    write(
        &new.join(INITRAMFS),
        0o444,
        &boot.initramfs(tote_sys::FIRST_STAGE),
    )?;
    put_in_place(&new, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_loads_of_this_program() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let end = loaded(&program).unwrap();
        assert!(end > 0x1000 && end <= program.len());
        let mut longer = program[..end].to_vec();
        longer.extend([0; 100]);
        assert_eq!(loaded(&longer), Some(end));
        assert_eq!(loaded(&program[..end - 1]), None, "it is cut off");
        assert_eq!(loaded(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_name_of_a_kernel_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&dir.path().join("root"))).unwrap();
        assert!(matches!(in_use(&home), Ok(None)));
        assert!(
            files(&home, false)
                .unwrap_err()
                .to_string()
                .contains("there is no kernel for it yet")
        );
        closed::directory(&home.vm()).unwrap();
        record::write(&home.vm().join(IN_USE), &"../../etc").unwrap();
        assert!(matches!(in_use(&home), Ok(None)));
    }
}
