//! Fixtures that all tests of a run share: a root file system of one static busybox, and a small
//! static C program in it.

use crate::need;
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// Directory of the shared root file system, in the run's directory.
pub(crate) const ROOTFS: &str = "rootfs";
/// File that holds the [`tree::listing`] of the unchanged root file system.
pub(crate) const LISTING: &str = "rootfs.listing";

/// Programs that tests use; only a few, because the tree is copied and compared often.
const APPLETS: &str =
    "awk cat chmod chown cp dd df echo env false grep head hostname id kill ln ls mkdir mknod mount mv
nproc ps pwd readlink rm rmdir sed sh sleep sort stat stty tail test touch true tty umount uname wc";

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
alice:x:1234:1234:Alice:/home/alice:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
";
const GROUP: &str = "\
root:x:0:
users:x:100:
alice:x:1234:
staff:x:2000:alice
nogroup:x:65534:
";

/// Makes the fixtures in the run's directory.
pub(crate) fn make(run: &Path) -> Result<()> {
    let rootfs = run.join(ROOTFS);
    for dir in [
        "bin",
        "dev",
        "etc",
        "home/alice",
        "mnt",
        "proc",
        "root",
        "sys",
        "tmp",
        "usr/bin",
        "var",
    ] {
        fs::create_dir_all(rootfs.join(dir))?;
    }
    fs::set_permissions(rootfs.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    for (name, text) in [
        ("passwd", PASSWD),
        ("group", GROUP),
        ("hostname", "from-the-image\n"),
    ] {
        fs::write(rootfs.join("etc").join(name), text)?;
    }
    install_busybox(&rootfs.join("bin"))?;
    if need::program("gcc").is_some() {
        for (name, text) in [
            ("probe", include_str!("probe.c")),
            ("packets", include_str!("packets.c")),
            ("tracer", include_str!("tracer.c")),
        ] {
            compile(run, (name, text), &rootfs.join("bin").join(name))?;
        }
    }
    fs::write(run.join(LISTING), tree::listing(&rootfs)?)?;
    Ok(())
}

fn install_busybox(bin: &Path) -> Result<()> {
    let busybox = need::program("busybox").context("the tests need a static busybox")?;
    let content = fs::read(&busybox)?;
    // A dynamic busybox names its loader, which the root file system does not have.
    let dynamic = content
        .windows(7)
        .take(4096)
        .any(|window| window == b"/ld-lin" || window == b"/ld-mus");
    ensure!(!dynamic, "{} is not static", busybox.display());
    let installed = bin.join("busybox");
    fs::write(&installed, content)?;
    fs::set_permissions(&installed, fs::Permissions::from_mode(0o755))?;
    for applet in APPLETS.split_whitespace() {
        symlink("busybox", bin.join(applet))?;
    }
    Ok(())
}

fn compile(run: &Path, (name, text): (&str, &str), to: &Path) -> Result<()> {
    let source = run.join(name).with_extension("c");
    fs::write(&source, text)?;
    let compiled = Command::new("gcc")
        .args(["-static", "-O1", "-Wall", "-o"])
        .arg(to)
        .arg(&source)
        .output()?;
    ensure!(
        compiled.status.success(),
        "gcc: {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    Ok(())
}

/// Copies a tree with all its attributes.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .output()
        .context("run cp")?;
    ensure!(
        copied.status.success(),
        "cp: {}",
        String::from_utf8_lossy(&copied.stderr)
    );
    Ok(())
}
