//! Images of a user with directories that their owners, other ids of the user, have closed; and images that have lost
//! the directory that containers see.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) const TESTS: &[Test] = &[
    test("closed::a_root_of_somebody_elses", &[Need::ManyIds], root),
    test("closed::directories_on_the_way", &[Need::ManyIds], on_the_way),
    test("closed::a_lost_directory_is_made_again", &[Need::ManyIds], lost),
];

/// Owner of the closed directories.
const OWNER: [&str; 3] = ["--owner=:1000", "--group=:1000", "--mode=0700"];
const ROOT: [&str; 2] = ["--owner=:0", "--group=:0"];

fn tar(dir: &Path, words: &[&str]) -> Result<()> {
    let made = Command::new("tar").arg("-C").arg(dir).args(words).output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    Ok(())
}

/// Drivers for root and users alike.
const DRIVERS: [&str; 4] = ["overlay", "split", "reflink", "copy"];

/// Makes an image whose directories `closed` only their owner may enter.
fn image(cx: &Context, closed: &[&str], changes: &[&str]) -> Result<()> {
    let (dir, _) = cx.own_rootfs("closed")?;
    fs::create_dir_all(dir.join("srv/app/inner"))?;
    fs::write(dir.join("srv/app/inner/file"), "deep")?;
    let archive = cx.path("closed.tar")?;
    let plain = [&ROOT[..], &["-cf", &archive, "."]].concat();
    tar(&dir, &plain)?;
    let closing = [&OWNER[..], &["--no-recursion", "-rf", &archive], closed].concat();
    tar(&dir, &closing)?;
    let mut words = vec!["import"];
    for change in changes {
        words.extend(["-c", change]);
    }
    words.extend([archive.as_str(), "closed"]);
    cx.tote(&words).output()?.exits(0)?;
    Ok(())
}

fn root(cx: &Context) -> Result<()> {
    image(cx, &["."], &[])?;
    for driver in DRIVERS {
        let read = ["--driver", driver, "closed", "cat", "/srv/app/inner/file"];
        cx.run(&read)?.prints("deep")?;
        let mut named = vec!["create", "--name", "c", "--driver", driver];
        if driver == "split" {
            named.extend(["--writable", "/srv/app/inner"]);
        }
        named.extend(["closed", "sleep", "60"]);
        cx.tote(&named).output()?.exits(0)?;
        cx.tote(&["start", "c"]).output()?.exits(0)?;
        let script = "echo new > /srv/app/inner/other; rm /srv/app/inner/file";
        cx.tote(&["exec", "c", "sh", "-c", script]).output()?.exits(0)?;
        // The engine reads the user's entry in the closed directory.
        let as_root = ["exec", "-u", "root", "c", "id", "-u"];
        cx.tote(&as_root).output()?.prints("0\n")?;
        // Under split the directories above it are the image's own.
        let above = if driver == "split" {
            ""
        } else {
            "C /srv\nC /srv/app\n"
        };
        let changed = format!("{above}C /srv/app/inner\nD /srv/app/inner/file\nA /srv/app/inner/other\n");
        cx.tote(&["diff", "c"]).output()?.prints(&changed)?;
        cx.tote(&["stop", "-t", "0", "c"]).output()?.exits(0)?;
        let copied = cx.path("copied")?;
        let copy = ["cp", "c:/srv/app/inner/other", &copied];
        cx.tote(&copy).output()?.exits(0)?;
        ensure!(
            fs::read_to_string(&copied)? == "new\n",
            "{driver}: what is copied out"
        );
        cx.tote(&["commit", "c", "again"]).output()?.exits(0)?;
        cx.run(&["again", "ls", "/srv/app/inner"])?.prints("other\n")?;
        cx.tote(&["rm", "c"]).output()?.exits(0)?;
        cx.tote(&["rmi", "again"]).output()?.exits(0)?;
    }
    let trace = ["image", "trace", "closed", "--", "touch", "/srv/app/new"];
    cx.tote(&trace).output()?.exits(0)?.has_out("/srv/app/new")?;
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn on_the_way(cx: &Context) -> Result<()> {
    image(
        cx,
        &["./etc", "./srv/app"],
        &["WORKDIR /srv/app/inner", "USER root"],
    )?;
    for driver in DRIVERS {
        cx.run(&["--driver", driver, "closed", "cat", "file"])?
            .prints("deep")?;
        // The user database is in a closed directory as well.
        cx.run(&["--driver", driver, "-u", "root", "closed", "id", "-u"])?
            .prints("0\n")?;
    }
    // Writes, mounts and missing entries in a closed directory.
    let mount = cx.path("mount")?;
    fs::create_dir(&mount)?;
    fs::write(Path::new(&mount).join("file"), "mounted")?;
    let volume = format!("{mount}:/srv/app/missing/mount");
    let script = "echo new > /srv/app/inner/new && cat /srv/app/inner/file && cat /srv/app/missing/mount/file && \
                  touch /srv/app/made/x && stat -c ' %a %n' /srv/app; touch /srv/app/no";
    let split = [
        "--driver",
        "split",
        "--writable",
        "/srv/app/made",
        "--rm",
        "-v",
        &volume,
        "closed",
        "sh",
        "-c",
        script,
    ];
    cx.run(&split)?
        .fails()?
        .has_out("deepmounted 700 /srv/app\n")?
        .has_err("read-only file system")?;
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    Ok(())
}

fn lost(cx: &Context) -> Result<()> {
    image(cx, &["./srv/app"], &[])?;
    let store = cx.root().join("store");
    let mut times = 0;
    let mut lose = |part: &str| -> Result<()> {
        let tree = fs::read_dir(store.join("trees"))?.next();
        let tree = tree.ok_or_else(|| anyhow::anyhow!("there is no tree"))??.path();
        // Without inodes of its own a tree has its files elsewhere.
        let part = match part {
            "inodes" if tree.join(super::on_disk::IMAGE).exists() => super::on_disk::IMAGE,
            "inodes" if !tree.join(part).is_dir() => "root",
            part => part,
        };
        // Only root of the image's ids could remove the directory; the sweep of the trash does it.
        times += 1;
        Ok(fs::rename(
            tree.join(part),
            store.join("trash").join(format!("lost-{times}")),
        )?)
    };
    let read = ["closed", "cat", "/srv/app/inner/file"];
    let create = [&["create", "--name", "c"][..], &read].concat();
    lose("")?;
    cx.tote(&create).output()?.exits(0)?;
    lose("inodes")?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("deep")?;
    lose("")?;
    cx.tote(&["cp", "c:/srv/app/inner/file", &cx.path("copied")?])
        .output()?
        .exits(0)?;
    lose("inodes")?;
    cx.run(&read)?.prints("deep")?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    cx.nothing_left()
}
