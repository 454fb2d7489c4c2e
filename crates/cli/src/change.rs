//! `tote commit`, `tote diff` and `tote export`.

use crate::home::home;
use crate::image::given::note_image;
use crate::output::archive_to;
use crate::tell::{print, print_made, warning};
use std::collections::BTreeMap;
use std::process::ExitCode;
use tote_engine::{Changed, CommitOptions, EngineError, Status};
use tote_options::Parsed;

fn word(parsed: &Parsed, at: usize) -> Option<String> {
    let word = parsed.positionals().get(at)?;
    Some(word.to_string_lossy().into_owned())
}

fn text(parsed: &Parsed, option: &str) -> String {
    let value = parsed.value(option).unwrap_or_default();
    value.to_string_lossy().into_owned()
}

pub(crate) fn commit(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let options = CommitOptions {
        author: text(parsed, "author"),
        message: text(parsed, "message"),
        changes: parsed
            .all("change")
            .map(|change| change.to_string_lossy().into_owned())
            .collect(),
        pause: parsed.value("pause").is_none_or(|value| value == "true"),
    };
    let container = word(parsed, 0).unwrap_or_default();
    let committed = tote_engine::commit(&home(parsed)?, &container, word(parsed, 1).as_deref(), &options)?;
    if committed.went_on {
        warning("the container went on meanwhile, because this user cannot suspend it");
    }
    note_image(parsed, &committed.id)?;
    Ok(print_made(&committed.id.to_string(), "the image is"))
}

pub(crate) fn diff(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let format = text(parsed, "format");
    if !matches!(&*format, "" | "json") {
        return Err(EngineError::Usage(format!(
            "--format {format:?}: the only supported format is json"
        )));
    }
    let mut lines = String::new();
    let mut lists = BTreeMap::<&str, Vec<String>>::new();
    tote_engine::changes(
        &home(parsed)?,
        &word(parsed, 0).unwrap_or_default(),
        &mut |changed: Changed| {
            if format.is_empty() {
                lines += &line(&changed);
            } else {
                lists.entry(list(changed.status)).or_default().push(changed.path);
            }
        },
    )?;
    if !format.is_empty() {
        lines = serde_json::to_string(&lists).unwrap_or_default() + "\n";
    }
    Ok(print(&lines))
}

/// Names podman's list of these changes.
fn list(status: Status) -> &'static str {
    match status {
        Status::Added => "added",
        Status::Changed => "changed",
        Status::Deleted => "deleted",
    }
}

/// Formats a change in docker's words.
pub(crate) fn line(changed: &Changed) -> String {
    let letter = match changed.status {
        Status::Added => 'A',
        Status::Changed => 'C',
        Status::Deleted => 'D',
    };
    format!("{letter} {}\n", changed.path)
}

pub(crate) fn export(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let container = word(parsed, 0).unwrap_or_default();
    archive_to(parsed, |out| tote_engine::export(&home(parsed)?, &container, out))
}
