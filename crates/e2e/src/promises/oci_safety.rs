//! `tote oci` in adverse conditions: commands that race, commands that are killed, invalid bundles.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("oci_safety::one_of_many_creators_wins", &[], creators),
    test("oci_safety::one_of_many_starters_wins", &[], starters),
    test(
        "oci_safety::killed_commands_leave_the_truth",
        &[],
        killed_commands,
    ),
    test("oci_safety::bad_bundles_are_refused", &[], bad_bundles),
    test("oci_safety::ids_out_of_range_are_refused", &[], ids),
    test(
        "oci_safety::mutated_bundles_make_a_container_or_one_line",
        &[],
        mutated_bundles,
    ),
];

fn creators(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for round in 0..40 {
        let script =
            r#"for n in 1 2 3 4; do "$@" < /dev/null > /dev/null 2> err.$n && echo won & done; wait"#;
        let output = bundle
            .oci(&["create", "r"])
            .under(&["sh", "-c", script, "sh"])
            .output()?;
        let won = output.out().lines().count();
        ensure!(won == 1, "round {round}: {won} creators have won");
        for number in 1..=4 {
            let said = fs::read_to_string(bundle.config().with_file_name(format!("err.{number}")))?;
            let good = said.is_empty() || said.contains("container with given ID already exists");
            ensure!(good, "round {round}: a creator said {said:?}");
        }
        bundle.is("r", "created")?;
        bundle.oci(&["delete", "r"]).output()?.exits(0)?;
    }
    bundle.nothing_left()
}

fn starters(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for round in 0..5 {
        bundle.detached(&["create", "r"])?.exits(0)?;
        let script = r#"for n in 1 2 3 4; do "$@" 2> /dev/null && echo won & done; wait"#;
        let output = bundle
            .oci(&["start", "r"])
            .under(&["sh", "-c", script, "sh"])
            .output()?;
        let won = output.out().lines().count();
        ensure!(won == 1, "round {round}: {won} starters have won");
        bundle.oci(&["delete", "-f", "r"]).output()?.exits(0)?;
    }
    bundle.nothing_left()
}

/// setresuid(2) takes the highest number for "leave it", which would be root.
fn ids(cx: &Context) -> Result<()> {
    const RANGE: &str = "uids and gids must be in range 0-2147483647";
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for (key, value) in [
        ("uid", json!(u32::MAX)),
        ("gid", json!(u32::MAX)),
        ("additionalGids", json!([0, u32::MAX])),
    ] {
        bundle.change(|spec| {
            spec["process"]["user"] = json!({ "uid": 0, "gid": 0 });
            spec["process"]["user"][key] = value;
        })?;
        let output = bundle.oci(&["run", "r"]).output()?;
        output.fails()?.has_err(RANGE)?;
    }
    bundle.change(|spec| spec["process"]["user"] = json!({ "uid": 0, "gid": 0 }))?;
    bundle.detached(&["run", "-d", "r"])?.exits(0)?;
    for user in ["4294967295", "0:4294967295"] {
        let output = bundle.oci(&["exec", "--user", user, "r", "id"]).output()?;
        output.fails()?.has_err(RANGE)?;
        ensure!(output.out().is_empty(), "it ran: {}", output.out());
    }
    bundle.oci(&["delete", "-f", "r"]).output()?.exits(0)?;
    bundle.nothing_left()
}

/// SIGKILL at some moment of each command: `state` reports truly, and `delete --force` clears all leftovers.
fn killed_commands(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for round in 0..24u32 {
        for command in ["create", "start", "delete"] {
            match command {
                "start" => bundle.detached(&["create", "k"])?.exits(0).map(drop)?,
                "delete" => bundle.detached(&["run", "-d", "k"])?.exits(0).map(drop)?,
                _ => {}
            }
            let words: &[&str] = if command == "delete" {
                &["delete", "-f", "k"]
            } else {
                &[command, "k"]
            };
            // The delay is a number of turns of a shell's loop: the moments differ, and no test waits for one.
            let script = r#"turns=$1; shift; "$@" < /dev/null > /dev/null 2>&1 & n=0
while [ $n -lt $turns ]; do n=$((n+1)); done; kill -9 $! 2>/dev/null; wait $! 2>/dev/null; true"#;
            let turns = (round * 150).to_string();
            bundle
                .oci(words)
                .under(&["sh", "-c", script, "sh", &turns])
                .output()?
                .exits(0)?;
            check_truth(&bundle, "k").with_context(|| format!("{command}, round {round}"))?;
            bundle.oci(&["delete", "-f", "k"]).output()?.exits(0)?;
            bundle.nothing_left()?;
        }
    }
    Ok(())
}

