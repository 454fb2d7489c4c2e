//! Whether packets that come in by a link may pass through the host: a setting of each link.
//!
//! The host's own switch (`ip_forward`) is left alone, because everything on the host would become a router by it. The links
//! that lead out are switched on one by one, with a record of those that were off ([`guard`](crate::guard)), and off again when the last network goes.
//! Another engine that needs forwarding turns on the host's own switch, and so shows that the links are to stay on.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_sys::{Errno, best_effort};

/// The protocol whose packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Ipv4,
    /// A kernel lets packets pass by single links, on a host that is not a router, since Linux 6.17.
    Ipv6,
}

impl Protocol {
    /// The host's own switch.
    fn global(self) -> &'static Path {
        Path::new(match self {
            Self::Ipv4 => "/proc/sys/net/ipv4/ip_forward",
            Self::Ipv6 => "/proc/sys/net/ipv6/conf/all/forwarding",
        })
    }

    /// The switch of a link.
    fn setting(self, link: &str) -> PathBuf {
        let (links, file) = match self {
            Self::Ipv4 => ("/proc/sys/net/ipv4/conf", "forwarding"),
            Self::Ipv6 => ("/proc/sys/net/ipv6/conf", "force_forwarding"),
        };
        Path::new(links).join(link).join(file)
    }
}

/// A link by which packets of a protocol come in that pass through the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) protocol: Protocol,
    pub(crate) link: String,
}

/// How a note marks a link of IPv6. No link's name has a colon.
const NOTED_IPV6: &str = "ipv6:";

impl Exit {
    /// Reads a line of a note.
    pub(crate) fn noted(line: &str) -> Self {
        let (protocol, link) = match line.strip_prefix(NOTED_IPV6) {
            Some(link) => (Protocol::Ipv6, link),
            None => (Protocol::Ipv4, line),
        };
        let link = link.to_owned();
        Self { protocol, link }
    }

    /// Writes what [`Exit::noted`] reads.
    pub(crate) fn note(&self) -> String {
        match self.protocol {
            Protocol::Ipv4 => self.link.clone(),
            Protocol::Ipv6 => format!("{NOTED_IPV6}{}", self.link),
        }
    }

    fn setting(&self) -> PathBuf {
        self.protocol.setting(&self.link)
    }
}

fn is_on(path: &Path) -> Result<bool> {
    std::fs::read_to_string(path).map(|text| text.trim() != "0")
}

/// Like [`is_on`], of a setting that older kernels, and kernels without IPv6, do not have.
fn is_on_if_there(path: &Path) -> Result<Option<bool>> {
    match is_on(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        on => on.map(Some),
    }
}

/// Switches on forwarding of packets that come in by this link, which is tote's own. False if the kernel can forward IPv6 for
/// the whole host only, and the host does not.
pub(crate) fn allow_own(link: &str, protocol: Protocol) -> Result<bool> {
    let path = protocol.setting(link);
    match is_on_if_there(&path)? {
        Some(true) => Ok(true),
        Some(false) => std::fs::write(path, "1").map(|()| true),
        None => Ok(is_on_if_there(protocol.global())? == Some(true)),
    }
}

/// Lets addresses of the loopback device be the source of what leaves by this link, and the destination of the answers: it
/// goes with the link.
pub(crate) fn allow_loopback(link: &str) -> Result<()> {
    let path = Protocol::Ipv4.setting(link).with_file_name("route_localnet");
    if is_on(&path)? {
        Ok(())
    } else {
        std::fs::write(path, "1")
    }
}

/// Has the kernel take neither redirections of its routes nor packets that name their own route by this link, which is tote's own and
/// not up yet. A link that forwards takes redirections where the whole machine does, and one that does not, where either does.
pub(crate) fn believe_no_routes(link: &str) -> Result<()> {
    let forwarding = Protocol::Ipv4.setting(link);
    for setting in ["accept_redirects", "accept_source_route"] {
        let path = forwarding.with_file_name(setting);
        if is_on(&path)? {
            std::fs::write(path, "0")?;
        }
    }
    Ok(())
}

/// Has bridges of this network namespace pass frames from one member to another without asking the packet filter for IP, which
/// kernels with `br_netfilter` otherwise do. No rule needs these frames, and each kernel without it passes them so. A setting of
/// the whole namespace: on a host it belongs to others.
pub(crate) fn pass_frames() {
    for file in ["iptables", "ip6tables", "arptables"] {
        let path = format!("/proc/sys/net/bridge/bridge-nf-call-{file}");
        best_effort(std::fs::write(path, "0"));
    }
}

/// Whether this network namespace's bridges ask the packet filter for IP about frames from one member to another.
pub(crate) fn asks_about_frames() -> bool {
    is_on(Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables")).unwrap_or_default()
}

/// Switches IPv6 on or off on a link of the host that is not up yet, where the kernel has IPv6. A member of a network must not
/// become a router of the host's (CVE-2020-13401).
pub(crate) fn set_ipv6(link: &str, on: bool) -> std::result::Result<(), Errno> {
    set_ipv6_by(link, on, |path| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
    })
}

