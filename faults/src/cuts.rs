//! Power cuts: pictures of a disk while commands run.
//!
//! The disk is a file on a file system that can share blocks (XFS, in memory): FICLONE(2) takes a picture of it in
//! one step, with exactly the bytes that had been written to the "disk" at that moment. Nothing is frozen or flushed
//! for the picture, as before a real power cut. The picture is then repaired as a boot would repair it (e2fsck, the
//! journal's replay), mounted where the original was, and examined by commands that see another boot id.
//!
//! Every picture must pass these checks:
//! - Everything that was there at the last sync of the disk is there, with its bytes.
//! - No command hangs, and none runs an image with wrong bytes. A refusal is right.
//! - The same archive can be loaded again, and then everything is as it was.
//! - Everything can be removed, and then nothing is left.

mod check;
mod commands;
mod disk;
mod sample;
mod session;
mod workload;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const USAGE: &str = "\
usage: cargo xtask faults cuts [--fs KIND]... [--pictures N] [--seed S] [OPTION]...

As root. KIND is one of ext4, ext4-commit1, ext4-nojournal, xfs, btrfs, btrfs-commit1; without one, all are tried.

Options:
  --pictures N         so many pictures of each file system; 20 where nothing is said
  --seed S             which commands run, and when pictures are taken; 1 where nothing is said
  --experiment WHAT    mixed: many commands at once (the default); cut: load, create, N seconds, picture; holey: import of
                       files that end in zeros, N seconds, picture
  --after N            N of `cut` and `holey`, in seconds; may be given again
  --archive FILE       also loads this image (docker save)
  --keep DIR           leaves each picture in which something was found in this directory
  --tote PATH          the tote to try
";

/// File system, with its mkfs command and its mount options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    name: &'static str,
    /// Program that makes the file system, and its arguments.
    make: &'static [&'static str],
    options: &'static str,
    is_ext4: bool,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "ext4",
        make: EXT4,
        options: "loop",
        is_ext4: true,
    },
    Kind {
        name: "ext4-commit1",
        make: EXT4,
        options: "loop,commit=1",
        is_ext4: true,
    },
    Kind {
        name: "ext4-nojournal",
        make: &[
            "mkfs.ext4",
            "-q",
            "-O",
            "^has_journal",
            "-E",
            "lazy_itable_init=0",
        ],
        options: "loop",
        is_ext4: true,
    },
    Kind {
        name: "xfs",
        make: &["mkfs.xfs", "-q"],
        options: "loop,nouuid",
        is_ext4: false,
    },
    Kind {
        name: "btrfs",
        make: &["mkfs.btrfs", "-q"],
        options: "loop",
        is_ext4: false,
    },
    Kind {
        name: "btrfs-commit1",
        make: &["mkfs.btrfs", "-q"],
        options: "loop,commit=1",
        is_ext4: false,
    },
];

/// The options of mkfs forbid lazy initialisation, so that only the commands write, and not the
/// kernel in the background.
const EXT4: &[&str] = &["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// Workload while pictures are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Experiment {
    #[default]
    Mixed,
    Cut,
    Holey,
}

#[derive(Clone, Debug)]
struct Options {
    tote: PathBuf,
    kinds: Vec<Kind>,
    pictures: usize,
    seed: u64,
    experiment: Experiment,
    after: Vec<u64>,
    archives: Vec<PathBuf>,
    keep: Option<PathBuf>,
}

/// Runs the experiment that the words after `cuts` describe. Returns true if nothing was found.
///
/// # Errors
/// Fails if nothing could be tried.
pub(crate) fn run(words: &[OsString]) -> Result<bool> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return Ok(true);
    }
    let (inside, words) = match words {
        [rest @ .., last] if last == INSIDE => (true, rest),
        all => (false, all),
    };
    let options = parse(words)?;
    if !inside {
        return among_own_mounts(words);
    }
    let mut whole = true;
    for kind in &options.kinds {
        whole &= session::run(*kind, &options).with_context(|| kind.name)?;
    }
    Ok(whole)
}

/// Marker word at the end of the command line of the process with its own mounts.
const INSIDE: &str = "--inside";

/// Runs this program again in a mount namespace of its own: its mounts, and their loop devices, go
/// with its last process.
fn among_own_mounts(words: &[OsString]) -> Result<bool> {
    let own = std::env::current_exe()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(own);
    let status = command.arg("cuts").args(words).arg(INSIDE).status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the process with mounts of its own: {status}"),
    }
}

fn parse(words: &[OsString]) -> Result<Options> {
    let mut options = Options {
        tote: PathBuf::new(),
        kinds: Vec::new(),
        pictures: 20,
        seed: 1,
        experiment: Experiment::Mixed,
        after: Vec::new(),
        archives: Vec::new(),
        keep: None,
    };
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("tote") => options.tote = PathBuf::from(parser.value()?).canonicalize()?,
            Long("fs") => {
                let name = parser.value()?.string()?;
                let kind = KINDS.iter().find(|kind| kind.name == name);
                options
                    .kinds
                    .push(*kind.with_context(|| format!("--fs {name}: no such kind"))?);
            }
            Long("pictures") => options.pictures = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("experiment") => {
                options.experiment = match parser.value()?.string()?.as_str() {
                    "mixed" => Experiment::Mixed,
                    "cut" => Experiment::Cut,
                    "holey" => Experiment::Holey,
                    other => bail!("--experiment {other}: mixed, cut or holey"),
                };
            }
            Long("after") => options.after.push(parser.value()?.parse()?),
            Long("archive") => options
                .archives
                .push(PathBuf::from(parser.value()?).canonicalize()?),
            Long("keep") => options.keep = Some(PathBuf::from(parser.value()?)),
            other => return Err(other.unexpected().into()),
        }
    }
    if options.tote.as_os_str().is_empty() {
        bail!("cuts: --tote PATH says which tote");
    }
    if options.kinds.is_empty() {
        options.kinds = KINDS.to_vec();
    }
    if options.after.is_empty() {
        options.after = vec![1, 4, 7, 12, 20, 33];
    }
    Ok(options)
}

/// Runs a program of the machine to its end.
///
/// # Errors
/// Fails if the program cannot be run or its exit code is not 0.
fn program<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let words: Vec<&str> = words.into_iter().collect();
    let output = output(&words)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", words.join(" "), output.status, said.trim());
    }
    Ok(())
}

/// Runs a program of the machine to its end, and accepts any exit code.
fn attempt(words: &[&str]) -> Result<ExitStatus> {
    Ok(output(words)?.status)
}

fn output(words: &[&str]) -> Result<std::process::Output> {
    let (name, arguments) = words.split_first().context("no program")?;
    Command::new(name)
        .args(arguments)
        .output()
        .with_context(|| format!("execute {name}"))
}

/// Returns a path as a word of a command line; empty if the path is not UTF-8.
fn word(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let own = std::env::current_exe().unwrap();
        let parse = |words: &[&str]| {
            let mut all = vec![OsString::from("--tote"), own.clone().into()];
            all.extend(words.iter().map(OsString::from));
            parse(&all)
        };
        let options = parse(&[]).unwrap();
        assert_eq!((options.kinds.len(), options.pictures), (6, 20));
        let options = parse(&[
            "--fs",
            "xfs",
            "--pictures",
            "3",
            "--experiment",
            "cut",
            "--after",
            "7",
        ])
        .unwrap();
        assert_eq!(
            (options.kinds[0].name, options.pictures, options.after),
            ("xfs", 3, vec![7])
        );
        assert!(parse(&["--fs", "ntfs"]).is_err());
        assert!(parse(&["--experiment", "none"]).is_err());
    }
}
