//! `faults`: kills commands of the engine, or fails their system calls, and checks that nothing is
//! lost or left behind.
//!
//! Three machines share one crate. The stepper ([`step`]) kills the Wth process of a command at its Nth system call,
//! or fails that call with an errno. After each fault everything below the state root must be reachable, and all
//! committed state must still be there ([`model`]). The second takes pictures of a disk while commands run
//! ([`cuts`]), and checks each picture with commands and with a list of its own. The third starts many commands at
//! once ([`stress`]), all of which must succeed.
//!
//! This crate is not part of the engine, which never depends on it, and it drives the built binary as a user would.
//! `crates/e2e` tests the promises to users; this crate looks for failures that no author foresaw.

#![expect(
    clippy::disallowed_methods,
    reason = "a harness runs programs and waits for them; nothing here is on anybody's hot path"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to people"
)]

mod arguments;
mod chance;
mod cuts;
mod model;
mod step;
mod stress;
mod tables;
mod waits;

use crate::arguments::Action;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, raise};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Environment of every tote: commands that name no network get none, so that each has only the calls that it is tried for.
const NO_NETWORK: [(&str, &str); 2] = [("TOTE_NETWORK", "none"), ("TOTE_BUILD_NETWORK", "none")];

/// Exits with 0 if nothing was found, 1 after findings, 2 if nothing could be tried.
fn main() -> ExitCode {
    let result = arguments::parse(std::env::args_os().skip(1)).and_then(|action| match action {
        Action::Help => {
            print!("{}", arguments::USAGE);
            Ok(true)
        }
        Action::Step(options) => step::run(&options),
        Action::Cuts(words) => cuts::run(&words),
        Action::Stress(words) => stress::run(&words),
        Action::Hold(terminal, words) => hold(terminal.as_deref(), &words),
        Action::Careless(path) => step::careless(&path).map(|()| true),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("faults: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Stops this process until a tracer has seized it, then executes the command.
fn hold(terminal: Option<&Path>, words: &[OsString]) -> Result<bool> {
    let (program, arguments) = words.split_first().context("no program is given")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(NO_NETWORK);
    if let Some(path) = terminal {
        // The first terminal that a session's leader opens becomes the terminal of the session.
        nix::unistd::setsid().context("begin a session")?;
        let terminal = File::options().read(true).write(true).open(path);
        let terminal = terminal.with_context(|| format!("open {}", path.display()))?;
        let copy = || terminal.try_clone().context("copy a terminal's descriptor");
        command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    }
    raise(Signal::SIGSTOP).context("stop")?;
    Err(command.exec()).context("execute the command")
}
