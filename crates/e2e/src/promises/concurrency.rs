//! Many at once.

use super::test;
use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::processes;
use crate::suite::Test;
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("concurrency::twenty_runs_at_once", &[], twenty),
    test("concurrency::one_of_two_with_the_same_name_wins", &[], same_name),
];

/// All are started before any is waited for, and all run before any may end.
fn twenty(cx: &Context) -> Result<()> {
    let image = cx.image();
    let runs = (0..20).map(|number| {
        let script = format!("echo up {number}; cat; echo over {number}");
        cx.run_command(&["-i", "-v", "shared:/vol", &image, "sh", "-c", &script])
            .spawn()
    });
    let mut runs = runs.collect::<Result<Vec<Running>>>()?;
    for (number, run) in runs.iter_mut().enumerate() {
        run.expect(&format!("up {number}\n"))?;
    }
    let known = cx.containers()?;
    ensure!(
        known.len() == 20,
        "expected 20 containers, saw {}: {known:?}",
        known.len()
    );
    for (number, run) in runs.into_iter().enumerate() {
        let out = run.finish()?;
        out.prints(&format!("up {number}\nover {number}\n"))?.quietly()?;
    }
    Ok(())
}

fn same_name(cx: &Context) -> Result<()> {
    let image = cx.image();
    for round in 0..5 {
        let start = || cx.run_command(&["-i", "--name", "twin", &image, "cat"]).spawn();
        let (first, second) = (start()?, start()?);
        let ends = [processes::pidfd(first.pid())?, processes::pidfd(second.pid())?];
        // The winner waits for its input to end, so the first to end has lost.
        let first_lost =
            processes::first_readable(&ends, patience())?.context("neither of the two was refused")? == 0;
        let (loser, winner) = if first_lost {
            (first, second)
        } else {
            (second, first)
        };
        loser
            .finish()?
            .refuses(125, &["twin"])
            .with_context(|| format!("round {round}"))?;
        winner
            .finish()?
            .exits(0)
            .with_context(|| format!("round {round}"))?;
    }
    Ok(())
}
