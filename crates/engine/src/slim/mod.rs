//! `slim`: an image of only the files that its programs need, which is known to do what the image does.
//!
//! The image runs, as often as it is asked for, and the kernel reports which files it opens. Analysis adds what these files
//! need. A layer of these files makes a smaller image, which shares every file with the first one. It runs with the same
//! commands and probes, and only if these end as before it gets its name.

mod diff;
mod error;
mod http;
mod make;
mod probe;
mod report;
mod watch;

pub use diff::slim_diff;
pub use error::SlimError;
pub use http::parse_http_probe;
pub use probe::SlimProbe;

use crate::apart::among_owners;
use crate::run::run_beside;
use crate::{EngineError, Finished, Home, HostInit, RunRequest, open_store, prepare, remove_images};
use probe::{Probed, Prober, Times};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tote_bundle::{Image, RunOptions, Stream};
use tote_image::{Digest, Reference};
use tote_images::{ImagesError, has_ids};
use tote_needs::{Pattern, Use};
use tote_runtime::Aside;
use tote_slim::{Report, RunReport};
use tote_sys::Errno;
use watch::RootWatch;

/// Ending of the name of a smaller image, where none is given.
const ENDING: &str = ".slim";

/// Request to make an image smaller.
#[derive(Debug)]
pub struct SlimRequest {
    /// Image, as the user names it.
    pub name_of_image: String,
    /// Name of the smaller image; the image's with `.slim` at the end of its repository if not given.
    pub name: Option<String>,
    /// Options of its runs; their command is that of the first run.
    pub options: RunOptions,
    /// Options of its runs as they were given, by their long names.
    pub given: Vec<(String, String)>,
    /// Commands of further runs, to which no question is put.
    pub also: Vec<Vec<String>>,
    /// Questions to the first run.
    pub probes: Vec<SlimProbe>,
    /// Time for which each run lasts at least, unless it ends by itself.
    pub run_for: Option<Duration>,
    /// Time in which each probe has to pass.
    pub probe_timeout: Duration,
    /// Paths to keep, with everything below.
    pub include_paths: Vec<String>,
    /// Programs to keep, with what they need.
    pub include_bins: Vec<String>,
    /// Further such paths, from files.
    pub include_from: Vec<String>,
    /// True if the shell stays.
    pub include_shell: bool,
    /// Paths that do not stay, whatever needs them.
    pub excludes: Vec<Pattern>,
    /// True if databases of packages stay.
    pub keep_metadata: bool,
    /// True if the container's output is shown.
    pub show_output: bool,
}

/// Step of the work, for people who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlimStep<'a> {
    /// The image runs: the number of the run, and of all runs.
    Runs(usize, usize),
    /// The image's files are looked through, and the layer is made.
    Analyses,
    /// The smaller image runs.
    Verifies(usize, usize),
    /// The smaller image got this name.
    Named(&'a str),
}

/// A smaller image.
#[derive(Debug)]
pub struct Slimmed {
    /// Its id; that of the image if nothing was left out.
    pub id: Digest,
    /// Report of it.
    pub report: Report,
}

/// Results of a run.
struct Recorded {
    uses: BTreeMap<Vec<u8>, Use>,
    report: RunReport,
    probed: Probed,
    code: u8,
}

/// Parses a value of `--exclude-pattern`.
///
/// # Errors
/// [`SlimError::Pattern`].
pub fn parse_pattern(text: &str) -> Result<Pattern, SlimError> {
    Pattern::parse(text).map_err(|source| SlimError::Pattern {
        text: text.to_owned(),
        source,
    })
}

/// Parses a time in Go's syntax, or a number of seconds.
///
/// # Errors
/// [`SlimError::Time`].
pub fn parse_time(option: &'static str, text: &str) -> Result<Duration, SlimError> {
    let seconds = text
        .parse::<u32>()
        .ok()
        .map(|seconds| Duration::from_secs(seconds.into()));
    let parsed = || tote_calendar::parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    let time = seconds.or_else(|| parsed().map(Duration::from_nanos));
    time.ok_or_else(|| SlimError::Time {
        option,
        text: text.to_owned(),
    })
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
    let image = open_store(home)?.resolve(&request.name_of_image)?;
    let name = name(&request)?;
    add_health_check(home, &image, &mut request)?;
    let commands: Vec<Vec<String>> = [request.options.command.clone()]
        .into_iter()
        .chain(request.also.clone())
        .collect();
    let mut recorded = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        tell(SlimStep::Runs(number + 1, commands.len()));
        let run = run(home, (&image, command), (&request, number), true, warn)?;
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
    let id: Digest = open_store(home)?.resolve(&report.slim_id)?;
    if id != image {
        for (number, (command, before)) in commands.iter().zip(&recorded).enumerate() {
            tell(SlimStep::Verifies(number + 1, commands.len()));
            let verified = verify(home, (&id, command), (&request, number), before, warn);
            match verified {
                Ok(run) => report.runs.push(run),
                Err(error) => {
                    forget(home, &id);
                    return Err(error);
                }
            }
        }
    }
    tote_images::tag(home, &id.to_string(), &name.familiar())?;
    tell(SlimStep::Named(&report.slim));
    Ok(Slimmed { id, report })
}

