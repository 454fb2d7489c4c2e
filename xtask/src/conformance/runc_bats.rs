//! runc's integration tests: bats files, in which each `@test` is a test.
//!
//! Each test is run by a bats of its own. This costs a fraction of a second, and shows which test left something
//! behind.

use super::suite::{Verdict, require, require_programs};
use super::tap::Report;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Directory of the files in the checkout.
const FILES: &str = "tests/integration";

pub(super) fn check(checkout: &Path) -> Result<()> {
    let files = checkout.join(FILES);
    require(&[&files], "it is in a checkout of runc")?;
    require_programs(&["bats", "gawk", "gcc", "jq", "script"])?;
    let programs = checkout.join("tests/cmd/_bin");
    let built = [
        "recvtty",
        "sd-helper",
        "seccompagent",
        "fs-idmap",
        "pidfd-kill",
        "remap-rootfs",
    ];
    for name in built {
        require(&[&programs.join(name)], "it is built with go")?;
    }
    // The suite would download these images; the names are the ones that it uses.
    let images = files.join("testdata");
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    for image in ["busybox", "debian"] {
        let path = images.join(format!("{image}-{arch}.tar.xz"));
        require(&[&path], "it is a root file system as an archive")?;
    }
    Ok(())
}

/// Lists the tests as `FILE: NAME`, without the file's extension.
pub(super) fn tests(checkout: &Path) -> Result<Vec<String>> {
    let directory = checkout.join(FILES);
    let read = || format!("read {}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(read)? {
        let path = entry.with_context(read)?.path();
        if path.extension().is_none_or(|extension| extension != "bats") {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let file = path.file_stem().unwrap_or_default().to_string_lossy();
        names.extend(declared(&text).map(|name| format!("{file}: {name}")));
    }
    names.sort();
    Ok(names)
}

/// Finds the names in lines `@test "NAME" {`.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("@test \"")?;
        Some(rest.rsplit_once('"')?.0.trim())
    })
}

/// Adds the words that run a test. script(1) gives bats a terminal, and keeps it while its own standard input is
/// open.
pub(super) fn complete(command: &mut Command, checkout: &Path, test: &str, runtime: &Path) {
    let (file, name) = test.split_once(": ").unwrap_or((test, ""));
    let line = format!(
        "exec bats --tap --filter {} {}",
        quoted(&exactly(name)),
        quoted(&format!("{file}.bats")),
    );
    command
        .args([
            "script",
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &line,
            "/dev/null",
        ])
        .current_dir(checkout.join(FILES))
        .env("RUNC", runtime);
}

/// Builds an extended regular expression that matches only this name. bats may keep blanks around it.
fn exactly(name: &str) -> String {
    let mut expression = "^ *".to_owned();
    for character in name.chars() {
        if "\\^$.[]|()?*+{}".contains(character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression + " *$"
}

/// Quotes a word for a shell's command line.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(super) fn judge(output: &str, exited_with_0: bool) -> Verdict {
    let report = Report::parse(output);
    match (report.passed.as_slice(), report.skipped.as_slice()) {
        ([_], []) if exited_with_0 && report.failed.is_empty() => Verdict::Passed,
        ([], [reason]) if exited_with_0 && report.failed.is_empty() => Verdict::Skipped((*reason).to_owned()),
        _ => Verdict::Failed(reason(output)),
    }
}

/// Finds the last command that did not exit with 0 and the first line it printed, else the message of bats.
fn reason(output: &str) -> String {
    let lines: Vec<&str> = output
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# ")?.trim()))
        .take_while(|line| *line != "--- teardown ---")
        .collect();
    let failed =
        |line: &&str| line.ends_with(')') && line.contains(" (status=") && !line.ends_with("(status=0)");
    let assertion = lines
        .iter()
        .find(|line| line.starts_with('`'))
        .copied()
        .unwrap_or("");
    if let Some(at) = lines.iter().rposition(failed) {
        let said = lines.get(at + 1).copied().unwrap_or("");
        return format!("{assertion}: {}: {said}", lines[at]);
    }
    let last = lines
        .last()
        .or(output.lines().collect::<Vec<_>>().last())
        .copied();
    format!("{assertion}: {}", last.unwrap_or("no result").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let text = "# a\n@test \"runc kill {A} [b]\" {\n\ttrue\n}\n@test \"x \" { # why\n@test \"say \\\"a\\\"\" {\n";
        let names: Vec<_> = declared(text).collect();
        assert_eq!(names, ["runc kill {A} [b]", "x", "say \\\"a\\\""]);
        assert_eq!(exactly("a.b [c]"), r"^ *a\.b \[c\] *$");
        assert_eq!(quoted("hook's"), r"'hook'\''s'");
    }

    #[test]
    fn verdicts() {
        assert_eq!(judge("1..1\r\nok 1 runc x\r\n", true), Verdict::Passed);
        assert_eq!(
            judge("1..1\nok 1 runc x # skip requires criu\n", true),
            Verdict::Skipped("requires criu".to_owned())
        );
        let output = "1..1\nnot ok 1 x\n# (in test file x.bats, line 9)\n#   `[ \"$status\" -eq 0 ]' failed\n\
                      # runc spec (status=0)\n#\n# runc run a (status=1)\n# no such option\n# --- teardown ---\n";
        assert_eq!(
            judge(output, false),
            Verdict::Failed(
                "`[ \"$status\" -eq 0 ]' failed: runc run a (status=1): no such option".to_owned()
            )
        );
        assert!(matches!(judge("", true), Verdict::Failed(_)));
    }
}
