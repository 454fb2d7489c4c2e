//! `tote context`, and `--context`: docker's word for the engine that commands go to, which here is always this machine.

use crate::home::home;
use crate::listing::{describe, describe_each, only_ids, show};
use crate::tell::{print, say};
use crate::words::words;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;
use tote_view::{context_details, contexts};

/// The name of the one context, as with docker.
const DEFAULT: &str = "default";

/// Refuses every context but the one of this machine; docker's words.
pub(crate) fn check(name: &str) -> Result<(), EngineError> {
    match name {
        DEFAULT => Ok(()),
        other => Err(EngineError::Usage(format!(
            "context {other:?}: context not found: there is only {DEFAULT}, which is this machine"
        ))),
    }
}

pub(crate) fn ls(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    if only_ids(parsed) {
        return Ok(current(parsed));
    }
    let home = home(parsed)?;
    Ok(show(&contexts(DEFAULT, home.root()), parsed))
}

pub(crate) fn current(_: &Parsed) -> ExitCode {
    print(&format!("{DEFAULT}\n"))
}

pub(crate) fn select(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    check(&name)?;
    say(&format!("Current context is now {name:?}\n"));
    Ok(print(&format!("{name}\n")))
}

pub(crate) fn inspect(parsed: &Parsed) -> ExitCode {
    if words(parsed).is_empty() {
        return describe(parsed, &[context_details(DEFAULT)]);
    }
    describe_each(parsed, |name| {
        check(name)?;
        Ok(context_details(DEFAULT))
    })
}
