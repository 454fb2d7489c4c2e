//! `cargo xtask posix --suite PATH [FILTER]`: is a session's view of a container's files the file system below?
//!
//! The suite is the executable of pjdfstest (`cargo install pjdfstest`), which is not part of this project. It runs three times
//! in one directory: here, in a session of `tote debug` that has the directory below `/target`, and in one that has the
//! container's tree for its root. Each test has to end in the same way.

use crate::build::{ENGINE, release};
use crate::program::{program, succeed};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Users that every machine has, and the tests act as.
const CONFIGURATION: &str = r#"[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
"#;

/// How each test ended.
type Verdicts = BTreeMap<String, String>;

/// # Errors
/// The suite cannot be run. Differences only affect the exit code.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<ExitCode> {
    let (suite, filter) = match words {
        ["--suite", suite] => (*suite, None),
        ["--suite", suite, filter] => (*suite, Some(*filter)),
        _ => bail!("posix: where is pjdfstest? --suite PATH, and at most one filter after it"),
    };
    let tote = release(workspace, ENGINE)?;
    let place = Place::make(&workspace.target.join("posix"), Path::new(suite))?;
    let files = place.dir.join("files");
    let here = verdicts(&mut suite_in(&files, filter))?;
    println!("here: {}", totals(&here));
    let volume = format!("{}:/files", files.display());
    let start = ["run", "-d", "--network", "none", "--name", "posix", "-v", &volume];
    succeed(place.tote(&tote).args(start).args(["host", "sleep", "100000"]))?;
    let mut sound = true;
    for (view, at) in [("tools", "/target/files"), ("target", "/files")] {
        // Some tests mount, which a container may not.
        let mut session = place.tote(&tote);
        session.args(["debug", "--privileged", "--view", view, "posix"]);
        let words = suite_in(Path::new(at), filter);
        session.arg(words.get_program()).args(words.get_args());
        let there = verdicts(&mut session);
        let there = there.inspect_err(|_| drop(place.remove(&tote)))?;
        println!("--view {view}: {}", totals(&there));
        for (test, here, there) in differences(&here, &there) {
            println!("    {test}: {here} here, {there} there");
            sound = false;
        }
    }
    place.remove(&tote)?;
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the command of the suite in a directory that has it.
fn suite_in(files: &Path, filter: Option<&str>) -> Command {
    let mut command = program(files.join("pjdfstest"));
    command.arg("-c").arg(files.join("configuration.toml"));
    command.arg("-p").arg(files.join("work")).args(filter);
    command
}

/// Runs the suite and reads how each test ended.
fn verdicts(command: &mut Command) -> Result<Verdicts> {
    let output = command.output().context("run the suite")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = parse(&text);
    ensure!(
        !found.is_empty(),
        "posix: the suite ran no test: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(found)
}

/// Parses the lines `NAME VERDICT`; the summary and reasons are no such lines.
fn parse(text: &str) -> Verdicts {
    let verdict = |line: &str| {
        let (test, verdict) = line.trim_end().rsplit_once("  ")?;
        let test = test.trim_end();
        test.contains("::")
            .then(|| (test.to_owned(), verdict.trim().to_owned()))
    };
    text.lines()
        .filter(|line| !line.starts_with('\t'))
        .filter_map(verdict)
        .collect()
}

/// Lists the tests that ended in two ways: their names, and both ways.
fn differences<'a>(here: &'a Verdicts, there: &'a Verdicts) -> Vec<(&'a str, &'a str, &'a str)> {
    let missing = "not run";
    let names: std::collections::BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let of = |verdicts: &'a Verdicts, name: &String| verdicts.get(name).map_or(missing, String::as_str);
    names
        .into_iter()
        .map(|name| (name.as_str(), of(here, name), of(there, name)))
        .filter(|(_, here, there)| here != there)
        .collect()
}

fn totals(verdicts: &Verdicts) -> String {
    let mut counts = BTreeMap::new();
    for verdict in verdicts.values() {
        *counts.entry(verdict).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    counts.join(", ")
}

/// Directory of a run: the files of the tests, the suite beside them, and a state root.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn make(dir: &Path, suite: &Path) -> Result<Self> {
        let files = dir.join("files");
        let work = files.join("work");
        std::fs::create_dir_all(&work).with_context(|| format!("create {}", work.display()))?;
        let copy = files.join("pjdfstest");
        std::fs::copy(suite, &copy).with_context(|| format!("copy {}", suite.display()))?;
        let configuration = files.join("configuration.toml");
        std::fs::write(&configuration, CONFIGURATION)
            .with_context(|| format!("write {}", configuration.display()))?;
        Ok(Self { dir: dir.to_owned() })
    }

    fn tote(&self, tote: &Path) -> Command {
        let mut command = program(tote);
        command.arg("--root").arg(self.dir.join("state"));
        command
    }

    fn remove(&self, tote: &Path) -> Result<()> {
        succeed(self.tote(tote).args(["rm", "-f", "posix"]))?;
        std::fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_and_compared() {
        let here = parse(
            "chmod::a  ok\nmkdir::b::dir    skipped\n\trequires features: x  y\n\nSummary: 0 failed, 2 total\n",
        );
        assert_eq!(totals(&here), "1 ok, 1 skipped");
        assert_eq!(differences(&here, &here), []);
        let there = parse("chmod::a    FAILED\nother::c  ok\n");
        assert_eq!(
            differences(&here, &there),
            [
                ("chmod::a", "ok", "FAILED"),
                ("mkdir::b::dir", "skipped", "not run"),
                ("other::c", "not run", "ok"),
            ]
        );
    }
}
