//! User namespaces that are joined although the bundle has maps as well.
//!
//! The specification allows either. containerd and CRI-O give both for a pod with a user namespace, as runc once
//! required, and runc accepts them if they agree.

use crate::OciError;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::fs::File;
use std::io::{Read as _, Write as _};
use tote_sandbox::clone_flag;
use tote_spec::{IdMapping, NamespaceType, Spec};
use tote_sys::{Endless, Wait};

const AGREES: &str = "the bundle gives both a user namespace to join and its id mappings: they agree, so it is joined, but \
                      the specification wants one of the two";

/// Compares the bundle's maps with those of the user namespace that it joins. Returns a warning if it has both.
///
/// # Errors
/// The maps are different, in runc's words; or those of the namespace cannot be read.
pub(crate) fn check(spec: &Spec, joins: &[(NamespaceType, OwnedFd)]) -> Result<Option<String>, OciError> {
    let Some(linux) = &spec.linux else { return Ok(None) };
    let joined = joins.iter().find(|(kind, _)| *kind == NamespaceType::User);
    let Some((_, namespace)) = joined else {
        return Ok(None);
    };
    if linux.uid_mappings.is_empty() && linux.gid_mappings.is_empty() {
        return Ok(None);
    }
    let texts = read(namespace.as_fd())?;
    let (uid, gid) = texts.split_once('\0').unwrap_or((&texts, ""));
    if is_same(uid, &linux.uid_mappings) && is_same(gid, &linux.gid_mappings) {
        return Ok(Some(AGREES.to_owned()));
    }
    Err(OciError::Property(
        "user namespaces enabled, but both namespace path and non-matching mappings specified -- you may only provide one"
            .to_owned(),
    ))
}

/// Reads the maps of users and of groups, with a zero byte between. A process that enters the namespace reads them,
/// because the namespace may be bound to a file and not belong to a process.
fn read(namespace: BorrowedFd<'_>) -> Result<String, OciError> {
    let failed = OciError::kernel("read the id mappings of the user namespace to join");
    let look = || {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // process: reader of id maps
        let child = tote_sys::fork_worker(|| {
            let look = || {
                tote_sys::set_namespaces(namespace, clone_flag(NamespaceType::User))?;
                let uid = std::fs::read_to_string("/proc/self/uid_map")?;
                let gid = std::fs::read_to_string("/proc/self/gid_map")?;
                write!(File::from(writer.try_clone()?), "{uid}\0{gid}")
            };
            u8::from(look().is_err())
        })?;
        drop(writer);
        let mut text = String::new();
        let read = File::from(reader).read_to_string(&mut text);
        Wait::endless(Endless::Worker).reap_child(child)?;
        read.map(|_| text)
    };
    let looked: std::io::Result<String> = look();
    looked.map_err(|error| failed(tote_sys::Errno::from_io_error(&error).unwrap_or(tote_sys::Errno::IO)))
}

/// True if the kernel's text of a map equals a bundle's list.
fn is_same(text: &str, list: &[IdMapping]) -> bool {
    let numbers = |map: &IdMapping| [map.container_id, map.host_id, map.size];
    let mut there: Vec<_> = IdMapping::read(text).iter().map(numbers).collect();
    let mut given: Vec<_> = list.iter().map(numbers).collect();
    there.sort_unstable();
    given.sort_unstable();
    there == given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_compared_line_by_line() {
        let map = |container_id, host_id, size| IdMapping {
            container_id,
            host_id,
            size,
        };
        let text = "         0     100000      65536\n     65536          5          1\n";
        let both = [map(65536, 5, 1), map(0, 100_000, 65536)];
        assert!(is_same(text, &both), "in any order");
        assert!(!is_same(text, &both[..1]));
        assert!(!is_same(text, &[map(65536, 5, 1), map(0, 100_001, 65536)]));
        assert!(is_same("", &[]) && !is_same("", &both));
    }
}
