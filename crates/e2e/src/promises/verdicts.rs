//! Reports, records and events say what ended a container, as the process that watches the container knows it, whatever the program
//! prints and whichever code it ends with.

use super::vm::{QEMU, prepare};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("verdicts::every_end_in_every_way", &[], every_end),
    test(
        "verdicts::want_of_memory",
        &[Need::Controller("memory")],
        want_of_memory,
    ),
    test("verdicts::a_program_cannot_forge_one", &[], forged),
    test("verdicts::output_is_cut_at_the_byte", &[], cut_output),
    test(
        "verdicts::the_limit_of_output_goes_along_to_a_monitor",
        &[],
        left_behind,
    ),
    test("verdicts::each_start_has_a_report_of_its_own", &[], each_start),
    test(
        "verdicts::figures_are_the_kernels",
        &[
            Need::Root,
            Need::CgroupV1("cpuacct"),
            Need::CgroupV1("memory"),
            Need::CgroupV1("pids"),
        ],
        figures,
    ),
    test(
        "verdicts::of_a_virtual_machine",
        &[QEMU, Need::GuestKernel],
        in_a_machine,
    )
    .slow(4),
    test(
        "verdicts::a_report_that_cannot_be_written_starts_nothing",
        &[],
        unwritable,
    ),
];

/// An end of a container.
struct End {
    options: &'static [&'static str],
    script: &'static str,
    by: &'static str,
    code: i32,
    signal: Option<i32>,
}

const ENDS: [End; 5] = [
    End {
        options: &[],
        script: "exit 3",
        by: "exit",
        code: 3,
        signal: None,
    },
    End {
        options: &["--init"],
        script: "kill -USR1 $$",
        by: "exit",
        code: 138,
        signal: None,
    },
    End {
        options: &["--timeout", "0.2"],
        script: "sleep 1000",
        by: "timeout",
        code: 124,
        signal: Some(9),
    },
    End {
        options: &["--cpu-time", "0.2"],
        script: "while :; do :; done",
        by: "cpu-time",
        code: 124,
        signal: Some(9),
    },
    End {
        options: &["--output-limit", "10000"],
        script: "while :; do echo line; done",
        by: "output-limit",
        code: 124,
        signal: Some(9),
    },
];

fn report(path: &str) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    serde_json::from_str(&text).with_context(|| format!("no report: {text}"))
}

fn check(report: &Value, end: &End) -> Result<()> {
    let said = (&report["EndedBy"], &report["ExitCode"], &report["Signal"]);
    let expected = (&end.by.into(), &end.code.into(), &end.signal.into());
    ensure!(said == expected, "{:?} {}: {report:#}", end.options, end.script);
    ensure!(report["WallNanoseconds"].as_u64() > Some(0), "{report:#}");
    Ok(())
}

/// Where no cgroup counts for a monitor, a limit of processor time has no effect there.
fn has_effect(end: &End, has_monitor: bool) -> bool {
    end.by != "cpu-time" || !has_monitor || crate::need::is_root()
}

fn every_end(cx: &Context) -> Result<()> {
    let (path, image) = (cx.path("report")?, cx.image());
    for end in &ENDS {
        let options = [end.options, &["--report", &path]].concat();
        let program = [&*image, "sh", "-c", end.script];
        cx.run(&[&*options, &program].concat())?.exits(end.code)?;
        check(&report(&path)?, end)?;
        fs::remove_file(&path)?;
        if !has_effect(end, true) {
            continue;
        }
        // A container that stays, attached: the command says the reason, too.
        let kept = [&["run", "--name", "kept"], &*options, &program].concat();
        let output = cx.tote(&kept).output()?;
        output.exits(end.code)?;
        let state = report(&path)?;
        check(&state, end)?;
        let reason = state["Reason"].as_str().unwrap_or_default();
        ensure!(
            output.err().contains(reason),
            "{reason:?} is not in {}",
            output.err()
        );
        let seen = ["inspect", "-f", "{{.State.EndedBy}} {{.State.Error}}", "kept"];
        cx.tote(&seen)
            .output()?
            .prints(&format!("{} {reason}\n", end.by))?;
        let died = [
            "events",
            "--since",
            "1h",
            "--until",
            "0s",
            "--filter",
            "event=die",
            "--format",
        ];
        let died = cx
            .tote(&[&died[..], &["{{.Actor.Attributes.endedBy}}"]].concat())
            .output()?;
        ensure!(
            died.out().lines().last() == Some(end.by),
            "events: {}",
            died.out()
        );
        cx.tote(&["rm", "kept"]).output()?.exits(0)?;
        fs::remove_file(&path)?;
        let detached = [&["run", "-d", "--name", "apart"], &*options, &program].concat();
        cx.tote(&detached).output()?.exits(0)?;
        cx.tote(&["wait", "apart"])
            .output()?
            .prints(&format!("{}\n", end.code))?;
        check(&report(&path)?, end)?;
        cx.tote(&["rm", "apart"]).output()?.exits(0)?;
        fs::remove_file(&path)?;
    }
    cx.nothing_left()
}

