//! Pools, with kills at every point.

use super::pool::{done, eventually, fill, full, gone, keepers, ready, taking};
use crate::context::Context;
use crate::exchange::{patience, scaled};
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::process::Signal;
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    test("pool::a_killed_keeper_is_noticed", &[], killed_keeper),
    test("pool::a_killed_taker_takes_its_sandbox_along", &[], killed_taker),
    test("pool::a_removal_that_fails_loses_no_sandbox", &[], failed_removal),
    test("pool::killed_at_any_point", &[Need::FaultPoints], killed_anywhere),
    test(
        "pool::a_removal_beside_fills_leaves_no_sandbox_behind",
        &[],
        removed_and_filled,
    ),
];

fn killed_keeper(cx: &Context) -> Result<()> {
    fill(cx, "2", &[])?;
    for keeper in keepers() {
        let end = processes::pidfd(keeper.pid)?;
        processes::kill(keeper.pid, Signal::KILL);
        processes::wait_end(&end, "the keeper", patience())?;
    }
    eventually("the sandboxes go with their keepers", || Ok(ready(cx)? == "0"))?;
    taking(cx, &["echo", "all the same"])
        .output()?
        .prints("all the same\n")?;
    full(cx, "2")?;
    // The kill comes while a program runs.
    let mut running = taking(cx, &["-i", "sh", "-c", "echo up; read end"]).spawn()?;
    running.expect("up\n")?;
    let tree = keepers();
    full(cx, "2")?;
    for keeper in tree {
        processes::kill(keeper.pid, Signal::KILL);
    }
    running.finish()?.exits(137)?.has_err("keeper")?;
    fill(cx, "2", &[])?;
    gone(cx)
}

fn killed_taker(cx: &Context) -> Result<()> {
    fill(cx, "1", &[])?;
    let mut running = taking(cx, &["--name", "c", "-i", "sh", "-c", "echo up; read end"]).spawn()?;
    running.expect("up\n")?;
    super::pool::found(cx)?;
    full(cx, "1")?;
    processes::kill(running.pid(), Signal::KILL);
    running.finish()?;
    eventually("the container goes with who took it", || {
        Ok(done(cx, &["ps", "-aq"])?.is_empty() && keepers().len() == 1)
    })?;
    taking(cx, &["--name", "c", "true"]).output()?.exits(0)?;
    gone(cx)
}

/// A removal without descriptors fails or succeeds; a sandbox without its socket would stay for ever. The next
/// command with pools completes a failed removal.
fn failed_removal(cx: &Context) -> Result<()> {
    for most in 4..14 {
        fill(cx, "1", &[])?;
        let limit = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        let removal = cx.tote(&["pool", "rm", "p"]).under(&["sh", "-c", &limit]);
        let removed = removal.output()?.exits(0).is_ok();
        if !removed && cx.root().join("pools/p/pool.json").exists() {
            done(cx, &["pool", "rm", "p"])?;
        } else {
            done(cx, &["pool", "rm", "-f", "nosuch"])?;
        }
        eventually("every keeper is gone", || Ok(keepers().is_empty()))?;
        let left: Vec<_> = std::fs::read_dir(cx.root().join("pools"))?.flatten().collect();
        ensure!(left.is_empty(), "with {most} descriptors: {left:?}");
        cx.nothing_left()?;
    }
    Ok(())
}

/// Deaths at every point: commands show the remains truly, the next command repairs them, and they go with the pool.
fn killed_anywhere(cx: &Context) -> Result<()> {
    let mortal = crate::need::mortal().context("no fault points")?;
    let dying = |point: &str, words: &[&str]| cx.other_tote(&mortal, words).env("TOTE_FAULT", point).output();
    let image = cx.image();
    for point in [
        "pool-written",
        "pool-bound",
        "pool-parked",
        "pool-taken",
        "pool-noted",
        "pool-ended",
        "pool-cleared",
    ] {
        let made = dying(point, &["pool", "fill", "p", "-n", "1", &image])?;
        // This run takes the sandbox whose keeper dies, or one that is made in its place.
        let long = if point == "pool-noted" { "1" } else { "0" };
        let taken = taking(cx, &["--name", "victim", "sleep", long]).output()?;
        // A death at the last point has no visible effect.
        let noticed = made.code != 0 || taken.code == 137 || point == "pool-cleared";
        ensure!(noticed, "nobody died at {point:?}");
        mended(cx).with_context(|| format!("after a death at {point:?}"))?;
    }
    for point in ["pool-connected", "pool-named", "pool-brought", "pool-began"] {
        fill(cx, "1", &[])?;
        let died = dying(
            point,
            &["run", "--pool", "p", "--name", "victim", "sleep", "1000"],
        )?;
        ensure!(died.code < 0, "it did not die at {point:?}");
        mended(cx).with_context(|| format!("after a death at {point:?}"))?;
    }
    for point in ["pool-unwritten", "pool-drained"] {
        fill(cx, "1", &[])?;
        let died = dying(point, &["pool", "rm", "p"])?;
        ensure!(died.code < 0, "it did not die at {point:?}");
        ensure!(
            done(cx, &["pool", "ls", "-q"])?.is_empty(),
            "what is being removed is no pool"
        );
        gone(cx).with_context(|| format!("after a death at {point:?}"))?;
    }
    Ok(())
}

/// Checks that the pool can be filled and used as usual, and then removed.
fn mended(cx: &Context) -> Result<()> {
    eventually("nothing of it runs", || Ok(done(cx, &["ps", "-aq"])?.is_empty()))?;
    fill(cx, "1", &[])?;
    eventually("its name is free", || {
        Ok(taking(cx, &["--name", "victim", "true"]).output()?.code == 0)
    })?;
    gone(cx)
}

/// A removal that deleted the lock's file during a filling would let sandboxes wait in a removed pool: no list shows
/// them, and no command ends them.
fn removed_and_filled(cx: &Context) -> Result<()> {
    let image = cx.image();
    let fill: &[&str] = &["pool", "fill", "p", "-n", "2", &image];
    let errands = [
        fill,
        fill,
        &["run", "--pool", "p", "true"],
        &["run", "--pool", "p", "true"],
        &["pool", "rm", "-f", "p"],
        &["pool", "rm", "-f", "p"],
    ];
    let until = Instant::now() + scaled(Duration::from_secs(2));
    let work = |words: &[&str]| -> Result<()> {
        while Instant::now() < until {
            // The command may find no pool, or one that is being removed.
            cx.tote(words).output()?;
        }
        Ok(())
    };
    let work = &work;
    let done_with = std::thread::scope(|scope| {
        let workers = errands.map(|words| scope.spawn(move || work(words)));
        workers.map(|worker| worker.join().map_err(|_| anyhow!("a worker has panicked"))?)
    });
    done_with.into_iter().collect::<Result<Vec<()>>>()?;
    fill_again(cx)?;
    gone(cx)
}

/// The background process that fills a pool may still be at work when the commands have ended.
fn fill_again(cx: &Context) -> Result<()> {
    eventually("the pool is full", || {
        done(cx, &["pool", "fill", "p", "-n", "2", &cx.image()])?;
        Ok(ready(cx)? == "2" && keepers().len() == 2)
    })
}
