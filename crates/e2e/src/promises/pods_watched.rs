//! Pods whose namespaces were lost, and the output, usage and processes of their members.

use super::life::done;
use super::pods::{look_into, nothing, sleeper, status};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

pub(super) const TESTS: &[Test] = &[
    test("pods::who_outlives_the_infra_container_is_told_of", &[], outlived),
    test("pods::logs_of_all_members", &[], logs),
    test("pods::processes_and_use_of_all_members", &[], used),
    test("pods::removal_gives_time", &[], time),
];

fn outlived(cx: &Context) -> Result<()> {
    done(cx, &["pod", "create", "--infra-name", "keeper", "p"])?;
    sleeper(cx, &["--pod", "p", "--stop-timeout", "0", "--name", "a"])?;
    let before = look_into(cx, "a")?;
    done(cx, &["kill", "keeper"])?;
    done(cx, &["wait", "keeper"])?;
    ensure!(status(cx, "p")? == "Degraded", "a lives where nobody can join it");
    // A new member makes new namespaces, and `a` stays in the old ones.
    sleeper(cx, &["--pod", "p", "--stop-timeout", "0", "--name", "b"])?;
    ensure!(status(cx, "p")? == "Degraded", "a and b do not share anything");
    let listed = done(cx, &["pod", "ps", "--format", "{{.Status}}"])?;
    ensure!(listed == "Degraded", "{listed}");
    let (a, b) = (look_into(cx, "a")?, look_into(cx, "b")?);
    ensure!(
        a[..3] == before[..3] && (0..3).all(|place| a[place] != b[place]),
        "{a:?} {b:?}"
    );
    let shown: Value = serde_json::from_str(&done(cx, &["pod", "inspect", "p"])?)?;
    let members = shown[0]["Containers"]
        .as_array()
        .or(shown["Containers"].as_array());
    let strays: Vec<_> = members
        .context("members")?
        .iter()
        .filter(|member| member["Stray"] == true)
        .map(|member| member["Name"].clone())
        .collect();
    ensure!(strays == ["a"], "{shown}");
    let started = cx.tote(&["pod", "start", "p"]).output()?;
    started.exits(0)?.warns_once("container a still runs")?;
    ensure!(status(cx, "p")? == "Degraded", "a start ends nothing");
    done(cx, &["pod", "restart", "p"])?;
    ensure!(status(cx, "p")? == "Running");
    let (a, b) = (look_into(cx, "a")?, look_into(cx, "b")?);
    ensure!(a[..3] == b[..3], "{a:?} {b:?}");
    // A member that starts alone joins the present namespaces.
    done(cx, &["kill", "keeper", "b"])?;
    done(cx, &["wait", "keeper", "b"])?;
    done(cx, &["start", "b"])?;
    ensure!(status(cx, "p")? == "Degraded");
    done(cx, &["restart", "-t", "0", "a"])?;
    ensure!(status(cx, "p")? == "Running", "a has joined b");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn logs(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["pod", "create", "p"])?;
    let say = |name: &str, script: &str| -> Result<()> {
        let words = [
            "run", "-d", "--pod", "p", "--name", name, &image, "sh", "-c", script,
        ];
        done(cx, &words)?;
        done(cx, &["wait", name]).map(drop)
    };
    say("a", "echo one")?;
    say("b", "echo two; echo wrong >&2")?;
    done(cx, &["start", "a"])?;
    done(cx, &["wait", "a"])?;
    let id = done(cx, &["inspect", "-f", "{{.Id}}", "b"])?;
    let said = cx.tote(&["pod", "logs", "-n", "p"]).output()?;
    said.prints("a one\nb two\na one\n")?;
    ensure!(said.err() == "b wrong\n", "{}", said.err());
    let said = done(cx, &["pod", "logs", "-c", "a", "p"])?;
    ensure!(said == "one\none", "{said}");
    cx.tote(&["pod", "logs", "p"])
        .output()?
        .has_out(&format!("{} two\n", &id[..12]))?;
    // The option applies to each container.
    let said = cx
        .tote(&["pod", "logs", "--names", "--tail", "1", "p"])
        .output()?;
    said.prints("a one\n")?;
    ensure!(said.err() == "b wrong\n", "{}", said.err());
    let said = done(cx, &["pod", "logs", "-t", "-n", "-l"])?;
    let times: Vec<_> = said.lines().map(|line| line.split(' ').nth(1)).collect();
    ensure!(
        times.len() == 3 && times.is_sorted() && times[0].is_some_and(|time| time.len() == 30),
        "{said}"
    );
    let later = done(
        cx,
        &["pod", "logs", "-n", "--since", times[2].context("a time")?, "p"],
    )?;
    ensure!(later == "a one", "{later}");
    ensure!(done(cx, &["pod", "logs", "--until", "1h", "p"])?.is_empty());
    cx.tote(&["pod", "logs", "-c", "no", "p"])
        .output()?
        .refuses(1, &["container no is not in pod p"])?;
    cx.tote(&["pod", "logs", "no"])
        .output()?
        .refuses(1, &["no such pod"])?;
    // Following shows new lines of all members, and ends with the last of them.
    let wait = "echo ready; until [ -e /dev/shm/go ]; do :; done; echo done";
    for name in ["c", "d"] {
        done(
            cx,
            &[
                "run", "-d", "--pod", "p", "--name", name, &image, "sh", "-c", wait,
            ],
        )?;
    }
    let mut following = cx
        .tote(&["pod", "logs", "-f", "-n", "-c", "c", "-c", "d", "p"])
        .spawn()?;
    // The order of the two is arbitrary.
    following.expect(" ready\n")?;
    following.expect(" ready\n")?;
    // In a container of its own: `c` ends at once and would take a process within it along.
    done(cx, &["run", "--rm", "--pod", "p", &image, "touch", "/dev/shm/go"])?;
    let said = following.finish()?;
    said.exits(0)?;
    for name in ["c", "d"] {
        said.has_out(&format!("{name} ready\n"))?;
        said.has_out(&format!("{name} done\n"))?;
    }
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn used(cx: &Context) -> Result<()> {
    let id = done(cx, &["pod", "create", "p"])?;
    cx.tote(&["pod", "top", "p"])
        .output()?
        .refuses(1, &["pod p has no running containers"])?;
    for name in ["a", "b"] {
        sleeper(cx, &["--pod", "p", "--name", name])?;
    }
    let shown = done(cx, &["pod", "top", "p", "hpid", "args"])?;
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let sleepers = rows.iter().filter(|row| row[1..] == ["sleep", "1000"]);
    ensure!(
        rows[0][..2] == ["HPID", "COMMAND"] && rows.len() == 4 && sleepers.count() == 2,
        "{shown}"
    );
    let shown = done(cx, &["pod", "stats", "--no-stream", "p"])?;
    ensure!(shown.starts_with("POD ") && shown.lines().count() == 4, "{shown}");
    let template = "{{.Pod}} {{.Name}} {{.PIDS}}";
    let shown = done(cx, &["pod", "stats", "--no-stream", "--format", template])?;
    ensure!(
        shown.lines().any(|line| line == format!("{} a 1", &id[..12])),
        "{shown}"
    );
    done(cx, &["pod", "create", "--share", "+pid", "q"])?;
    for name in ["c", "d"] {
        sleeper(cx, &["--pod", "q", "--name", name])?;
    }
    // A process that several members see is listed once.
    let shown = done(cx, &["pod", "top", "-l", "args"])?;
    ensure!(
        shown.matches("sleep 1000").count() == 2 && shown.lines().count() == 4,
        "{shown}"
    );
    done(cx, &["pod", "rm", "-f", "-a"])?;
    nothing(cx)
}

fn time(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["pod", "create", "p"])?;
    let (dir, bind) = (cx.directory("told")?, |dir: &str| format!("{dir}:/told"));
    let script =
        "trap 'echo term > /told/signal; exit' TERM; touch /told/ready; while :; do sleep 1 & wait; done";
    let words = [
        "run",
        "-d",
        "--pod",
        "p",
        "-v",
        &bind(&dir),
        &image,
        "sh",
        "-c",
        script,
    ];
    done(cx, &words)?;
    let ready = std::path::Path::new(&dir).join("ready");
    while !ready.exists() {
        std::thread::yield_now();
    }
    cx.tote(&["pod", "rm", "-t", "60", "p"]).output()?.refuses(
        125,
        &["--force option must be specified to use the --time option"],
    )?;
    done(cx, &["pod", "rm", "-f", "-t", "60", "p"])?;
    let told = std::fs::read_to_string(std::path::Path::new(&dir).join("signal"))?;
    ensure!(told == "term\n", "{told}");
    nothing(cx)
}
