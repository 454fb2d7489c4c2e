//! From the start of process 1 to a machine in which plans can be performed.

use crate::error::GuestError;
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::mount::{MountFlags, mount, mount_move};
use std::ffi::CStr;
use std::path::Path;
use std::time::{Duration, Instant};
use tote_sys::{Errno, FIRST_STAGE_DISK, best_effort, present};

/// Name of the serial port that is the channel to the host.
pub const PORT: &str = "tote";

/// Directory in which the image of the container is mounted.
pub const IMAGE: &str = "/image";

/// Directory on which a mount namespace mounts its root.
pub const CONTAINERS: &str = "/container";

/// Directory of links to the machine's disks, by their serial numbers.
pub const DISKS: &str = "/dev/disk";

/// Directory of the directories and files that the guest shares with the host, by number.
pub const SHARES: &str = "/shares";

/// Name by which virtiofs or 9p finds them.
pub const SHARES_TAG: &str = "tote";

/// Number of virtiofs among virtio's kinds of devices.
pub const VIRTIOFS: u32 = 26;

/// Number of 9p among virtio's kinds of devices.
pub const NINE_P: u32 = 9;

/// Settings of 9p: the largest messages that QEMU and the kernel agree on, and a cache only for what is mapped into memory,
/// so that changes on the host are seen at once.
const NINE_P_SETTINGS: &CStr = c"trans=virtio,version=9p2000.L,msize=512000,cache=mmap";

/// Number of disks among virtio's kinds of devices.
const VIRTIO_BLOCK: u32 = 2;

/// Number of SCSI's controllers among virtio's kinds of devices: those of machines whose disks come and go.
pub const VIRTIO_SCSI: u32 = 8;

/// Number by which the list of modules names those of machines with PCI: virtio has not that kind.
pub const PCI: u32 = 0;

/// Serial number of the disk with this program, which the first stage has mounted.
pub(crate) const SYSTEM_DISK: &str = FIRST_STAGE_DISK;

/// Serial number of the disk with the image.
pub const IMAGE_DISK: &str = "image";

/// Directory of virtio's devices and drivers.
pub(crate) const BUS: &str = "/sys/bus/virtio";

/// Directories of the root that takes the place of the initramfs.
const DIRECTORIES: [&str; 8] = [
    "dev",
    "proc",
    "sys",
    "image",
    "container",
    "tmp",
    "shares",
    "tools",
];

/// File systems that are there before the root changes, with their types.
const SYSTEMS: [(&str, &str); 3] = [("/dev", "devtmpfs"), ("/proc", "proc"), ("/sys", "sysfs")];

/// Place of the new root in the initramfs.
const ROOT: &str = "/root";

/// Time that a device takes at most on a busy host that emulates everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine whose devices are there.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The channel to the host.
    pub(crate) port: OwnedFd,
    /// File system by which directories of the host are shared, and its settings.
    shared: Option<(&'static str, &'static CStr)>,
}

impl Machine {
    /// Prepares the machine, but for what its container has.
    pub(crate) fn prepare() -> Result<Self, GuestError> {
        for (place, kind) in SYSTEMS {
            system(kind, place, kind)?;
        }
        load_modules()?;
        let shared = [("virtiofs", VIRTIOFS, c""), ("9p", NINE_P, NINE_P_SETTINGS)];
        let shared = shared.into_iter().find(|(_, device, _)| has_device(*device));
        leave_initramfs()?;
        make_directory("/dev/pts")?;
        system("devpts", "/dev/pts", "devpts")?;
        make_directory(DISKS)?;
        Ok(Self {
            port: open_port()?,
            shared: shared.map(|(kind, _, settings)| (kind, settings)),
        })
    }

    /// Mounts the image of the container, and what the host shares; the disks may have their links already.
    pub(crate) fn mount(&self, are_linked: bool) -> Result<(), GuestError> {
        if !are_linked {
            let disks = devices(VIRTIO_BLOCK).len();
            appear("of a disk", || Ok((link_disks()? >= disks).then_some(())))?;
        }
        // The machine of a pod has none before its containers come, nor has that of another engine's bundle.
        let disk = format!("{DISKS}/{IMAGE_DISK}");
        let found = present(rustix::fs::stat(&disk)).map_err(GuestError::kernel("look at", &disk))?;
        if found.is_some() {
            mount_image()?;
        }
        match self.shared {
            Some((kind, settings)) => mount_shares(kind, settings),
            None => Ok(()),
        }
    }
}

/// Returns the release of the kernel.
pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn open_port() -> Result<OwnedFd, GuestError> {
    let port = appear(PORT, port)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&port, flags, Mode::empty()).map_err(GuestError::kernel("open", &port))
}

/// Mounts the disk with the image.
pub(crate) fn mount_image() -> Result<(), GuestError> {
    let disk = format!("{DISKS}/{IMAGE_DISK}");
    let flags = MountFlags::RDONLY | MountFlags::NODEV;
    mount(&disk, IMAGE, "erofs", flags, c"").map_err(GuestError::kernel("mount", &disk))
}

/// Mounts what the host shares. Each of its file systems is one of its own here, which opening its directory mounts.
fn mount_shares(kind: &str, settings: &CStr) -> Result<(), GuestError> {
    let flags = MountFlags::NODEV;
    mount(SHARES_TAG, SHARES, kind, flags, settings).map_err(GuestError::kernel("mount", SHARES))?;
    // absence: the directory is opened again where it is bound, which reports the error
    for entry in std::fs::read_dir(SHARES).into_iter().flatten().flatten() {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A file is bound as it is.
        best_effort(rustix::fs::open(entry.path(), flags, Mode::empty()));
    }
    Ok(())
}

