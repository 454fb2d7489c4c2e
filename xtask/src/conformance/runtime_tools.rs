//! The programs of runtime-tools: each is a test with several results.

use super::suite::{Verdict, require};
use super::tap::Report;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the programs, each in a subdirectory of its name.
const PROGRAMS: &str = "validation";

/// Beginning of an error message of the programs, in JSON.
const DIAGNOSTIC: &str = "\"error\": ";

/// Subdirectory among the programs that is a library.
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

/// Adds the words that run a test. The programs look for root file systems and `runtimetest` in their working
/// directory.
pub(super) fn complete(command: &mut Command, checkout: &Path, test: &str, runtime: &Path) {
    command
        .arg(executable(checkout, test))
        .current_dir(checkout)
        .env("RUNTIME", runtime);
}

/// Judges a program: a result that is not ok makes it fail, and so does one that is announced but missing.
///
/// Some programs have no results: those for hooks report errors only by a diagnostic, those for refusals only by
/// their exit code.
pub(super) fn judge(output: &str, exited_with_0: bool) -> Verdict {
    let report = Report::parse(output);
    let results = report.results();
    if let Some(first) = report.failed.first() {
        let count = report.failed.len();
        return Verdict::Failed(format!("{count} of {results} not ok: {first}: {}", said(output)));
    }
    if !exited_with_0 {
        let last = output.lines().rev().find(|line| !line.trim().is_empty());
        return Verdict::Failed(format!("{}: {}", last.unwrap_or("no word").trim(), said(output)));
    }
    if report.planned.is_some_and(|planned| planned != results) {
        return Verdict::Failed(format!("{results} results, not as many as planned"));
    }
    if results == 0 && output.contains(DIAGNOSTIC) {
        return Verdict::Failed(said(output));
    }
    match report.skipped.first() {
        Some(reason) if report.passed.is_empty() => Verdict::Skipped((*reason).to_owned()),
        _ => Verdict::Passed,
    }
}

/// Finds the runtime's message, as the first diagnostic quotes it or as the program passes it on; else returns the
/// diagnostic.
fn said(output: &str) -> String {
    let after = |mark: &str| Some(output.split_once(mark)?.1.lines().next()?.trim_end_matches(','));
    let passed_on = || output.split_once(" the container\n")?.1.lines().next();
    let quoted = after("\"stderr\": ").or_else(passed_on);
    quoted.or_else(|| after(DIAGNOSTIC)).unwrap_or("").to_owned()
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
        let hooks = "TAP version 13\n  ---\n  {\n    \"error\": \"out of order\"\n  }\n  ...\n1..0\n";
        let create = "failed to create the container\nno such file\nexit status 1\n";
        for (output, exited_with_0, verdict) in [
            (
                "TAP version 13\nok 1 - a\nok 2 - b\n1..2\n",
                true,
                Verdict::Passed,
            ),
            ("ok 1 - a # SKIP c\nok 2 - b\n1..2\n", true, Verdict::Passed),
            ("ok 1 - a\n1..1\nTAP version 13\n1..0\n", true, Verdict::Passed),
            ("", true, Verdict::Passed),
            (
                "ok 1 # SKIP no x\n1..1\n",
                true,
                Verdict::Skipped("no x".to_owned()),
            ),
            ("1..0 # SKIP no x\n", true, Verdict::Skipped("no x".to_owned())),
            (
                "ok 1 - a\nnot ok 2 - b\n1..2\n",
                true,
                failed("1 of 2 not ok: b: "),
            ),
            (
                "ok 1 - a\n1..2\n",
                true,
                failed("1 results, not as many as planned"),
            ),
            (create, false, failed("exit status 1: no such file")),
            (hooks, true, failed("\"out of order\"")),
        ] {
            assert_eq!(judge(output, exited_with_0), verdict, "{output}");
        }
    }
}
