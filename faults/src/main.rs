//! `faults`: lets commands of the engine die, or their system calls fail, and looks whether anything is lost or left.
//!
//! Two machines share one crate. The stepper ([`step`]) kills, or fails with an errno, the Nth system call of the Wth process
//! of a command. After each fault everything below the state root must be reachable, and whatever was committed must still be
//! there ([`model`]). The other machine takes pictures of a disk while commands run ([`cuts`]), and looks at each picture by
//! commands and by a list of its own.
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
mod tables;
mod waits;

use crate::arguments::Action;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, raise};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
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
        Action::Hold(words) => hold(&words),
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
fn hold(words: &[OsString]) -> Result<bool> {
    let (program, arguments) = words.split_first().context("no program is given")?;
    raise(Signal::SIGSTOP).context("stop")?;
    Err(Command::new(program).args(arguments).exec()).context("execute the command")
}
