//! `faults`: lets commands of the engine die, or their system calls fail, and looks whether anything is lost or left.
//!
//! Three machines share one crate. The stepper ([`step`]) kills, or fails with an errno, the Nth system call of the Wth process
//! of a command. After each fault everything below the state root must be reachable, and whatever was committed must still be
//! there ([`model`]). The second takes pictures of a disk while commands run ([`cuts`]), and looks at each picture by
//! commands and by a list of its own. The third gives many commands at once ([`stress`]), all of which must succeed.
//!
//! It is not part of the engine, which never depends on it, and it drives the built binary as a user would. What is
//! promised to users is tested in `crates/e2e`; this crate looks for what nobody thought of.

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

/// 0: nothing found. 1: findings. 2: nothing could be tried.
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

/// Stops until somebody has seized this process, and becomes the command then.
fn hold(terminal: Option<&Path>, words: &[OsString]) -> Result<bool> {
    let (program, arguments) = words.split_first().context("no program is given")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(path) = terminal {
        // The first terminal that the leader of a session opens is the session's.
        nix::unistd::setsid().context("begin a session")?;
        let terminal = File::options().read(true).write(true).open(path);
        let terminal = terminal.with_context(|| format!("open {}", path.display()))?;
        let copy = || terminal.try_clone().context("copy a terminal's descriptor");
        command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    }
    raise(Signal::SIGSTOP).context("stop")?;
    Err(command.exec()).context("execute the command")
}
