//! Many commands at once.

use super::build::{build, nothing_left, write};
use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::need::Need;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("concurrency::twenty_runs_at_once", &[], twenty),
    test("concurrency::one_of_two_with_the_same_name_wins", &[], same_name),
    test(
        "concurrency::builds_runs_and_kills_beside_one_another",
        &[Need::ManyIds],
        mixed,
    ),
];

/// All containers are started before any is waited for, and all run before any may end.
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

/// Six commands of each kind, all started before any is waited for: none of them fails because of another.
fn mixed(cx: &Context) -> Result<()> {
    const EACH: usize = 6;
    build(cx, &[], "RUN true\n")?.exits(0)?;
    let at_once = |all: &[Vec<String>]| -> Result<Vec<Output>> {
        let start = |words: &Vec<String>| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            cx.tote(&words).spawn()
        };
        let running = all.iter().map(start).collect::<Result<Vec<Running>>>()?;
        let ended = running.into_iter().map(|one| {
            let output = one.finish()?;
            output.exits(0)?;
            Ok(output)
        });
        ended.collect()
    };
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for round in 0..2 {
        let of_each = |words: &dyn Fn(&str) -> Vec<String>| -> Vec<Vec<String>> {
            (0..EACH).map(|number| words(&number.to_string())).collect()
        };
        let name = |number: &str| format!("c{number}");
        at_once(&of_each(&|number| {
            own(&["run", "-d", "--name", &name(number), "it", "sleep", "1000"])
        }))?;
        for number in 0..EACH {
            // Each pair of builds is identical, and meets in the cache.
            let text = format!("FROM it\nRUN echo {round} {} >/word\n", number / 2);
            write(cx, &format!("{number}/Dockerfile"), &text)?;
        }
        let contexts = cx.path("context")?;
        let mut all = of_each(&|number| own(&["kill", &name(number)]));
        all.extend(of_each(&|number| {
            own(&[
                "build",
                "-q",
                "-t",
                &format!("b{number}"),
                &format!("{contexts}/{number}"),
            ])
        }));
        all.extend(of_each(&|number| own(&["run", "--rm", "it", "echo", number])));
        for (number, run) in at_once(&all)?.iter().skip(2 * EACH).enumerate() {
            run.prints(&format!("{number}\n"))?;
        }
        for ended in at_once(&of_each(&|number| own(&["wait", &name(number)])))? {
            ended.prints("137\n")?;
        }
        let built = of_each(&|number| own(&["run", "--rm", &format!("b{number}"), "cat", "/word"]));
        for (number, built) in at_once(&built)?.iter().enumerate() {
            built.prints(&format!("{round} {}\n", number / 2))?;
        }
        let mut gone = of_each(&|number| own(&["rm", &name(number)]));
        gone.extend(of_each(&|number| own(&["rmi", &format!("b{number}")])));
        at_once(&gone)?;
    }
    nothing_left(cx)
}
