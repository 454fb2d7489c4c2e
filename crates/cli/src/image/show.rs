//! `tote image inspect`, `history` and `system df`: the parts of images, and their sizes.

use crate::home::home;
use crate::image::given::platforms;
use crate::listing::{Listing, describe, only_ids};
use crate::remote::Progress;
use crate::tell::{engine_error, failure, print};
use crate::text::{ago, size, table};
use crate::words::words;
use serde_json::json;
use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tote_engine::{EngineError, ImageSelection};
use tote_options::Parsed;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let platforms = platforms(parsed)?;
    let (mut found, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for image in words(parsed) {
        match tote_engine::inspect_image(&home, &image, &platforms) {
            Ok(value) => found.push(value),
            Err(error) => {
                engine_error(&error);
                code = ExitCode::from(1);
            }
        }
    }
    match (describe(parsed, &found), code) {
        (printed, code) if code == ExitCode::SUCCESS => Ok(printed),
        (_, code) => Ok(code),
    }
}

pub(crate) fn history(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let wanted = words(parsed).pop().unwrap_or_default();
    let (id, rows) = tote_engine::history(&home(parsed)?, &wanted, &platforms(parsed)?)?;
    let whole = parsed.flag("no-trunc");
    let is_human = parsed.value("human").is_none() || parsed.flag("human");
    let id = if whole { id.to_string() } else { id.short() };
    // Only the last step is an image.
    let ids = std::iter::once(id).chain(std::iter::repeat("<missing>".to_owned()));
    if only_ids(parsed) {
        let lines = ids.take(rows.len()).map(|id| format!("{id}\n"));
        return Ok(print(&lines.collect::<String>()));
    }
    let lines = ids.zip(&rows).map(|(id, step)| {
        let mut by = crate::tell::one_line(&step.created_by);
        if !whole && by.chars().count() > 45 {
            by = by.chars().take(44).chain(['…']).collect();
        }
        let created = step.created.as_deref().unwrap_or_default();
        let at = in_seconds(created);
        json!({
            "ID": id,
            "CreatedAt": at,
            "CreatedSince": if is_human { ago(created) } else { at.clone() },
            "CreatedBy": by,
            "Size": if is_human { size(step.size) } else { step.size.to_string() },
            "Comment": crate::tell::one_line(&step.comment),
        })
    });
    let listing = Listing {
        headings: &[
            ("ID", "IMAGE"),
            ("CreatedAt", "CREATED AT"),
            ("CreatedSince", "CREATED"),
            ("CreatedBy", "CREATED BY"),
            ("Size", "SIZE"),
            ("Comment", "COMMENT"),
        ],
        columns: "{{.ID}}\t{{.CreatedSince}}\t{{.CreatedBy}}\t{{.Size}}\t{{.Comment}}".to_owned(),
        rows: lines.collect(),
        ..Listing::default()
    };
    Ok(listing.print(parsed))
}

/// Formats RFC 3339 without fractions of a second, as docker does.
fn in_seconds(time: &str) -> String {
    let Some((seconds, rest)) = time.split_once('.') else {
        return time.to_owned();
    };
    let zone = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{seconds}{zone}")
}

pub(crate) fn space(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let space = tote_engine::space(&home)?;
    let builds = tote_engine::build_space(&home)?;
    let kept = crate::system::Kept::count(&home)?;
    let usage = &space.usage;
    let all = usage.images.iter().copied();
    let (for_builds, images): (Vec<_>, Vec<_>) = all.partition(|part| builds.images.contains(&part.id));
    let built: u64 = for_builds.iter().map(|part| part.unique).sum();
    let stored = usage.stored.saturating_sub(built);
    let reclaimable = stored.saturating_sub(usage.active);
    let built = built + builds.mount_bytes;
    let mut listing = Listing {
        headings: &[
            ("Type", "TYPE"),
            ("TotalCount", "TOTAL"),
            ("Active", "ACTIVE"),
            ("Size", "SIZE"),
            ("Reclaimable", "RECLAIMABLE"),
        ],
        columns: "{{.Type}}\t{{.TotalCount}}\t{{.Active}}\t{{.Size}}\t{{.Reclaimable}}".to_owned(),
        rows: vec![json!({
            "Type": "Images",
            "TotalCount": images.len().to_string(),
            "Active": space.active.len().to_string(),
            "Size": size(stored),
            "Reclaimable": crate::system::of_all(reclaimable, stored),
            "Bytes": {
                "Stored": usage.stored,
                "Layered": usage.layered,
                "Copied": usage.copied,
                "Host": usage.host,
            },
        })],
        ..Listing::default()
    };
    listing.rows.extend(kept.rows());
    listing.rows.push(json!({
        "Type": "Build Cache",
        "TotalCount": (builds.records + builds.mounts).to_string(),
        "Active": "0",
        "Size": size(built),
        "Reclaimable": size(built),
    }));
    if parsed.value("format").is_some() {
        return Ok(listing.print(parsed));
    }
    if parsed.flag("verbose") {
        let lines = lines_of_images(&home, &space, &kept)?;
        let kept_for_builds: Vec<_> = for_builds
            .iter()
            .map(|part| (part.id.short(), part.unique))
            .collect();
        let built = (size(built), table(&lines_of_builds(&kept_for_builds)));
        return Ok(print(&format!(
            "Images space usage:\n\n{}{}\nBuild cache usage: {}\n\n{}",
            table(&lines),
            kept.tables(),
            built.0,
            built.1
        )));
    }
    listing.print(parsed);
    Ok(print(&format!(
        "\nEvery file once: {}; layers apart: {}; a copy for each image: {}; shared with the host: {}\n",
        size(usage.stored),
        size(usage.layered),
        size(usage.copied),
        size(usage.host),
    )))
}

