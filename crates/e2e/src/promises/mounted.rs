//! The root of a container is mounted for programs of this machine, is one file system for all, and goes with the container.

use super::life::{done, dying, empty};
use super::pool::eventually;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "mounted::overlay::one_file_system",
        &[Need::Root, Need::Kernel(5, 11)],
        |cx| driver(cx, "overlay"),
    ),
    test("mounted::copy::one_file_system", &[Need::Root], |cx| {
        driver(cx, "copy")
    }),
    test(
        "mounted::loop::one_file_system",
        &[Need::Root, Need::Program("mkfs.ext4")],
        |cx| driver(cx, "loop"),
    ),
    test(
        "mounted::erofs::one_file_system",
        &[Need::Root, Need::Program("mkfs.erofs"), Need::Kernel(6, 12)],
        |cx| driver(cx, "erofs"),
    ),
    test("mounted::a_restart_uses_the_mount", &[Need::Root], restarted),
    test("mounted::a_removal_takes_the_mount_away", &[Need::Root], removed),
    test("mounted::are_listed_in_podmans_words", &[Need::Root], listed),
    test(
        "mounted::other_commands_see_the_same_files",
        &[Need::Root],
        others,
    ),
    test(
        "mounted::what_is_refused",
        &[Need::Root, Need::Program("unshare")],
        refused,
    ),
    test("mounted::of_an_image_that_must_stay", &[Need::Root], image_stays),
    test(
        "mounted::of_a_killed_command_are_cleared",
        &[Need::Root, Need::FaultPoints],
        killed,
    ),
    test("mounted::are_roots", &[Need::Unprivileged], of_users),
];

/// Mounts the container `web`, and returns where.
fn mount(cx: &Context) -> Result<PathBuf> {
    let path = PathBuf::from(done(cx, &["mount", "web"])?);
    ensure!(path.starts_with(cx.root().join("mounts")), "{path:?}");
    Ok(path)
}

fn create(cx: &Context, options: &[&str]) -> Result<()> {
    let (image, words) = (cx.image(), ["create", "--name", "web"]);
    done(
        cx,
        &[&words, options, &[image.as_str(), "sleep", "1000"]].concat(),
    )
    .map(drop)
}

fn inside(cx: &Context, script: &str) -> Result<String> {
    done(cx, &["exec", "web", "sh", "-c", script])
}

/// The device number of the root of the container's process.
fn device(cx: &Context) -> Result<u64> {
    let pid = done(cx, &["inspect", "-f", "{{.State.Pid}}", "web"])?;
    Ok(fs::metadata(format!("/proc/{pid}/root"))?.dev())
}

/// Checks that there is neither a mount nor a place of one.
fn is_gone(cx: &Context, path: &Path) -> Result<()> {
    ensure!(!path.try_exists()?, "{path:?} is left");
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let text = path.to_string_lossy();
    ensure!(!mounts.contains(&*text), "{text} is mounted");
    for entry in fs::read_dir(cx.root().join("live"))?.flatten() {
        let name = entry.file_name();
        ensure!(!name.to_string_lossy().ends_with(".mounted"), "{name:?} is left");
    }
    Ok(())
}

fn driver(cx: &Context, driver: &str) -> Result<()> {
    create(cx, &["--driver", driver])?;
    let path = mount(cx)?;
    ensure!(mount(cx)? == path, "a second mount is the first");
    fs::write(path.join("of-the-host"), "before\n")?;
    let mounted = fs::metadata(&path)?.dev();
    for round in 1..=2 {
        done(cx, &["start", "web"])?;
        ensure!(inside(cx, "cat /of-the-host")? == "before");
        ensure!(
            device(cx)? == mounted,
            "the start has mounted another file system"
        );
        inside(cx, &format!("echo {round} >/of-the-container"))?;
        let seen = fs::read_to_string(path.join("of-the-container"))?;
        ensure!(seen == format!("{round}\n"), "{seen}");
        ensure!(
            !path.join("proc/self").try_exists()?,
            "mounts of the container show"
        );
        done(cx, &["stop", "-t", "0", "web"])?;
    }
    fs::write(path.join("of-the-host"), "after\n")?;
    done(cx, &["umount", "web"])?;
    is_gone(cx, &path)?;
    done(cx, &["start", "web"])?;
    ensure!(inside(cx, "cat /of-the-host /of-the-container")? == "after\n2");
    // A container that runs may be mounted and unmounted, too.
    let path = mount(cx)?;
    ensure!(fs::metadata(&path)?.dev() == device(cx)?);
    fs::write(path.join("of-the-host"), "now\n")?;
    ensure!(inside(cx, "cat /of-the-host")? == "now");
    done(cx, &["umount", "web"])?;
    is_gone(cx, &path)?;
    ensure!(inside(cx, "cat /of-the-host")? == "now");
    done(cx, &["rm", "-f", "web"])?;
    empty(cx)
}

