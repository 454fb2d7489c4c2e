//! The guest's disk: a small Debian, made once and kept.

use super::USER;
use crate::program::{program, succeed};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

/// Debian's release, in which systemd is 252 and Linux 6.1: old enough to differ from developers' machines.
const SUITE: &str = "bookworm";

/// Packages that the tests use, and those that a machine needs to start.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,udev,kmod,linux-image-cloud-amd64,\
    busybox-static,util-linux,procps,iproute2,e2fsprogs,btrfs-progs,xfsprogs,erofs-utils,uidmap,strace,git,gcc,libc6-dev,\
    python3-minimal,perl,file";

/// Size of the disk, of which a third is used.
const SIZE: &str = "3G";

/// Unit that unpacks the script and starts it.
const SERVICE: &str = "[Unit]
Description=What is to be run
After=multi-user.target systemd-logind.service
[Service]
Type=oneshot
Delegate=yes
TimeoutStartSec=infinity
WorkingDirectory=/root
Environment=HOME=/root
ExecStartPre=stty -F /dev/ttyS1 -opost
ExecStartPre=mkdir -p /opt/tote
ExecStartPre=tar -xf /dev/vdb -C /opt/tote
ExecStart=sh /opt/tote/run
ExecStopPost=systemctl poweroff --no-block
StandardOutput=file:/dev/ttyS1
StandardError=inherit
[Install]
WantedBy=graphical.target
";

/// Makes the disk, the kernel and its initial file system in a directory, unless they exist.
///
/// # Errors
/// The caller is not root, or no mirror of Debian's can be reached.
pub(super) fn make(dir: &Path) -> Result<()> {
    let disk = dir.join("disk.raw");
    if disk.metadata().is_ok_and(|found| found.is_file()) {
        return Ok(());
    }
    if fs::metadata("/proc/self")?.uid() != 0 {
        bail!(
            "guest: to make {} takes root, for the owners of its files",
            disk.display()
        );
    }
    println!(
        "guest: making {}: packages of some 300 MB are fetched, once",
        disk.display()
    );
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let root = dir.join("root");
    drop(fs::remove_dir_all(&root));
    succeed(
        program("mmdebstrap")
            .args([
                "--variant=minbase",
                "--mode=root",
                "--aptopt=Apt::Install-Recommends \"false\"",
            ])
            .arg(format!("--include={PACKAGES}"))
            .arg(SUITE)
            .arg(&root),
    )?;
    furnish(&root)?;
    for (found, name) in [("vmlinuz-", "vmlinuz"), ("initrd.img-", "initrd")] {
        let boot = root.join("boot");
        let mut files = fs::read_dir(&boot)?.flatten();
        let file = files.find(|file| file.file_name().to_string_lossy().starts_with(found));
        let file = file.with_context(|| format!("no {found} in {}", boot.display()))?;
        fs::copy(file.path(), dir.join(name)).with_context(|| format!("copy {name}"))?;
    }
    let fresh = dir.join("disk.new");
    drop(fs::remove_file(&fresh));
    succeed(
        program("mke2fs")
            .args(["-q", "-t", "ext4", "-d"])
            .arg(&root)
            .arg(&fresh)
            .arg(SIZE),
    )?;
    fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    fs::rename(&fresh, &disk).with_context(|| disk.display().to_string())
}

/// Adds files that are not in packages: a host name, a user whose systemd runs from the start, and the service.
fn furnish(root: &Path) -> Result<()> {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write("etc/hostname", "guest\n")?;
    write("etc/fstab", "/dev/vda / ext4 rw,noatime 0 1\n")?;
    succeed(
        program("chroot")
            .arg(root)
            .args(["useradd", "--create-home", "--user-group", USER]),
    )?;
    for file in ["etc/subuid", "etc/subgid"] {
        write(file, &format!("{USER}:200000:65536\n"))?;
    }
    write(&format!("var/lib/systemd/linger/{USER}"), "")?;
    write("etc/systemd/system/guest.service", SERVICE)?;
    let wants = root.join("etc/systemd/system/graphical.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../guest.service", wants.join("guest.service")).context("enable guest.service")
}
