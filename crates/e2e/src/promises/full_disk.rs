//! A full disk can be emptied: commands that free room do not need any, and the end of a container is recorded.

use super::life::done;
use super::pool::{eventually, fill};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("full_disk::a_tmpfs_can_be_emptied", &[Need::Root], full_tmpfs),
    test(
        "full_disk::an_ext4_can_be_emptied",
        &[Need::Root, Need::Program("mkfs.ext4")],
        full_ext4,
    ),
    test(
        "full_disk::an_xfs_can_be_emptied",
        &[Need::Root, Need::Program("mkfs.xfs")],
        full_xfs,
    ),
    test(
        "full_disk::a_btrfs_can_be_emptied",
        &[Need::Root, Need::Program("mkfs.btrfs")],
        full_btrfs,
    ),
];

/// Script after which the disk has no room for another file or byte.
const FILL: &str = "dd if=/dev/zero of=\"$0/fill\" bs=64k 2>/dev/null; dd if=/dev/zero of=\"$0/more\" bs=512 2>/dev/null; \
    i=0; while [ $i -lt 40000 ] && true 2>/dev/null > \"$0/fill$i\"; do i=$((i+1)); done; sync -f \"$0\"; \
    while [ $i -lt 80000 ] && true 2>/dev/null > \"$0/fill$i\"; do i=$((i+1)); done; ! true 2>/dev/null > \"$0/last\"";

fn full(cx: &Context, mount: &str, disk: &str) -> Result<()> {
    let at = cx.directory("at")?;
    let script = format!("{mount} && mkdir \"$1/state\" && echo ready && cat");
    // The network's bridge and rules are in a namespace that ends with the test.
    let apart = ["unshare", "--mount", "--net", "sh", "-c", &script, disk, &at];
    let mut mounted = Invocation::new(apart).spawn()?;
    mounted.expect("ready")?;
    let inside = cx.in_mounts_of(mounted.pid(), &format!("{at}/state"));
    emptied(&inside, &at)?;
    mounted.close_input();
    mounted.finish()?.exits(0).map(drop)
}

fn emptied(cx: &Context, at: &str) -> Result<()> {
    let image = cx.image();
    let detached = |name: &str, restart: &str, script: &str| {
        let options = ["run", "-d", "--name", name, "--restart", restart];
        done(cx, &[options.as_slice(), &[&image, "sh", "-c", script]].concat())
    };
    let patient = "trap 'exit 3' TERM; echo ready; sleep 1000 & wait";
    detached("asked", "no", patient)?;
    detached("wanted", "unless-stopped", patient)?;
    detached("forced", "no", "sleep 1000")?;
    detached("ended", "no", "true")?;
    done(cx, &["wait", "ended"])?;
    done(cx, &["create", "--name", "made", &image, "true"])?;
    let sick = [
        "--health-cmd",
        "test ! -e /dev/shm/end",
        "--health-interval",
        "200ms",
        "--health-retries",
        "2",
    ];
    let sick = [
        &["run", "-d", "--name", "sick", "--health-on-failure", "kill"][..],
        &sick,
        &[&image, "sleep", "1000"],
    ];
    done(cx, &sick.concat())?;
    detached(
        "again",
        "on-failure:3",
        "while ! test -e /dev/shm/end; do sleep 0.05; done; exit 5",
    )?;
    done(cx, &["volume", "create", "one"])?;
    done(cx, &["volume", "create", "two"])?;
    make_groups(cx)?;
    for name in ["asked", "wanted"] {
        eventually("it is ready", || Ok(done(cx, &["logs", name])? == "ready"))?;
    }
    let fill = Invocation::new(["sh", "-c", FILL, at]);
    cx.among_mounts(fill).output()?.exits(0)?;
    cx.tote(&["create", &image, "true"]).output()?.fails()?;
    goes_on(cx, at)?;
    for name in ["asked", "wanted"] {
        done(cx, &["stop", name])?;
        let filter = format!("name={name}");
        let status = done(cx, &["ps", "-a", "-f", &filter, "--format", "{{.Status}}"])?;
        ensure!(
            status.starts_with("Exited (3)"),
            "{name}: its exit code is lost, or it was started again: {status}"
        );
        ensure!(done(cx, &["wait", name])? == "3");
    }
    let at_boot = done(cx, &["ps", "-aq", "-f", "should-start-on-boot=true"])?;
    ensure!(at_boot.is_empty(), "nobody remembers that it was stopped");
    done(cx, &["rm", "-f", "forced"])?;
    done(cx, &["rm", "ended"])?;
    done(cx, &["volume", "rm", "one"])?;
    done(cx, &["container", "prune", "-f"])?;
    done(cx, &["volume", "prune", "-af"])?;
    remove_groups(cx)?;
    ensure!(done(cx, &["ps", "-aq"])?.is_empty());
    ensure!(done(cx, &["volume", "ls", "-q"])?.is_empty());
    Ok(())
}

