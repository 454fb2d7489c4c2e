//! `tote ps`.

use crate::home::home;
use crate::listing::{only_ids, show};
use crate::tell::{failure, print};
use crate::words::values;
use std::process::ExitCode;
use tote_engine::{EngineError, Selection};
use tote_options::Parsed;
use tote_view::{ContainerColumns, Listing, id_of};

pub(crate) fn ps(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let last = match last(parsed) {
        Ok(last) => last,
        Err(code) => return Ok(code),
    };
    let format = parsed.value("format").and_then(std::ffi::OsStr::to_str);
    // docker computes sizes only if they are shown.
    let sizes = parsed.flag("size") || format.is_some_and(|format| format.contains(".Size"));
    let home = home(parsed)?;
    if sizes {
        tote_engine::enter_ids(&home)?;
    }
    tote_engine::repair_networks(&home);
    let selection = Selection {
        all: parsed.flag("all"),
        last,
        filters: values(parsed, "filter"),
    };
    let mut entries = tote_engine::select(&home, &selection)?;
    if let Some(key) = parsed.value("sort")
        && !tote_view::sort_containers(&home, &mut entries, &key.to_string_lossy())
    {
        let text = format!("--sort {}: there is no such key", key.display());
        let keys = "command, created, id, image, names, runningfor, size or status";
        return Ok(failure(&text, Some(&format!("give {keys}")), 125));
    }
    let whole = parsed.flag("no-trunc");
    if only_ids(parsed) {
        let ids = entries.iter().map(|entry| format!("{}\n", id_of(entry, whole)));
        return Ok(print(&ids.collect::<String>()));
    }
    if format == Some("json") && crate::podman::is_called_so() {
        let described = crate::podman::containers(&home, &entries);
        return Ok(print(&format!("{described:#}\n")));
    }
    let wanted = ContainerColumns {
        whole,
        sizes,
        namespaces: parsed.flag("ns"),
        pods: parsed.flag("pod"),
        format,
        is_usual: parsed.setting("format").is_none(),
    };
    let listing = Listing {
        no_heading: parsed.flag("noheading"),
        ..tote_view::containers(&home, &entries, wanted)
    };
    Ok(show(&listing, parsed))
}

/// Parses `-l` and `-n`; docker takes -1 for all.
fn last(parsed: &Parsed) -> Result<Option<usize>, ExitCode> {
    if parsed.flag("latest") {
        return Ok(Some(1));
    }
    match parsed.number::<i64>("last") {
        Ok(Some(last)) => Ok(usize::try_from(last).ok()),
        Ok(None) => Ok(None),
        Err(error) => Err(failure(&error.to_string(), Some(&error.hint()), 125)),
    }
}
