//! Running other programs: the only place in this crate that makes a `Command`.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};

/// Builds a command for a program in `PATH`, or at a path.
///
/// Removes the library path of `cargo run`, in which every dynamic program would look first: measured peers would
/// seem slower than they are.
#[expect(
    clippy::disallowed_methods,
    reason = "to run programs is what this crate is for; no container waits for it"
)]
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Builds a command for the cargo that runs this program, so that the toolchain is the same.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Formats the command as typed in a shell, for messages.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Runs a command to its end with this process's standard streams.
///
/// # Errors
/// The command cannot be started, or does not exit with 0.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| shown(command))?;
    expect_success(command, status)
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// Those of [`succeed`], or the output is not UTF-8.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| shown(command))?;
    expect_success(command, output.status)?;
    String::from_utf8(output.stdout).with_context(|| format!("{}: output", shown(command)))
}

/// Runs a command to its end, shows standard output as it comes, and passes each line to `each`.
///
/// # Errors
/// The command cannot be started or read; the caller judges how it exited.
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
