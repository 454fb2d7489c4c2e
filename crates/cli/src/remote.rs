//! `tote pull`, `push`, `login`, `logout` and `search`, and how `run` gets an image that is not in the store.

pub(crate) mod access;
mod login;
pub(crate) mod present;
pub(crate) mod progress;
mod search;

pub(crate) use login::{login, logout};
pub(crate) use progress::{Progress, REDRAW, bar};
pub(crate) use search::search;

use crate::home::home;
use crate::remote::access::access_with_creds;
use crate::remote::access::name;
use crate::tell::{print, warning};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use tote_engine::{EngineError, PullRequest, Pulled, PushReport, PushRequest, PushedImage, Reference};
use tote_options::Parsed;

pub(crate) fn pull(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let quiet = parsed.flag("quiet");
    let request = PullRequest {
        image: name(parsed),
        platform: crate::image::given::platform(parsed)?,
        beside: false,
        access: access_with_creds(parsed)?,
    };
    if !quiet && !parsed.flag("all-tags") {
        tell_default_tag(&request.image);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let progress = Progress::new(quiet, std::io::stdout().is_terminal());
    let report = |event: tote_engine::PullEvent<'_>| progress.event(event);
    if parsed.flag("all-tags") {
        let mut tell = |pulled: Pulled| {
            progress.end();
            pulled_image(&pulled, quiet);
        };
        tote_engine::pull_all_tags(&home, &request, &report, &mut tell)?;
        return Ok(ExitCode::SUCCESS);
    }
    let pulled = tote_engine::pull(&home, &request, &report);
    progress.end();
    pulled_image(&pulled?, quiet);
    Ok(ExitCode::SUCCESS)
}

/// Tells the tag that a valid name without one gets; the error of an invalid name comes later.
fn tell_default_tag(image: &str) {
    if is_untagged(image) && Reference::parse(image).is_ok() {
        print("Using default tag: latest\n");
    }
}

/// True for the name of an image without a tag and a digest.
pub(crate) fn is_untagged(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    !last.contains([':', '@'])
}

/// Prints docker's last lines of a pull.
fn pulled_image(pulled: &Pulled, quiet: bool) {
    if pulled.left_out > 0 {
        let count = pulled.left_out;
        warning(&format!(
            "{count} device nodes of the image could not be made and are left out"
        ));
    }
    if !quiet {
        let what = if pulled.is_new {
            "Downloaded newer image for"
        } else {
            "Image is up to date for"
        };
        print(&format!(
            "Digest: {}\nStatus: {what} {}\n",
            pulled.digest,
            pulled.name.familiar()
        ));
    }
    print(&format!("{}\n", pulled.name));
}

pub(crate) fn push(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let quiet = parsed.flag("quiet");
    let request = PushRequest {
        image: name(parsed),
        destination: parsed
            .positionals()
            .get(1)
            .map(|word| word.to_string_lossy().into_owned()),
        platforms: crate::image::given::platforms(parsed)?,
        access: access_with_creds(parsed)?,
    };
    if !quiet && !parsed.flag("all-tags") {
        tell_default_tag(&request.image);
    }
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    let progress = Arc::new(Progress::new(quiet, std::io::stdout().is_terminal()));
    let told = Arc::clone(&progress);
    let report: PushReport = Arc::new(move |event| told.push_event(event));
    let mut tell = |pushed: PushedImage| {
        progress.end();
        pushed_image(&pushed, quiet);
    };
    let pushed = if parsed.flag("all-tags") {
        tote_engine::push_all_tags(&home, &request, &report, &mut tell)
    } else {
        tote_engine::push(&home, &request, &report).map(&mut tell)
    };
    progress.end();
    pushed?;
    Ok(ExitCode::SUCCESS)
}

/// Prints docker's last lines of a push.
pub(crate) fn pushed_image(pushed: &PushedImage, quiet: bool) {
    if quiet {
        print(&format!("{}\n", pushed.name));
    } else {
        let tag = pushed.name.tag().unwrap_or_default();
        print(&format!(
            "{tag}: digest: {} size: {}\n",
            pushed.digest, pushed.size
        ));
    }
}
