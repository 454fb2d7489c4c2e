//! Whether packets that come in by a link may pass through the host: a setting of each link.
//!
//! The host's own switch (`ip_forward`) is left alone, because everything on the host would become a router by it. The links
//! that lead out are switched on one by one, with a note of those that were off, and off again when the last network goes.
//! Another engine that needs forwarding turns on the host's own switch, and so shows that the links are to stay on.

use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_sys::Errno;

const GLOBAL: &str = "/proc/sys/net/ipv4/ip_forward";

fn setting(link: &str) -> PathBuf {
    Path::new("/proc/sys/net/ipv4/conf").join(link).join("forwarding")
}

fn is_on(path: &Path) -> Result<bool> {
    std::fs::read_to_string(path).map(|text| text.trim() != "0")
}

/// Switches on forwarding of packets that come in by this link, which is tote's own.
pub(crate) fn allow_own(link: &str) -> Result<()> {
    let path = setting(link);
    if is_on(&path)? {
        Ok(())
    } else {
        std::fs::write(path, "1")
    }
}

/// Lets addresses of the loopback device be the source of what leaves by this link, and the destination of the answers: it
/// goes with the link.
pub(crate) fn allow_loopback(link: &str) -> Result<()> {
    let path = setting(link).with_file_name("route_localnet");
    if is_on(&path)? {
        Ok(())
    } else {
        std::fs::write(path, "1")
    }
}

/// Switches IPv6 off on a link of the host that is not up yet, where the kernel has IPv6: networks have IPv4 addresses only, and a
/// member must not become a router of the host's (CVE-2020-13401).
pub(crate) fn without_ipv6(link: &str) -> std::result::Result<(), Errno> {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
    match rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        file => rustix::io::write(file?, b"1").map(drop),
    }
}

/// Switches IPv6 off on a link of another network namespace.
pub(crate) fn without_ipv6_in(network: BorrowedFd<'_>, link: &str) -> std::result::Result<(), Errno> {
    let path = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    match tote_sys::open_in(network, &path) {
        Err(Errno::NOENT) => Ok(()),
        file => rustix::io::write(file?, b"1").map(drop),
    }
}

/// Which of these links are noted in the file `note`, or would be by [`allow`]: they let no packets pass of themselves.
pub(crate) fn to_allow(links: &[String], note: &Path) -> Result<Vec<String>> {
    let mut noted = noted(note)?;
    if is_on(Path::new(GLOBAL))? {
        return Ok(noted);
    }
    for link in links {
        if !noted.contains(link) && !is_on(&setting(link))? {
            noted.push(link.clone());
        }
    }
    Ok(noted)
}

/// Lets packets pass that come in by these links, and notes those first that did not let any pass.
pub(crate) fn allow(links: &[String], note: &Path) -> Result<()> {
    let before = noted(note)?;
    let all = to_allow(links, note)?;
    if all != before {
        write(note, &all)?;
    }
    for link in &all {
        match is_on(&setting(link)) {
            Ok(false) => std::fs::write(setting(link), "1")?,
            // It is gone since it was noted.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            on => drop(on?),
        }
    }
    Ok(())
}

/// Puts the settings back that the note names, and removes the note.
pub(crate) fn put_back(note: &Path) -> Result<()> {
    if !is_on(Path::new(GLOBAL))? {
        for link in noted(note)? {
            match std::fs::write(setting(&link), "0") {
                // The link is gone.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                written => written?,
            }
        }
    }
    match tote_sys::remove_file(note) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The links that a note names; none where it is of another boot or another network namespace.
fn noted(note: &Path) -> Result<Vec<String>> {
    let text = match std::fs::read_to_string(note) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let mut lines = text.lines();
    let is_current = lines.next() == Some(&epoch()?);
    Ok(lines.filter(|_| is_current).map(ToOwned::to_owned).collect())
}

fn write(note: &Path, links: &[String]) -> Result<()> {
    let lines: String = links.iter().map(|link| format!("{link}\n")).collect();
    let fresh = note.with_extension("new");
    let mut options = OpenOptions::new();
    // A umask takes permissions away and gives none.
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(&fresh)?
        .write_all(format!("{}\n{lines}", epoch()?).as_bytes())?;
    std::fs::rename(fresh, note)
}

/// The boot and the network namespace that a note is of.
fn epoch() -> Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::read_link("/proc/thread-self/ns/net")?;
    let namespace = namespace
        .to_str()
        .ok_or_else(|| Error::from(ErrorKind::InvalidData))?;
    Ok(format!("{} {namespace}", boot.trim()))
}
