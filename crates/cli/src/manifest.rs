//! `tote manifest …`.

use crate::home::home;
use crate::listing::each_named;
use crate::remote::access::access_with_creds;
use crate::remote::{Progress, pushed_image};
use crate::tell::{engine_error, print, print_made};
use crate::words::words;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use tote_engine::ImagesError;
use tote_engine::{
    Access, EngineError, Home, InspectedManifest, ListRequest, MemberOptions, PullEvent, PushReport,
    PushRequest, Reference,
};
use tote_options::Parsed;
use tote_view::removal;

/// Parses the options about registries; `--insecure` is docker's.
fn access(parsed: &Parsed) -> Result<Access, EngineError> {
    let mut access = access_with_creds(parsed)?;
    if parsed.flag("insecure") {
        access.tls_verify = Some(false);
    }
    Ok(access)
}

fn member(parsed: &Parsed) -> MemberOptions {
    let one = |option| {
        let value = parsed.value(option);
        value.map(|value| value.to_string_lossy().into_owned())
    };
    let all = |option| {
        let values = parsed.all(option);
        values.map(|value| value.to_string_lossy().into_owned()).collect()
    };
    MemberOptions {
        os: one("os"),
        architecture: one("arch"),
        variant: one("variant"),
        os_version: one("os-version"),
        os_features: all("os-features"),
        annotations: all("annotation"),
    }
}

fn request(parsed: &Parsed) -> Result<ListRequest, EngineError> {
    let mut words = words(parsed);
    let list = words.remove(0);
    Ok(ListRequest {
        list,
        members: words,
        all: parsed.flag("all"),
        options: member(parsed),
        access: access(parsed)?,
    })
}

/// Shows the progress of pulls on standard error, because standard output has the result.
pub(crate) fn with_progress<T>(act: impl FnOnce(&(dyn Fn(PullEvent<'_>) + Sync)) -> T) -> T {
    let progress = Progress::new(true, false);
    let done = act(&|event| progress.event(event));
    progress.end();
    done
}

fn ready(parsed: &Parsed) -> Result<Home, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    Ok(home)
}

pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let request = request(parsed)?;
    let home = ready(parsed)?;
    with_progress(|report| tote_engine::create_manifest(&home, &request, parsed.flag("amend"), report))?;
    // docker's words.
    let name = Reference::parse(&request.list)?;
    Ok(print(&format!("Created manifest list {name}\n")))
}

pub(crate) fn add(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let request = request(parsed)?;
    let home = ready(parsed)?;
    let id = with_progress(|report| tote_engine::add_to_manifest(&home, &request, report))?;
    Ok(print_made(&id.to_string(), "the list is"))
}

pub(crate) fn annotate(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let [list, image] = words.as_slice() else {
        return Ok(ExitCode::SUCCESS);
    };
    let id = tote_engine::annotate_manifest(&ready(parsed)?, list, image, &member(parsed))?;
    Ok(print_made(&id.to_string(), "the list is"))
}

pub(crate) fn take_out(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let [list, image] = words.as_slice() else {
        return Ok(ExitCode::SUCCESS);
    };
    let id = tote_engine::remove_from_manifest(&ready(parsed)?, list, image)?;
    Ok(print_made(&id.to_string(), "the list is"))
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let verbose = parsed.flag("verbose");
    let found = tote_engine::inspect_manifest(&home(parsed)?, &name, &access(parsed)?, verbose)?;
    Ok(print(&shown(&found)))
}

/// Formats the document in lines, or its verbose form.
fn shown(found: &InspectedManifest) -> String {
    let value = tote_view::manifest_details(found);
    value.map_or_else(String::new, |value| format!("{value:#}\n"))
}

pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let is_here = tote_engine::has_manifest(&home(parsed)?, &name)?;
    Ok(ExitCode::from(u8::from(!is_here)))
}

pub(crate) fn push(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut words = words(parsed).into_iter();
    let (list, destination) = (words.next().unwrap_or_default(), words.next());
    let quiet = parsed.flag("quiet");
    let request = PushRequest {
        image: list.clone(),
        destination,
        platforms: Vec::new(),
        access: access(parsed)?,
    };
    let home = ready(parsed)?;
    // Check before anything is sent, because an image for a single platform is pushed by 'tote push'.
    if !tote_engine::has_manifest(&home, &list)? {
        return Err(ImagesError::from(tote_engine::ManifestError::NoList(list)).into());
    }
    let progress = Arc::new(Progress::new(quiet, std::io::stdout().is_terminal()));
    let told = Arc::clone(&progress);
    let report: PushReport = Arc::new(move |event| told.push_event(event));
    let pushed = tote_engine::push(&home, &request, &report);
    progress.end();
    let pushed = pushed?;
    if quiet {
        print(&format!("{}\n", pushed.digest));
    } else {
        pushed_image(&pushed, false);
    }
    if parsed.flag("purge") || parsed.flag("rm") {
        tote_engine::remove_manifest(&home, &list)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn remove(parsed: &Parsed) -> ExitCode {
    let home = match ready(parsed) {
        Ok(home) => home,
        Err(error) => return engine_error(&error),
    };
    each_named(parsed, |list| {
        match tote_engine::remove_manifest(&home, list).map_err(EngineError::from) {
            Err(error) if parsed.flag("ignore") && error.is_missing_image() => Ok(String::new()),
            removed => Ok(removed?.iter().map(removal).collect()),
        }
    })
}
