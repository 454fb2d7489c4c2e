//! Containers that start at once on one new volume, and a start that is killed while it fills one.

use super::stored::pack;
use crate::context::Context;
use crate::processes::{descendants, kill};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    test("volumes::who_starts_at_once_sees_the_whole", &[], at_once),
    test("volumes::a_copy_that_was_cut_is_completed", &[], cut),
    test("volumes::a_killed_start_leaves_no_half_volume", &[], killed),
];

const DIRECTORIES: [&str; 4] = ["a", "b", "c", "d"];

/// Makes an image with this number of files in each of four directories below `/data`.
fn image(cx: &Context, name: &str, files: usize) -> Result<()> {
    let (dir, _) = cx.own_rootfs(name)?;
    for directory in DIRECTORIES {
        let directory = dir.join("data").join(directory);
        fs::create_dir_all(&directory)?;
        for file in 0..files {
            fs::write(directory.join(file.to_string()), format!("{file}\n"))?;
        }
    }
    let archive = pack(cx, &dir, name)?;
    cx.tote(&["import", &archive, name]).output()?.exits(0).map(drop)
}

/// Counts the lines of all files, and lists what else there is.
const LOOK: &str = "cat /data/*/* | wc -l; ls -A /data";

fn seen(files: usize) -> String {
    format!("{}\na\nb\nc\nd\n", files * DIRECTORIES.len())
}

fn at_once(cx: &Context) -> Result<()> {
    const FILES: usize = 200;
    image(cx, "many", FILES)?;
    for round in 0..3 {
        let volume = format!("v{round}:/data");
        let words = ["--network", "none", "-v", &volume, "many", "sh", "-c", LOOK];
        let started = (0..8).map(|_| cx.run_command(&words).spawn());
        let started = started.collect::<Result<Vec<_>>>()?;
        for (place, running) in started.into_iter().enumerate() {
            let ended = running.finish()?;
            ended
                .prints(&seen(FILES))
                .with_context(|| format!("round {round}, container {place}"))?;
        }
    }
    Ok(())
}

/// Directory of a copy that is not in its place.
fn filling(cx: &Context, volume: &str) -> PathBuf {
    data(cx, volume).join(".tote-fill")
}

fn data(cx: &Context, volume: &str) -> PathBuf {
    cx.root().join("volumes").join(volume).join("_data")
}

/// Maker of what a kill leaves at this place.
type Remains<'a> = &'a dyn Fn(&Path) -> Result<()>;

/// Remains of kills at several moments.
fn cut(cx: &Context) -> Result<()> {
    image(cx, "few", 2)?;
    let part = |at: &Path| -> Result<()> {
        fs::create_dir_all(at.join("part/a"))?;
        Ok(fs::write(at.join("part/a/0"), "ha")?)
    };
    let made = |at: &Path| -> Result<()> { Ok(fs::create_dir(at)?) };
    let moving = |at: &Path| -> Result<()> {
        let whole = at.join("whole");
        for directory in DIRECTORIES {
            let place = match directory {
                "a" | "b" => data(cx, "moving"),
                _ => whole.clone(),
            };
            fs::create_dir_all(place.join(directory))?;
            for file in 0..2 {
                fs::write(place.join(directory).join(file.to_string()), "0\n")?;
            }
        }
        Ok(())
    };
    let moved = |at: &Path| -> Result<()> {
        moving(at)?;
        for directory in DIRECTORIES {
            let (from, to) = (
                data(cx, "moving").join(directory),
                data(cx, "moved").join(directory),
            );
            if from.is_dir() {
                fs::rename(from, to)?;
            } else {
                fs::rename(at.join("whole").join(directory), to)?;
            }
        }
        Ok(())
    };
    let cases: [(&str, Remains<'_>); 4] = [
        ("made", &made),
        ("part", &part),
        ("moved", &moved),
        ("moving", &moving),
    ];
    for (volume, leave) in cases {
        for volume in [volume, "moving"] {
            fs::create_dir_all(data(cx, volume))?;
        }
        leave(&filling(cx, volume)).with_context(|| volume.to_owned())?;
        let request = format!("{volume}:/data");
        cx.run(&["-v", &request, "few", "sh", "-c", LOOK])?
            .prints(&seen(2))
            .with_context(|| volume.to_owned())?;
    }
    // What a program puts there is its own affair, and no reason to fail.
    fs::create_dir_all(data(cx, "odd"))?;
    fs::write(filling(cx, "odd"), "")?;
    cx.run(&["-v", "odd:/data", "few", "sh", "-c", LOOK])?
        .prints(&seen(2))
        .map(drop)
}

/// Whenever the kill comes, the next start sees the whole.
fn killed(cx: &Context) -> Result<()> {
    const FILES: usize = 400;
    image(cx, "many", FILES)?;
    for round in 0..5 {
        let volume = format!("v{round}");
        let request = format!("{volume}:/data");
        let words = ["--network", "none", "-v", &request, "many", "sh", "-c", LOOK];
        let running = cx.run_command(&words).spawn()?;
        let end = Instant::now() + Duration::from_secs(60);
        // Sometimes the copy is faster than this look.
        while !filling(cx, &volume).join("part/a").exists() && !data(cx, &volume).join("d").exists() {
            ensure!(Instant::now() < end, "round {round}: nothing is copied");
            std::thread::yield_now();
        }
        for process in descendants(running.pid()) {
            kill(process.pid, Signal::KILL);
        }
        kill(running.pid(), Signal::KILL);
        running.finish()?;
        cx.run(&words)?
            .prints(&seen(FILES))
            .with_context(|| format!("round {round}"))?;
    }
    Ok(())
}
