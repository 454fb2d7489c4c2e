//! Pods whose commands are killed on the way, or run concurrently.

use super::life::{done, dying};
use super::pods::{nothing, sleeper, status};
use crate::context::Context;
use crate::exchange::Running;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test(
        "pods::killed_while_it_is_made",
        &[Need::FaultPoints],
        killed_creating,
    ),
    test(
        "pods::killed_while_it_is_removed",
        &[Need::FaultPoints],
        killed_removing,
    ),
    test(
        "pods::killed_while_it_starts",
        &[Need::FaultPoints],
        killed_starting,
    ),
    test("pods::many_at_once", &[], many),
];

/// Checks that `pod rm -f` removes any leftovers, and that the name is free.
fn cleared(cx: &Context, point: &str) -> Result<()> {
    let clear = || {
        // Queries agree with each other: the pod exists for both or for none.
        let listed = done(cx, &["pod", "ps", "--format", "{{.Name}}"])?;
        let exists = cx.tote(&["pod", "exists", "victim"]).output()?.code == 0;
        ensure!(exists == (listed == "victim"), "{listed:?}, and {exists}");
        done(cx, &["pod", "rm", "-f", "victim"])?;
        nothing(cx)?;
        done(cx, &["pod", "create", "victim"])?;
        done(cx, &["pod", "rm", "victim"])?;
        nothing(cx)
    };
    clear().with_context(|| format!("after a death at {point:?}"))
}

fn killed_creating(cx: &Context) -> Result<()> {
    for point in [
        "pod-claimed",
        "pod-named",
        "claimed",
        "named",
        "state-new",
        "recorded",
        "created",
        "pod-infra",
        "pod-recorded",
    ] {
        let died = dying(cx, point, &["pod", "create", "victim"])?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        cleared(cx, point)?;
        // The name is free also for commands about containers.
        dying(cx, point, &["pod", "create", "victim"])?;
        if point != "pod-recorded" {
            done(cx, &["create", "--name", "victim", &cx.image(), "true"])
                .with_context(|| format!("after a death at {point:?}"))?;
            done(cx, &["rm", "victim"])?;
        }
        cleared(cx, point)?;
    }
    Ok(())
}

fn killed_removing(cx: &Context) -> Result<()> {
    for point in [
        "pod-marked",
        "killed",
        "marked",
        "nameless",
        "emptied",
        "pod-emptied",
        "pod-nameless",
        "pod-unrecorded",
    ] {
        done(cx, &["pod", "create", "victim"])?;
        sleeper(cx, &["--pod", "victim", "-v", "/data"])?;
        let died = dying(cx, point, &["pod", "rm", "-f", "victim"])?;
        ensure!(died.exits(0).is_err(), "it did not die at {point:?}");
        cleared(cx, point)?;
    }
    Ok(())
}

fn killed_starting(cx: &Context) -> Result<()> {
    let image = cx.image();
    for point in [
        "unmarked", "planned", "forked", "bound", "born", "running", "told",
    ] {
        done(cx, &["pod", "create", "victim"])?;
        done(
            cx,
            &[
                "create", "--pod", "victim", "--name", "a", &image, "sleep", "1000",
            ],
        )?;
        dying(cx, point, &["pod", "start", "victim"])?;
        if point != "forked" {
            // If the member's monitor is just dying, the first command may still take it for a running one.
            let again = || {
                done(cx, &["pod", "start", "victim"]).with_context(|| format!("after a death at {point:?}"))
            };
            again()?;
            if status(cx, "victim")? != "Running" {
                again()?;
            }
            ensure!(status(cx, "victim")? == "Running", "after a death at {point:?}");
        }
        cleared(cx, point)?;
    }
    Ok(())
}

/// Members are started and pods removed concurrently: each command succeeds or reports why not, and nothing is left.
fn many(cx: &Context) -> Result<()> {
    let image = cx.image();
    let at_once = |all: &[Vec<String>]| -> Result<Vec<Output>> {
        let start = |words: &Vec<String>| {
            cx.tote(&words.iter().map(String::as_str).collect::<Vec<_>>())
                .spawn()
        };
        let running = all.iter().map(start).collect::<Result<Vec<Running>>>()?;
        running.into_iter().map(Running::finish).collect()
    };
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let create: Vec<_> = (0..8).map(|_| own(&["pod", "create", "p"])).collect();
    let made = at_once(&create)?
        .iter()
        .filter(|output| output.exits(0).is_ok())
        .count();
    ensure!(made == 1, "{made} were made of one name");
    let run: Vec<_> = (0..12)
        .map(|_| own(&["run", "-d", "--pod", "p", &image, "sleep", "1000"]))
        .collect();
    for output in at_once(&run)? {
        output.exits(0)?;
    }
    ensure!(
        done(
            cx,
            &["pod", "inspect", "-f", "{{.NumContainers}} {{.State}}", "p"]
        )? == "13 Running"
    );
    let mut mixed: Vec<_> = (0..8)
        .map(|_| own(&["run", "-d", "--pod", "p", &image, "sleep", "1000"]))
        .collect();
    mixed.extend((0..4).map(|_| own(&["pod", "rm", "-f", "p"])));
    mixed.extend((0..4).map(|_| own(&["pod", "stop", "-t", "0", "p"])));
    at_once(&mixed)?;
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}
