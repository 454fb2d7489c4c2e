//! `tote unshare`, podman's: a command with the ids of the caller's containers.

use crate::home::home;
use crate::tell::failure;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use tote_engine::{Caller, EngineError};
use tote_options::Parsed;

pub(crate) fn unshare(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if home.caller != Caller::User {
        let text = "cannot enter a user namespace of root's: root has the ids of all containers already";
        return Ok(failure(text, Some("run the command without 'tote unshare'"), 125));
    }
    if tote_engine::has_ids(&home) {
        tote_engine::enter_one_id()?;
    } else {
        tote_engine::enter_ids(&home)?;
    }
    let mut words = parsed.positionals().iter();
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let program = words.next().unwrap_or(&shell);
    // process: command
    #[expect(
        clippy::disallowed_methods,
        reason = "the caller names the program, which takes this one's place"
    )]
    let error = Command::new(program).args(words).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => 127,
        _ => 126,
    };
    let text = format!("cannot execute {}: {error}", program.to_string_lossy());
    Ok(failure(&text, None, code))
}
