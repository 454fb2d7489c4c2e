//! `tote oci` and cgroups: their paths, the group that `exec` joins, and their removal.

use super::pool::eventually;
use crate::bundle::Bundle;
use crate::cgroup;
use crate::context::Context;
use crate::need::Need::{CgroupV1, CgroupV2Controllers, Controller, Root};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "oci_cgroup::a_group_has_the_name_of_the_container_and_goes_with_it",
        &[Root, Controller("pids")],
        own_name,
    ),
    test(
        "oci_cgroup::exec_joins_groups_below_the_containers",
        &[Root, CgroupV1("cpu")],
        exec_below,
    ),
    test(
        "oci_cgroup::exec_follows_the_first_process_out_of_a_busy_group",
        &[Root, CgroupV2Controllers],
        exec_busy,
    ),
    test(
        "oci_cgroup::a_pods_empty_cpuset_is_no_obstacle",
        &[Root, CgroupV1("cpuset")],
        pod,
    ),
    test(
        "oci_cgroup::six_mebibytes_are_enough_to_start",
        &[Root, Controller("memory")],
        little_memory,
    ),
    test(
        "oci_cgroup::limits_that_cannot_be_leave_nothing",
        &[Root, CgroupV1("pids")],
        bad_limits,
    ),
    test(
        "oci_cgroup::what_another_freezer_has_suspended_is_deleted",
        &[Root, CgroupV1("freezer")],
        frozen_elsewhere,
    ),
];

fn own_name(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.change(|spec| {
        if let Some(linux) = spec["linux"].as_object_mut() {
            linux.remove("cgroupsPath");
        }
    })?;
    let id = bundle.group();
    bundle.detached(&["run", "-d", &id])?.exits(0)?;
    let groups = cgroup::directories(bundle.pid(&id)?)?;
    ensure!(
        !groups.is_empty() && groups.iter().all(|group| group.ends_with(&id)),
        "its groups are {groups:?}"
    );
    bundle.oci(&["kill", &id, "KILL"]).output()?.exits(0)?;
    bundle.oci(&["delete", "-f", &id]).output()?.exits(0)?;
    gone(&groups)?;
    bundle.nothing_left()
}

fn gone(groups: &[PathBuf]) -> Result<()> {
    let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn exec_below(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["run", "-d", "e"])?.exits(0)?;
    let pid = bundle.pid("e")?;
    let groups = cgroup::directories(pid)?;
    fs::create_dir(cgroup::directory(pid, "cpu")?.join("sub"))?;
    let exec = |choice: &str| bundle.oci(&["exec", "--cgroup", choice, "e", "cat", "/proc/self/cgroup"]);
    for (choice, words) in [
        ("..", "bad sub cgroup path"),
        ("nonexistent", " adding pid "),
        ("cpu:nonexistent", "o such file or directory"),
        ("whaaat:/", "unknown controller "),
    ] {
        Bundle::refused(&exec(choice).output()?, 255, &[words]).with_context(|| choice.to_owned())?;
    }
    exec("/").output()?.exits(0)?;
    let joined = exec("cpu:sub").output()?;
    joined.exits(0)?;
    // The path depends on the root of its cgroup namespace, but only this hierarchy's line ends with it.
    let below: Vec<_> = joined
        .out()
        .lines()
        .filter(|line| line.ends_with("/sub"))
        .map(ToOwned::to_owned)
        .collect();
    ensure!(
        below.len() == 1 && below[0].contains("cpu"),
        "it is in {:?}",
        joined.out()
    );
    bundle.oci(&["delete", "-f", "e"]).output()?.exits(0)?;
    gone(&groups)?;
    bundle.nothing_left()
}

/// On v2 a group with enabled controllers cannot have processes of its own.
fn exec_busy(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["run", "-d", "b"])?.exits(0)?;
    let pid = bundle.pid("b")?;
    let group = cgroup::directory(pid, "")?;
    let sub = group.join("sub");
    fs::create_dir(&sub)?;
    fs::write(sub.join("cgroup.procs"), pid.to_string())?;
    let offered = fs::read_to_string(group.join("cgroup.controllers"))?;
    let controller = offered.split_whitespace().next().context("no controller")?;
    fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"))?;
    let cat = ["cat", "/proc/self/cgroup"];
    let followed = bundle.oci(&[&["exec", "b"], &cat[..]].concat()).output()?;
    followed.exits(0)?.has_out("/sub\n")?;
    Bundle::refused(
        &bundle
            .oci(&[&["exec", "--cgroup", "/", "b"], &cat[..]].concat())
            .output()?,
        255,
        &[" adding pid ", " to cgroups", "evice or resource busy"],
    )?;
    bundle.oci(&["delete", "-f", "b"]).output()?.exits(0)?;
    gone(&[group])?;
    bundle.nothing_left()
}

