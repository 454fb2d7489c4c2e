//! Images and volumes with links in places where tote mounts, writes or makes files: the host is never written
//! (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881, and CVE-2019-16884 before them).

use crate::context::Context;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "symlinks::cve_2025_31133_masks_and_devices_behind_links",
        &[],
        masks_and_devices,
    ),
    test("symlinks::cve_2025_52565_console_behind_a_link", &[], console),
    test(
        "symlinks::cve_2025_52881_nothing_is_mounted_into_proc",
        &[],
        into_proc,
    ),
    test(
        "symlinks::system_directories_that_are_links",
        &[],
        system_directories,
    ),
    test("symlinks::generated_files_behind_links", &[], generated_files),
    test("symlinks::mount_targets_below_links", &[], targets),
    test("symlinks::workdir_below_a_link", &[], workdir),
    test("symlinks::passwd_behind_a_link", &[], passwd),
];

/// Directory of the host that the test's user may write and no container may.
#[derive(Debug)]
struct Canary {
    path: PathBuf,
    before: String,
}

impl Canary {
    fn plant(cx: &Context) -> Result<Self> {
        let path = PathBuf::from(cx.directory("canary")?);
        fs::create_dir_all(path.join("deep/sub"))?;
        for name in [
            "file",
            "passwd",
            "deep/file",
            "null",
            "resolv.conf",
            "hosts",
            "hostname",
        ] {
            fs::write(path.join(name), "canary:x:7:7::/:/bin/sh\n")?;
        }
        let before = tree::listing(&path)?;
        Ok(Self { path, before })
    }

