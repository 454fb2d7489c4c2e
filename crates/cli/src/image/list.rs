//! `tote images`.

use crate::home::home;
use crate::listing::{only_ids, show};
use crate::tell::{failure, print};
use std::process::ExitCode;
use tote_engine::{EngineError, ImageSelection};
use tote_options::Parsed;
use tote_view::{Listing, id_of_image, image_tree, sort_images};

/// Options that docker refuses together with `--tree`.
const NOT_WITH_TREE: [&str; 4] = ["quiet", "no-trunc", "digests", "format"];

pub(crate) fn images(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = ImageSelection {
        reference: crate::words::words(parsed).pop(),
        filters: parsed
            .all("filter")
            .map(|filter| filter.to_string_lossy().into_owned())
            .collect(),
        all: parsed.flag("all"),
    };
    if parsed.flag("tree") {
        return match NOT_WITH_TREE.iter().find(|option| parsed.value(option).is_some()) {
            Some(option) => {
                let text = format!("--{option} is not yet supported with --tree");
                Ok(failure(&text, None, 1))
            }
            None => Ok(print(&image_tree(&tote_engine::image_branches(
                &home(parsed)?,
                &selection,
            )?))),
        };
    }
    let mut rows = tote_engine::images(&home(parsed)?, &selection)?;
    if let Some(key) = parsed.value("sort")
        && !sort_images(&mut rows, &key.to_string_lossy())
    {
        let text = format!("--sort {}: there is no such key", key.display());
        return Ok(failure(
            &text,
            Some("give created, id, repository, size or tag"),
            125,
        ));
    }
    let whole = parsed.flag("no-trunc");
    if only_ids(parsed) {
        let ids: Vec<String> = rows.iter().map(|row| id_of_image(row, whole)).collect();
        return Ok(print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>()));
    }
    let listing = Listing {
        no_heading: parsed.flag("noheading"),
        ..tote_view::images(&rows, whole, parsed.flag("digests"))
    };
    Ok(show(&listing, parsed))
}
