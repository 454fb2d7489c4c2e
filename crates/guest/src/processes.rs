//! The processes of a container, for the host that shows them: the files of `/proc` as they are.
//!
//! ```text
//! listing = FILE*
//! FILE    = NAME " " LENGTH "\n" BYTES      NAME is PID/FILE, or that of a file of the whole machine
//! ```

use rustix::fd::{AsRawFd as _, BorrowedFd};
use std::collections::BTreeMap;
use std::io::Write as _;

/// Bytes in the place of a plan by which the host has the processes listed.
pub const PROCESSES: &[u8] = b"tote processes 1\n";

/// Files of the machine.
const OF_MACHINE: [&str; 2] = ["uptime", "meminfo"];

/// Files of each process.
const OF_PROCESS: [&str; 5] = ["stat", "status", "cmdline", "wchan", "attr/current"];

/// The most processes that are listed.
const MOST: usize = 10_000;

/// Lists the processes in the PID namespace of this one.
pub(crate) fn list(joined: BorrowedFd<'_>) -> Vec<u8> {
    let mut listing = Vec::new();
    for name in OF_MACHINE {
        put(&mut listing, name);
    }
    // absence: the process has ended
    let namespace = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(wanted) = number(joined).and_then(namespace) else {
        return listing;
    };
    // absence: a list for people
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut members: Vec<i32> = pids
        .filter(|pid| namespace(*pid).as_ref() == Some(&wanted))
        .collect();
    members.sort_unstable();
    for pid in members.into_iter().take(MOST) {
        for name in OF_PROCESS {
            put(&mut listing, &format!("{pid}/{name}"));
        }
    }
    listing
}

/// Returns the pid of a pidfd.
pub(crate) fn number(pidfd: BorrowedFd<'_>) -> Option<i32> {
    // absence: the process has ended
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    line?.trim().parse().ok()
}

/// Adds a file; one that cannot be read is empty, as that of a process that has just ended.
fn put(listing: &mut Vec<u8>, name: &str) {
    // absence: the process has ended
    let bytes = std::fs::read(format!("/proc/{name}")).unwrap_or_default();
    // Memory takes every byte.
    tote_sys::best_effort(writeln!(listing, "{name} {}", bytes.len()));
    listing.extend_from_slice(&bytes);
}

/// Reads a listing, as far as it is one: the guest is an enemy, and the end may be cut off.
#[must_use]
pub fn parse_listing(mut listing: &[u8]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    while let Some(end) = listing.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&listing[..end]);
        let Some((name, length)) = line.split_once(' ') else {
            break;
        };
        let Some(bytes) = length
            .parse()
            .ok()
            .and_then(|length: usize| listing[end + 1..].get(..length))
        else {
            break;
        };
        files.insert(name.to_owned(), String::from_utf8_lossy(bytes).into_owned());
        listing = &listing[end + 1 + bytes.len()..];
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;
    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    #[test]
    fn a_listing_comes_back() {
        let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let files = parse_listing(&list(own.as_fd()));
        let pid = getpid().as_raw_pid();
        assert_eq!(
            files[&format!("{pid}/cmdline")],
            std::fs::read_to_string("/proc/self/cmdline").unwrap()
        );
        assert!(files[&format!("{pid}/stat")].starts_with(&pid.to_string()));
        assert!(files["meminfo"].contains("MemTotal"));
    }

    #[test]
    fn what_is_no_listing_ends_it() {
        let good = b"1/stat 3\na\nb";
        assert_eq!(parse_listing(good)["1/stat"], "a\nb");
        for bad in [
            &b"x"[..],
            b"\n",
            b"a\n",
            b"a b\n",
            b"a 5\nb",
            b"a 18446744073709551615\nb",
            b"a -1\n",
        ] {
            assert!(parse_listing(bad).is_empty(), "{bad:?}");
            let all = [&good[..], bad].concat();
            assert_eq!(parse_listing(&all).len(), 1, "{bad:?}");
        }
    }
}
