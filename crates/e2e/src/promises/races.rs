//! Concurrent commands on the same object.

use super::absent::number;
use super::stored::{archive, image};
use crate::cgroup;
use crate::context::Context;
use crate::exchange::{patience, scaled};
use crate::need::Need;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    test(
        "races::a_cgroup_that_stays_goes_with_the_next_command",
        &[Need::Root, Need::Controller("pids")],
        busy_cgroup,
    ),
    test(
        "races::a_start_that_cannot_be_written_down_leaves_no_cgroup",
        &[Need::Root, Need::Controller("pids")],
        unwritten_start,
    ),
    test(
        "races::exec_says_that_its_container_has_just_ended",
        &[],
        exec_and_end,
    ),
    test(
        "races::a_volume_is_not_removed_under_a_start",
        &[],
        volume_and_start,
    ),
    test(
        "races::a_container_that_was_paused_stays_so_after_a_commit",
        &[Need::Root, Need::Controller("freezer")],
        commit_of_paused,
    ),
    test(
        "races::a_commit_of_what_has_just_ended_blames_nobody",
        &[Need::Root, Need::CgroupV1("freezer")],
        commit_and_end,
    ),
    test("races::many_commands_on_one_root", &[], many),
];

/// A process of this test in a container's cgroup prevents the removal, like a process that the
/// kernel is slow to end.
fn busy_cgroup(cx: &Context) -> Result<()> {
    let mut run = cx
        .run_command(&["-i", &cx.image(), "sh", "-c", "echo up; cat"])
        .spawn()?;
    run.expect("up\n")?;
    let dir = cgroup::directory(processes::container_init(run.pid())?, "pids")?;
    let mut busy = std::process::Command::new("sleep").arg("1000").spawn()?;
    fs::write(dir.join("cgroup.procs"), busy.id().to_string())?;
    run.finish()?
        .warns_once("stays behind until the next command")
        .inspect_err(|_| drop(busy.kill()))?;
    ensure!(dir.exists(), "nothing kept the cgroup");
    // The command has no container to remove, but looks for leftovers.
    cx.tote(&["run", "--rm", &cx.image(), "true"])
        .output()?
        .exits(0)?;
    let stayed = dir.exists();
    // The command has killed the process.
    busy.kill()?;
    busy.wait()?;
    ensure!(!stayed, "{} stayed", dir.display());
    cx.nothing_left()
}

/// Starts a container whose first process has ended while its monitor is stopped. Returns the monitor and the
/// container's cgroups.
fn ended_unnoticed(cx: &Context, image: &str) -> Result<(i32, Vec<PathBuf>)> {
    let started = cx
        .tote(&["run", "-d", "--name", "web", image, "sleep", "1000"])
        .output()?;
    let id = started.exits(0)?.out();
    let monitor = number(cx, id.trim(), "monitor")?;
    let first = number(cx, id.trim(), "process")?;
    processes::kill(monitor, Signal::STOP);
    let groups = cgroup::directories(first)?;
    let pidfd = processes::pidfd(first)?;
    processes::kill(first, Signal::KILL);
    processes::wait_end(&pidfd, "the container's first process", patience())?;
    Ok((monitor, groups))
}