fn restarted(cx: &Context) -> Result<()> {
    let image = cx.image();
    let script = "echo x >>/starts; [ $(wc -l </starts) -lt 3 ] || exec sleep 1000; exec cat /go";
    let words = [
        "create",
        "--name",
        "web",
        "--restart",
        "on-failure",
        &image,
        "sh",
        "-c",
        script,
    ];
    done(cx, &words)?;
    let path = mount(cx)?;
    let mounted = fs::metadata(&path)?.dev();
    done(cx, &["start", "web"])?;
    // `cat` fails twice, each time after a line.
    let starts = path.join("starts");
    eventually("the third start", || {
        let are_three = fs::read_to_string(&starts).is_ok_and(|text| text.lines().count() == 3);
        // The program runs before its process is recorded.
        Ok(are_three && done(cx, &["inspect", "-f", "{{.State.Status}}", "web"])? == "running")
    })?;
    ensure!(
        device(cx)? == mounted,
        "the restart has mounted another file system"
    );
    done(cx, &["restart", "-t", "0", "web"])?;
    ensure!(device(cx)? == mounted);
    done(cx, &["rm", "-f", "web"])?;
    is_gone(cx, &path)?;
    empty(cx)
}

fn removed(cx: &Context) -> Result<()> {
    for start in [false, true] {
        create(cx, &[])?;
        if start {
            done(cx, &["start", "web"])?;
        }
        let path = mount(cx)?;
        let words: &[&str] = if start {
            &["rm", "-f", "web"]
        } else {
            &["rm", "web"]
        };
        done(cx, words)?;
        is_gone(cx, &path)?;
        empty(cx)?;
    }
    create(cx, &[])?;
    let path = mount(cx)?;
    done(cx, &["container", "prune", "-f"])?;
    is_gone(cx, &path)?;
    // Its files are in memory, and the mount would keep them there.
    done(
        cx,
        &["run", "-d", "--rm", "--name", "web", &cx.image(), "sleep", "1000"],
    )?;
    let path = mount(cx)?;
    ensure!(path.join("bin").try_exists()?);
    done(cx, &["stop", "-t", "0", "web"])?;
    is_gone(cx, &path)?;
    let running = cx
        .run_command(&["--name", "web", &cx.image(), "sleep", "1000"])
        .spawn()?;
    eventually("the container", || {
        Ok(cx.tote(&["exec", "web", "true"]).output()?.exits(0).is_ok())
    })?;
    let path = mount(cx)?;
    done(cx, &["kill", "web"])?;
    running.finish()?.exits(137)?;
    is_gone(cx, &path)?;
    empty(cx)
}

fn listed(cx: &Context) -> Result<()> {
    ensure!(done(cx, &["mount"])?.is_empty());
    create(cx, &[])?;
    let path = mount(cx)?;
    let id = done(cx, &["inspect", "-f", "{{.Id}}", "web"])?;
    let line = format!("{}   {}", &id[..12], path.display());
    ensure!(done(cx, &["mount"])? == line);
    let whole = done(cx, &["mount", "--notruncate", "--format", "{{.ID}} {{.Name}}"])?;
    ensure!(whole == format!("{id} web"), "{whole}");
    let all: Value = serde_json::from_str(&done(cx, &["mount", "--format", "json"])?)?;
    let wanted =
        serde_json::json!([{ "id": id, "Names": ["web"], "mountpoint": path.display().to_string() }]);
    ensure!(all == wanted, "{all}");
    ensure!(done(cx, &["mount", "-a"])? == path.display().to_string());
    ensure!(done(cx, &["container", "unmount", "-a"])? == id);
    is_gone(cx, &path)?;
    cx.tote(&["umount", "web"])
        .output()?
        .refuses(1, &["container web is not mounted"])?;
    let events = done(
        cx,
        &[
            "events",
            "--since",
            "1m",
            "--until",
            "0s",
            "--format",
            "{{.Action}}",
        ],
    )?;
    ensure!(
        events.lines().any(|line| line == "mount") && events.lines().any(|line| line == "unmount"),
        "{events}"
    );
    done(cx, &["rm", "web"])?;
    empty(cx)
}

fn others(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    let path = mount(cx)?;
    fs::write(path.join("mark"), "of the host\n")?;
    let diff = done(cx, &["diff", "web"])?;
    ensure!(diff.lines().any(|line| line == "A /mark"), "{diff}");
    let file = cx.file("file", "copied\n")?;
    done(cx, &["cp", &file, "web:/copied"])?;
    ensure!(fs::read_to_string(path.join("copied"))? == "copied\n");
    done(cx, &["commit", "-q", "web", "m:1"])?;
    ensure!(done(cx, &["run", "--rm", "m:1", "cat", "/mark", "/copied"])? == "of the host\ncopied");
    let export = cx.path("export.tar")?;
    done(cx, &["export", "-o", &export, "web"])?;
    ensure!(
        fs::read(&export)?
            .windows(12)
            .any(|bytes| bytes == b"of the host\n")
    );
    done(cx, &["rename", "web", "www"])?;
    done(cx, &["umount", "www"])?;
    is_gone(cx, &path)?;
    done(cx, &["rm", "www"])?;
    done(cx, &["rmi", "m:1"])?;
    empty(cx)
}

