//! `tote pod ps`.

use crate::home::home;
use crate::listing::{only_ids, text};
use crate::tell::{failure, print, tell_damaged};
use crate::words::values;
use serde_json::Value;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_engine::pod::{self, PodSelection};
use tote_options::Parsed;
use tote_view::{PodColumns, pod_report};

pub(crate) fn ps(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = PodSelection {
        filters: values(parsed, "filter"),
    };
    let home = home(parsed)?;
    let mut entries = pod::select(&home, &selection)?;
    if parsed.flag("latest") {
        entries.truncate(1);
    }
    if let Some(sort) = parsed.value("sort") {
        match sort.to_str() {
            Some("created") => {}
            Some("id") => entries.sort_by(|a, b| a.pod.id.cmp(&b.pod.id)),
            Some("name") => entries.sort_by(|a, b| a.pod.name.cmp(&b.pod.name)),
            Some("number") => entries.sort_by_key(|entry| entry.members.len()),
            Some("status") => entries.sort_by_key(|entry| entry.status.as_str()),
            _ => {
                let text = "invalid option for --sort, options are: created, id, name, number, or status";
                return Ok(failure(text, None, 125));
            }
        }
    }
    tell_damaged(
        entries
            .iter()
            .filter_map(|entry| Some(&entry.damaged.as_ref()?.reason)),
    );
    if only_ids(parsed) {
        let ids = entries.iter().map(|entry| format!("{}\n", entry.pod.id));
        return Ok(print(&ids.collect::<String>()));
    }
    let format = parsed.setting("format");
    if format.is_some_and(|format| *format == *"json") {
        let reports: Vec<Value> = entries.iter().map(|entry| pod_report(&home, entry)).collect();
        let text = serde_json::to_string_pretty(&reports).unwrap_or_default();
        return Ok(print(&format!("{text}\n")));
    }
    let wanted = PodColumns {
        whole: parsed.flag("no-trunc"),
        ids: parsed.flag("ctr-ids"),
        names: parsed.flag("ctr-names"),
        status: parsed.flag("ctr-status"),
        namespaces: parsed.flag("ns"),
    };
    let text = match text(&tote_view::pods(&home, &entries, wanted), parsed) {
        Ok(text) => text,
        Err(code) => return Ok(code),
    };
    let is_table = parsed
        .value("format")
        .is_none_or(|format| format.to_string_lossy().starts_with("table"));
    let without = text.split_once('\n').map_or("", |(_, rest)| rest);
    Ok(print(if is_table && parsed.flag("noheading") {
        without
    } else {
        &text
    }))
}
