//! Common limits of a pod's containers, and the end of the pod with its containers.

use super::life::{done, dying};
use super::pods::{nothing, sleeper, status};
use crate::cgroup;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "pods::limits_are_of_all_members_together",
        &[Need::Root, Need::Controller("memory"), Need::Controller("cpu")],
        limits,
    ),
    test(
        "pods::limits_that_cannot_be_had_are_a_warning",
        &[Need::Unprivileged, Need::NoDelegation],
        warned,
    ),
    test(
        "pods::a_killed_command_leaves_no_cgroup_of_a_pod",
        &[Need::Root, Need::FaultPoints, Need::Controller("memory")],
        killed,
    ),
    test(
        "life::killed_before_its_cgroup_is_written_down",
        &[Need::Root, Need::FaultPoints, Need::Controller("memory")],
        killed_below,
    ),
    test("pods::one_may_end_with_its_last_container", &[], exit_policy),
];

/// Returns the cgroup directory that limits a container's memory.
fn memory_of(cx: &Context, name: &str) -> Result<PathBuf> {
    let pid = done(cx, &["inspect", "-f", "{{.State.Pid}}", name])?;
    cgroup::directory(pid.parse()?, "memory")
}

/// Reads the memory limit of a cgroup directory.
fn limit_of(dir: &Path) -> Option<String> {
    let mut names = ["memory.limit_in_bytes", "memory.max"].iter();
    names.find_map(|name| std::fs::read_to_string(dir.join(name)).ok())
}

fn limits(cx: &Context) -> Result<()> {
    let image = cx.image();
    let create = "pod create --memory 96m --memory-swap 96m --cpus 1.5 p";
    let id = done(cx, &create.split(' ').collect::<Vec<_>>())?;
    let member = sleeper(cx, &["--pod", "p", "--stop-timeout", "0", "--name", "a"])?;
    let own = memory_of(cx, "a")?;
    // On v2 there may be a group between the two.
    let pod = own.ancestors().find(|dir| dir.ends_with(format!("tote-{id}")));
    let pod = pod.context("it is not inside the pod's")?.to_owned();
    ensure!(own.ends_with(format!("tote-{member}")), "{}", own.display());
    let infra = done(cx, &["pod", "inspect", "-f", "{{.InfraContainerID}}", "p"])?;
    ensure!(
        memory_of(cx, &infra)?.starts_with(&pod),
        "the infra container is inside as well"
    );
    let limit = limit_of(&pod);
    ensure!(limit.as_deref() == Some("100663296\n"), "{limit:?}");
    let shown = done(
        cx,
        &[
            "pod",
            "inspect",
            "-f",
            "{{.memory_limit}} {{.cpu_quota}} {{.CreateCgroup}}",
            "p",
        ],
    )?;
    ensure!(shown == "100663296 150000 true", "{shown}");
    // The members have no limits of their own.
    let hog = "dd if=/dev/zero of=/dev/null bs=256M count=1";
    let eaten = cx.run(&["--pod", "p", &image, "sh", "-c", hog])?;
    ensure!(
        eaten.code == 137,
        "it ended with {}: {}",
        eaten.code,
        eaten.transcript()
    );
    // A member's own cgroup is inside the pod's as well.
    let options = "--pod p --stop-timeout 0 --name b --memory 32m";
    sleeper(cx, &options.split(' ').collect::<Vec<_>>())?;
    ensure!(memory_of(cx, "b")?.starts_with(&pod));
    done(cx, &["pod", "restart", "p"])?;
    ensure!(
        memory_of(cx, "a")?.starts_with(&pod),
        "a start makes nothing anew"
    );
    // A removed cgroup is made again with the infra container.
    done(cx, &["pod", "kill", "p"])?;
    done(cx, &["wait", "a", "b", &infra])?;
    let places = std::fs::read_to_string(cx.root().join("pods").join(&id).join("cgroup"))?;
    for place in places.lines().filter_map(|line| line.splitn(4, ' ').nth(3)) {
        std::fs::remove_dir(place).with_context(|| format!("remove {place}"))?;
    }
    done(cx, &["pod", "start", "p"])?;
    ensure!(
        limit_of(&pod).as_deref() == Some("100663296\n"),
        "the limit is there again"
    );
    ensure!(memory_of(cx, "a")?.starts_with(&pod));
    done(cx, &["pod", "rm", "-f", "p"])?;
    ensure!(!pod.exists(), "{} is left", pod.display());
    cx.tote(&["pod", "create", "--infra=false", "--memory", "64m"])
        .output()?
        .refuses(125, &["cannot set memory without an infra container"])?;
    cx.tote(&["pod", "create", "--memory", "much"])
        .output()?
        .refuses(125, &["memory", "much"])?;
    nothing(cx)
}