fn want_of_memory(cx: &Context) -> Result<()> {
    let path = cx.path("report")?;
    let options = ["--memory", "16m", "--memory-swap", "16m", "--report", &path];
    cx.shell(&options, "exec tail /dev/zero")?.exits(137)?;
    let said = report(&path)?;
    ensure!(said["EndedBy"] == "out-of-memory", "{said:#}");
    ensure!(
        said["OOMKilled"] == true && said["Memory"]["OOMKills"] == 1,
        "{said:#}"
    );
    // A program that survives the end of a child has ended by itself.
    cx.shell(&options, "tail /dev/zero; exit 5")?.exits(5)?;
    let said = report(&path)?;
    ensure!(said["EndedBy"] == "exit" && said["OOMKilled"] == true, "{said:#}");
    Ok(())
}

/// Lines that the watching process prints for each limit, and the code with each.
const FORGERIES: [(&str, i32); 4] = [
    ("tote: the time limit of 1 s is over", 124),
    ("tote: the processor time of 1 s is used up", 124),
    (
        "tote: out of memory (limit 1 bytes): the kernel killed 1 of the container's processes",
        137,
    ),
    (
        "tote: the container has written more than 1 bytes, the limit of its output",
        124,
    ),
];

fn forged(cx: &Context) -> Result<()> {
    let path = cx.path("report")?;
    for (line, code) in FORGERIES {
        let script = format!("echo \"{line}\" >&2; exit {code}");
        cx.shell(&["--report", &path, "--timeout", "100"], &script)?
            .exits(code)?
            .has_err(line)?;
        let said = report(&path)?;
        ensure!(said["EndedBy"] == "exit" && said["Reason"] == "", "{said:#}");
        ensure!(said["OOMKilled"] == false, "{said:#}");
    }
    Ok(())
}

