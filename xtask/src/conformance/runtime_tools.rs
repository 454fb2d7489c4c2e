//! The programs of runtime-tools: each is one test, made of several results.

use super::suite::{Verdict, require};
use super::tap::Report;
use crate::program::program;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Below which the programs are, each in a directory of its name.
const PROGRAMS: &str = "validation";

/// Among the programs, but a library.
const LIBRARY: &str = "util";

pub(super) fn check(checkout: &Path) -> Result<()> {
    require(
        &[&checkout.join(PROGRAMS)],
        "it is in a checkout of runtime-tools",
    )?;
    let mut built = vec![checkout.join("runtimetest")];
    built.extend(tests(checkout)?.iter().map(|test| executable(checkout, test)));
    let built: Vec<&Path> = built.iter().map(PathBuf::as_path).collect();
    require(&built, "it is built with go")
}

pub(super) fn tests(checkout: &Path) -> Result<Vec<String>> {
    let directory = checkout.join(PROGRAMS);
    let read = || format!("read {}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(read)? {
        let entry = entry.with_context(read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().with_context(read)?.is_dir() && name != LIBRARY {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The programs look for root file systems and `runtimetest` in their working directory.
pub(super) fn command(checkout: &Path, test: &str, runtime: &Path) -> Command {
    let mut command = program(executable(checkout, test));
    command.current_dir(checkout).env("RUNTIME", runtime);
    command
}

/// One result that is not ok makes the whole program fail, and so does one that is announced and missing.
pub(super) fn judge(output: &str, exited_with_0: bool) -> Verdict {
    let report = Report::parse(output);
    if let Some(first) = report.failed.first() {
        let count = report.failed.len();
        return Verdict::Failed(format!("{count} of {} not ok: {first}", report.results()));
    }
    if !exited_with_0 {
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        return Verdict::Failed(last.unwrap_or("failed without a word").trim().to_owned());
    }
    match report.planned {
        None => Verdict::Failed("ended without saying how many results there are".to_owned()),
        Some(0) => skipped(&report),
        Some(planned) if planned != report.results() => {
            Verdict::Failed(format!("{} results, not {planned}", report.results()))
        }
        Some(_) if report.passed.is_empty() => skipped(&report),
        Some(_) => Verdict::Passed,
    }
}

fn skipped(report: &Report<'_>) -> Verdict {
    Verdict::Skipped(report.skipped.first().copied().unwrap_or_default().to_owned())
}

fn executable(checkout: &Path, test: &str) -> PathBuf {
    checkout.join(PROGRAMS).join(test).join(format!("{test}.t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let failed = |why: &str| Verdict::Failed(why.to_owned());
        for (output, exited_with_0, verdict) in [
            (
                "TAP version 13\nok 1 - a\nok 2 - b\n1..2\n",
                true,
                Verdict::Passed,
            ),
            ("ok 1 - a # SKIP c\nok 2 - b\n1..2\n", true, Verdict::Passed),
            (
                "ok 1 # SKIP no x\n1..1\n",
                true,
                Verdict::Skipped("no x".to_owned()),
            ),
            ("ok 1 - a\nnot ok 2 - b\n1..2\n", true, failed("1 of 2 not ok: b")),
            ("ok 1 - a\n1..2\n", true, failed("1 results, not 2")),
            ("ok 1 - a\n1..1\nboom\n", false, failed("boom")),
            (
                "",
                true,
                failed("ended without saying how many results there are"),
            ),
        ] {
            assert_eq!(judge(output, exited_with_0), verdict, "{output}");
        }
    }
}
