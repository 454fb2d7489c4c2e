//! `slim`: an image of only the files that its programs need, which is known to do what the image does.
//!
//! The image runs, as often as it is asked for, and the kernel reports which files it opens. Analysis adds what these files
//! need. A layer of these files makes a smaller image, which shares every file with the first one. It runs with the same
//! commands and probes, and only if these end as before it gets its name.

mod diff;
mod http;
mod layers;
mod make;
mod names;
mod probe;
mod report;
mod request;
mod rights;
mod run;
mod watch;

pub use diff::slim_diff;
pub use http::parse_http_probe;
pub use probe::SlimProbe;
pub use request::{Learned, SlimRequest, SlimStep, parse_pattern, parse_time};
pub use tote_life::slim::SlimError;

use crate::apart::among_owners;
use crate::rootfs::Source;
use crate::{EngineError, Home, open_store, remove_images};
use names::{name, publish, whole_name};
use rights::Rights;
use run::{How, Recorded, failure, run, verify_all};
use tote_bundle::Image;
use tote_image::{Digest, Reference};
use tote_images::has_ids;
use tote_life::slim::listen::Heard;
use tote_life::slim::{fallback, listen, pair, process};
use tote_slim::Report;

/// A smaller image.
#[derive(Debug)]
pub struct Slimmed {
    /// Its id; that of the image if nothing was left out.
    pub id: Digest,
    /// Report of it.
    pub report: Report,
    /// Seccomp profile in JSON, if the rights were asked for.
    pub profile: Option<String>,
}

/// Makes an image smaller, and gives the result a name if it does what the image does. This process must have one thread.
///
/// # Errors
/// [`EngineError`]; no name has changed then.
pub fn slim(
    home: &Home,
    mut request: SlimRequest,
    tell: &mut dyn FnMut(SlimStep<'_>),
    warn: &mut dyn FnMut(String),
) -> Result<Slimmed, EngineError> {
    let name = name(&request)?;
    let image = match request.from_misses {
        true => {
            let whole = learn(home, &mut request)?;
            request.name_of_image = whole_name(&Reference::parse(&request.name_of_image)?);
            whole
        }
        false => open_store(home)?.resolve(&request.name_of_image)?,
    };
    add_health_check(home, &image, &mut request)?;
    let commands: Vec<Vec<String>> = [request.options.command.clone()]
        .into_iter()
        .chain(request.also.clone())
        .collect();
    let mut recorded = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        tell(SlimStep::Runs(number + 1, commands.len()));
        let run = run(home, (&image, command), (&request, number), &How::Traced, warn)?;
        if let Some((what, why)) = failure(&run, None) {
            let image = request.name_of_image.clone();
            return Err(SlimError::Whole { image, what, why }.into());
        }
        recorded.push(run);
    }
    tell(SlimStep::Analyses);
    let mut report = made(home, &image, &request, &recorded)?;
    report.runs = recorded.iter().map(|run| run.report.clone()).collect();
    report.slim = name.familiar();
    let mut heard = Heard::default();
    recorded.iter().for_each(|run| heard.add(run.heard.clone()));
    let rights = match request.rights {
        true => Some(Rights::of(&request, &heard)?),
        false => None,
    };
    let id: Digest = open_store(home)?.resolve(&report.slim_id)?;
    let verified = verify_all(
        home,
        (&image, &id),
        (&request, &recorded),
        rights.as_ref(),
        tell,
        warn,
    );
    match verified {
        Ok((runs, capabilities)) => {
            report.runs.extend(runs);
            if rights.is_some() {
                (report.system_calls, report.ports) = (heard.calls, heard.ports);
                report.capabilities = capabilities;
            }
        }
        Err(error) => {
            if id != image {
                forget(home, &[&report.slim_id, &report.fat_id]);
            }
            return Err(error);
        }
    }
    publish(home, &mut report, &name)?;
    tell(SlimStep::Named(&report.slim));
    let profile = rights.map(|rights| rights.profile);
    Ok(Slimmed { id, report, profile })
}

/// Fills in the files of a smaller image and those that were missed in it; returns the whole.
fn learn(home: &Home, request: &mut SlimRequest) -> Result<Digest, EngineError> {
    let found = pair(home, &request.name_of_image)?;
    let store = open_store(home)?;
    let missed = store.misses(&found.whole)?;
    if missed.is_empty() {
        return Err(SlimError::NoMisses(request.name_of_image.clone()).into());
    }
    request.learned.missed = missed.into_iter().collect();
    let source = Source::open(home, &Image::Stored(found.slim.to_string()))?;
    request.learned.before = match has_ids(home) {
        true => make::files(&source)?,
        false => {
            let text = among_owners(home, || {
                Ok(serde_json::to_vec(&make::files(&source)?).map_err(SlimError::Report)?)
            })?;
            serde_json::from_slice(&text).map_err(SlimError::Report)?
        }
    };
    Ok(found.whole)
}

/// Makes the health check of the image a probe: the smaller image has the same.
fn add_health_check(home: &Home, image: &Digest, request: &mut SlimRequest) -> Result<(), EngineError> {
    let config = open_store(home)?.image(image)?;
    let Some(check) = &config.config.value().config.healthcheck else {
        return Ok(());
    };
    let command = match check.test.split_first() {
        Some((kind, line)) if kind == "CMD-SHELL" => {
            let shell = ["/bin/sh", "-c"].map(str::to_owned);
            shell.into_iter().chain(line.iter().cloned()).collect()
        }
        Some((kind, words)) if kind == "CMD" => words.to_vec(),
        _ => return Ok(()),
    };
    request.probes.push(SlimProbe::Health(command));
    Ok(())
}

/// Makes the image in the namespace of its files' owners.
fn made(
    home: &Home,
    image: &Digest,
    request: &SlimRequest,
    recorded: &[Recorded],
) -> Result<Report, EngineError> {
    if has_ids(home) {
        return make::make(home, image, request, recorded);
    }
    let text = among_owners(home, || {
        let report = make::make(home, image, request, recorded)?;
        Ok(serde_json::to_vec(&report).map_err(SlimError::Report)?)
    })?;
    Ok(serde_json::from_slice(&text).map_err(SlimError::Report)?)
}

/// Removes images that have no name.
fn forget(home: &Home, ids: &[&str]) {
    let ids: Vec<String> = ids
        .iter()
        .filter(|id| !id.is_empty())
        .map(|&id| id.to_owned())
        .collect();
    let removed = |home: &Home| remove_images(home, &ids, &[], false, &mut |_| {});
    // What cannot be removed now is an image without a name, which prune removes.
    if has_ids(home) {
        tote_sys::best_effort(removed(home));
    } else {
        tote_sys::best_effort(among_owners(home, || removed(home).map(|()| Vec::new())));
    }
}
