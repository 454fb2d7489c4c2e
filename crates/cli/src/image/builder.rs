//! `tote builder prune` and `tote system prune`.

use crate::ask::agreed;
use crate::home::home;
use crate::tell::{engine_error, print};
use std::process::ExitCode;
use tote_engine::{EngineError, PruneBuilds, PruneRequest, Room};
use tote_options::Parsed;
use tote_view::removal;
use tote_view::size;

/// Parses docker's options for how much of the cache stays, by their new names and their old one.
fn room(parsed: &Parsed) -> Result<Room, EngineError> {
    let size = |option| {
        let text = parsed.value(option);
        text.map(|text| Room::parse(option, &text.to_string_lossy()))
            .transpose()
    };
    let reserved = size("reserved-space")?.or(size("keep-storage")?);
    Ok(Room {
        max_used: size("max-used-space")?.unwrap_or_default(),
        reserved: reserved.unwrap_or_default(),
        min_free: size("min-free-space")?.unwrap_or_default(),
    })
}

fn which(parsed: &Parsed) -> Result<PruneBuilds, EngineError> {
    let mut which = PruneBuilds {
        all: parsed.flag("all"),
        unused_for: None,
        room: room(parsed)?,
    };
    for filter in parsed.all("filter") {
        which.filter(&filter.to_string_lossy())?;
    }
    Ok(which)
}

pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let which = which(parsed)?;
    let what = if which.all {
        "all build cache"
    } else {
        "all dangling build cache"
    };
    if !agreed(parsed, &format!("This will remove {what}.")) {
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
    listed("Deleted build cache objects:", removed.iter())
}

/// Formats docker's paragraph about one kind of object; empty if there are no such objects.
fn listed(title: &str, lines: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("{title}\n{lines}\n")
}

pub(crate) fn prune_all(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let request = PruneRequest {
        all: parsed.flag("all"),
        volumes: parsed.flag("volumes"),
        filters: crate::image::given::filters(parsed),
    };
    tote_engine::check_prune(&request)?;
    if !agreed(parsed, &warning(&request)) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let pruned = tote_engine::prune_system(&home, &request)?;
    let images = pruned.images.removed.iter().map(|removed| {
        let line = removal(removed).to_lowercase();
        line.trim_end().to_owned()
    });
    let text = [
        listed("Deleted Containers:", pruned.containers.iter()),
        listed("Deleted Volumes:", pruned.volumes.removed.iter()),
        listed("Deleted Networks:", pruned.networks.iter()),
        listed("Deleted Images:", images),
        objects(&pruned.builds.removed),
    ];
    let printed = print(&format!(
        "{}Total reclaimed space: {}\n",
        text.concat(),
        size(pruned.bytes())
    ));
    let mut code = printed;
    for error in &pruned.errors {
        code = engine_error(error);
    }
    Ok(code)
}

/// Builds docker's warning.
fn warning(request: &PruneRequest) -> String {
    let mut what = vec![
        "all stopped containers",
        "all networks not used by at least one container",
    ];
    if request.volumes {
        what.push("all anonymous volumes not used by at least one container");
    }
    what.extend(if request.all {
        [
            "all images without at least one container associated to them",
            "all build cache",
        ]
    } else {
        ["all dangling images", "unused build cache"]
    });
    let mut text = "This will remove:".to_owned();
    for line in what {
        text += &format!("\n  - {line}");
    }
    if !request.filters.is_empty() {
        text += "\n\n  Items to be pruned will be filtered with:";
        let mut filters = request.filters.clone();
        filters.sort();
        for filter in filters {
            text += &format!("\n  - {filter}");
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_says_what_goes() {
        let mut request = PruneRequest::default();
        assert_eq!(
            warning(&request),
            "This will remove:\n  - all stopped containers\n  - all networks not used by at least one container\n  - all dangling images\n  - unused build cache\n"
        );
        (request.all, request.volumes) = (true, true);
        request.filters = vec!["label=b".to_owned(), "label!=a".to_owned()];
        let text = warning(&request);
        assert!(
            text.contains(
                "\n  - all anonymous volumes not used by at least one container\n  - all images without"
            ),
            "{text}"
        );
        assert!(
            text.ends_with(
                "\n  - all build cache\n\n  Items to be pruned will be filtered with:\n  - label!=a\n  - label=b\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn nothing_has_no_title() {
        assert_eq!(listed("Deleted:", std::iter::empty::<&str>()), "");
        assert_eq!(listed("Deleted:", ["a", "b"].iter()), "Deleted:\na\nb\n\n");
    }
}
