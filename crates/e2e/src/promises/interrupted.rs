//! ^C during a long command: no incomplete result has a name, the store is sound, and the same command succeeds when
//! it is repeated.

use super::build::{build, nothing_left, write};
use super::pool::eventually;
use super::registry::{forget, layer, publish};
use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::invocation::Invocation;
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use tote_testkit::{FakeRegistry, Reply, Stop};

pub(super) const TESTS: &[Test] = &[
    test("interrupted::pull_in_the_middle_of_a_layer", &[], pull),
    test("interrupted::push_in_the_middle_of_a_layer", &[], push),
    test("interrupted::load_in_the_middle_of_an_archive", &[], load),
    test("interrupted::the_next_clears_up_after_the_killed", &[], killed),
    test(
        "interrupted::save_leaves_no_half_of_a_file",
        &[Need::Program("prlimit")],
        save,
    ),
    test(
        "interrupted::build_in_the_middle_of_a_step",
        &[Need::ManyIds],
        build_step,
    ),
];

/// Signals, and the resulting ends of the command: death by that signal, which a shell reports as 130 and 143.
const SIGNALS: [(Signal, i32); 2] = [(Signal::INT, -2), (Signal::TERM, -15)];
/// End by SIGXFSZ, which the kernel sends when a file becomes too large.
const TOO_LARGE: i32 = -25;

fn ends_by(running: Running, (signal, code): (Signal, i32)) -> Result<()> {
    running.signal(signal)?;
    running.finish()?.exits(code).map(drop)
}

fn is_whole(cx: &Context, without: &str) -> Result<()> {
    cx.tote(&["store", "verify"]).output()?.exits(0)?;
    let images = cx
        .tote(&["images", "--format", "{{.Repository}}:{{.Tag}}"])
        .output()?;
    ensure!(
        !images.exits(0)?.out().contains(without),
        "half of {without} has a name"
    );
    Ok(())
}

fn pull(cx: &Context) -> Result<()> {
    let content = layer(cx)?;
    for ended in SIGNALS {
        let registry = FakeRegistry::start();
        let blob = publish(&registry, "team/app:1", &content);
        let image = format!("{}/team/app:1", registry.host());
        let (stop, stopped) = Stop::new();
        let half = content.clone();
        registry.hook(move |request| {
            let is_it = request.method == "GET" && request.path.contains(&blob);
            is_it.then(|| {
                Reply::status(200)
                    .body(half.clone())
                    .stop(half.len() / 2, stop.clone())
            })
        });
        let running = cx.tote(&["pull", &image]).spawn()?;
        ensure!(stopped.wait(patience()), "nobody fetched the layer");
        ends_by(running, ended)?;
        is_whole(cx, "team/app")?;
        drop(stopped);
        cx.tote(&["pull", "-q", &image]).output()?.exits(0)?;
        cx.run(&[&image])?.prints("registry\n")?;
        forget(cx, &[&image])?;
    }
    cx.nothing_left()
}

/// Imports an image of the tests' own files.
fn import(cx: &Context, name: &str) -> Result<()> {
    cx.tote(&["import", "-", name])
        .input(&layer(cx)?)
        .output()?
        .exits(0)
        .map(drop)
}

fn push(cx: &Context) -> Result<()> {
    for ended in SIGNALS {
        let registry = FakeRegistry::start();
        let image = format!("{}/team/app:1", registry.host());
        import(cx, &image)?;
        let (stop, stopped) = Stop::new();
        registry.hook(move |request| {
            if request.path.contains("/blobs/uploads/") && !request.body.is_empty() {
                stop.reach();
            }
            None
        });
        let running = cx.tote(&["push", &image]).spawn()?;
        ensure!(stopped.wait(patience()), "nobody sent the layer");
        ends_by(running, ended)?;
        is_whole(cx, "nothing of that name")?;
        ensure!(
            registry.stored("team/app", "1").is_none(),
            "half an image was pushed"
        );
        drop(stopped);
        cx.tote(&["push", &image]).output()?.exits(0)?;
        ensure!(registry.stored("team/app", "1").is_some(), "nothing was pushed");
        forget(cx, &[&image])?;
    }
    cx.nothing_left()
}

