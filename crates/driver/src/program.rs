//! The programs that make file systems. They run only when a container or an image needs a new file system.

use crate::PrepareError;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Directories of such programs, independent of the caller's PATH.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Finds a program.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    // absence: the error says which program was not found
    PLACES
        .iter()
        .map(|place| Path::new(place).join(name))
        .find(|path| path.try_exists().unwrap_or(false))
}

/// Runs a program, which Debian has in `package`.
///
/// # Errors
/// [`PrepareError::NoProgram`] if it is missing, [`PrepareError::Program`] with its output if it fails.
#[expect(
    clippy::disallowed_methods,
    reason = "what a file system looks like when it is made is for its own program to know"
)]
pub(crate) fn run(
    name: &'static str,
    package: &'static str,
    words: &[&str],
    paths: &[&Path],
) -> Result<(), PrepareError> {
    let program = find(name).ok_or(PrepareError::NoProgram { name, package })?;
    // process: programs of the host
    let mut command = std::process::Command::new(program);
    command
        .args(words)
        .args(paths)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // `output` is not used, because it panics if a read fails.
    let mut run = || {
        let mut child = command.spawn()?;
        let mut said = Vec::new();
        let read = child
            .stderr
            .take()
            .map(|mut stderr| stderr.read_to_end(&mut said));
        let status = tote_sys::await_program(&mut child)?;
        read.transpose()?;
        Ok((status, said))
    };
    let ran: std::io::Result<_> = run();
    let (status, said) = ran.map_err(|source| PrepareError::State {
        attempt: "run",
        path: PathBuf::from(name),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    // Some programs add their whole usage text.
    let lines = said.trim().lines().take_while(|line| !line.starts_with("Usage:"));
    let said = lines.collect::<Vec<_>>().join(", ");
    Err(PrepareError::Program { name, said })
}
