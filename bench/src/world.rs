//! The private mount namespace in which all candidates run, so that all have the same conditions.
//!
//! Some peers refuse the host's cgroup layout (crun: "cgroups in hybrid mode not supported") unless a mount is
//! hidden. The whole program therefore re-executes itself once through unshare(1), and there unmounts what the
//! scenario hides. It unmounts nothing before it is certain that this namespace is not the one the program was
//! started in, and that nothing propagates out of it.
//!
//! An empty tmpfs is mounted instead: the directory below an unmounted file system belongs to the host's file
//! system, and crun 1.8 leaves a directory there for every container.
//!
//! `/dev/null` is a private node too: some runtimes give their standard streams to the container's user, and would
//! change the host's node.

use crate::apparatus::{Plan, succeed};
use crate::mountinfo;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, chmod, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Variable that holds the name of the outer mount namespace inside the private one.
const OUTSIDE: &str = "TOTE_BENCH_OUTSIDE";

/// Conditions that all candidates share.
#[derive(Clone, Debug)]
pub struct World {
    /// True if the mount namespace is this program's own.
    pub private: bool,
    /// Cgroup layout before anything was hidden: `v2`, `hybrid`, `v1` or `none`.
    pub cgroups: &'static str,
    /// Mounts that are hidden from the candidates.
    pub hidden: Vec<PathBuf>,
}

/// True if this process is the re-executed one, inside the private namespace.
#[must_use]
pub fn is_inside() -> bool {
    env::var_os(OUTSIDE).is_some()
}

/// Enters the private namespace: outside of it, re-executes the program and does not return; inside, hides
/// `hidden`. Without root there is no such namespace: nothing is hidden, and candidates run in the caller's.
pub fn enter(hidden: &[PathBuf], plan: &Plan) -> Result<World> {
    if !rustix::process::geteuid().is_root() {
        let cgroups = mountinfo::cgroup_mode(&mountinfo::read()?);
        return Ok(World {
            private: false,
            cgroups,
            hidden: Vec::new(),
        });
    }
    let here = fs::read_link("/proc/self/ns/mnt").context("read /proc/self/ns/mnt")?;
    let Some(outside) = env::var_os(OUTSIDE) else {
        let program = env::current_exe().context("find this program")?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private"]);
        if plan.private_network {
            unshare.arg("--net");
        }
        if plan.private_processes {
            // A kill of the process outside asks the one inside for an end, which cleans up; all others end with it.
            unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child=TERM"]);
        }
        let error = unshare
            .arg("--")
            .arg(program)
            .args(env::args_os().skip(1))
            .env(OUTSIDE, &here)
            .exec();
        return Err(error).context("run unshare");
    };
    ensure!(
        here != outside,
        "{OUTSIDE} is set, but this is still the mount namespace outside"
    );
    if plan.private_network {
        succeed(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    }
    let world = hide(hidden)?;
    for path in plan.covered.iter().filter(|path| path.is_dir()) {
        cover(path)?;
    }
    Ok(world)
}

fn hide(hidden: &[PathBuf]) -> Result<World> {
    let mounts = mountinfo::read()?;
    if let Some(shared) = mounts.iter().find(|mount| mount.shared) {
        bail!(
            "{} still propagates out of the private mount namespace",
            shared.target.display()
        );
    }
    let present: Vec<PathBuf> = hidden
        .iter()
        .filter(|path| mounts.iter().any(|mount| mount.target == **path))
        .cloned()
        .collect();
    for path in &present {
        unmount(path, UnmountFlags::NOFOLLOW)
            .with_context(|| format!("unmount {} in the private mount namespace", path.display()))?;
        cover(path)?;
    }
    own_null()?;
    Ok(World {
        private: true,
        cgroups: mountinfo::cgroup_mode(&mounts),
        hidden: present,
    })
}

fn cover(path: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", path, "tmpfs", flags, None)
        .with_context(|| format!("mount an empty tmpfs on {}", path.display()))
}

/// Covers `/dev/null` by a private node on a hidden file system.
fn own_null() -> Result<()> {
    let directory = env::temp_dir().join(format!("tote-bench-null-{}", std::process::id()));
    fs::create_dir(&directory).with_context(|| format!("make {}", directory.display()))?;
    let node = directory.join("null");
    // The tmpfs is needed because the directory's own file system may forbid devices.
    mount(
        "tmpfs",
        &directory,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        None,
    )
    .with_context(|| format!("mount a tmpfs on {}", directory.display()))?;
    mknodat(
        CWD,
        &node,
        FileType::CharacterDevice,
        Mode::from(0o666),
        makedev(1, 3),
    )
    .and_then(|()| chmod(&node, Mode::from(0o666)))
    .with_context(|| format!("make {}", node.display()))?;
    mount_bind(&node, "/dev/null").context("cover /dev/null")?;
    unmount(&directory, UnmountFlags::DETACH).with_context(|| format!("unmount {}", directory.display()))?;
    fs::remove_dir(&directory).with_context(|| format!("remove {}", directory.display()))
}
