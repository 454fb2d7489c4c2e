//! `tote vm template …`.

use crate::home::home;
use crate::listing::{each_named, only_ids, show};
use crate::tell::{print, print_made, warning};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;
use tote_view::size;

/// Runs `tote vm template create`.
pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let text = |name| parsed.value(name).map(|value| value.to_string_lossy());
    let made = tote_engine::create_vm_template(&home, text("memory").as_deref(), text("cpus").as_deref())?;
    Ok(print_made(&made.id, "the template is"))
}

/// Runs `tote vm template ls`.
pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let rows = tote_engine::vm_templates(&home(parsed)?)?;
    for damaged in rows.iter().filter_map(|row| row.damaged.as_ref()) {
        warning(&damaged.told());
    }
    if only_ids(parsed) {
        let lines = rows.iter().map(|row| format!("{}\n", row.template.id));
        return Ok(print(&lines.collect::<String>()));
    }
    Ok(show(&tote_view::vm_templates(&rows), parsed))
}

/// Runs `tote vm template rm`.
pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(each_named(parsed, |name| {
        Ok(format!("{}\n", tote_engine::remove_vm_template(&home, name)?))
    }))
}

/// Runs `tote vm template prune`.
pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (names, bytes) = tote_engine::prune_vm_templates(&home(parsed)?)?;
    let mut text: String = names.iter().map(|name| format!("{name}\n")).collect();
    text += &format!("Total reclaimed space: {}\n", size(bytes));
    Ok(print(&text))
}
