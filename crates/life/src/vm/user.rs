//! Users of machines: each machine of root's has one of its own, so that no process of the host, and no QEMU that another guest has
//! taken over, can trace it, read its memory or open what it has open.
//!
//! No file names these users. Their ids are in a range from which no other program gives ids: above those that systemd gives to containers (to
//! 0x6fff_ffff), that useradd(8) takes for ranges (to 600,100,000) and that sssd(8) and OpenShift compute (to 2,000,200,000), and below those that systemd
//! keeps for the files of others (from 0x7ffe_0000). Some programs take larger ids for negative numbers.

use super::VmFault;
use crate::container::Entry;
use crate::{Caller, EngineError};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use std::path::Path;
use tote_bundle::{ContainerId, Sharing};
use tote_vmm::Disk;

/// First id, and number of ids.
const FIRST: u32 = 0x7800_0000;
const NUMBER: u32 = 0x07fe_0000;

/// User of machines that have to share one.
const SHARED: u32 = 65_534;

/// Root of the caller's user namespace, which has no right in a sandbox.
const ROOT: u32 = 0;

/// Returns the user of a container's machine; `None` for that of the caller, who is not root.
///
/// A directory that QEMU itself shares keeps the files that a machine has made there, and the next one has to be able to write to
/// them: such machines have one user.
pub(crate) fn of(caller: Caller, id: &ContainerId, sharing: Option<Sharing>) -> Result<Option<u32>, VmFault> {
    chosen(caller, || match sharing {
        Some(Sharing::NineP) => SHARED,
        _ => own(id),
    })
}

/// Returns the user of the machine of a container that runs.
pub(crate) fn of_running(caller: Caller, entry: &Entry) -> Result<Option<u32>, VmFault> {
    let is_nine_p = entry.state.shares.as_deref() == Some(Sharing::NineP.name());
    of(caller, &entry.container.id, is_nine_p.then_some(Sharing::NineP))
}

/// Returns a user for a machine that has no container.
pub(crate) fn new(caller: Caller) -> Result<Option<u32>, EngineError> {
    let id = tote_state::new_id()?;
    Ok(chosen(caller, || own(&id))?)
}

fn chosen(caller: Caller, wanted: impl Fn() -> u32) -> Result<Option<u32>, VmFault> {
    let maps = match caller {
        Caller::User => return Ok(None),
        // The first user namespace has every id.
        Caller::Root => return Ok(Some(wanted())),
        Caller::NestedRoot => ["/proc/self/uid_map", "/proc/self/gid_map"],
    };
    let mut texts = Vec::with_capacity(maps.len());
    for path in maps.map(Path::new) {
        texts.push(std::fs::read_to_string(path).map_err(VmFault::file("read", path))?);
    }
    let is_there = |id: &u32| texts.iter().all(|text| maps_id(text, *id));
    Ok(Some(
        [wanted(), SHARED].into_iter().find(is_there).unwrap_or(ROOT),
    ))
}

/// Lets the user of a machine write to a disk, or read it.
pub(crate) fn admit(disk: &Disk, user: u32) -> Result<(), VmFault> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let failed = |attempt| {
        let error = VmFault::file(attempt, &disk.file);
        |errno: tote_sys::Errno| error(errno.into())
    };
    let file = rustix::fs::open(&disk.file, flags, Mode::empty()).map_err(failed("open"))?;
    if disk.readonly {
        // Several machines may read it at once, so it belongs to none of them. The state root is closed to other users.
        return rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).map_err(failed("change the mode of"));
    }
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    rustix::fs::fchown(&file, Some(uid), Some(gid)).map_err(failed("change the owner of"))
}

/// Computes the id that follows from a container's.
fn own(id: &ContainerId) -> u32 {
    let [a, b, c, d, ..] = id.to_bytes();
    FIRST + u32::from_be_bytes([a, b, c, d]) % NUMBER
}

/// True if a user namespace with these maps has the id.
fn maps_id(maps: &str, id: u32) -> bool {
    maps.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (Some(Ok(first)), Some(Ok(length))) = (numbers.next(), numbers.nth(1)) else {
            return false;
        };
        id.checked_sub(first).is_some_and(|place| place < length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_containers_and_are_in_the_range() {
        let id = |byte| ContainerId::from_bytes([byte; 32]);
        let ids = [0, 1, 0x7f, 0xff].map(|byte| own(&id(byte)));
        assert_eq!(ids[0], 0x7800_0000);
        for (place, one) in ids.iter().enumerate() {
            assert!((2_013_265_920..0x7ffe_0000).contains(one), "{one}");
            assert!(!ids[..place].contains(one), "{one}");
        }
        let root = |sharing| of(Caller::Root, &id(7), sharing).unwrap();
        assert_eq!(root(None), Some(own(&id(7))));
        assert_eq!(root(Some(Sharing::Virtiofs)), Some(own(&id(7))));
        assert_eq!(root(Some(Sharing::NineP)), Some(SHARED));
        assert_eq!(of(Caller::User, &id(7), None).unwrap(), None);
        assert_ne!(new(Caller::Root).unwrap(), new(Caller::Root).unwrap());
    }

    #[test]
    fn ids_are_looked_up_in_maps() {
        let whole = "         0          0 4294967295\n";
        assert!(maps_id(whole, FIRST) && maps_id(whole, SHARED));
        let few = "0 1000 1\n1 100000 65536\n";
        assert!(maps_id(few, 0) && maps_id(few, SHARED) && maps_id(few, 65_536));
        assert!(!maps_id(few, 65_537) && !maps_id(few, FIRST));
        assert!(!maps_id("", 0) && !maps_id("a b c\n5\n", 5));
    }
}