fn load(cx: &Context) -> Result<()> {
    import(cx, "team/app:1")?;
    let archive = cx.path("archive.tar")?;
    cx.tote(&["save", "-o", &archive, "team/app:1"])
        .output()?
        .exits(0)?;
    forget(cx, &["team/app:1"])?;
    let bytes = fs::read(&archive)?;
    // A pipe holds less than half of this.
    ensure!(bytes.len() > 4 << 16, "the archive is too small");
    for ended in SIGNALS {
        let (reader, mut writer) = std::io::pipe()?;
        let running = cx.tote(&["load"]).spawn_with(OwnedFd::from(reader))?;
        writer.write_all(&bytes[..bytes.len() / 2])?;
        ends_by(running, ended)?;
        drop(writer);
        is_whole(cx, "team/app")?;
    }
    cx.tote(&["load", "-i", &archive]).output()?.exits(0)?;
    cx.run(&["team/app:1", "echo", "whole"])?.prints("whole\n")?;
    forget(cx, &["team/app:1"])?;
    cx.nothing_left()
}

/// Lists the contents and layers in the store, complete or not.
fn stored(cx: &Context) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for dir in ["objects", "layers"] {
        for entry in fs::read_dir(cx.root().join("store").join(dir))? {
            let path = entry?.path();
            if dir == "objects" && path.is_dir() {
                for entry in fs::read_dir(&path)? {
                    found.insert(entry?.path());
                }
            } else {
                found.insert(path);
            }
        }
    }
    Ok(found)
}

/// Packs the tests' root file system behind a file that only this archive has.
fn with_a_file(cx: &Context, name: &str) -> Result<Vec<u8>> {
    let dir = PathBuf::from(cx.directory(name)?);
    fs::write(dir.join(name), name)?;
    let tar = Command::new("tar")
        .args(["--format=pax", "--owner=0", "--group=0", "--numeric-owner", "-cC"])
        .args([dir.as_os_str(), name.as_ref(), "-C".as_ref()])
        .args([cx.shared_rootfs().as_os_str(), ".".as_ref()])
        .output()?;
    ensure!(
        tar.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&tar.stderr)
    );
    Ok(tar.stdout)
}

fn killed(cx: &Context) -> Result<()> {
    import(cx, "here:1")?;
    let archive = cx.path("here.tar")?;
    cx.tote(&["save", "-o", &archive, "here:1"]).output()?.exits(0)?;
    let before = stored(cx)?;
    let ends = |running: Running| -> Result<()> {
        eventually("some of it is here", || Ok(stored(cx)?.len() > before.len() + 1))?;
        running.signal(Signal::KILL)?;
        running.finish()?.exits(-9)?;
        let left = stored(cx)?;
        cx.run(&["here:1", "true"])?.exits(0)?;
        ensure!(stored(cx)? == left, "a container's start does not clear up");
        Ok(())
    };
    let is_cleared = |after: &str| -> Result<()> {
        let left: Vec<_> = stored(cx)?.difference(&before).cloned().collect();
        ensure!(left.is_empty(), "after {after} there is still {left:?}");
        is_whole(cx, "team/app")
    };

    let registry = FakeRegistry::start();
    let content = with_a_file(cx, "pulled")?;
    let blob = publish(&registry, "team/app:1", &content);
    let (stop, stopped) = Stop::new();
    registry.hook(move |request| {
        let is_it = request.method == "GET" && request.path.contains(&blob);
        is_it.then(|| {
            let half = content.len() / 2;
            Reply::status(200).body(content.clone()).stop(half, stop.clone())
        })
    });
    let app = format!("{}/team/app:1", registry.host());
    let running = cx.tote(&["pull", &app]).spawn()?;
    ensure!(stopped.wait(patience()), "nobody fetched the layer");
    ends(running)?;
    drop(stopped);
    cx.tote(&["load", "-i", &archive]).output()?.exits(0)?;
    is_cleared("a load")?;

    let (reader, mut writer) = std::io::pipe()?;
    let content = with_a_file(cx, "imported")?;
    let running = cx
        .tote(&["import", "-", "app"])
        .spawn_with(OwnedFd::from(reader))?;
    writer.write_all(&content[..content.len() / 2])?;
    ends(running)?;
    drop(writer);
    // The layer is here already: only a configuration is fetched.
    publish(&registry, "team/here:1", &layer(cx)?);
    let here = format!("{}/team/here:1", registry.host());
    cx.tote(&["pull", "-q", &here]).output()?.exits(0)?;
    is_cleared("a pull")?;
    forget(cx, &[&here, "here:1"])?;
    cx.nothing_left()
}