/// Does this on a link of another network namespace.
pub(crate) fn set_ipv6_in(network: BorrowedFd<'_>, link: &str, on: bool) -> std::result::Result<(), Errno> {
    set_ipv6_by(link, on, |path| {
        let path = CString::new(path).map_err(|_| Errno::INVAL)?;
        tote_sys::open_in(network, &path)
    })
}

/// Writes a value to a file below `/proc/sys` as a process in another network namespace sees it.
pub(crate) fn set_in(network: BorrowedFd<'_>, file: &str, value: &[u8]) -> std::result::Result<(), Errno> {
    let path = CString::new(format!("/proc/sys/{file}")).map_err(|_| Errno::INVAL)?;
    rustix::io::write(tote_sys::open_in(network, &path)?, value).map(drop)
}

/// With IPv6, the link believes no router and no redirection, and uses its addresses without asking for others that have them.
fn set_ipv6_by(
    link: &str,
    on: bool,
    open: impl Fn(&str) -> std::result::Result<OwnedFd, Errno>,
) -> std::result::Result<(), Errno> {
    let settings: &[(&str, &[u8])] = if on {
        &[
            ("accept_ra", b"0"),
            ("accept_redirects", b"0"),
            ("accept_dad", b"0"),
            ("disable_ipv6", b"0"),
        ]
    } else {
        &[("disable_ipv6", b"1")]
    };
    for (file, value) in settings {
        match open(&format!("/proc/sys/net/ipv6/conf/{link}/{file}")) {
            Err(Errno::NOENT) if !on => {}
            file => drop(rustix::io::write(file?, value)?),
        }
    }
    Ok(())
}

/// Whether a link lets packets pass, or has no setting that says so.
pub(crate) fn passes(exit: &Exit) -> Result<bool> {
    if is_on_if_there(&exit.setting())? != Some(false) {
        return Ok(true);
    }
    // A machine that is a router for IPv6 has no need of the link's setting.
    Ok(exit.protocol == Protocol::Ipv6 && is_on_if_there(exit.protocol.global())? == Some(true))
}

/// Returns these links but for those that need nothing, with those that were switched on before, by what the rules have recorded and what
/// the file `note` says.
pub(crate) fn to_allow(exits: &[Exit], recorded: Vec<Exit>, note: &Path) -> Result<Vec<Exit>> {
    let mut all = noted(note)?;
    all.extend(
        recorded
            .into_iter()
            .filter(|exit| !all.contains(exit))
            .collect::<Vec<_>>(),
    );
    for exit in exits {
        let needs_none = || Ok::<_, Error>(is_on_if_there(exit.protocol.global())? == Some(true));
        if !all.contains(exit) && !needs_none()? && is_on_if_there(&exit.setting())? == Some(false) {
            all.push(exit.clone());
        }
    }
    Ok(all)
}

/// Lets packets pass that come in by these links.
pub(crate) fn switch_on(exits: &[Exit]) -> Result<()> {
    for exit in exits {
        // It may be gone since it was noted.
        if is_on_if_there(&exit.setting())? == Some(false) {
            std::fs::write(exit.setting(), "1")?;
        }
    }
    Ok(())
}

/// Lets no packets pass any more that come in by these links.
pub(crate) fn switch_off(exits: &[Exit]) -> Result<()> {
    for exit in exits {
        if is_on_if_there(exit.protocol.global())? == Some(true) {
            continue;
        }
        match std::fs::write(exit.setting(), "0") {
            // The link is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            written => written?,
        }
    }
    Ok(())
}

/// The links that a note names; none where it is of another boot or another network namespace.
pub(crate) fn noted(note: &Path) -> Result<Vec<Exit>> {
    let text = match std::fs::read_to_string(note) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let mut lines = text.lines();
    let is_current = lines.next() == Some(&epoch()?);
    Ok(lines.filter(|_| is_current).map(Exit::noted).collect())
}

/// Removes a note.
pub(crate) fn forget(note: &Path) -> Result<()> {
    match tote_sys::remove_file(note) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Notes these links.
pub(crate) fn keep(note: &Path, exits: &[Exit]) -> Result<()> {
    if noted(note)? == exits {
        return Ok(());
    }
    let lines: String = exits.iter().map(|exit| format!("{}\n", exit.note())).collect();
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
pub(crate) fn epoch() -> Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = std::fs::read_link("/proc/thread-self/ns/net")?;
    let namespace = namespace
        .to_str()
        .ok_or_else(|| Error::from(ErrorKind::InvalidData))?;
    Ok(format!("{} {namespace}", boot.trim()))
}