/// The name of the result.
fn name(request: &SlimRequest) -> Result<Reference, EngineError> {
    let name = match &request.name {
        Some(name) => Reference::parse(name)?,
        None => {
            let given = Reference::parse(&request.name_of_image)?;
            let version = match given.digest() {
                Some(_) => "latest".to_owned(),
                None => given.version(),
            };
            Reference::parse(&format!("{}{ENDING}:{version}", given.familiar_name()))?
        }
    };
    if name.digest().is_some() {
        return Err(ImagesError::TagIsDigest(name.familiar()).into());
    }
    Ok(name)
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

/// Runs an image once, traced or not.
fn run(
    home: &Home,
    (image, command): (&Digest, &[String]),
    (request, number): (&SlimRequest, usize),
    traced: bool,
    warn: &mut dyn FnMut(String),
) -> Result<Recorded, EngineError> {
    let mut options = request.options.clone();
    options.command = command.to_vec();
    options.rm = true;
    options.set("driver", "overlay")?;
    options.set("no-healthcheck", "true")?;
    if !request.show_output {
        options.attach = vec![Stream::Stdin];
    }
    let of_run = RunRequest {
        image: Image::Stored(image.to_string()),
        options,
        given: request.given.clone(),
        kept: false,
        init: HostInit::default(),
    };
    let mut watch = match traced {
        true => Some(RootWatch::new(u32::try_from(number + 1).unwrap_or(0)).map_err(not_watched)?),
        false => None,
    };
    let mut prepared = prepare(home, of_run, false, None)?;
    let probes = if number == 0 { &request.probes[..] } else { &[] };
    let mut prober = Prober::new(
        home,
        prepared.container().id.clone(),
        probes,
        times(request, probes),
    );
    let begin = Instant::now();
    let mut asides: Vec<&mut dyn Aside> = vec![&mut prober];
    if let Some(watch) = &mut watch {
        prepared.plan.watch_root();
        asides.push(watch);
    }
    let finished: Finished = run_beside(home, prepared, (None, asides), None, warn)?;
    let probed = prober.results()?;
    let uses = watch.map(RootWatch::uses).transpose()?.unwrap_or_default();
    let report = RunReport {
        of_slim: !traced,
        command: command.join(" "),
        traced_by: if traced {
            "fanotify".to_owned()
        } else {
            String::new()
        },
        exit_code: (!probed.stopped).then_some(finished.exit_code),
        files: uses.len() as u64,
        probes: probed.probes.clone(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    Ok(Recorded {
        uses,
        report,
        probed,
        code: finished.exit_code,
    })
}

fn not_watched(errno: Errno) -> SlimError {
    match errno {
        Errno::PERM => SlimError::NotRoot,
        errno => SlimError::Watch(errno),
    }
}

/// A run that nothing is asked lasts until its end, but not for ever.
fn times(request: &SlimRequest, probes: &[SlimProbe]) -> Times {
    const ALONE: Duration = Duration::from_secs(10);
    let run_for = match request.run_for {
        Some(run_for) => run_for,
        None if probes.is_empty() => ALONE,
        None => Duration::ZERO,
    };
    Times {
        run_for,
        probe: request.probe_timeout,
    }
}

/// Returns how a run failed, and why: a probe, or an end with another exit code than `wanted`, or than 0.
fn failure(run: &Recorded, wanted: Option<&Recorded>) -> Option<(String, String)> {
    if let Some(probe) = run.probed.probes.iter().find(|probe| !probe.passed) {
        return Some((format!("{} fails", probe.probe), probe.output.clone()));
    }
    let command = match &run.report.command[..] {
        "" => "the image's command",
        command => command,
    };
    let ended = |what: &str| Some((what.replace("{}", command), format!("exit code {}", run.code)));
    match wanted {
        None if !run.probed.stopped && run.code != 0 => ended("{} fails"),
        Some(before) if run.probed.stopped != before.probed.stopped => ended(match run.probed.stopped {
            true => "{} does not end",
            false => "{} ends",
        }),
        Some(before) if !run.probed.stopped && run.code != before.code => ended("{} fails"),
        _ => None,
    }
}

fn verify(
    home: &Home,
    ran: (&Digest, &[String]),
    (request, number): (&SlimRequest, usize),
    before: &Recorded,
    warn: &mut dyn FnMut(String),
) -> Result<RunReport, EngineError> {
    let failed = |(what, why)| SlimError::Smaller {
        image: request.name_of_image.clone(),
        what,
        why,
    };
    let command = match &before.report.command[..] {
        "" => "the image's command",
        command => command,
    };
    match run(home, ran, (request, number), false, warn) {
        Ok(run) => match failure(&run, Some(before)) {
            Some(found) => Err(failed(found).into()),
            None => Ok(run.report),
        },
        Err(error @ EngineError::Run(_)) => {
            let why = tote_sys::chain(&error);
            Err(failed((format!("{command} does not start"), why)).into())
        }
        Err(error) => Err(error),
    }
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

/// Removes an image that has no name.
fn forget(home: &Home, id: &Digest) {
    let removed = |home: &Home| remove_images(home, &[id.to_string()], &[], false, &mut |_| {});
    // What cannot be removed now is an image without a name, which prune removes.
    if has_ids(home) {
        tote_sys::best_effort(removed(home));
    } else {
        tote_sys::best_effort(among_owners(home, || removed(home).map(|()| Vec::new())));
    }
}