fn save(cx: &Context) -> Result<()> {
    import(cx, "team/app:1")?;
    let dir = cx.directory("saved")?;
    let listed = || -> Result<Vec<_>> {
        let names = fs::read_dir(&dir)?.map(|entry| entry.map(|entry| entry.file_name()));
        Ok(names.collect::<Result<_, _>>()?)
    };
    // The reader reads only the first byte.
    let pipe = format!("{dir}/pipe");
    Invocation::new(["mkfifo", &pipe]).output()?.exits(0)?;
    for ended in SIGNALS {
        let running = cx.tote(&["save", "-o", &pipe, "team/app:1"]).spawn()?;
        let mut reader = fs::File::open(&pipe)?;
        reader.read_exact(&mut [0])?;
        ends_by(running, ended)?;
    }
    fs::remove_file(&pipe)?;
    // The kernel kills the command when the file has grown to this size.
    let limited = ["prlimit", "--fsize=100000", "--"];
    let archive = format!("{dir}/it.tar");
    for before in [None, Some("what was there")] {
        if let Some(before) = before {
            fs::write(&archive, before)?;
        }
        for form in ["docker-archive", "oci-archive"] {
            let save = cx.tote(&["save", "--format", form, "-o", &archive, "team/app:1"]);
            save.under(&limited).output()?.exits(TOO_LARGE)?;
            let there = before.map(|_| OsString::from("it.tar"));
            ensure!(listed()? == Vec::from_iter(there), "{:?}", listed()?);
        }
    }
    ensure!(
        fs::read_to_string(&archive)? == "what was there",
        "half of it was replaced"
    );
    cx.tote(&["save", "-o", &archive, "team/app:1"])
        .output()?
        .exits(0)?;
    ensure!(
        fs::metadata(&archive)?.len() > 100_000 && listed()?.len() == 1,
        "it was not replaced"
    );
    is_whole(cx, "nothing of that name")?;
    // A layout without its index is invalid, and the next save completes it.
    let layout = format!("{dir}/layout");
    let words = ["save", "--format", "oci-dir", "-o", &layout, "team/app:1"];
    cx.tote(&words).under(&limited).output()?.exits(TOO_LARGE)?;
    cx.tote(&["load", "-i", &layout]).output()?.exits(1)?;
    cx.tote(&words).output()?.exits(0)?;
    forget(cx, &["team/app:1"])?;
    cx.tote(&["load", "-i", &layout]).output()?.exits(0)?;
    cx.run(&["team/app:1", "echo", "whole"])?.prints("whole\n")?;
    forget(cx, &["team/app:1"])?;
    cx.nothing_left()
}

fn build_step(cx: &Context) -> Result<()> {
    let shared = cx.directory("shared")?;
    let volume = format!("{shared}:/shared");
    let pipe = format!("{shared}/pipe");
    Invocation::new(["mkfifo", &pipe]).output()?.exits(0)?;
    let rest = "RUN echo begun > /shared/pipe; touch /half; cat /shared/pipe\n";
    build(cx, &["-q"], "")?.exits(0)?;
    write(cx, "Dockerfile", &format!("FROM it\n{rest}"))?;
    let context = cx.path("context")?;
    for ended in SIGNALS {
        let running = cx
            .tote(&["build", "-t", "half", "-v", &volume, &context])
            .spawn()?;
        let mut begun = [0; 6];
        fs::File::open(&pipe)?.read_exact(&mut begun)?;
        let all = processes::descendants(running.pid());
        let ends = all
            .iter()
            .filter_map(|process| processes::pidfd(process.pid).ok());
        let ends: Vec<_> = ends.collect();
        // The command gets the signal first; a build reports it by its own exit code.
        ends_by(running, (ended.0, 128 - ended.1))?;
        for end in &ends {
            processes::wait_end(end, "what the build started", patience())?;
        }
        is_whole(cx, "half")?;
        nothing_left(cx)?;
    }
    forget(cx, &["it"])
}