/// Formats a table of the images that are only there for later builds, with headings.
fn lines_of_builds(parts: &[(String, u64)]) -> Vec<Vec<String>> {
    let headings = [
        "CACHE ID",
        "CACHE TYPE",
        "SIZE",
        "CREATED",
        "LAST USED",
        "USAGE",
        "SHARED",
    ];
    let line = |(id, bytes): &(String, u64)| {
        let known = [id.clone(), "regular".to_owned(), size(*bytes)];
        // What the store does not know is left empty.
        let unknown = std::iter::repeat_n(String::new(), headings.len() - known.len());
        known.into_iter().chain(unknown).collect()
    };
    std::iter::once(row(&headings))
        .chain(parts.iter().map(line))
        .collect()
}

/// Formats a table of the images' sizes, with headings.
fn lines_of_images(
    home: &tote_engine::Home,
    space: &tote_engine::Space,
    kept: &crate::system::Kept,
) -> Result<Vec<Vec<String>>, EngineError> {
    let selection = ImageSelection {
        all: true,
        ..ImageSelection::default()
    };
    let mut lines = vec![row(&[
        "REPOSITORY",
        "TAG",
        "IMAGE ID",
        "CREATED",
        "SIZE",
        "SHARED SIZE",
        "UNIQUE SIZE",
        "CONTAINERS",
    ])];
    let mut shown = HashSet::new();
    for image in tote_engine::images(home, &selection)? {
        // docker's: an image is shown by its first name alone.
        if !shown.insert(image.id) {
            continue;
        }
        let Some(part) = space.usage.images.iter().find(|part| part.id == image.id) else {
            continue;
        };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "<none>".to_owned());
        lines.push(vec![
            or_none(image.repository),
            or_none(image.tag),
            part.id.short(),
            ago(image.created.as_deref().unwrap_or_default()),
            size(part.size),
            size(part.shared),
            size(part.unique),
            kept.of_image(&part.id.to_string()).to_string(),
        ]);
    }
    Ok(lines)
}

pub(crate) fn verify(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let repair = parsed.flag("repair");
    let progress = Progress::new(false, std::io::stdout().is_terminal());
    let health = tote_engine::verify_store(&home, parsed.flag("full"), repair, &|event| {
        progress.event(event);
    })?;
    progress.end();
    let mut text = String::new();
    for (object, images) in &health.damaged {
        let images: Vec<String> = images.iter().map(tote_engine::Digest::short).collect();
        text += &format!("damaged: {object} of {}\n", images.join(", "));
    }
    for layer in &health.missing {
        text += &format!("missing: layer {layer}\n");
    }
    for broken in &health.broken {
        let word = match (health.is_mended, broken.is_lost()) {
            (true, true) => "lost",
            _ => "damaged",
        };
        text += &format!("{word}: {broken}\n");
    }
    for (layer, from) in &health.fetched {
        text += &format!("repaired: layer {layer} from {}\n", from.familiar_name());
    }
    for lost in &health.lost {
        let why = match lost.reason.as_str() {
            "" => "it did not come from a registry",
            reason => reason,
        };
        text += &format!(
            "lost: layer {} of {}: {why}\n",
            lost.layer,
            lost.images.join(", ")
        );
    }
    text += &format!("{} files, {}\n", health.objects, size(health.bytes));
    print(&text);
    if health.is_whole() {
        return Ok(ExitCode::SUCCESS);
    }
    if repair {
        let records = health.broken.iter().filter(|broken| broken.is_lost()).count();
        let hint = "load or build their images once more: only what is lost is written";
        let records = match records {
            0 => String::new(),
            count => format!(", and {count} images or names"),
        };
        let lost = format!("{} layers are lost{records}", health.lost.len());
        return Ok(failure(&lost, Some(hint), 1));
    }
    Ok(failure(
        &format!(
            "{} files, {} layers and {} records or trees are lost or damaged",
            health.damaged.len(),
            health.missing.len(),
            health.broken.len()
        ),
        Some(
            "give --repair: it makes again what it can, and fetches layers from the registries they came from",
        ),
        1,
    ))
}

#[cfg(test)]
mod tests {
    use super::in_seconds;

    #[test]
    fn parts_of_a_second_go() {
        for (time, expected) in [
            ("2019-08-20T20:19:55.211423266Z", "2019-08-20T20:19:55Z"),
            ("2019-08-20T20:19:55.2+01:00", "2019-08-20T20:19:55+01:00"),
            ("2019-08-20T20:19:55Z", "2019-08-20T20:19:55Z"),
            ("", ""),
        ] {
            assert_eq!(in_seconds(time), expected);
        }
    }
}
