//! `tote buildx …`, except `build` and `prune`: docker's commands about builders, of which tote has a single one,
//! and about indexes at registries.

use crate::about::VERSION;
use crate::home::home;
use crate::listing::render;
use crate::manifest::with_progress;
use crate::remote::access::access;
use crate::tell::{failure, print, say};
use crate::words::words;
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;
use tote_engine::{EngineError, MadeIndex, PushReport, ToolsRequest};
use tote_options::Parsed;
use tote_view::size;

/// Name of the only builder.
const NAME: &str = "default";

/// Refusal of any other builder.
const ONE: &str =
    "tote: there is one builder, default, which is this program: nothing is made, chosen or removed\n";

/// Accepts a new builder, and makes none.
pub(crate) fn create() -> ExitCode {
    say(ONE);
    print(&format!("{NAME}\n"))
}

/// Accepts that builders are chosen or removed, and does neither.
pub(crate) fn accept(parsed: &Parsed) -> ExitCode {
    if words(parsed).iter().any(|name| name != NAME) {
        say(ONE);
    }
    ExitCode::SUCCESS
}

pub(crate) fn version() -> ExitCode {
    print(&format!("tote {VERSION}\n"))
}

/// Lists the platforms whose programs a build can execute.
fn platforms() -> String {
    let platforms = tote_engine::build_platforms();
    let words: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    words.join(", ")
}

pub(crate) fn list() -> ExitCode {
    let lines = [
        ["NAME/NODE", "DRIVER/ENDPOINT", "STATUS", "BUILDER", "PLATFORMS"]
            .map(str::to_owned)
            .to_vec(),
        [
            format!("{NAME}*"),
            "tote".to_owned(),
            String::new(),
            String::new(),
            String::new(),
        ]
        .to_vec(),
        [
            format!(" \\_ {NAME}"),
            " \\_ this program".to_owned(),
            "running".to_owned(),
            format!("tote {VERSION}"),
            platforms(),
        ]
        .to_vec(),
    ];
    print(&tote_view::table(&lines))
}

pub(crate) fn inspect(parsed: &Parsed) -> ExitCode {
    if let Some(other) = words(parsed).into_iter().find(|name| name != NAME) {
        let text = format!("no builder {other:?} found");
        return failure(&text, Some("there is one, default"), 1);
    }
    print(&format!(
        "Name:          {NAME}\nDriver:        tote\n\nNodes:\nName:          {NAME}\nEndpoint:      this program\n\
         Status:        running\nVersion:       tote {VERSION}\nPlatforms:     {}\n",
        platforms()
    ))
}

pub(crate) fn space(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let builds = tote_engine::build_space(&home)?;
    let usage = tote_engine::space(&home)?.usage;
    let parts = usage
        .images
        .iter()
        .filter(|part| builds.images.contains(&part.id));
    let bytes = parts.map(|part| part.unique).sum::<u64>();
    let all = size(bytes + builds.mount_bytes);
    Ok(print(&format!(
        "Results of instructions:\t{}\nImages of stages:\t{} ({})\nCache mounts:\t{} ({})\nReclaimable:\t{all}\nTotal:\t{all}\n",
        builds.records,
        builds.images.len(),
        size(bytes),
        builds.mounts,
        size(builds.mount_bytes),
    )))
}

pub(crate) fn tools_inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let name = format!("docker://{}", name.trim_start_matches("docker://"));
    let found = tote_engine::inspect_manifest(&home(parsed)?, &name, &access(parsed), false)?;
    if parsed.flag("raw") {
        return Ok(print(&String::from_utf8_lossy(&found.json)));
    }
    if let Some(format) = parsed.value("format") {
        return Ok(render(
            &format.to_string_lossy(),
            &[tote_view::manifest_fields(&found)],
        ));
    }
    Ok(print(&tote_view::manifest_text(&found)))
}

pub(crate) fn tools_create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let request = ToolsRequest {
        sources: words(parsed),
        names: parsed
            .all("tag")
            .map(|tag| tag.to_string_lossy().into_owned())
            .collect(),
        append: parsed.flag("append"),
        dry_run: parsed.flag("dry-run"),
        access: access(parsed),
    };
    if request.names.is_empty() && !request.dry_run {
        return Err(EngineError::Usage(
            "cannot push an index without a name: give --tag, or --dry-run to see it".to_owned(),
        ));
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let push: PushReport = Arc::new(|_| {});
    let made = with_progress(|report| tote_engine::create_at_registry(&home, &request, report, &push))?;
    Ok(match made {
        MadeIndex::Document(json) => {
            let value: Value = serde_json::from_slice(&json).unwrap_or_default();
            print(&format!("{value:#}\n"))
        }
        MadeIndex::Pushed(pushed) => {
            let lines = pushed
                .iter()
                .map(|pushed| format!("{} {}\n", pushed.digest, pushed.name));
            print(&lines.collect::<String>())
        }
    })
}