fn refused(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    let path = mount(cx)?;
    let tote = cx.binary().display().to_string();
    let root = cx.root().display().to_string();
    // A process works in the mount.
    let mut worker = Invocation::new(["cat"]).within(&path).spawn()?;
    cx.tote(&["umount", "web"])
        .output()?
        .refuses(1, &["cannot unmount container web: a process works in"])?;
    done(cx, &["start", "web"])?;
    worker.close_input();
    worker.finish()?.exits(0)?;
    done(cx, &["stop", "-t", "0", "web"])?;
    done(cx, &["umount", "web"])?;
    // A mount that only another mount namespace has.
    let script = format!("'{tote}' --root '{root}' mount web && cat");
    let mut elsewhere = Invocation::new(["unshare", "-m", "sh", "-c", &script]).spawn()?;
    elsewhere.expect("mounts/")?;
    cx.tote(&["start", "web"])
        .output()?
        .refuses(1, &["is mounted in another mount namespace"])?;
    cx.tote(&["umount", "web"])
        .output()?
        .refuses(1, &["is mounted in another mount namespace"])?;
    elsewhere.close_input();
    elsewhere.finish()?.exits(0)?;
    done(cx, &["start", "web"])?;
    is_gone(cx, &path)?;
    done(cx, &["rm", "-f", "web"])?;
    create(cx, &["--driver", "split"])?;
    cx.tote(&["mount", "web"])
        .output()?
        .refuses(1, &["with the driver split", "tote cp"])?;
    is_gone(cx, &path)?;
    done(cx, &["rm", "web"])?;
    done(cx, &["create", "--name", "web", "host", "true"])?;
    cx.tote(&["mount", "web"]).output()?.refuses(1, &["host image"])?;
    done(cx, &["rm", "web"])?;
    empty(cx)
}

fn image_stays(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    done(cx, &["commit", "-q", "web", "m:1"])?;
    done(cx, &["rm", "web"])?;
    done(cx, &["create", "--name", "web", "m:1", "true"])?;
    let path = mount(cx)?;
    cx.tote(&["rmi", "-f", "m:1"])
        .output()?
        .refuses(1, &["cannot be forced", "is mounted and uses this image"])?;
    done(cx, &["image", "prune", "-af"])?;
    ensure!(path.join("bin").try_exists()?);
    done(cx, &["umount", "web"])?;
    done(cx, &["rm", "web"])?;
    done(cx, &["rmi", "m:1"])?;
    empty(cx)
}

fn killed(cx: &Context) -> Result<()> {
    for start in [false, true] {
        for point in ["mount-marked", "mount-placed", "mount-made"] {
            let step = || -> Result<()> {
                create(cx, &[])?;
                if start {
                    done(cx, &["start", "web"])?;
                }
                let died = dying(cx, point, &["mount", "web"])?;
                ensure!(died.exits(0).is_err(), "it did not die");
                // The next start is right whatever is mounted, and so is the next mount.
                if !start {
                    done(cx, &["start", "web"])?;
                }
                let path = mount(cx)?;
                ensure!(fs::metadata(&path)?.dev() == device(cx)?);
                done(cx, &["rm", "-f", "web"])?;
                is_gone(cx, &path)?;
                create(cx, &[])?;
                dying(cx, point, &["mount", "web"])?;
                done(cx, &["rm", "web"])?;
                is_gone(cx, &path)?;
                empty(cx)
            };
            step().with_context(|| format!("after a death at {point:?}"))?;
        }
    }
    for (point, words) in [
        ("mount-hidden", &["umount", "web"][..]),
        ("mount-hidden", &["rm", "-f", "web"]),
        ("marked", &["rm", "-f", "web"]),
        ("emptied", &["rm", "-f", "web"]),
    ] {
        create(cx, &[])?;
        let path = mount(cx)?;
        let died = dying(cx, point, words)?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        // Any command that starts or removes a container sweeps.
        done(cx, &["rm", "-i", "nosuch"])?;
        is_gone(cx, &path)?;
        done(cx, &["rm", "-f", "web"])?;
        empty(cx)?;
    }
    Ok(())
}

fn of_users(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    cx.tote(&["mount", "web"])
        .output()?
        .refuses(1, &["only root of the machine can", "tote cp"])?;
    ensure!(done(cx, &["mount"])?.is_empty());
    done(cx, &["rm", "web"])?;
    empty(cx)
}
