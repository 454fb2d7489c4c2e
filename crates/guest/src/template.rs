//! A machine that is saved when it is ready, and goes on any number of times, each time as another one.
//!
//! ```text
//! boot ─► modules ─► devices of the container let go ─► ready ─┬─ saved
//!                                                              ├─ resumed ─► woken: seed, clock ─► devices ─► ready ─► plan
//!                                                              └─ resumed ─► woken: …
//! ```
//! A machine that is saved has seen nothing of a container: no plan, no block of a disk, no address, no input. Disks and network devices are
//! placeholders until the machine goes on, so their drivers let them go before, and take them, with their sizes and addresses, after that.
//! Three disks they keep: the one with this program, which is the same in all of them; and two of which nothing was read and on whose size no process
//! relies, the disk of tools, which is empty in every machine that begins, and that of the image, whose file system knows how large it is. To take a disk costs an emulated processor as much as the rest of a start.

use crate::error::GuestError;
use crate::machine::{BUS, DISKS, IMAGE_DISK, SYSTEM_DISK, appear, devices, link_disks};
use crate::spare::Spare;
use crate::tools::TOOLS_DISK;
use crate::worker::Errands;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::time::{ClockId, Timespec, clock_settime};
use std::collections::BTreeMap;
use std::path::Path;
use tote_channel::{Guest, Order, Wake};
use tote_sys::{Endless, Errno, Wait, best_effort};

/// Variable of process 1 by which a machine knows that it is to be saved: the kernel makes one of each word of its command line that it
/// does not know.
pub const TEMPLATE: &str = "tote_template";

/// Numbers of network devices and disks among virtio's kinds of devices, and their drivers.
const LINK: (u32, &str) = (1, "virtio_net");
const DISK: (u32, &str) = (2, "virtio_blk");

/// True for a machine that is to be saved.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(TEMPLATE).is_some()
}

/// Says that the machine can be saved, and returns in one that goes on, which is another one then: with random numbers, a clock and
/// devices of its own. The worker of the container waits there already: to make it takes an emulated processor milliseconds.
pub(crate) fn sleep(port: &OwnedFd, errands: Errands) -> Result<Spare, GuestError> {
    // The disks that stay have the names that a container's plan knows.
    appear(IMAGE_DISK, || {
        link_disks()?;
        let links = [IMAGE_DISK, TOOLS_DISK].map(|serial| rustix::fs::stat(format!("{DISKS}/{serial}")));
        Ok(links.iter().all(Result::is_ok).then_some(()))
    })?;
    let mut disks = devices(DISK.0);
    disks.retain(|name| !is_kept(name));
    let all = [(DISK, disks), (LINK, devices(LINK.0))];
    for ((_, driver), names) in &all {
        for name in names {
            let bound = Path::new(BUS).join("devices").join(name).join("driver");
            // absence: a device that cannot be looked at is let go as well, which says why it cannot
            if bound.try_exists().unwrap_or(true) {
                tell(driver, "unbind", name)?;
            }
        }
    }
    crate::spare::seal();
    read_program();
    // A plan that wants none of its own leaves it.
    let network = tote_sys::ComingNetwork::begin();
    let network = network
        .map_err(GuestError::kernel("make", "a network namespace"))?
        .take();
    let spare = Spare::fork(&mut BTreeMap::new(), network, errands)?;
    let wake = wait(port)?;
    // Before anything else draws a number.
    tote_sys::renew_entropy(&wake.seed).map_err(GuestError::kernel("renew", "random numbers"))?;
    let now = Timespec {
        tv_sec: i64::try_from(wake.time / 1_000_000_000).unwrap_or_default(),
        tv_nsec: i64::try_from(wake.time % 1_000_000_000).unwrap_or_default(),
    };
    clock_settime(ClockId::Realtime, now).map_err(GuestError::kernel("set", "the clock"))?;
    for (((kind, driver), names), count) in all.iter().zip([wake.disks, wake.links]) {
        for name in names.iter().take(count.into()) {
            tell(driver, "bind", name)?;
            if *kind == LINK.0 {
                // The hardware address is the placeholder's until the device has been reset, which its driver does when it lets it go.
                tell(driver, "unbind", name)?;
                tell(driver, "bind", name)?;
            }
        }
    }
    if wake.disks > 0 {
        link_disks()?;
    }
    Ok(spare)
}

/// Reads this program once, so that it is in the memory that all machines of the template have in common: to read a page of a disk takes an
/// emulated processor longer than most pages are executed.
fn read_program() {
    let read = std::fs::File::open("/proc/self/exe")
        .and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
    // What was not read is read when it is needed.
    best_effort(read);
}

/// True for the disks that every machine of the template has, so that their driver keeps them: that of the image, that of tools, and the one with
/// this program.
fn is_kept(device: &str) -> bool {
    let block = Path::new(BUS).join("devices").join(device).join("block");
    // absence: the device is let go, and comes back with the machine
    let mut disks = std::fs::read_dir(block).into_iter().flatten().flatten();
    disks.any(|disk| {
        let serial = std::fs::read_to_string(disk.path().join("serial"));
        serial.is_ok_and(|serial| [TOOLS_DISK, IMAGE_DISK, SYSTEM_DISK].contains(&serial.trim()))
    })
}

/// Has a driver take a device or let it go, which it has done when the call returns.
fn tell(driver: &str, what: &'static str, device: &str) -> Result<(), GuestError> {
    let path = Path::new(BUS).join("drivers").join(driver).join(what);
    std::fs::write(&path, device).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        GuestError::kernel(what, format!("{driver} of {device}"))(errno)
    })
}

/// Says that the machine is ready, and waits until it is another one.
fn wait(port: &OwnedFd) -> Result<Wake, GuestError> {
    let mut guest = Guest::new(&crate::machine::release());
    loop {
        let sends = guest.has_outgoing();
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, sends);
        match Wait::endless(Endless::Calls).poll(&mut [PollFd::from_borrowed_fd(port.as_fd(), flags)]) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(GuestError::kernel("wait for", "the host")(errno)),
        }
        if sends {
            crate::port::send(port, guest.outgoing())?;
        }
        let mut buffer = [0; 256];
        match rustix::io::read(port, &mut buffer) {
            Ok(0) => return Err(GuestError::kernel("hear", "the host")(Errno::PIPE)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(GuestError::kernel("read", "the channel")(errno)),
            Ok(length) => {
                // The host says nothing else before it hears of the machine again.
                for order in guest.received(&buffer[..length])? {
                    if let Order::Wake(wake) = order {
                        return Ok(wake);
                    }
                }
            }
        }
    }
}
