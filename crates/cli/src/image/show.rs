//! What images are made of, and what they take.

use super::words;
use crate::text::{ago, size, table};
use crate::{engine_error, failure, home, print};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

pub(super) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let (mut found, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for image in words(parsed) {
        match tote_engine::inspect_image(&home, &image) {
            Ok(value) => found.push(value),
            Err(error) => {
                engine_error(&error);
                code = ExitCode::from(1);
            }
        }
    }
    match serde_json::to_string_pretty(&found) {
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => failure(&format!("print the image's description: {error}"), None, 1),
    };
    Ok(code)
}

pub(super) fn history(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (id, rows) = tote_engine::history(&home(parsed)?, &words(parsed).pop().unwrap_or_default())?;
    let whole = parsed.flag("no-trunc");
    let id = if whole { id.to_string() } else { id.short() };
    // Only the last step is an image.
    let ids = std::iter::once(id).chain(std::iter::repeat("<missing>".to_owned()));
    if parsed.flag("quiet") {
        let lines = ids.take(rows.len()).map(|id| format!("{id}\n"));
        return Ok(print(&lines.collect::<String>()));
    }
    let mut lines = vec![row(&["IMAGE", "CREATED", "CREATED BY", "SIZE", "COMMENT"])];
    for (id, step) in ids.zip(&rows) {
        let mut by = step.created_by.replace(['\n', '\t'], " ");
        if !whole && by.chars().count() > 45 {
            by = by.chars().take(44).chain(['…']).collect();
        }
        let created = ago(step.created.as_deref().unwrap_or_default());
        lines.push(vec![id, created, by, size(step.size), step.comment.clone()]);
    }
    Ok(print(&table(&lines)))
}

pub(super) fn space(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let space = tote_engine::space(&home(parsed)?)?;
    let usage = &space.usage;
    let idle = usage
        .images
        .iter()
        .filter(|part| !space.active.contains(&part.id));
    let reclaimable: u64 = idle.map(|part| part.unique).sum();
    let percent = (reclaimable * 100).checked_div(usage.stored).unwrap_or_default();
    let mut lines = vec![row(&["TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE"])];
    lines.push(vec![
        "Images".to_owned(),
        usage.images.len().to_string(),
        space.active.len().to_string(),
        size(usage.stored),
        format!("{} ({percent}%)", size(reclaimable)),
    ]);
    let mut text = table(&lines);
    text += &format!(
        "\nEvery file once: {}; layers apart: {}; a copy for each image: {}; shared with the host: {}\n",
        size(usage.stored),
        size(usage.layered),
        size(usage.copied),
        size(usage.host),
    );
    if parsed.flag("verbose") {
        let mut lines = vec![row(&["IMAGE ID", "SIZE", "SHARED SIZE", "UNIQUE SIZE"])];
        lines.extend(usage.images.iter().map(|part| {
            vec![
                part.id.short(),
                size(part.size),
                size(part.shared),
                size(part.unique),
            ]
        }));
        text += &format!("\n{}", table(&lines));
    }
    Ok(print(&text))
}

pub(super) fn verify(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let health = tote_engine::verify_store(&home, parsed.flag("full"), parsed.flag("repair"))?;
    let mut text = String::new();
    for (object, damage) in &health.damaged {
        let images: Vec<String> = damage.images.iter().map(tote_engine::Digest::short).collect();
        text += &format!("damaged: {object} of {}\n", images.join(", "));
    }
    for layer in &health.missing {
        text += &format!("missing: layer {layer}\n");
    }
    text += &format!("{} files, {}\n", health.objects, size(health.bytes));
    print(&text);
    if health.damaged.is_empty() && health.missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(failure(
        &format!("{} files are lost or damaged", health.damaged.len()),
        Some(if parsed.flag("repair") {
            "they are forgotten: load or pull these images once more"
        } else {
            "give --repair, and load or pull these images once more"
        }),
        1,
    ))
}
