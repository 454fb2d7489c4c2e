//! Pods: namespaces that their members share, and their common life.

use super::life::{done, empty};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("pods::members_share_network_ipc_and_hostname", &[], shared),
    test("pods::what_is_shared_can_be_said", &[], said),
    test("pods::a_new_pods_host_name_comes_with_its_member", &[], hostname),
    test("pods::a_server_in_one_is_heard_in_another", &[], server),
    test("pods::namespaces_of_a_container_can_be_joined", &[], joined),
    test("pods::started_stopped_and_removed_together", &[], together),
    test(
        "pods::a_member_that_starts_starts_the_namespaces",
        &[],
        member_first,
    ),
    test("pods::what_there_is_to_see", &[], seen),
    test("pods::the_infra_container_goes_with_its_pod", &[], infra),
    test("pods::names_are_one_for_containers_and_pods", &[], names),
];

/// Script that prints the namespaces of a container's processes, and its host name.
const LOOK: &str =
    "cd /proc/self/ns; readlink net; readlink ipc; readlink uts; readlink pid; readlink user; hostname";

/// Reads them in a running container: the numbers of former namespaces can be reused.
pub(super) fn look_into(cx: &Context, name: &str) -> Result<Vec<String>> {
    let said = done(cx, &["exec", name, "sh", "-c", LOOK])?;
    Ok(said.lines().map(str::to_owned).collect())
}