fn cut_output(cx: &Context) -> Result<()> {
    let (path, image) = (cx.path("report")?, cx.image());
    // Both streams count; pipes, files and a terminal.
    for (bytes, by, code) in [(999, "exit", 0), (1000, "exit", 0), (1001, "output-limit", 124)] {
        let script = format!("head -c {} /dev/zero >&2; head -c 500 /dev/zero", bytes - 500);
        for options in [&[][..], &["-t"]] {
            let options = [&["--output-limit", "1000", "--report", &path][..], options].concat();
            let output = cx.shell(&options, &script)?;
            output.exits(code)?;
            let zeros = |text: &str| text.bytes().filter(|byte| *byte == 0).count();
            let passed = zeros(&output.out()) + zeros(&output.err());
            ensure!(
                passed == bytes.min(1000),
                "{options:?} {bytes}: {passed} bytes came"
            );
            let said = report(&path)?;
            ensure!(said["EndedBy"] == by, "{options:?} {bytes}: {said:#}");
        }
    }
    let flood = [&image, "sh", "-c", "while :; do echo line; done"];
    let words = [
        &["run", "-d", "--name", "flood", "--output-limit", "10k"][..],
        &flood,
    ]
    .concat();
    cx.tote(&words).output()?.exits(0)?;
    cx.tote(&["wait", "flood"]).output()?.prints("124\n")?;
    let logged = cx.tote(&["logs", "flood"]).output()?.exits(0)?.out().len();
    ensure!(logged == 10 * 1024, "the log has {logged} bytes");
    cx.tote(&["rm", "flood"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// The bytes that a container has written before its command leaves count afterwards, too.
fn left_behind(cx: &Context) -> Result<()> {
    let (path, image) = (cx.path("report")?, cx.image());
    let script =
        "head -c 600 /dev/zero | tr '\\0' a; read line; head -c 600 /dev/zero | tr '\\0' b; sleep 1000";
    let options = [
        "run",
        "--rm",
        "-it",
        "--name",
        "left",
        "--output-limit",
        "1000",
        "--report",
        &path,
    ];
    let words = [&options[..], &[&image, "sh", "-c", script]].concat();
    let (mut inside, _terminal) = cx.tote(&words).spawn_in_terminal(24, 80)?;
    inside.expect("aaaaa")?;
    inside.send(b"\x10\x11");
    inside.wait()?;
    let mut again = cx.tote(&["attach", "left"]).spawn_in_terminal(24, 80)?.0;
    again.send(b"\n");
    again.expect("bbbbb")?;
    again.wait()?;
    let said = report(&path)?;
    ensure!(said["EndedBy"] == "output-limit", "{said:#}");
    cx.nothing_left()
}

fn each_start(cx: &Context) -> Result<()> {
    let (path, image) = (cx.path("report")?, cx.image());
    let script = "[ ! -e /again ] || exit 7; touch /again; exit 6";
    let words = [
        "create", "--name", "twice", "--report", &path, &image, "sh", "-c", script,
    ];
    cx.tote(&words).output()?.exits(0)?;
    ensure!(!fs::exists(&path)?, "there is a report before the end");
    for code in [6, 7] {
        cx.tote(&["start", "-a", "twice"]).output()?.exits(code)?;
        ensure!(report(&path)?["ExitCode"] == code, "{code}: {}", report(&path)?);
    }
    cx.tote(&["rm", "twice"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn figures(cx: &Context) -> Result<()> {
    let path = cx.path("report")?;
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; head -c 20000000 /dev/zero | tail -c 20000000 >/dev/null; sleep 0.3";
    cx.shell(&["--report", &path], script)?.exits(0)?;
    let said = report(&path)?;
    let number = |pointer: &str| said.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    ensure!(number("/WallNanoseconds") >= 300_000_000, "{said:#}");
    let total = number("/CPU/TotalNanoseconds");
    ensure!(
        total > 1_000_000 && total < number("/WallNanoseconds") * 2,
        "{said:#}"
    );
    // tail keeps all of that in memory.
    ensure!(number("/Memory/PeakBytes") > 20_000_000, "{said:#}");
    ensure!(
        said["Processes"]["Peak"].is_null() || number("/Processes/Peak") >= 2,
        "{said:#}"
    );
    Ok(())
}

fn in_a_machine(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let path = cx.path("report")?;
    let options = [
        "--isolation",
        "vm",
        "--network",
        "none",
        "--output-limit",
        "1000",
        "--report",
        &path,
    ];
    let flood = ["app", "sh", "-c", "while :; do echo line; done"];
    let output = cx.run(&[&options[..], &flood].concat())?;
    output.exits(124)?;
    ensure!(output.out().len() == 1000, "{} bytes came", output.out().len());
    let said = report(&path)?;
    ensure!(said["EndedBy"] == "output-limit", "{said:#}");
    cx.nothing_left()
}

fn unwritable(cx: &Context) -> Result<()> {
    let path = format!("{}/none/report", cx.scratch().display());
    cx.shell(&["--report", &path], "echo ran")?
        .exits(125)?
        .has_err(&format!("--report: write {path}: No such file or directory"))?;
    let words = ["run", "-d", "--rm", "--report", &path, &cx.image(), "true"];
    cx.tote(&words).output()?.exits(125)?.has_err(&path)?;
    cx.nothing_left()
}