    /// Returns a path in the directory, as seen from the host's root.
    fn join(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// Returns a path in the directory that first climbs from the link to the root.
    fn climbing(&self, name: &str) -> String {
        format!("/../../../../../..{}", self.join(name))
    }

    fn untouched(&self) -> Result<()> {
        tree::unchanged(&self.path, &self.before)
    }
}

/// Replaces a path of a root file system by a link.
fn link(rootfs: &Path, at: &str, to: &str) -> Result<()> {
    let path = rootfs.join(at);
    if let Ok(found) = fs::symlink_metadata(&path) {
        if found.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        }?;
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(to, &path).with_context(|| format!("link {}", path.display()))
}

/// Runs one attack: an image with these links, and these options.
fn attack(cx: &Context, links: &[(&str, String)], options: &[&str]) -> Result<()> {
    let canary = Canary::plant(cx)?;
    let (dir, image) = cx.own_rootfs("rootfs")?;
    for (at, to) in links {
        link(&dir, at, to)?;
    }
    let before = tree::listing(&dir)?;
    let script = "echo up; echo x >> /proc/sysrq-trigger; echo x > /dev/null; echo x >> /etc/hosts; exit 0";
    let out = cx.run(&[options, &[&image, "sh", "-c", script]].concat())?;
    let case = || format!("image with {links:?}, options {options:?}");
    canary.untouched().with_context(case)?;
    tree::unchanged(&dir, &before).with_context(case)?;
    if out.code == 0 {
        out.has_out("up").with_context(case)?;
    } else {
        let expected = [125, 126, 127].contains(&out.code);
        ensure!(
            expected,
            "{}: expected it to run or to be refused, saw:\n{}",
            case(),
            out.transcript()
        );
        out.refuses(out.code, &[]).with_context(case)?;
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

fn masks_and_devices(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    for target in [
        canary.join("file"),
        canary.climbing("file"),
        "/proc/sysrq-trigger".into(),
        "/etc/passwd".into(),
    ] {
        for device in [
            "dev/null", "dev/zero", "dev/tty", "dev/ptmx", "dev/shm", "dev/pts", "dev/fd",
        ] {
            attack(cx, &[(device, target.clone())], &[])?;
        }
    }
    // The source of masks, /dev/null, comes from a volume here.
    let source = cx.directory("evil-dev")?;
    link(Path::new(&source), "null", &canary.join("null"))?;
    attack(cx, &[], &["-v", &format!("{source}:/dev")])
}

fn console(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    for target in [
        canary.join("file"),
        canary.climbing("file"),
        "/proc/sys/kernel/core_pattern".into(),
    ] {
        attack(cx, &[("dev/console", target.clone())], &["-t"])?;
        attack(
            cx,
            &[("dev/pts", canary.join("deep")), ("dev/console", target)],
            &["-t"],
        )?;
    }
    Ok(())
}

/// A mount over `/proc/self/attr` or a sysctl would catch the runtime's own writes there.
fn into_proc(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    let source = cx.file("source", "x")?;
    let image = cx.image();
    for target in [
        "/proc/self/attr/exec",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/hostname",
        "/proc/1/oom_score_adj",
    ] {
        cx.run(&["-v", &format!("{source}:{target}"), &image, "true"])?
            .refuses(125, &["/proc"])?;
    }
    for target in ["/proc", "/proc/self", "/proc/self/attr", "/proc/sys"] {
        cx.run(&["--tmpfs", target, &image, "true"])?
            .refuses(125, &["/proc"])?;
    }
    let (dir, linked) = cx.own_rootfs("linked")?;
    link(&dir, "innocent", "/proc/self")?;
    cx.run(&["--tmpfs", "/innocent/attr", &linked, "true"])?
        .refuses(125, &["/innocent/attr"])?;
    canary.untouched()
}

fn system_directories(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    let table = [
        ("proc", canary.join("deep")),
        ("proc", canary.climbing("deep")),
        ("proc", "/".into()),
        ("sys", "..".into()),
        ("sys", canary.join("deep")),
        ("dev", "/etc".into()),
        ("dev", canary.join("deep")),
        ("etc", "../../etc".into()),
        ("etc", canary.join("")),
        ("etc", canary.climbing("")),
        ("tmp", canary.join("")),
        ("dev", "/dev".into()),
        ("proc", "proc".into()),
    ];
    for (at, to) in table {
        attack(cx, &[(at, to)], &[])?;
    }
    attack(cx, &[("proc", "/sys".into()), ("sys", "/proc".into())], &[])
}

fn generated_files(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    for name in ["resolv.conf", "hosts", "hostname", "mtab"] {
        let at = format!("etc/{name}");
        for target in [
            canary.join("file"),
            canary.climbing("file"),
            format!("../../../..{}", canary.join("file")),
        ] {
            attack(cx, &[(&at, target)], &[])?;
        }
        attack(cx, &[(&at, canary.join("not-yet-there"))], &[])?;
    }
    Ok(())
}

fn targets(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    let directory = cx.directory("source")?;
    let file = cx.file("source-file", "x")?;
    let to = [
        canary.join("deep"),
        canary.climbing("deep"),
        format!("../../../..{}", canary.join("deep")),
    ];
    for to in to {
        let links = [("link", to)];
        for target in ["/link", "/link/sub", "/link/new/er", "/link/../file"] {
            attack(cx, &links, &["-v", &format!("{directory}:{target}")])?;
            attack(cx, &links, &["--tmpfs", target])?;
        }
        attack(cx, &links, &["-v", &format!("{file}:/link/file")])?;
        attack(cx, &links, &["-v", &format!("{file}:/link/new-file")])?;
        attack(cx, &links, &["-v", &format!("named:{}", "/link/sub")])?;
    }
    Ok(())
}

/// A link inside a volume is resolved in the container: the target is made inside, not at the host's path.
fn workdir(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    for to in [canary.join("deep"), canary.climbing("deep")] {
        attack(cx, &[("link", to.clone())], &["-w", "/link"])?;
        attack(cx, &[("link", to.clone())], &["-w", "/link/new/er"])?;
        let volume = cx.directory("volume")?;
        link(Path::new(&volume), "link", &to)?;
        attack(cx, &[], &["-v", &format!("{volume}:/vol"), "-w", "/vol/link/new"])?;
    }
    Ok(())
}

/// `--user NAME` reads the image's passwd, not the one that a link in the image points to outside.
fn passwd(cx: &Context) -> Result<()> {
    let canary = Canary::plant(cx)?;
    let (dir, image) = cx.own_rootfs("rootfs")?;
    for to in [canary.join("passwd"), canary.climbing("passwd")] {
        link(&dir, "etc/passwd", &to)?;
        cx.run(&["-u", "canary", &image, "true"])?
            .refuses(125, &["canary"])?;
    }
    link(&dir, "bin/tool", &canary.join("file"))?;
    cx.run(&[&image, "/bin/tool"])?.exits(127)?;
    canary.untouched()
}
