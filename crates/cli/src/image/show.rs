//! `tote image inspect`, `history` and `system df`: the parts of images, and their sizes.

use crate::home::home;
use crate::image::given::platforms;
use crate::listing::{describe, only_ids, show};
use crate::remote::Progress;
use crate::tell::{engine_error, failure, print};
use crate::words::words;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;
use tote_view::{SpaceView, size};

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let platforms = platforms(parsed)?;
    let (mut found, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for image in words(parsed) {
        match tote_engine::inspect_image(&home, &image, &platforms) {
            Ok(details) => found.push(tote_view::image_details(&details)),
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
    let ids = tote_view::ids_of_steps(&id, rows.len(), whole);
    if only_ids(parsed) {
        let lines = ids.iter().map(|id| format!("{id}\n"));
        return Ok(print(&lines.collect::<String>()));
    }
    let is_human = parsed.value("human").is_none() || parsed.flag("human");
    Ok(show(&tote_view::history(&ids, &rows, whole, is_human), parsed))
}

pub(crate) fn space(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let space = SpaceView::count(&home)?;
    let listing = space.listing();
    if parsed.value("format").is_some() {
        return Ok(show(&listing, parsed));
    }
    if parsed.flag("verbose") {
        return Ok(print(&space.in_detail(&home)?));
    }
    show(&listing, parsed);
    Ok(print(&format!("\n{}\n", space.comparison())))
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
