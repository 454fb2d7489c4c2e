//! `tote mount` and `tote umount`, podman's.

use crate::home::home;
use crate::life::{any, chosen};
use crate::listing::{describe, show};
use crate::tell::{engine_error, print};
use crate::words::words;
use serde_json::json;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_engine::container::State;
use tote_options::Parsed;

/// Mounts containers and prints where; lists what is mounted if none is named.
pub(crate) fn mount(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if words(parsed).is_empty() && !parsed.flag("all") {
        let rows = tote_engine::mounts(&home)?;
        if parsed.value("format").is_some_and(|format| format == "json") {
            // podman's fields, in one list as podman prints them.
            let found = rows
                .iter()
                .map(|row| json!({ "id": row.id.as_str(), "Names": [row.name], "mountpoint": row.path.display().to_string() }));
            return Ok(describe(parsed, &found.collect::<Vec<_>>()));
        }
        let whole = parsed.flag("no-trunc");
        return Ok(show(&tote_view::mounts(&rows, whole), parsed));
    }
    let mut code = ExitCode::SUCCESS;
    for wanted in chosen(&home, parsed, any)? {
        match tote_engine::mount(&home, &wanted) {
            Ok(path) => {
                print(&format!("{}\n", path.display()));
            }
            Err(error) => code = engine_error(&error),
        }
    }
    Ok(code)
}

/// Takes the mounts of containers away.
pub(crate) fn unmount(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let wanted = if parsed.flag("all") && words(parsed).is_empty() {
        let rows = tote_engine::mounts(&home)?;
        rows.iter().map(|row| row.id.to_string()).collect()
    } else {
        chosen(&home, parsed, any as fn(&State) -> bool)?
    };
    if wanted.is_empty() && !parsed.flag("all") {
        return Ok(crate::tell::usage_error(&parsed.too_few_words(1)));
    }
    let mut code = ExitCode::SUCCESS;
    for wanted in wanted {
        match tote_engine::unmount(&home, &wanted) {
            Ok(()) => {
                print(&format!("{wanted}\n"));
            }
            Err(error) => code = engine_error(&error),
        }
    }
    Ok(code)
}