/// The program has run by then, in its cgroups: they must go with it, because no later command would look for them.
fn unwritten_start(cx: &Context) -> Result<()> {
    let made = cx
        .tote(&["create", "--name", "web", &cx.image(), "sleep", "1000"])
        .output()?;
    let id = made.exits(0)?.out().trim().to_owned();
    let blocked = cx.root().join("containers").join(&id).join("state.new");
    fs::create_dir_all(blocked.join("below"))?;
    cx.tote(&["start", "web"]).output()?.exits(1)?;
    fs::remove_dir_all(&blocked)?;
    let own = fs::read_to_string("/proc/self/mounts")?;
    let group = format!("tote-{id}");
    for mount in own.lines().filter(|line| line.starts_with("cgroup")) {
        let point = mount.split(' ').nth(1).context("a mount without a place")?;
        ensure!(
            !has_below(point.as_ref(), &group),
            "{group} is left below {point}"
        );
    }
    cx.tote(&["rm", "web"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// True if a directory of that name exists anywhere below another one.
fn has_below(dir: &Path, name: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.any(|entry| entry.file_name() == name || has_below(&entry.path(), name))
}

fn exec_and_end(cx: &Context) -> Result<()> {
    let (monitor, _) = ended_unnoticed(cx, &cx.image())?;
    let looked: Result<Vec<Output>> = [&["web", "true"][..], &["--user", "root", "web", "true"]]
        .iter()
        .map(|words| cx.tote(&[&["exec"], *words].concat()).output())
        .collect();
    processes::kill(monitor, Signal::CONT);
    for output in looked? {
        output.refuses(1, &["container ", " is not running"])?;
    }
    cx.tote(&["rm", "-f", "web"]).output()?.exits(0)?;
    Ok(())
}

/// Waits until a process waits for a lock on this directory.
fn wait_for_waiter(dir: &fs::File) -> Result<()> {
    let inode = format!(":{} ", dir.metadata()?.ino());
    let until = Instant::now() + patience();
    while Instant::now() < until {
        let locks = fs::read_to_string("/proc/locks")?;
        if locks
            .lines()
            .any(|line| line.contains("->") && line.contains(&inode))
        {
            return Ok(());
        }
        std::thread::yield_now();
    }
    anyhow::bail!("nobody waits for the volume")
}

fn volume_and_start(cx: &Context) -> Result<()> {
    cx.tote(&["volume", "create", "data"]).output()?.exits(0)?;
    let volumes = cx.root().join("volumes");
    let dir = fs::File::open(volumes.join("data"))?;
    // The lock of a start, until its container is recorded as a user of the volume.
    flock(&dir, FlockOperation::LockShared)?;
    cx.tote(&["volume", "rm", "data"])
        .output()?
        .refuses(1, &["volume is in use"])?;
    cx.tote(&["volume", "prune", "-af"]).output()?.exits(0)?;
    ensure!(volumes.join("data/_data").is_dir(), "it was taken away");
    flock(&dir, FlockOperation::Unlock)?;
    // The reverse: the lock of a removal.
    flock(&dir, FlockOperation::LockExclusive)?;
    let start = cx
        .run_command(&["-v", "data:/data", &cx.image(), "touch", "/data/new"])
        .spawn()?;
    wait_for_waiter(&dir)?;
    fs::rename(volumes.join("data"), volumes.join(".data"))?;
    drop(dir);
    start.finish()?.exits(0)?.quietly()?;
    ensure!(
        volumes.join("data/_data/new").exists(),
        "the start got the old one"
    );
    cx.tote(&["volume", "rm", "data"]).output()?.exits(0)?;
    ensure!(fs::read_dir(&volumes)?.next().is_none(), "nothing is left");
    Ok(())
}

fn commit_of_paused(cx: &Context) -> Result<()> {
    image(cx, "base", &[])?;
    cx.tote(&["run", "-d", "--name", "web", "base", "sleep", "1000"])
        .output()?
        .exits(0)?;
    cx.tote(&["pause", "web"]).output()?.exits(0)?;
    cx.tote(&["commit", "web", "made"])
        .output()?
        .exits(0)?
        .quietly()?;
    cx.tote(&["unpause", "web"]).output()?.exits(0)?;
    cx.tote(&["rm", "-f", "web"]).output()?.exits(0)?;
    Ok(())
}

fn commit_and_end(cx: &Context) -> Result<()> {
    image(cx, "base", &[])?;
    let (monitor, mut groups) = ended_unnoticed(cx, "base")?;
    groups.retain(|dir| {
        dir.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tote-"))
    });
    // The monitor does this next.
    let removed: Vec<_> = groups.iter().map(fs::remove_dir).collect();
    let committed = cx.tote(&["commit", "web", "made"]).output();
    processes::kill(monitor, Signal::CONT);
    ensure!(!removed.is_empty(), "it had no cgroup");
    removed
        .into_iter()
        .collect::<Result<(), _>>()
        .context("remove its cgroups")?;
    committed?.exits(0)?.quietly()?;
    cx.tote(&["rm", "-f", "web"]).output()?.exits(0)?;
    Ok(())
}

/// Duration of the commands of [`many`].
const A_WHILE: Duration = Duration::from_secs(6);

/// Command, and its permitted errors when another one was faster.
type Errand<'a> = (&'a [&'a str], &'a [&'a str]);

fn many(cx: &Context) -> Result<()> {
    let (one, two) = (archive(cx, "one")?, archive(cx, "two")?);
    let context: PathBuf = cx.directory("context")?.into();
    fs::write(
        context.join("Dockerfile"),
        "FROM base\nRUN echo x >/x\nLABEL a=b\n",
    )?;
    let context = cx.path("context")?;
    let rootfs = cx.image();
    image(cx, "base", &[])?;
    let no_image: &[&str] = &[
        "no such image",
        "unable to find image",
        "is running with this image",
    ];
    let no_web: &[&str] = &[
        "no such container",
        "is not running",
        "cannot be killed",
        "is paused",
        "is being removed",
    ];
    let no_volume: &[&str] = &["no such volume", "volume is in use"];
    let errands: [&[Errand<'_>]; 18] = [
        &[(&["import", &one, "one"], &[]), (&["rmi", "one"], no_image)],
        &[(&["import", &one, "one"], &[]), (&["image", "prune", "-f"], &[])],
        &[(&["import", &two, "two"], &[]), (&["rmi", "-f", "two"], no_image)],
        &[
            (&["tag", "two", "three"], no_image),
            (&["rmi", "three"], no_image),
        ],
        &[(&["image", "prune", "-f"], &[])],
        &[(&["system", "prune", "-f"], &[])],
        &[(&["store", "verify"], &[]), (&["images"], &[])],
        &[
            (&["build", "-q", "-t", "built", &context], &[]),
            (&["rmi", "built"], no_image),
        ],
        &[(&["run", "--rm", "--pull", "never", "one", "true"], no_image)],
        &[
            (&["run", "-d", "--name", "web", "base", "sleep", "1000"], &[]),
            (&["kill", "web"], no_web),
            (&["rm", "-f", "web"], &[]),
        ],
        &[(&["exec", "web", "true"], no_web)],
        &[(&["exec", "web", "true"], no_web), (&["ps", "-a"], &[])],
        &[(&["commit", "web", "made"], no_web), (&["rmi", "made"], no_image)],
        &[(&["run", "--rm", "-v", "data:/data", &rootfs, "true"], &[])],
        &[(&["volume", "rm", "data"], no_volume), (&["volume", "ls"], &[])],
        &[(&["volume", "prune", "-af"], &[]), (&["system", "df"], &[])],
        // Each sweeps what the other is about to make.
        &[
            (&["volume", "create", "left"], &[]),
            (&["volume", "rm", "left"], no_volume),
        ],
        &[
            (&["volume", "create", "right"], &[]),
            (&["volume", "rm", "right"], no_volume),
        ],
    ];
    let until = Instant::now() + scaled(A_WHILE);
    let rounds: Vec<Result<u32>> = std::thread::scope(|scope| {
        let workers = errands.map(|own| scope.spawn(move || work(cx, own, until)));
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a worker has panicked"))?)
            .collect()
    });
    let rounds = rounds.into_iter().collect::<Result<Vec<u32>>>()?;
    crate::context::note(&format!("rounds of each: {rounds:?}"));
    cx.tote(&["rm", "-f", "web"]).output()?;
    cx.tote(&["volume", "rm", "-f", "data"]).output()?.exits(0)?;
    cx.tote(&["store", "verify", "--full"])
        .output()?
        .exits(0)?
        .quietly()?;
    cx.nothing_left()
}

/// True for the warning of commits for a user without a freezer.
fn is_unsuspended(said: &str) -> bool {
    !crate::need::is_root() && said.contains("because this user cannot suspend it")
}

/// Repeats one worker's commands, and counts the rounds.
fn work(cx: &Context, own: &[Errand<'_>], until: Instant) -> Result<u32> {
    let mut rounds = 0;
    while Instant::now() < until {
        for (words, excuses) in own {
            let output = cx.tote(words).output()?;
            let said = output.err().to_lowercase();
            let excused = output.code != 0 && excuses.iter().any(|excuse| said.contains(excuse));
            // A process that `exec` started in a container ends with it.
            let is_killed = words[0] == "exec" && output.code == 137;
            if !excused && !is_killed {
                output.exits(0)?;
                ensure!(
                    !said.contains("warning") || is_unsuspended(&said),
                    "it has a warning: {}",
                    output.transcript()
                );
            }
        }
        rounds += 1;
    }
    Ok(rounds)
}
