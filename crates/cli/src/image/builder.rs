//! `tote builder prune` and `tote system prune`.

use super::removal;
use crate::text::size;
use crate::{home, print};
use std::process::ExitCode;
use tote_engine::{EngineError, PruneBuilds};
use tote_options::Parsed;

/// Asks whether something may be removed, in docker's words.
pub(crate) fn confirmed(which: &str) -> bool {
    print(&format!(
        "WARNING! This will remove {which}.\nAre you sure you want to continue? [y/N] "
    ));
    let mut answer = String::new();
    // No answer is none.
    drop(std::io::stdin().read_line(&mut answer));
    matches!(answer.trim(), "y" | "Y" | "yes")
}

fn which(parsed: &Parsed) -> Result<PruneBuilds, EngineError> {
    let mut which = PruneBuilds {
        all: parsed.flag("all"),
        unused_for: None,
    };
    for filter in parsed.all("filter") {
        which.filter(&filter.to_string_lossy())?;
    }
    Ok(which)
}

pub(super) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let which = which(parsed)?;
    let what = if which.all {
        "all build cache"
    } else {
        "all dangling build cache"
    };
    if !parsed.flag("force") && !confirmed(what) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let pruned = tote_engine::prune_builds(&home, &which)?;
    let text = objects(&pruned.removed);
    Ok(print(&format!(
        "{text}Total reclaimed space: {}\n",
        size(pruned.bytes)
    )))
}

fn objects(removed: &[String]) -> String {
    if removed.is_empty() {
        return String::new();
    }
    format!("Deleted build cache objects:\n{}\n\n", removed.join("\n"))
}

pub(super) fn prune_all(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let which = which(parsed)?;
    let images = if which.all {
        "all images without at least one container associated to them"
    } else {
        "all dangling images"
    };
    let builds = if which.all {
        "all build cache"
    } else {
        "all dangling build cache"
    };
    if !parsed.flag("force") && !confirmed(&format!("{images}, and {builds}")) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let builds = tote_engine::prune_builds(&home, &which)?;
    // An image does not say when it was used last.
    let images = match which.unused_for {
        None => tote_engine::prune_images(&home, which.all)?,
        Some(_) => tote_engine::Pruned::default(),
    };
    let mut text = String::new();
    if !images.removed.is_empty() {
        let lines = images
            .removed
            .iter()
            .map(|removed| removal(removed).to_lowercase());
        text += &format!("Deleted Images:\n{}\n", lines.collect::<String>());
    }
    text += &objects(&builds.removed);
    let bytes = size(images.bytes + builds.bytes);
    Ok(print(&format!("{text}Total reclaimed space: {bytes}\n")))
}
