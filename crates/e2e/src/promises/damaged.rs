//! A damaged record is in nobody's way, whatever it is a record of: lists show it and go on, everything else can be used and
//! removed, a removal takes it along, and nothing that a newer tote wrote is removed unless it is named.

mod objects;

use crate::context::Context;
use crate::layout;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use objects::{Fate, Object};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test("damaged::secrets", &[], |cx| blocks_nothing(cx, &objects::SECRET)),
    test("damaged::networks", &[Need::Root], |cx| {
        blocks_nothing(cx, &objects::NETWORK)
    }),
    test("damaged::volumes", &[], |cx| blocks_nothing(cx, &objects::VOLUME)),
    test("damaged::pods", &[], |cx| blocks_nothing(cx, &objects::POD)),
    test("damaged::pools", &[], |cx| blocks_nothing(cx, &objects::POOL)),
    test("damaged::containers", &[], |cx| {
        blocks_nothing(cx, &objects::CONTAINER)
    }),
    test("damaged::states", &[], |cx| blocks_nothing(cx, &objects::STATE)),
    test("damaged::profiles", &[], |cx| {
        blocks_nothing(cx, &objects::PROFILE)
    }),
    test("damaged::imports", &[], |cx| blocks_nothing(cx, &objects::IMPORT)),
    test("damaged::nodes", &[], nodes),
    test("damaged::caches_are_made_again", &[], caches),
];

/// Damage to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Empty,
    Cut,
    Garbage,
    Newer,
    Directory,
}

const DAMAGES: [Damage; 5] = [
    Damage::Empty,
    Damage::Cut,
    Damage::Garbage,
    Damage::Newer,
    Damage::Directory,
];

impl Damage {
    /// Damages a record. Returns its text.
    fn put(self, record: &Path) -> Result<Vec<u8>> {
        let text = fs::read(record).with_context(|| format!("read {}", record.display()))?;
        match self {
            Self::Empty => fs::write(record, "")?,
            Self::Cut => fs::write(record, &text[..text.len() / 2])?,
            Self::Garbage => fs::write(record, [0xff, 0, b'{', 0])?,
            Self::Newer => fs::write(record, "{\"version\":99}")?,
            Self::Directory => {
                fs::remove_file(record)?;
                fs::create_dir(record)?;
            }
        }
        Ok(text)
    }
}

fn restore(record: &Path, text: &[u8]) -> Result<()> {
    if record.is_dir() {
        fs::remove_dir(record)?;
    }
    Ok(fs::write(record, text)?)
}

/// Runs a command that must end with this code.
fn ends<W: AsRef<str>>(cx: &Context, code: i32, words: &[W]) -> Result<Output> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let output = cx.tote(&words).output()?;
    output.exits(code)?;
    Ok(output)
}

/// Makes an object, and finds its record: the only new file that fits the pattern.
fn made(cx: &Context, object: &Object, name: &str) -> Result<PathBuf> {
    let all = || layout::matching(&cx.root(), object.pattern);
    let before: BTreeSet<_> = all()?.into_iter().collect();
    (object.make)(cx, name)?.exits(0)?;
    let new: Vec<_> = all()?.into_iter().filter(|path| !before.contains(path)).collect();
    let [record] = new.as_slice() else {
        anyhow::bail!("{name} has the records {new:?}");
    };
    Ok(record.clone())
}

/// Commands that end with 0, whatever record is damaged.
const ALWAYS: &[&[&str]] = &[
    &["ps", "-a"],
    &["images"],
    &["volume", "ls"],
    &["pod", "ps"],
    &["pool", "ls"],
    &["secret", "ls"],
    &["graph", "ls"],
    &["graph", "ls", "--roots"],
    &["graph", "profile", "ls"],
    &["system", "df"],
    &["vm", "template", "ls"],
    &["store", "verify"],
    &["rm", "-i", "nosuch"],
    &["pod", "create", "other-pod"],
    &["pod", "rm", "other-pod"],
    &["volume", "create", "--label", "a=b", "other-volume"],
    &[
        "create",
        "--name",
        "other-container",
        "-v",
        "/data",
        "IMAGE",
        "true",
    ],
    &["rename", "other-container", "renamed"],
    &["rm", "-v", "renamed"],
    &["volume", "rm", "-f", "nosuch"],
    &["run", "--rm", "--network", "none", "IMAGE", "true"],
];

/// Commands that end with 0 as well where networks can be made.
const WITH_NETWORKS: &[&[&str]] = &[
    &["network", "ls"],
    &["network", "create", "other-network"],
    &["network", "inspect", "other-network"],
    &["network", "rm", "other-network"],
];

fn blocks_nothing(cx: &Context, object: &Object) -> Result<()> {
    for damage in DAMAGES {
        one(cx, object, damage).with_context(|| format!("{}: {damage:?}", object.pattern))?;
    }
    Ok(())
}

