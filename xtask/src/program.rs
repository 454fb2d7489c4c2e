//! Running other programs: the one place of this crate that makes a `Command`.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// A command for a program looked up in `PATH`, or at a path.
///
/// `cargo run` adds directories to the library path in which every dynamic program would look first: measured peers
/// would seem slower than they are.
#[expect(
    clippy::disallowed_methods,
    reason = "to run programs is what this crate is for; no container waits for it"
)]
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// The cargo that runs us, so that the toolchain is the same.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The command as typed in a shell, for messages.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Runs to the end with our own standard streams.
///
/// # Errors
/// Where it cannot be started, or does not exit with 0.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| shown(command))?;
    expect_success(command, status)
}

/// Runs to the end and returns what it wrote to standard output.
///
/// # Errors
/// As [`succeed`], and where the output is not UTF-8.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| shown(command))?;
    expect_success(command, output.status)?;
    String::from_utf8(output.stdout).with_context(|| format!("{}: output", shown(command)))
}

/// Runs to the end, shows standard output as it comes, and hands each line to `each`.
///
/// # Errors
/// Where it cannot be started or read; how it exited is for the caller to judge.
pub(crate) fn tee(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| shown(command))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.with_context(|| format!("{}: output", shown(command)))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            each(&line);
        }
    }
    child.wait().with_context(|| shown(command))
}

fn expect_success(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    bail!("{}: {status}", shown(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error = succeed(program("false").arg("x")).unwrap_err();
        assert_eq!(format!("{error:#}"), "false x: exit status: 1");
        let error = read(&mut program("/nonexistent/program")).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("/nonexistent/program: "),
            "{error:#}"
        );
    }

    #[test]
    fn tee_hands_over_each_line_and_the_status() {
        let mut seen = Vec::new();
        let status = tee(program("sh").args(["-c", "echo a; echo b; exit 3"]), |line| {
            seen.push(line.to_owned());
        });
        assert_eq!(seen, ["a", "b"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }
}
