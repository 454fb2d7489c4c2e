//! `tote volume …`.

use crate::ask::agreed;
use crate::home::home;
use crate::listing::{describe_each, each_named, only_ids, show};
use crate::output::{archive_to, reading};
use crate::tell::{print, print_made, tell_damaged, tell_left};
use crate::words::values;
use crate::words::words;
use std::collections::BTreeMap;
use std::fs::File;
use std::process::ExitCode;
use tote_engine::{ArchiveError, EngineError, VolumeSelection};
use tote_options::Parsed;
use tote_view::{Listing, size};

pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let labels: BTreeMap<String, String> = values(parsed, "label")
        .into_iter()
        .map(|label| match label.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => (label, String::new()),
        })
        .collect();
    let driver = parsed
        .value("driver")
        .unwrap_or("local".as_ref())
        .to_string_lossy();
    let words = words(parsed);
    let option = parsed.value("name").map(|name| name.to_string_lossy());
    let name = match (words.first(), &option) {
        (Some(_), Some(_)) => {
            // docker's words.
            let text = "conflicting options: either specify --name or provide positional arg, not both";
            return Err(EngineError::Usage(text.to_owned()));
        }
        (word, option) => word.map(String::as_str).or(option.as_deref()),
    };
    let name = tote_engine::create_volume(&home(parsed)?, name, &driver, &values(parsed, "opt"), labels)?;
    Ok(print_made(&name, "the volume is"))
}

pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let is_here = tote_engine::has_volume(&home(parsed)?, &name)?;
    Ok(ExitCode::from(u8::from(!is_here)))
}

pub(crate) fn export(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    archive_to(parsed, |out| {
        tote_engine::export_volume(&reading(parsed)?, &name, out)
    })
}

pub(crate) fn import(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let [name, source] = words.as_slice() else {
        return Ok(ExitCode::FAILURE);
    };
    // Opened as the caller: the process has other ids afterwards.
    let file = match source.as_str() {
        "-" => None,
        path => Some(File::open(path).map_err(|error| ArchiveError::LayoutFile {
            path: path.into(),
            source: error,
        })?),
    };
    let home = reading(parsed)?;
    match file {
        Some(file) => tote_engine::import_volume(&home, name, file)?,
        None => tote_engine::import_volume(&home, name, std::io::stdin())?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = VolumeSelection {
        filters: values(parsed, "filter"),
    };
    let rows = tote_engine::volumes(&home(parsed)?, &selection)?;
    tell_damaged(rows.iter().map(|row| &row.error));
    if only_ids(parsed) {
        let names = rows.iter().map(|row| format!("{}\n", row.name));
        return Ok(print(&names.collect::<String>()));
    }
    let listing = Listing {
        no_heading: parsed.flag("noheading"),
        ..tote_view::volumes(&rows)
    };
    Ok(show(&listing, parsed))
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    Ok(describe_each(parsed, |name| {
        let found = tote_engine::inspect_volume(&home, name)?;
        Ok(tote_view::volume_details(&found))
    }))
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if parsed.flag("all") != words(parsed).is_empty() {
        let text = "give either volumes or --all";
        return Err(EngineError::Usage(text.to_owned()));
    }
    if parsed.flag("all") {
        tote_engine::enter_ids(&home)?;
        let pruned = tote_engine::prune_volumes(&home, true, &[])?;
        let removed = pruned.removed.iter().map(|name| format!("{name}\n"));
        let printed = print(&removed.collect::<String>());
        return Ok(tell_left(&pruned.errors).unwrap_or(printed));
    }
    Ok(each_named(parsed, |name| {
        tote_engine::remove_volume(&home, name, parsed.flag("force"))?;
        Ok(format!("{name}\n"))
    }))
}

pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let which = if parsed.flag("all") {
        "all local volumes not used by at least one container"
    } else {
        "anonymous local volumes not used by at least one container"
    };
    if !agreed(parsed, &format!("This will remove {which}.")) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let pruned = tote_engine::prune_volumes(&home, parsed.flag("all"), &values(parsed, "filter"))?;
    let mut output = String::new();
    if !pruned.removed.is_empty() {
        output = format!("Deleted Volumes:\n{}\n\n", pruned.removed.join("\n"));
    }
    let printed = print(&format!(
        "{output}Total reclaimed space: {}\n",
        size(pruned.bytes)
    ));
    Ok(tell_left(&pruned.errors).unwrap_or(printed))
}