/// Returns a field of a container's state.
fn seen(cx: &Context, name: &str, field: &str) -> Result<String> {
    done(cx, &["inspect", "-f", &format!("{{{{.State.{field}}}}}"), name])
}

/// Containers are checked, paused, taken from networks and started again on a full disk, or when there is room again.
fn goes_on(cx: &Context, at: &str) -> Result<()> {
    for (act, paused) in [("pause", "true"), ("unpause", "false")] {
        done(cx, &[act, "served"])?;
        ensure!(seen(cx, "served", "Paused")? == paused, "after {act}");
    }
    if !at.contains("btrfs") {
        done(cx, &["port", "rm", "served", "80"])?;
        done(cx, &["network", "disconnect", "web", "served"])?;
    }
    let before = seen(cx, "again", "Pid")?;
    for name in ["sick", "again"] {
        done(cx, &["exec", name, "touch", "/dev/shm/end"])?;
    }
    eventually("it is killed for its health", || {
        Ok(seen(cx, "sick", "Running")? == "false")
    })?;
    // Where its end could be written down, it is `exited` until the next start can be; otherwise `restarting`. What the commands above have
    // freed may be room enough for that start, and then it runs again.
    eventually("it has ended", || Ok(seen(cx, "again", "Pid")? != before))?;
    done(cx, &["stop", "-t", "1", "again"])?;
    Ok(())
}

/// Makes a network with a container and one without, a pod that runs and one that has not begun, and a pool.
fn make_groups(cx: &Context) -> Result<()> {
    let image = cx.image();
    for name in ["web", "unused"] {
        done(cx, &["network", "create", name])?;
    }
    done(
        cx,
        &[
            "run",
            "-d",
            "--network",
            "web",
            "-p",
            "8080:80",
            "--name",
            "served",
            &image,
            "sleep",
            "1000",
        ],
    )?;
    for name in ["busy", "idle"] {
        done(cx, &["pod", "create", name])?;
    }
    done(cx, &["run", "-d", "--pod", "busy", &image, "sleep", "1000"])?;
    fill(cx, "2", &[])
}

/// Removes what [`make_groups`] has made.
fn remove_groups(cx: &Context) -> Result<()> {
    done(cx, &["rm", "-f", "served"])?;
    done(cx, &["network", "rm", "web"])?;
    done(cx, &["network", "prune", "-f"])?;
    done(cx, &["pod", "rm", "-f", "busy"])?;
    done(cx, &["pod", "rm", "idle"])?;
    done(cx, &["pool", "rm", "p"])?;
    for list in [
        &["network", "ls", "-q", "--filter", "type=custom"][..],
        &["pod", "ps", "-q"],
        &["pool", "ls", "-q"],
    ] {
        let left = done(cx, list)?;
        ensure!(left.is_empty(), "{list:?} has {left}");
    }
    Ok(())
}

fn full_tmpfs(cx: &Context) -> Result<()> {
    full(
        cx,
        "mount -t tmpfs -o size=16m,nr_inodes=2000 tmpfs \"$1\"",
        "none",
    )
}

fn on_disk(cx: &Context, make: &[&str], size: u64) -> Result<()> {
    let disk = cx.path("disk")?;
    fs::File::create_new(&disk)?.set_len(size)?;
    Invocation::new(make.iter().copied().chain([disk.as_str()]))
        .output()?
        .exits(0)?;
    full(cx, "mount -o loop \"$0\" \"$1\"", &disk)?;
    Ok(fs::remove_file(disk)?)
}

fn full_ext4(cx: &Context) -> Result<()> {
    on_disk(cx, &["mkfs.ext4", "-q", "-N", "1500"], 48 << 20)
}

fn full_xfs(cx: &Context) -> Result<()> {
    on_disk(cx, &["mkfs.xfs", "-q"], 320 << 20)
}

fn full_btrfs(cx: &Context) -> Result<()> {
    on_disk(cx, &["mkfs.btrfs", "-q", "--mixed"], 64 << 20)
}
