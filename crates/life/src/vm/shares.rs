//! Directories of this machine that a guest shares: what the sandbox has for the server of files.
//!
//! All of them are mounted below one directory of the sandbox, by number, as the container without a machine would have them: with
//! the same sources and as read-only. The server serves that directory, and the guest's plan binds each to its place.

use super::VmFault;
use super::attend::place;
use crate::volume::Share;
use crate::{Caller, EngineError};
use std::path::{Path, PathBuf};
use tote_bundle::{
    Bind, Capability, IdMapOptions, MountRequest, MountSource, Propagation, Recursion, RunOptions,
    SeccompChoice, Sharing,
};
use tote_seccomp::{Arch, CapSet, default_profile};
use tote_spec::{Action, Arg, IdMapping, Operator, Seccomp, SyscallRule};
use tote_vmm::Shares;

/// Directory of all shares, in the sandbox.
pub(crate) const DIRECTORY: &str = "shares";

/// Flag `CLONE_FS` of unshare(2).
const CLONE_FS: u64 = 0x200;

/// Warning for a machine that shares by 9p because there is nothing better.
pub(crate) const NINE_P_INSTEAD: &str = "this machine has no virtiofsd, so QEMU itself shares directories with the virtual machine, by 9p: files that are made \
    there belong to the user of QEMU, and owners cannot be changed";

/// Chooses the way in which these shares get into the guest, and the program that serves them; `None` without any.
pub(crate) fn server(
    shares: &[Share],
    wanted: Option<Sharing>,
    has_nine_p: bool,
) -> Result<Option<(Sharing, Shares)>, EngineError> {
    if shares.is_empty() {
        return Ok(None);
    }
    let server = match wanted {
        Some(Sharing::NineP) => None,
        _ => virtiofsd()?,
    };
    let way = match (&server, wanted, has_nine_p) {
        (Some(_), ..) => Sharing::Virtiofs,
        (None, Some(Sharing::NineP), false) => return Err(VmFault::NoNineP.into()),
        (None, Some(Sharing::NineP) | None, true) => Sharing::NineP,
        (None, ..) => return Err(VmFault::NoServer.into()),
    };
    Ok(Some((way, by(server))))
}

/// Describes shares that virtiofsd serves.
pub(crate) fn served() -> Result<Shares, EngineError> {
    let server = virtiofsd()?.ok_or(VmFault::NoServer)?;
    Ok(by(Some(server)))
}

/// Describes shares that this program serves, or the VMM itself.
fn by(server: Option<PathBuf>) -> Shares {
    Shares {
        server,
        directory: place(DIRECTORY),
        tag: tote_guest::SHARES_TAG.to_owned(),
    }
}

/// Finds virtiofsd.
fn virtiofsd() -> Result<Option<PathBuf>, EngineError> {
    for path in tote_vmm::SERVERS.map(Path::new) {
        if tote_state::record::is_there(path)? {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the mounts of the sandbox: of each share its own, at another place.
pub(crate) fn outside(shares: &[Share]) -> impl Iterator<Item = MountRequest> {
    shares.iter().enumerate().map(|(number, share)| {
        let mut request = share.request.clone();
        request.destination = place(DIRECTORY).join(number.to_string()).display().to_string();
        if let MountSource::Volume(volume) = &mut request.source {
            // The guest does that: it has the image.
            volume.copy = false;
        }
        request
    })
}

/// Returns the mounts of the guest: of each share a directory or file of what the server serves.
pub(crate) fn inside(shares: &[Share]) -> impl Iterator<Item = MountRequest> {
    shares.iter().enumerate().map(|(number, share)| MountRequest {
        source: MountSource::Bind(Bind {
            path: format!("{}/{number}", tote_guest::SHARES),
            propagation: Propagation::default(),
            recursion: Recursion::default(),
            create: false,
            relabel: None,
        }),
        ..share.request.clone()
    })
}

/// Gives a sandbox what its server needs: capabilities, all ids of its caller, and a call that docker's filter forbids.
pub(crate) fn equip(options: &mut RunOptions, caller: Caller) -> Result<(), VmFault> {
    options.cap_add = tote_vmm::CAPABILITIES.map(Capability::One).to_vec();
    options.security.seccomp = Some(SeccompChoice::Given(Box::new(profile())));
    if caller != Caller::User {
        return Ok(());
    }
    // Otherwise a user's sandbox has one id, and setgroups(2) is denied there.
    match tote_images::ranges(0, 0) {
        Some(maps) => {
            let total = |maps: &[IdMapping]| -> u32 { maps.iter().map(|map| map.size).sum() };
            options.id_maps = IdMapOptions::of_all(total(&maps.uid), total(&maps.gid));
            Ok(())
        }
        None if rustix::process::getgroups().is_ok_and(|groups| !groups.is_empty()) => Err(VmFault::Groups),
        None => Ok(()),
    }
}

/// Returns the filter of system calls of a sandbox with a server of files: docker's, and a call that it forbids.
pub(crate) fn profile() -> Seccomp {
    let mut profile = default_profile(CapSet::SYS_CHROOT, Arch::NATIVE);
    // Each thread of the server has a directory of its own.
    profile.syscalls.push(SyscallRule {
        names: vec!["unshare".to_owned()],
        action: Action::Allow,
        errno_ret: None,
        args: vec![Arg {
            index: 0,
            value: CLONE_FS,
            value_two: 0,
            op: Operator::Equal,
        }],
    });
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(volume: &str) -> Share {
        let mut options = RunOptions::default();
        options.set("volume", volume).unwrap();
        Share {
            request: options.mounts.remove(0),
            fill: true,
        }
    }

    #[test]
    fn each_share_is_a_number_on_both_sides() {
        let shares = [share("/srv:/data:ro"), share("name:/other:noexec")];
        let out: Vec<_> = outside(&shares).collect();
        assert_eq!(out[0].destination, "/vm/shares/0");
        assert!(
            out[0].readonly,
            "this machine's side keeps the guest from writing"
        );
        assert_eq!(out[0].source, shares[0].request.source);
        let MountSource::Volume(volume) = &out[1].source else {
            panic!("a volume")
        };
        assert!(!volume.copy, "the sandbox has no image to copy from");
        let ins: Vec<_> = inside(&shares).collect();
        assert_eq!((ins[1].destination.as_str(), ins[1].readonly), ("/other", false));
        assert!(ins[1].restrictions.noexec);
        assert!(matches!(&ins[1].source, MountSource::Bind(bind) if bind.path == "/shares/1"));
    }
}