fn one(cx: &Context, object: &Object, damage: Damage) -> Result<()> {
    let record = made(cx, object, "this")?;
    made(cx, object, "that")?;
    let text = damage.put(&record)?;
    shown(cx, object, &record)?;
    others(cx, object)?;
    made_again(cx, object, damage)?;
    ensure!(record.symlink_metadata().is_ok(), "the record is gone");
    // A record that can be read again has lost nothing.
    restore(&record, &text)?;
    ends(cx, 0, &words(cx, object.look, "this"))?;
    damage.put(&record)?;
    pruned(cx, object, damage, &record)?;
    if record.symlink_metadata().is_ok() {
        removed(cx, object, damage, &record)?;
    }
    rest(cx, object)?;
    // All of them at once, without names.
    if let Some(all) = object.all {
        let record = made(cx, object, "this")?;
        damage.put(&record)?;
        let newer = damage == Damage::Newer;
        ends(cx, i32::from(newer), all)?;
        ensure!(
            record.symlink_metadata().is_ok() == newer,
            "{all:?} leaves {}",
            record.display()
        );
        if newer {
            removed(cx, object, damage, &record)?;
        }
    }
    Ok(())
}

/// Puts the name, or the image, in its place.
fn words(cx: &Context, words: &[&str], name: &str) -> Vec<String> {
    let put = |word: &&str| match *word {
        "IMAGE" => cx.image(),
        word => word.replace("NAME", &objects::handle(cx, name)),
    };
    words.iter().map(put).collect()
}

/// Checks that the list of its kind names the damaged record, the remedy and the other object.
fn shown(cx: &Context, object: &Object, record: &Path) -> Result<()> {
    let listed = ends(cx, 0, object.list)?;
    let all = listed.out() + &listed.err();
    ensure!(
        all.contains(&record.display().to_string()),
        "{:?} does not name {}: {all}",
        object.list,
        record.display()
    );
    if let Some(remedy) = object.remedy {
        ensure!(
            all.contains(remedy),
            "{:?} does not say {remedy}: {all}",
            object.list
        );
    }
    Ok(())
}

/// Checks that everything else can be used.
fn others(cx: &Context, object: &Object) -> Result<()> {
    ends(cx, 0, &words(cx, object.look, "that"))?;
    let networks: &[_] = if rustix::process::geteuid().is_root() {
        WITH_NETWORKS
    } else {
        &[]
    };
    for command in ALWAYS.iter().chain(networks) {
        ends(cx, 0, &words(cx, command, "that"))?;
    }
    // A container and a pool may use any volume, and protect it.
    let last = ["volume", "rm", "other-volume"];
    ends(cx, i32::from(object.protects), &last)?;
    Ok(())
}

/// Checks that the same name says what to do.
fn made_again(cx: &Context, object: &Object, damage: Damage) -> Result<()> {
    let Some(remedy) = object.remedy.filter(|_| object.taken) else {
        return Ok(());
    };
    let again = (object.make)(cx, "this")?;
    again.fails()?.has_err(remedy)?;
    // Of a pod only the name is looked at, whatever is in its record.
    if damage == Damage::Newer && object.pattern != objects::POD.pattern {
        again.has_err("-f")?;
    }
    Ok(())
}

/// Checks what prunings make of it, and that they do the rest of their work.
fn pruned(cx: &Context, object: &Object, damage: Damage, record: &Path) -> Result<()> {
    let lost = damage != Damage::Newer;
    let goes = |fate: Fate| fate == Fate::Goes && lost;
    for (prune, fate) in object.prunes {
        let there = record.symlink_metadata().is_ok();
        let code = match fate {
            Fate::Told if there => 1,
            _ => 0,
        };
        let output = ends(cx, code, prune)?;
        if code == 1 {
            output.has_err(&record.display().to_string())?;
        }
        let stays = there && !goes(*fate);
        ensure!(
            record.symlink_metadata().is_ok() == stays,
            "{prune:?}: the record {} be there",
            if stays { "has to" } else { "must not" }
        );
    }
    Ok(())
}

/// Removes the object by its name: one of a newer tote only by force.
fn removed(cx: &Context, object: &Object, damage: Damage, record: &Path) -> Result<()> {
    let remove = |force: bool| {
        let mut all = object.remove.to_vec();
        if force {
            all.push("-f");
        }
        all.push("NAME");
        words(cx, &all, "this")
    };
    let forced = object.forced || (damage == Damage::Newer && object.newer);
    if forced {
        ends(cx, 1, &remove(false))?.has_err("-f")?;
        ensure!(record.symlink_metadata().is_ok(), "the record is gone");
    }
    ends(cx, 0, &remove(forced))?;
    ensure!(record.symlink_metadata().is_err(), "the record is left");
    let listed = ends(cx, 0, object.list)?;
    let path = record.display().to_string();
    ensure!(
        !(listed.out() + &listed.err()).contains(&path),
        "it is listed still"
    );
    Ok(())
}

