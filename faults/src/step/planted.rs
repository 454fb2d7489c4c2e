//! Command with a planted fault: a stepper that does not find it cannot be trusted about other commands.

use super::scenario::Front;
use super::tracer::{self, Deed, Fault, Plan};
use super::waiting::Waiting;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// First word of this program's command line when it plays the careless command.
pub(crate) const CARELESS: &str = "--careless";

/// Replaces a file carelessly: removes it first, and ignores any failure to write the new one.
///
/// # Errors
/// Fails if the file cannot be removed.
pub(crate) fn careless(path: &Path) -> Result<()> {
    fs::remove_file(path).context("remove the old file")?;
    drop(fs::write(path, "precious"));
    Ok(())
}

/// Tries the careless command in an empty directory: a kill after its removal must lose the file, and so must a
/// failed write that is not reported. A run without a fault must keep the file.
///
/// # Errors
/// Fails if the stepper misses one of the faults.
pub(crate) fn is_found(waiting: &Waiting, place: &Path) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("make {}", place.display()))?;
    let file = place.join("file");
    let own = std::env::current_exe().context("find this program")?;
    let words = [CARELESS.to_owned(), file.to_string_lossy().into_owned()];
    let run = |fault| {
        fs::write(&file, "precious").context("write a file")?;
        let plan = Plan {
            fault,
            front: Front::Files,
            lingers: false,
            limit: Duration::from_secs(20),
            scratch: place.to_owned(),
        };
        let outcome = tracer::run(waiting, &own, &words, &plan)?;
        let kept = fs::read_to_string(&file).is_ok_and(|text| text == "precious");
        anyhow::Ok((outcome, kept))
    };
    let (quiet, kept) = run(None)?;
    ensure!(
        kept && quiet.end == tracer::End::Code(0),
        "the stepper changes what a command does"
    );
    let calls = quiet.calls.first().context("the stepper sees no process")?;
    let at = |name: &str, object: &str| {
        let place = calls
            .iter()
            .position(|call| call.name == name && call.object.ends_with(object));
        place
            .map(|place| place + 1)
            .with_context(|| format!("the stepper does not see the call {name}"))
    };
    let fail = |errno| Deed::Fail { errno, always: false };
    for (call, deed) in [
        (at("unlink", "file")? + 1, Deed::Kill),
        (at("openat", "file")?, fail(Errno::EMFILE)),
        (at("write", "file")?, fail(Errno::ENOSPC)),
    ] {
        let fault = Fault {
            process: 1,
            call,
            name: None,
            deed,
        };
        let (outcome, kept) = run(Some(fault))?;
        ensure!(
            outcome.hit.is_some() && !kept,
            "the stepper does not find a planted fault: {fault:?}"
        );
    }
    Ok(())
}
