//! A further container of a machine: its worker gets the namespaces and disks that its plan takes for the machine's own.
//!
//! ```text
//! member = "tote member 1\n" LINE* "\n" plan
//! LINE   = "disk " SERIAL " " NAME "\n"      a disk, and its name in the directory of disks
//!        | "share " NAMESPACE "\n"           net, ipc or uts: the namespace of the process that it joins
//!        | "process\n"                       that process is the plan's descriptor
//! ```
//! The plan is the one of a container that is alone in its machine, but for namespaces: of those that are shared it makes none.

use crate::error::GuestError;
use crate::machine::{DISKS, IMAGE_DISK, appear, disk_of, mount_image, system};
use rustix::fd::BorrowedFd;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

/// Bytes before the description of a member, in the place of a plan.
const MEMBER: &[u8] = b"tote member 1\n";

/// Namespaces that a member may share.
const SHARED: [(&str, ThreadNameSpaceType); 3] = [
    ("net", ThreadNameSpaceType::NETWORK),
    ("ipc", ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION),
    ("uts", ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME),
];

/// Describes a member: its disks by serial number and name, the namespaces that it shares, and its plan, with whether that has the
/// process which it joins for its descriptor.
#[must_use]
pub fn member(disks: &[(String, String)], shared: &[String], (plan, joins): (&[u8], bool)) -> Vec<u8> {
    let disks = disks
        .iter()
        .map(|(serial, name)| format!("disk {serial} {name}\n"));
    let shared = shared.iter().map(|namespace| format!("share {namespace}\n"));
    let joins = joins.then(|| "process\n".to_owned());
    let lines: String = disks.chain(shared).chain(joins).collect();
    [MEMBER, lines.as_bytes(), b"\n", plan].concat()
}

/// True for the description of a member.
pub(crate) fn is_member(plan: &[u8]) -> bool {
    plan.starts_with(MEMBER)
}

/// Description of a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    disks: Vec<(&'a str, &'a str)>,
    shared: ThreadNameSpaceType,
    /// True if the plan's descriptor is the process that it joins.
    pub(crate) joins: bool,
    pub(crate) plan: &'a [u8],
}

/// Reads the description of a member; `None` for another plan.
pub(crate) fn parse(bytes: &[u8]) -> Option<Member<'_>> {
    let mut member = Member {
        disks: Vec::new(),
        shared: ThreadNameSpaceType::empty(),
        joins: false,
        plan: bytes.strip_prefix(MEMBER)?,
    };
    loop {
        let end = member.plan.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&member.plan[..end]).ok()?;
        member.plan = &member.plan[end + 1..];
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some(""), None, _) => return Some(member),
            (Some("process"), None, _) => member.joins = true,
            (Some("disk"), Some(serial), Some(name)) => member.disks.push((serial, name)),
            (Some("share"), Some(wanted), None) => {
                let known = SHARED.into_iter().find(|(name, _)| *name == wanted);
                member.shared |= known?.1;
            }
            _ => return None,
        }
    }
}

impl Member<'_> {
    /// Makes this process the host of the member: in the namespaces of the other process, with mounts of its own, and with the member's
    /// disks in the place of the machine's.
    pub(crate) fn settle(&self, joined: BorrowedFd<'_>) -> Result<(), GuestError> {
        // This program's file is a mount of the namespace that is left.
        tote_sys::open_seal().map_err(GuestError::kernel("keep", "this program out of reach"))?;
        tote_sys::own_mounts().map_err(GuestError::kernel("make", "a mount namespace"))?;
        crate::tools::leave();
        if !self.shared.is_empty() {
            move_into_thread_name_spaces(joined, self.shared)
                .map_err(GuestError::kernel("enter", "the namespaces of the pod"))?;
        }
        system("tmpfs", DISKS, "disks")?;
        for (serial, name) in &self.disks {
            let device = appear("of the container", || Ok(disk_of(serial)))?;
            let link = format!("{DISKS}/{name}");
            rustix::fs::symlink(&device, &link).map_err(GuestError::kernel("make", &link))?;
            if *name == IMAGE_DISK {
                mount_image()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_comes_back() {
        let disks = [("a1-image", "image"), ("a1-volume0", "volume0")];
        let given = disks.map(|(serial, name)| (serial.to_owned(), name.to_owned()));
        let bytes = member(
            &given,
            &["net".to_owned(), "uts".to_owned()],
            (b"the\n\nplan", true),
        );
        assert!(is_member(&bytes));
        let expected = Member {
            disks: disks.to_vec(),
            shared: ThreadNameSpaceType::NETWORK | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME,
            joins: true,
            plan: b"the\n\nplan",
        };
        assert_eq!(parse(&bytes), Some(expected));
        for bad in [
            "",
            "x\n",
            "disk a\n\n",
            "share pid\n\n",
            "disk a b",
            "share net x\n\n",
        ] {
            let bytes = [MEMBER, bad.as_bytes()].concat();
            assert_eq!(parse(&bytes), None, "{bad}");
        }
        assert_eq!(parse(b"another plan"), None);
    }
}
