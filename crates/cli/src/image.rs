//! `tote image …`, and docker's shorter names of the same commands.

mod base;
pub(crate) mod builder;
pub(crate) mod given;
mod list;
mod loading;
mod save;
mod show;
mod tree;

pub(crate) use base::{bootstrap, trace};
pub(crate) use list::images;
pub(crate) use save::{import, save};
pub(crate) use show::{history, inspect, space, verify};
pub(crate) use tree::tree;

use crate::home::home;
use crate::image::given::filters;
use crate::image::given::platform;
use crate::image::given::platforms;
use crate::tell::{engine_error, failure, print, say, warning};
use crate::words::words;
use loading::Shown;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{EngineError, LoadSource, Loaded, RemovedImage, RequestError};
use tote_options::Parsed;
use tote_view::removal;

pub(crate) fn load(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let platform = platform(parsed)?;
    let platform = platform.as_ref();
    let quiet = parsed.flag("quiet");
    let loaded = match parsed.value("input").map(Path::new) {
        // absence: opening the file reports the reason
        Some(path) if std::fs::metadata(path).is_ok_and(|found| found.is_dir()) => {
            tote_engine::load(&home, LoadSource::<std::io::Empty>::Layout(path), platform)?
        }
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|source| {
                EngineError::Request(RequestError::File {
                    option: "input",
                    attempt: "open",
                    path: path.to_owned(),
                    source,
                })
            })?;
            tote_engine::load(&home, LoadSource::Archive(Shown::file(file, quiet)), platform)?
        }
        None => {
            let input = std::io::stdin();
            if input.is_terminal() {
                say(
                    "tote: requested load from stdin, but stdin is empty\n  hint: give -i FILE, or pipe an archive into it\n",
                );
                return Ok(ExitCode::from(1));
            }
            tote_engine::load(&home, LoadSource::Archive(Shown::new(input, quiet)), platform)?
        }
    };
    for image in &loaded {
        report(image);
    }
    Ok(ExitCode::SUCCESS)
}

fn report(image: &Loaded) {
    if image.left_out > 0 {
        warning(&format!(
            "{} device nodes of the image could not be made and are left out",
            image.left_out
        ));
    }
    for (name, before) in &image.renamed {
        let name = name.familiar();
        say(&format!(
            "The image {name} already exists, renaming the old one with ID {before} to empty string\n"
        ));
    }
    if image.names.is_empty() {
        print(&format!("Loaded image ID: {}\n", image.id));
    }
    for name in &image.names {
        print(&format!("Loaded image: {}\n", name.familiar()));
    }
}

pub(crate) fn tag(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    if let [image, name] = words.as_slice() {
        tote_engine::tag(&home(parsed)?, image, name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `tote untag`, podman's.
pub(crate) fn untag(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    if let Some((image, names)) = words(parsed).split_first() {
        tote_engine::untag(&home(parsed)?, image, names)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `tote image exists`, podman's.
pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let image = words(parsed).pop().unwrap_or_default();
    let is_here = tote_engine::has_image(&home(parsed)?, &image)?;
    Ok(ExitCode::from(u8::from(!is_here)))
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    if words(parsed).is_empty() != parsed.flag("all") {
        return Ok(match parsed.flag("all") {
            true => failure("give either images or --all", Some("see 'tote rmi --help'"), 125),
            false => crate::tell::usage_error(&parsed.too_few_words(1)),
        });
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let platforms = platforms(parsed)?;
    let mut code = ExitCode::SUCCESS;
    let mut wanted = words(parsed);
    if parsed.flag("all") {
        wanted = tote_engine::image_names(&home)?;
    }
    if parsed.flag("ignore") {
        wanted.retain(|image| !matches!(tote_engine::has_image(&home, image), Ok(false)));
    }
    let mut tell = |done: Result<Vec<RemovedImage>, EngineError>| match done {
        Ok(removed) => {
            print(&removed.iter().map(removal).collect::<String>());
        }
        Err(error) => {
            engine_error(&error);
            // docker's -f reports a missing image, and counts it as removed.
            if !(error.is_missing_image() && parsed.flag("force")) {
                code = ExitCode::from(1);
            }
        }
    };
    tote_engine::remove_images(&home, &wanted, &platforms, parsed.flag("force"), &mut tell)?;
    Ok(code)
}

pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let all = parsed.flag("all");
    let which = if all {
        "all images without at least one container associated to them"
    } else {
        "all dangling images"
    };
    if !crate::ask::agreed(parsed, &format!("This will remove {which}.")) {
        return Ok(ExitCode::SUCCESS);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let pruned = tote_engine::prune_images(&home, all, &filters(parsed))?;
    let mut text = String::new();
    if !pruned.removed.is_empty() {
        text += "Deleted Images:\n";
        text += &pruned
            .removed
            .iter()
            .map(|removed| removal(removed).to_lowercase())
            .collect::<String>();
        text.push('\n');
    }
    let printed = print(&format!(
        "{text}Total reclaimed space: {}\n",
        tote_view::size(pruned.bytes)
    ));
    Ok(crate::tell::tell_left(&pruned.errors).unwrap_or(printed))
}