pub(crate) fn system(kind: &str, place: &str, source: &str) -> Result<(), GuestError> {
    match mount(source, place, kind, MountFlags::empty(), c"") {
        // The kernel may have mounted its devices already.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(errno) => Err(GuestError::kernel("mount", place)(errno)),
    }
}

/// Makes a link for each disk of virtio that is there, by its serial number: the letters of their names follow from the places of their
/// devices. Returns how many there are.
pub(crate) fn link_disks() -> Result<usize, GuestError> {
    let mut linked = 0;
    // absence: the caller asks again until all disks are there
    let Ok(entries) = std::fs::read_dir("/sys/block") else {
        return Ok(linked);
    };
    for entry in entries.flatten() {
        // absence: the caller asks again until all disks are there
        let Ok(serial) = std::fs::read_to_string(entry.path().join("serial")) else {
            continue;
        };
        let link = format!("{DISKS}/{}", serial.trim());
        match rustix::fs::symlink(format!("../{}", entry.file_name().display()), &link) {
            Ok(()) | Err(Errno::EXIST) => linked += 1,
            Err(errno) => return Err(GuestError::kernel("make", &link)(errno)),
        }
    }
    Ok(linked)
}

/// Returns the device of the SCSI disk with this serial number, once it is there: the standard has it in page 0x80, behind four bytes.
pub(crate) fn disk_of(serial: &str) -> Option<String> {
    // absence: the caller asks again until the disk is there
    let mut entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let found = entries.find(|entry| {
        // absence: the caller asks again until the disk is there
        let page = std::fs::read(entry.path().join("device/vpd_pg80")).unwrap_or_default();
        page.get(4..) == Some(serial.as_bytes())
    })?;
    let device = format!("/dev/{}", found.file_name().display());
    // The node is there a moment before the disk can be opened.
    let opened = rustix::fs::open(&device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    opened.is_ok().then_some(device)
}

/// True if the machine has a virtio device of this kind, or PCI.
fn has_device(kind: u32) -> bool {
    if kind == PCI {
        let devices = std::fs::read_dir("/sys/bus/pci/devices");
        return devices.is_ok_and(|mut devices| devices.next().is_some());
    }
    !devices(kind).is_empty()
}

/// Returns the virtio devices of a kind, in the order in which the machine has them.
pub(crate) fn devices(kind: u32) -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(BUS).join("devices"));
    let entries = entries.into_iter().flatten().flatten();
    let is_one = |path: &Path| {
        // absence: a device that is not let go keeps its template from being made, with an error
        let number = std::fs::read_to_string(path.join("device")).unwrap_or_default();
        u32::from_str_radix(number.trim().trim_start_matches("0x"), 16) == Ok(kind)
    };
    let names = entries.filter(|entry| is_one(&entry.path()));
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let number = |name: &String| name.trim_start_matches("virtio").parse::<u32>().ok();
    names.sort_by_key(number);
    names
}

/// Loads the modules of the disk with this program, in the order of its list, but those of devices that the machine has not. The first stage
/// has loaded those of every guest.
fn load_modules() -> Result<(), GuestError> {
    const LIST: &str = "/tote/modules/list";
    let list = std::fs::read_to_string(LIST).map_err(|source| GuestError::Read { path: LIST, source })?;
    for line in list.lines() {
        let (name, device) = line.split_once(' ').unwrap_or((line, ""));
        let device = device.parse::<u32>().ok();
        if device.is_some_and(|device| !has_device(device)) {
            continue;
        }
        let path = format!("/tote/modules/{name}.ko");
        let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let file = file.map_err(GuestError::kernel("open", &path))?;
        match rustix::system::finit_module(&file, c"", 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(GuestError::kernel("load module", name)(errno)),
        }
        // Its pages in memory are not read again.
        best_effort(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed));
    }
    Ok(())
}

/// Replaces the root by an empty one in memory: pivot_root(2), by which each container leaves it, refuses the initramfs.
fn leave_initramfs() -> Result<(), GuestError> {
    system("tmpfs", ROOT, "root")?;
    for name in DIRECTORIES {
        make_directory(&format!("{ROOT}/{name}"))?;
    }
    for (place, _) in SYSTEMS {
        let new = format!("{ROOT}{place}");
        mount_move(place, &new).map_err(GuestError::kernel("move", place))?;
    }
    let entered = rustix::process::chdir(ROOT)
        .and_then(|()| mount_move(".", "/"))
        .and_then(|()| rustix::process::chroot("."))
        .and_then(|()| rustix::process::chdir("/"));
    entered.map_err(GuestError::kernel("change to", "the new root"))
}

fn make_directory(path: &str) -> Result<(), GuestError> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(GuestError::kernel("make", path)(errno)),
    }
}

/// Returns the path of the port's device, once it has its name.
fn port() -> Result<Option<String>, GuestError> {
    // absence: the caller asks again until the port is there
    let Ok(ports) = std::fs::read_dir("/sys/class/virtio-ports") else {
        return Ok(None);
    };
    for entry in ports.flatten() {
        // absence: the caller asks again until the port is there
        let name = std::fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        let device = format!("/dev/{}", entry.file_name().display());
        // absence: the caller asks again until the port is there
        if name.trim_end() == PORT && rustix::fs::stat(&device).is_ok() {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

/// Waits for a device. Drivers tell of devices only by netlink messages, which another loop would have to wait for.
pub(crate) fn appear<T>(
    what: &'static str,
    mut look: impl FnMut() -> Result<Option<T>, GuestError>,
) -> Result<T, GuestError> {
    let begin = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begin.elapsed() > PATIENCE {
            return Err(GuestError::NoDevice(what));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a device that appears wakes nothing that this process could wait for; it takes a few ms, once in a boot"
        )]
        std::thread::sleep(Duration::from_millis(1));
    }
}