fn check_truth(bundle: &Bundle<'_>, id: &str) -> Result<()> {
    let output = bundle.oci(&["state", id]).output()?;
    if output.code != 0 {
        return Bundle::refused(&output, 1, &["container does not exist"]);
    }
    let state: Value = serde_json::from_slice(&output.stdout)?;
    let lives = state["pid"].as_i64().is_some_and(|pid| pid > 0);
    let claims = state["status"] == "created" || state["status"] == "running";
    ensure!(lives == claims, "saw {state}");
    Ok(())
}

fn bad_bundles(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    let good = fs::read_to_string(bundle.config())?;
    let refused = |naming: &[&str]| -> Result<()> {
        for command in ["create", "run"] {
            Bundle::refused(&bundle.detached(&[command, "b"])?, 1, naming)?;
            bundle.nothing_left()?;
        }
        Ok(())
    };
    for (text, naming) in [
        ("", "config.json"),
        ("{", "config.json"),
        ("[1]", "config.json"),
        (&"[".repeat(100_000), "config.json"),
        (
            &format!(r#"{{"ociVersion":"{}"}}"#, "1".repeat(10 << 20)),
            "larger than",
        ),
    ] {
        fs::write(bundle.config(), text)?;
        refused(&[naming])?;
    }
    let change = |pointer: &str, value: Value| -> Result<()> {
        let mut spec: Value = serde_json::from_str(&good)?;
        *spec.pointer_mut(pointer).context("no such property")? = value;
        fs::write(bundle.config(), spec.to_string()).context("write config.json")
    };
    for (pointer, value, naming) in [
        ("/ociVersion", json!("9.0.0"), "9.0.0"),
        ("/root", Value::Null, "root is missing"),
        ("/root/path", json!("no-such-root"), "no-such-root"),
        ("/process", Value::Null, "process is missing"),
        ("/process/args", json!([]), "args must not be empty"),
        ("/process/cwd", json!("relative"), "Cwd must be an absolute path"),
        ("/process/user/uid", json!(-1), "config.json"),
        ("/linux", Value::Null, "linux is missing"),
        ("/linux/namespaces", json!([{ "type": "frob" }]), "frob"),
        ("/mounts", json!({}), "config.json"),
        ("/mounts/0/type", json!("no-such-fs"), "not of type proc"),
        ("/mounts/3/type", json!("no-such-fs"), "no-such-fs"),
    ] {
        change(pointer, value)?;
        refused(&[naming]).with_context(|| pointer.to_owned())?;
    }
    fs::remove_file(bundle.config())?;
    refused(&["config.json not found"])
}

/// Each value is replaced by other values, one at a time: the result is a container, or one line with the reason,
/// without leftovers.
fn mutated_bundles(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    let good: Value = serde_json::from_str(&fs::read_to_string(bundle.config())?)?;
    let mut pointers = Vec::new();
    collect(&good, "", &mut pointers);
    // Without a mount namespace of its own, a container mounts on the host, as requested.
    pointers.retain(|pointer| {
        !matches!(&pointer[..], "" | "/linux") && !pointer.starts_with("/linux/namespaces")
    });
    let odd = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!("\u{1b}[31m\n"),
        json!([{}]),
        json!({ "x": [] }),
        json!("y".repeat(5000)),
        json!(true),
    ];
    for (pointer, value) in pointers.iter().zip(odd.iter().cycle()) {
        let mut spec = good.clone();
        *spec.pointer_mut(pointer).context("no such property")? = value.clone();
        fs::write(bundle.config(), spec.to_string())?;
        let tried = bundle.detached(&["create", "m"])?;
        let checked = if tried.code == 0 {
            bundle.is("m", "created")
        } else {
            Bundle::refused(&tried, 1, &[]).and_then(|()| {
                let said = tried.err();
                ensure!(said.len() < 8192, "it said {} bytes", said.len());
                bundle.nothing_left()
            })
        };
        let shown: String = value.to_string().chars().take(40).collect();
        checked.with_context(|| format!("{pointer} was {shown}"))?;
        bundle.oci(&["delete", "-f", "m"]).output()?.exits(0)?;
        bundle.nothing_left()?;
    }
    Ok(())
}

fn collect(value: &Value, at: &str, pointers: &mut Vec<String>) {
    pointers.push(at.to_owned());
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(name, value)| collect(value, &format!("{at}/{name}"), pointers)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, value)| collect(value, &format!("{at}/{index}"), pointers)),
        _ => {}
    }
}