/// Checks that no pod and no container is left.
pub(super) fn nothing(cx: &Context) -> Result<()> {
    empty(cx)?;
    let left: Vec<_> = fs::read_dir(cx.root().join("pods"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure!(left.is_empty(), "pods are left: {left:?}");
    Ok(())
}

/// Runs a member to its end, and returns its lines.
fn look(cx: &Context, options: &[&str]) -> Result<Vec<String>> {
    let image = cx.image();
    let words = [&["run", "--rm"], options, &[&image, "sh", "-c", LOOK]].concat();
    Ok(done(cx, &words)?.lines().map(str::to_owned).collect())
}

pub(super) fn sleeper(cx: &Context, options: &[&str]) -> Result<String> {
    let image = cx.image();
    done(
        cx,
        &[&["run", "-d"], options, &[&image, "sleep", "1000"]].concat(),
    )
}

pub(super) fn status(cx: &Context, name: &str) -> Result<String> {
    done(cx, &["pod", "inspect", "-f", "{{.State}}", name])
}

fn shared(cx: &Context) -> Result<()> {
    done(cx, &["pod", "create", "p"])?;
    sleeper(cx, &["--pod", "p", "--name", "kept"])?;
    let one = look(cx, &["--pod", "p"])?;
    let other = look_into(cx, "kept")?;
    let [net, ipc, uts, pid, _user, hostname] = one.as_slice() else {
        anyhow::bail!("{one:?}")
    };
    ensure!(
        [net, ipc, uts] == [&other[0], &other[1], &other[2]],
        "{one:?} {other:?}"
    );
    ensure!(*pid != other[3], "processes are not shared where nobody says so");
    ensure!(one[4] == other[4], "members are in one user namespace");
    ensure!(
        hostname == "p" && other[5] == "p",
        "the pod's name is that of its members: {hostname}"
    );
    let files = done(cx, &["exec", "kept", "cat", "/etc/hostname", "/etc/hosts"])?;
    ensure!(files.starts_with("p\n") && files.contains("\tp"), "{files}");
    // Shared memory of POSIX as well as that of System V.
    done(cx, &["exec", "kept", "sh", "-c", "echo told > /dev/shm/note"])?;
    let image = cx.image();
    let told = done(cx, &["run", "--rm", "--pod", "p", &image, "cat", "/dev/shm/note"])?;
    ensure!(told == "told", "{told}");
    let outside = look(cx, &[])?;
    ensure!(
        (0..3).all(|place| outside[place] != one[place]),
        "{outside:?} are the pod's"
    );
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn hostname(cx: &Context) -> Result<()> {
    let image = cx.image();
    let run = |options: &[&str]| {
        let words = [&["run", "--rm"], options, &[&image, "hostname"]].concat();
        cx.tote(&words).output()
    };
    run(&["--pod", "new:p", "--hostname", "box"])?.prints("box\n")?;
    run(&["--pod", "p"])?.prints("box\n")?;
    run(&["--pod", "p", "--hostname", "other"])?.refuses(125, &["cannot set hostname", "pod create"])?;
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn said(cx: &Context) -> Result<()> {
    done(
        cx,
        &[
            "pod",
            "create",
            "--name",
            "p",
            "--share",
            "pid,uts",
            "--hostname",
            "house",
        ],
    )?;
    sleeper(cx, &["--pod", "p", "--name", "kept"])?;
    let (one, other) = (look(cx, &["--pod", "p"])?, look_into(cx, "kept")?);
    ensure!(
        one[3] == other[3] && one[2] == other[2] && one[5] == "house",
        "{one:?} {other:?}"
    );
    ensure!(
        one[0] != other[0] && one[1] != other[1],
        "neither network nor IPC is shared"
    );
    let processes = done(cx, &["exec", "kept", "ps"])?;
    ensure!(
        processes.contains("/pause") && processes.contains("sleep 1000"),
        "{processes}"
    );
    let refused = cx.tote(&["pod", "create", "--share", "net,mnt"]).output()?;
    refused.refuses(125, &["invalid kernel namespace to share", "mnt"])?;
    let image = cx.image();
    done(cx, &["pod", "create", "--infra=false", "bare"])?;
    sleeper(cx, &["--pod", "bare", "--name", "alone"])?;
    let (one, other) = (look(cx, &["--pod", "bare"])?, look_into(cx, "alone")?);
    ensure!(
        (0..4).all(|place| one[place] != other[place]),
        "nothing is shared"
    );
    done(cx, &["pod", "create", "net"])?;
    let refused = cx.run(&["--pod", "net", "--network", "none", &image, "true"])?;
    refused.refuses(
        125,
        &["network cannot be configured when it is shared with a pod"],
    )?;
    done(cx, &["pod", "rm", "-f", "-a"])?;
    nothing(cx)
}

fn server(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["pod", "create", "p"])?;
    let serve = "exec busybox nc -l -p 8765 -e echo answer";
    done(
        cx,
        &[
            "run", "-d", "--pod", "p", "--name", "server", &image, "sh", "-c", serve,
        ],
    )?;
    // The server may not listen yet.
    let ask = "until busybox nc 127.0.0.1 8765 </dev/null 2>/dev/null; do :; done";
    let heard = done(cx, &["run", "--rm", "--pod", "p", &image, "sh", "-c", ask])?;
    ensure!(heard == "answer", "{heard}");
    done(cx, &["wait", "server"])?;
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

/// `--network container:NAME` of docker, and similar options.
fn joined(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &[
            "create",
            "--name",
            "one",
            "--hostname",
            "house",
            &image,
            "sleep",
            "1000",
        ],
    )?;
    let refused = cx.run(&["--network", "container:one", &image, "true"])?;
    refused.refuses(125, &["cannot join network of a non running container: one"])?;
    let refused = cx.run(&["--network", "container:no", &image, "true"])?;
    refused.refuses(125, &["No such container: no"])?;
    for joins in ["--network", "--uts", "--ipc", "--pid"] {
        cx.tote(&["create", joins, "container:no", &image, "true"])
            .output()?
            .refuses(1, &["No such container: no"])?;
    }
    let refused = cx.run(&["--pod", "no", &image, "true"])?;
    refused.refuses(125, &["no pod with name or ID no found: no such pod"])?;
    done(cx, &["start", "one"])?;
    let own = look_into(cx, "one")?;
    for (options, shared) in [
        (&["--network", "container:one"][..], 0),
        (&["--ipc", "container:one"], 1),
        (&["--uts", "container:one"], 2),
        (&["--pid", "container:one"], 3),
    ] {
        let found = look(cx, options)?;
        for place in 0..4 {
            ensure!(
                (found[place] == own[place]) == (place == shared),
                "{options:?}: {found:?} {own:?}"
            );
        }
        let is_called = found[5] == "house";
        ensure!(is_called == matches!(shared, 0 | 2), "{options:?}: {found:?}");
    }
    done(cx, &["exec", "one", "sh", "-c", "echo told > /dev/shm/note"])?;
    let told = done(
        cx,
        &[
            "run",
            "--rm",
            "--ipc",
            "container:one",
            &image,
            "cat",
            "/dev/shm/note",
        ],
    )?;
    ensure!(told == "told", "{told}");
    let own = &["--ipc", "container:one", "--tmpfs", "/dev/shm"];
    ensure!(look(cx, own)?.len() == 6);
    let refused = cx.run(&["--network", "container:one", "--hostname", "x", &image, "true"])?;
    refused.refuses(125, &["conflicting options: hostname and the network mode"])?;
    done(
        cx,
        &[
            "create",
            "--name",
            "two",
            "--network",
            "container:one",
            &image,
            "true",
        ],
    )?;
    done(cx, &["rename", "one", "uno"])?;
    done(cx, &["start", "-a", "two"])?;
    done(cx, &["rm", "-f", "uno", "two"])?;
    nothing(cx)
}

fn together(cx: &Context) -> Result<()> {
    let image = cx.image();
    let id = done(cx, &["pod", "create", "p"])?;
    ensure!(id.len() == 64, "{id}");
    for name in ["a", "b"] {
        done(
            cx,
            &["create", "--pod", "p", "--name", name, &image, "sleep", "1000"],
        )?;
    }
    ensure!(status(cx, "p")? == "Created");
    ensure!(done(cx, &["pod", "start", "p"])? == "p");
    ensure!(status(cx, "p")? == "Running");
    done(cx, &["stop", "-t", "0", "a"])?;
    ensure!(status(cx, "p")? == "Degraded");
    ensure!(done(cx, &["pod", "start", &id[..12]])? == id[..12]);
    ensure!(status(cx, "p")? == "Running");
    let refused = cx.tote(&["pod", "rm", "p"]).output()?;
    refused.refuses(
        1,
        &["running or paused containers cannot be removed without force"],
    )?;
    ensure!(done(cx, &["pod", "stop", "-t", "0", "p"])? == "p");
    ensure!(status(cx, "p")? == "Exited");
    let codes = done(cx, &["ps", "-a", "--format", "{{.Names}} {{.ExitCode}}"])?;
    ensure!(
        codes.contains("-infra 0"),
        "the infra container ends well: {codes}"
    );
    ensure!(done(cx, &["pod", "restart", "p"])? == id);
    ensure!(status(cx, "p")? == "Running");
    ensure!(done(cx, &["pod", "kill", "p"])? == id);
    for name in ["a", "b"] {
        ensure!(done(cx, &["wait", name])? == "137");
    }
    ensure!(done(cx, &["pod", "rm", "-f", "p"])? == id);
    cx.tote(&["pod", "exists", "p"]).output()?.exits(1)?;
    cx.tote(&["pod", "rm", "p"])
        .output()?
        .refuses(1, &["no pod with name or ID p found: no such pod"])?;
    cx.tote(&["pod", "rm", "-f", "p"]).output()?.exits(0)?;
    nothing(cx)
}

fn member_first(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &[
            "create", "--pod", "new:p", "--name", "a", &image, "sh", "-c", "hostname",
        ],
    )?;
    ensure!(status(cx, "p")? == "Created");
    let said = done(cx, &["start", "-a", "a"])?;
    ensure!(said == "p", "{said}");
    ensure!(status(cx, "p")? == "Degraded", "only the infra container runs");
    done(cx, &["pod", "stop", "p"])?;
    ensure!(done(cx, &["pod", "prune", "-f"])?.len() == 64);
    nothing(cx)
}

fn seen(cx: &Context) -> Result<()> {
    let id = done(cx, &["pod", "create", "--label", "kind=shop", "--name", "p"])?;
    let member = sleeper(cx, &["--pod", "p", "--name", "a"])?;
    done(cx, &["pod", "create", "other"])?;
    let table = done(cx, &["pod", "ps", "-f", "name=^p$"])?;
    let (head, row) = table.split_once('\n').context("no row")?;
    let columns: Vec<&str> = head
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    ensure!(
        columns
            == [
                "POD ID",
                "NAME",
                "STATUS",
                "CREATED",
                "INFRA ID",
                "# OF CONTAINERS"
            ],
        "{columns:?}"
    );
    let infra = done(cx, &["pod", "inspect", "--format", "{{.InfraContainerID}}", "p"])?;
    ensure!(row.starts_with(&id[..12]) && row.contains(&infra[..12]), "{row}");
    ensure!(row.contains("Running") && row.ends_with(" 2"), "{row}");
    let json: Value =
        serde_json::from_str(&done(cx, &["pod", "ps", "-f", "label=kind", "--format", "json"])?)?;
    ensure!(
        json[0]["Id"] == id.as_str() && json[0]["Containers"][1]["Names"] == "a" && json[1].is_null(),
        "{json}"
    );
    let template = "{{.Name}} {{.NumberOfContainers}} {{.Label \"kind\"}}";
    ensure!(done(cx, &["pod", "ps", "-f", "status=running", "--format", template])? == "p 2 shop");
    ensure!(done(cx, &["pod", "ls", "-q", "-f", "ctr-names=^a$"])? == id);
    let shown: Value = serde_json::from_str(&done(cx, &["inspect", "--type", "pod", "p"])?)?;
    ensure!(
        shown[0]["NumContainers"] == 2 && shown[0]["SharedNamespaces"][1] == "net",
        "{shown}"
    );
    ensure!(done(cx, &["inspect", "-f", "{{.Pod}}", "a"])? == id);
    ensure!(
        done(cx, &["inspect", "-f", "{{.HostConfig.NetworkMode}}", "a"])? == format!("container:{infra}")
    );
    let names = done(
        cx,
        &["ps", "--filter", "pod=p", "--format", "{{.Names}} {{.PodName}}"],
    )?;
    ensure!(names == format!("a p\n{}-infra p", &id[..12]), "{names}");
    let table = done(cx, &["ps", "--pod", "--no-trunc", "-f", "name=^a$"])?;
    ensure!(
        table.contains("POD ID")
            && table.contains("PODNAME")
            && table.contains(&id)
            && table.contains(&member),
        "{table}"
    );
    let names = done(cx, &["__complete", "pods"])?;
    ensure!(names.lines().count() == 2 && names.contains("other"), "{names}");
    let events = done(
        cx,
        &["events", "--since", "1h", "--until", "0s", "-f", "type=pod"],
    )?;
    ensure!(events.contains("pod create"), "{events}");
    done(cx, &["pod", "rm", "-f", "-a"])?;
    nothing(cx)
}

fn infra(cx: &Context) -> Result<()> {
    done(cx, &["pod", "create", "--infra-name", "keeper", "p"])?;
    let refused = cx.tote(&["rm", "-f", "keeper"]).output()?;
    refused.refuses(
        1,
        &[
            "is the infra container of pod",
            "cannot be removed without removing the pod",
        ],
    )?;
    done(cx, &["container", "prune", "-f"])?;
    ensure!(done(cx, &["inspect", "-f", "{{.State.Status}}", "keeper"])? == "created");
    // A killed infra container is started again with the next member.
    sleeper(cx, &["--pod", "p", "--name", "a"])?;
    done(cx, &["kill", "keeper"])?;
    ensure!(done(cx, &["wait", "keeper"])? == "137");
    ensure!(status(cx, "p")? == "Degraded");
    look(cx, &["--pod", "p"])?;
    ensure!(done(cx, &["inspect", "-f", "{{.State.Status}}", "keeper"])? == "running");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn names(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["pod", "create", "x"])?;
    let refused = cx.tote(&["create", "--name", "x", &image, "true"]).output()?;
    refused.refuses(1, &["name \"x\" is in use", "pod"])?;
    done(cx, &["create", "--name", "y", &image, "true"])?;
    let refused = cx.tote(&["pod", "create", "y"]).output()?;
    refused.refuses(125, &["y", "already in use by container"])?;
    cx.tote(&["start", "x"])
        .output()?
        .refuses(1, &["No such container: x"])?;
    cx.tote(&["pod", "start", "y"])
        .output()?
        .refuses(1, &["no such pod"])?;
    done(cx, &["rm", "y"])?;
    done(cx, &["pod", "create", "y"])?;
    done(cx, &["pod", "create", "--replace", "y"])?;
    done(cx, &["pod", "rm", "x", "y"])?;
    nothing(cx)
}