/// Removes what is left, and makes the object anew.
fn rest(cx: &Context, object: &Object) -> Result<()> {
    let mut all = object.remove.to_vec();
    all.push("NAME");
    for name in ["this", "that"] {
        let all = words(cx, &all, name);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        cx.tote(&all).output()?;
    }
    for command in [&["rm", "-fa"][..], &["volume", "prune", "-af"], &["graph", "gc"]] {
        ends(cx, 0, command)?;
    }
    made(cx, object, "this")?;
    ends(cx, 0, &words(cx, &all, "this"))?;
    ends(cx, 0, &["graph", "gc"])?;
    Ok(())
}

/// The document of a node is known by its hash, so there is nothing like a newer one.
fn nodes(cx: &Context) -> Result<()> {
    for damage in DAMAGES {
        let all = || layout::matching(&cx.root(), objects::NODES);
        (objects::IMPORT.make)(cx, "this")?.exits(0)?;
        let documents = all()?;
        let whole = ends(cx, 0, &["graph", "ls", "-q"])?.out().lines().count();
        ensure!(whole == documents.len() && whole > 1, "{whole} nodes");
        let one = documents.first().context("no node")?;
        damage.put(one)?;
        let check = || {
            ends(cx, 0, &["graph", "ls"])?;
            let name = one.file_name().context("no name")?.to_string_lossy();
            ends(cx, 1, &["store", "verify"])?
                .has_out(&name)?
                .has_out("graph gc")?;
            ends(cx, 0, &["graph", "gc"])?.has_out("removed 1 nodes")?;
            ensure!(one.symlink_metadata().is_err(), "the document is left");
            ends(cx, 0, &["store", "verify"])?;
            // The same import makes it again.
            (objects::IMPORT.make)(cx, "this")?.exits(0)?;
            ensure!(all()?.len() == whole, "a node is missing");
            ends(cx, 0, &words(cx, &["graph", "rm", "NAME"], "this"))?;
            ends(cx, 0, &["graph", "gc"])?;
            ensure!(all()?.is_empty(), "nodes are left");
            Ok(())
        };
        check().with_context(|| format!("{damage:?}"))?;
    }
    Ok(())
}

/// Records that are found out again: no command fails for them.
fn caches(cx: &Context) -> Result<()> {
    (objects::IMPORT.make)(cx, "this")?.exits(0)?;
    let context = cx.directory("context")?;
    fs::write(
        Path::new(&context).join("Dockerfile"),
        "FROM scratch\nCOPY file /\nCMD true\n",
    )?;
    fs::write(Path::new(&context).join("file"), "text")?;
    let commands: [Vec<&str>; 2] = [
        vec![
            "graph",
            "run",
            "--rm",
            "--network",
            "none",
            "this-tool",
            "/opt/this-tool/start",
        ],
        vec!["build", "-q", &context],
    ];
    for command in &commands {
        ends(cx, 0, command)?;
    }
    for pattern in objects::CACHES {
        for damage in DAMAGES {
            let records = layout::matching(&cx.root(), pattern)?;
            ensure!(!records.is_empty(), "no file {pattern}");
            for record in &records {
                damage.put(record)?;
            }
            for command in commands.iter().map(Vec::as_slice).chain([&["graph", "ls"][..]]) {
                ends(cx, 0, command).with_context(|| format!("{pattern}: {damage:?}"))?;
            }
            // What a newer tote has written, or another kind of file, does not come back by itself.
            for record in &records {
                if record.is_dir() {
                    fs::remove_dir(record)?;
                }
            }
            for command in &commands {
                ends(cx, 0, command)?;
            }
        }
    }
    ends(cx, 0, &words(cx, &["graph", "rm", "NAME"], "this"))?;
    ends(cx, 0, &["graph", "gc"])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::objects::{CACHES, NODES, OBJECTS, OTHERS};
    use crate::layout;
    use std::collections::BTreeSet;

    /// A new kind of file gets an object here, or a reason.
    #[test]
    fn each_file_of_a_state_root_is_a_record_or_has_a_reason() {
        let objects = OBJECTS.iter().map(|object| object.pattern);
        let known: Vec<&str> = objects
            .chain(CACHES.iter().copied())
            .chain([NODES])
            .chain(OTHERS.iter().flat_map(|(_, patterns)| patterns.iter().copied()))
            .collect();
        let once: BTreeSet<&str> = known.iter().copied().collect();
        assert_eq!(once.len(), known.len(), "a pattern is there twice");
        let files: BTreeSet<&str> = layout::files_of_the_owner().collect();
        assert!(files.len() > 80, "{files:?}");
        let missing: Vec<_> = files.difference(&once).collect();
        assert!(missing.is_empty(), "neither tried nor explained: {missing:?}");
        let gone: Vec<_> = once.difference(&files).collect();
        assert!(gone.is_empty(), "no such file in docs/state.md: {gone:?}");
    }
}
