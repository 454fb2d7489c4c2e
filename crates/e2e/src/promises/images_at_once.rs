//! Removals of images beside commands that give them names or use them: one of two orders comes out.

use super::stored::{archive, image};
use crate::context::Context;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("images::a_name_given_during_a_removal_stays", &[], tagged),
    test(
        "images::a_container_made_during_a_removal_has_its_image",
        &[],
        created,
    ),
    test("images::what_is_added_during_a_removal_is_there", &[], added),
];

/// Number of rounds: the fault that these tests are of came in every third.
const ROUNDS: usize = 20;

/// Executes two commands at once.
fn both(cx: &Context, one: &[&str], other: &[&str]) -> Result<(Output, Output)> {
    let (one, other) = (cx.tote(one).spawn()?, cx.tote(other).spawn()?);
    Ok((one.finish()?, other.finish()?))
}

fn is_there(cx: &Context, name: &str) -> Result<bool> {
    Ok(cx.tote(&["image", "exists", name]).output()?.code == 0)
}

fn tagged(cx: &Context) -> Result<()> {
    let archive = archive(cx, "one")?;
    for round in 0..ROUNDS {
        cx.tote(&["import", &archive, "one"]).output()?.exits(0)?;
        let (tag, removal) = both(cx, &["tag", "one", "two"], &["rmi", "one"])?;
        removal.exits(0).with_context(|| format!("round {round}"))?;
        ensure!(
            is_there(cx, "two")? == (tag.code == 0),
            "round {round}: tag: {}",
            tag.transcript()
        );
        if tag.code == 0 {
            cx.tote(&["rmi", "two"]).output()?.exits(0)?;
        }
    }
    Ok(())
}

fn created(cx: &Context) -> Result<()> {
    let archive = archive(cx, "one")?;
    for round in 0..ROUNDS {
        cx.tote(&["import", &archive, "one"]).output()?.exits(0)?;
        let (create, removal) = both(
            cx,
            &["create", "--pull", "never", "--name", "c", "one", "true"],
            &["rmi", "one"],
        )?;
        if create.code == 0 {
            removal.exits(1).with_context(|| format!("round {round}"))?;
            cx.tote(&["start", "-a", "c"]).output()?.exits(0)?;
            cx.tote(&["rm", "c"]).output()?.exits(0)?;
            cx.tote(&["rmi", "one"]).output()?.exits(0)?;
        } else {
            removal.exits(0).with_context(|| format!("round {round}"))?;
        }
    }
    cx.nothing_left()
}

/// A build and a load make the image that the removal takes away under another name.
fn added(cx: &Context) -> Result<()> {
    image(cx, "base", &[])?;
    let context = cx.directory("context")?;
    std::fs::write(format!("{context}/Dockerfile"), "FROM base\nLABEL a=b\n")?;
    let build = |name: &'static str| ["build", "-q", "-t", name, &context];
    cx.tote(&build("one")).output()?.exits(0)?;
    let saved = cx.path("saved.tar")?;
    cx.tote(&["tag", "one", "loaded"]).output()?.exits(0)?;
    cx.tote(&["save", "-o", &saved, "loaded"]).output()?.exits(0)?;
    cx.tote(&["rmi", "loaded"]).output()?.exits(0)?;
    for round in 0..ROUNDS / 2 {
        for (words, name) in [
            (&build("two")[..], "two"),
            (&["load", "-q", "-i", &saved], "loaded"),
        ] {
            let (adds, removal) = both(cx, words, &["rmi", "one"])?;
            adds.exits(0).with_context(|| format!("round {round}, {name}"))?;
            removal
                .exits(0)
                .with_context(|| format!("round {round}, {name}"))?;
            cx.run(&[name, "true"])?
                .exits(0)
                .with_context(|| format!("round {round}, {name}"))?;
            cx.tote(&["tag", name, "one"]).output()?.exits(0)?;
            cx.tote(&["rmi", name]).output()?.exits(0)?;
        }
    }
    Ok(())
}
