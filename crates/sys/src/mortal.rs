//! Child programs that end together with this process, and whose files get the usual modes.

use crate::prctl::die_with_parent;
use rustix::fs::Mode;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts a program that gets SIGKILL when the calling thread ends, and that creates files with the umask 022,
/// whatever the caller's umask is.
///
/// # Errors
/// Those of fork(2) and execve(2).
pub fn spawn_mortal(command: &mut Command) -> std::io::Result<Child> {
    let before_exec = || {
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        Ok(die_with_parent()?)
    };
    // SAFETY: between fork(2) and execve(2) the closure makes two system calls, umask(2) and prctl(2). It allocates
    // nothing, takes no lock and cannot panic; an error is a number.
    unsafe { command.pre_exec(before_exec) };
    command.spawn()
}