fn pod(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let pod = cgroup::v1_mount("cpuset")
        .context("no cpuset")?
        .join(bundle.group());
    fs::create_dir_all(pod.join("c"))?;
    let path = format!("/{}/c", bundle.group());
    bundle.change(|spec| spec["linux"]["cgroupsPath"] = json!(path))?;
    let ran = bundle
        .detached(&["run", "-d", "p"])
        .and_then(|output| output.exits(0).map(drop));
    bundle.oci(&["delete", "-f", "p"]).output()?.exits(0)?;
    // A group that existed before belongs to its maker, who also removes it.
    for dir in [pod.join("c"), pod] {
        if dir.exists() {
            fs::remove_dir(&dir)?;
        }
    }
    ran?;
    bundle.nothing_left()
}

fn little_memory(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let limit = 6 << 20;
    bundle.change(|spec| spec["linux"]["resources"]["memory"] = json!({ "limit": limit }))?;
    bundle.detached(&["create", "m"])?.exits(0)?;
    bundle.oci(&["start", "m"]).output()?.exits(0)?;
    bundle.is("m", "running")?;
    let said = cgroup::limit(bundle.pid("m")?, "memory", "memory.limit_in_bytes", "memory.max")?;
    ensure!(said == limit.to_string(), "the limit is {said}");
    bundle.oci(&["exec", "m", "true"]).output()?.exits(0)?;
    bundle.oci(&["delete", "-f", "m"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn bad_limits(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let good: Value = serde_json::from_str(&fs::read_to_string(bundle.config())?)?;
    let refused = |resources: Value, words: &str| -> Result<()> {
        let mut spec = good.clone();
        spec["linux"]["resources"] = resources;
        fs::write(bundle.config(), spec.to_string())?;
        for command in [&["create", "l"][..], &["run", "-d", "l"]] {
            Bundle::refused(&bundle.detached(command)?, 1, &[words])?;
            let group = cgroup::v1_mount("pids").context("no pids")?.join(bundle.group());
            ensure!(!Path::new(&group).exists(), "left behind: {}", group.display());
            bundle.nothing_left()?;
        }
        Ok(())
    };
    refused(json!({ "unified": { "pids.max": "7" } }), "invalid configuration")?;
    refused(json!({ "unified": { "../x": "7" } }), "unified resource")?;
    refused(json!({ "memory": { "swappiness": 101 } }), "swappiness")?;
    refused(
        json!({ "devices": [{ "allow": true, "type": "x" }] }),
        "not one of a, b, c",
    )
}

/// A frozen process receives no signal, and on v1 not even SIGKILL.
fn frozen_elsewhere(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "sleep 1000 & exec sleep 1000"])?;
    bundle.detached(&["run", "-d", "f"])?.exits(0)?;
    let pid = bundle.pid("f")?;
    let groups = cgroup::directories(pid)?;
    let own = cgroup::directory(pid, "freezer")?;
    let elsewhere = own.with_file_name(format!("{}-elsewhere", bundle.group()));
    fs::create_dir(&elsewhere)?;
    let members = || fs::read_to_string(own.join("cgroup.procs"));
    eventually("the shell has begun the second process", || {
        Ok(members()?.lines().count() == 2)
    })?;
    for member in members()?.lines() {
        fs::write(elsewhere.join("cgroup.procs"), member)?;
    }
    fs::write(elsewhere.join("freezer.state"), "FROZEN")?;
    let deleted = bundle.oci(&["delete", "-f", "f"]).output()?;
    fs::write(elsewhere.join("freezer.state"), "THAWED")?;
    deleted.exits(0)?.quietly()?;
    fs::remove_dir(&elsewhere)?;
    gone(&groups)?;
    bundle.nothing_left()
}
