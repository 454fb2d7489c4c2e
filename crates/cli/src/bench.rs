//! `tote bench`: starts the program `tote-bench`, which stands beside this one.

use crate::tell::failure;
use crate::words::words;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;
use tote_options::Parsed;

/// Name of the program that measures.
const HARNESS: &str = "tote-bench";

const HINT: &str =
    "put `tote-bench` of the same release beside `tote`; in a checkout, `cargo xtask dist` makes both";

/// Runs `tote bench`. Returns only if the program could not be started.
pub(crate) fn bench(parsed: &Parsed) -> ExitCode {
    let own = match std::fs::read_link("/proc/self/exe") {
        Ok(own) => own,
        Err(error) => return failure(&format!("cannot read /proc/self/exe: {error}"), None, 125),
    };
    let harness = own.parent().unwrap_or(Path::new("/")).join(HARNESS);
    // process: command
    #[expect(
        clippy::disallowed_methods,
        reason = "this process becomes another program of the same release, named by its path; there is no container"
    )]
    let error = std::process::Command::new(&harness).args(words(parsed)).exec();
    failure(
        &format!("cannot execute {}: {error}", harness.display()),
        Some(HINT),
        125,
    )
}