fn warned(cx: &Context) -> Result<()> {
    let made = cx.tote(&["pod", "create", "--memory", "64m", "p"]).output()?;
    made.exits(0)?.warns_once("memory")?;
    sleeper(cx, &["--pod", "p", "--name", "a"])?;
    ensure!(status(cx, "p")? == "Running");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

/// Lists empty cgroups of tote. Concurrent tests make and remove some meanwhile.
fn empty_groups() -> Vec<PathBuf> {
    let mut groups = cgroup::unpopulated();
    groups.retain(|group| group.to_string_lossy().contains("tote"));
    groups
}

/// Waits until only those empty groups are left that existed before. A concurrent test's group soon disappears, or
/// gets a process.
fn new_groups(before: &[PathBuf]) -> Vec<PathBuf> {
    let end = std::time::Instant::now() + crate::exchange::patience();
    loop {
        let mut groups = empty_groups();
        groups.retain(|group| !before.contains(group));
        if groups.is_empty() || std::time::Instant::now() > end {
            return groups;
        }
    }
}

fn killed(cx: &Context) -> Result<()> {
    let image = cx.image();
    let groups = empty_groups();
    let create = ["pod", "create", "--memory", "64m", "victim"];
    for point in ["pod-grouped", "pod-infra", "pod-recorded"] {
        let died = dying(cx, point, &create)?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        done(cx, &["pod", "rm", "-f", "victim"])?;
        let left = new_groups(&groups);
        ensure!(left.is_empty(), "after a death at {point:?}: {left:?}");
        nothing(cx)?;
    }
    for point in ["born", "running", "told", "cgroup-gone"] {
        done(cx, &create)?;
        dying(
            cx,
            point,
            &["run", "-d", "--pod", "victim", "--name", "a", &image, "true"],
        )?;
        done(cx, &["pod", "rm", "-f", "victim"])?;
        let left = new_groups(&groups);
        ensure!(left.is_empty(), "after a death at {point:?}: {left:?}");
        nothing(cx)?;
    }
    Ok(())
}

/// The cgroup's path cannot be derived from the id.
fn killed_below(cx: &Context) -> Result<()> {
    let image = cx.image();
    let groups = empty_groups();
    let own = cx
        .scratch()
        .file_name()
        .context("a name")?
        .to_string_lossy()
        .into_owned();
    let parent = format!("/tote-e2e-{own}/below");
    let options = [
        "--name",
        "victim",
        "--cgroup-parent",
        &parent,
        &image,
        "sleep",
        "1000",
    ];
    for (point, run) in [("born", &["run", "-d"][..]), ("unnoted", &["run", "--rm"])] {
        let died = dying(cx, point, &[run, &options].concat())?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        // Any later command with containers removes the leftovers.
        done(cx, &["rm", "-f", "victim"])?;
        ensure!(
            new_groups(&groups).is_empty(),
            "after a death at {point:?}: {:?}",
            empty_groups()
        );
        nothing(cx)?;
    }
    Ok(())
}

fn exit_policy(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.tote(&["pod", "create", "--exit-policy", "explode"])
        .output()?
        .refuses(125, &["invalid pod exit policy", "explode"])?;
    let create = ["pod", "create", "--exit-policy", "stop", "--infra-name", "keeper"];
    done(cx, &[&create, &["--label", "a=b", "p"][..]].concat())?;
    ensure!(done(cx, &["pod", "inspect", "-f", "{{.ExitPolicy}}", "p"])? == "stop");
    let infra = || done(cx, &["inspect", "-f", "{{.State.Status}}", "keeper"]);
    // The ends of a member in the foreground and of one with a monitor.
    done(cx, &["run", "--rm", "--pod", "p", &image, "true"])?;
    ensure!(done(cx, &["wait", "keeper"])? == "0");
    sleeper(cx, &["--pod", "p", "--name", "a"])?;
    sleeper(cx, &["--pod", "p", "--name", "b"])?;
    done(cx, &["kill", "a"])?;
    done(cx, &["wait", "a"])?;
    done(cx, &["run", "--rm", "--pod", "p", &image, "true"])?;
    ensure!(infra()? == "running", "b is still there");
    done(cx, &["kill", "b"])?;
    done(cx, &["wait", "b", "keeper"])?;
    ensure!(infra()? == "exited" && status(cx, "p")? == "Exited");
    done(cx, &["pod", "start", "p"])?;
    ensure!(status(cx, "p")? == "Running");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}
