//! `slim`: an image of only the files that its programs need, which is known to do what the image does.
//!
//! The image runs, as often as it is asked for, and the kernel reports which files it opens. Analysis adds what these files
//! need. A layer of these files makes a smaller image, which shares every file with the first one. It runs with the same
//! commands and probes, and only if these end as before it gets its name.

mod diff;
mod error;
mod fallback;
mod http;
mod layers;
mod listen;
mod make;
mod probe;
mod process;
mod report;
mod rights;
mod watch;

pub(crate) use fallback::{Misses, fall_back};
pub(crate) use listen::Listening;

pub use diff::slim_diff;
pub use error::SlimError;
pub use http::parse_http_probe;
pub use probe::SlimProbe;

use crate::apart::among_owners;
use crate::rootfs::Source;
use crate::run::run_beside;
use crate::{EngineError, Finished, Home, HostInit, RunRequest, open_store, prepare, remove_images};
use fallback::{WHOLE_ENDING, pair};
use listen::{Heard, Hearing};
use probe::{Probed, Prober, Times};
use rights::Rights;
use std::collections::{BTreeMap, BTreeSet};
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
    /// True if the rest is kept as an image as well.
    pub keeps_rest: bool,
    /// True if the image is a smaller one, and the result is one with the files that containers have missed in it.
    pub from_misses: bool,
    /// True if the rights that were used are told, and the smaller image has to do with them.
    pub rights: bool,
    /// Files that are known before any run; [`slim`] fills them in.
    pub learned: Learned,
}

/// Files that a smaller image has, and those that its containers have missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    pub(crate) before: Vec<String>,
    pub(crate) missed: Vec<String>,
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
    /// Seccomp profile in JSON, if the rights were asked for.
    pub profile: Option<String>,
}

/// Results of a run.
struct Recorded {
    uses: BTreeMap<Vec<u8>, Use>,
    /// Rights that were used.
    heard: Heard,
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
    let name = name(&request)?;
    let image = match request.from_misses {
        true => learn(home, &mut request)?,
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
        (tell, warn),
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

/// Names both images: the whole first, so that a smaller image with a name has it.
fn publish(home: &Home, report: &mut Report, name: &Reference) -> Result<(), EngineError> {
    if !report.fat_id.is_empty() {
        let whole = format!("{}{WHOLE_ENDING}:{}", name.familiar_name(), name.version());
        tote_images::tag(home, &report.fat_id, &whole)?;
        report.fat = Reference::parse(&whole)?.familiar();
    }
    tote_images::tag(home, &report.slim_id, &name.familiar())?;
    Ok(())
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

/// Runs the smaller image with the commands of all runs: with the least rights that are enough, where rights are given.
/// Returns the capabilities that were.
fn verify_all(
    home: &Home,
    (image, id): (&Digest, &Digest),
    (request, recorded): (&SlimRequest, &[Recorded]),
    rights: Option<&Rights>,
    (tell, warn): (&mut dyn FnMut(SlimStep<'_>), &mut dyn FnMut(String)),
) -> Result<(Vec<RunReport>, BTreeSet<String>), EngineError> {
    let ways: Vec<How<'_>> = match rights {
        Some(rights) => rights.attempts.iter().map(|set| How::With(rights, set)).collect(),
        // It is known what the image does.
        None if id == image => return Ok(Default::default()),
        None => vec![How::Plain],
    };
    let mut last = Ok(Default::default());
    for how in ways {
        let mut reports = Vec::new();
        last = Ok(Default::default());
        for (number, before) in recorded.iter().enumerate() {
            tell(SlimStep::Verifies(number + 1, recorded.len()));
            match verify(home, id, (request, number), (before, &how), warn) {
                Ok(report) => reports.push(report),
                Err(error) => {
                    last = Err(error);
                    break;
                }
            }
        }
        if last.is_ok() {
            let capabilities = match how {
                How::With(_, set) => set.clone(),
                _ => BTreeSet::new(),
            };
            return Ok((reports, capabilities));
        }
    }
    last
}

/// Way of a run.
enum How<'a> {
    /// Files and rights are told.
    Traced,
    /// As a user would run it.
    Plain,
    /// With rights and capabilities.
    With(&'a Rights, &'a BTreeSet<String>),
}

/// The name of the result.
fn name(request: &SlimRequest) -> Result<Reference, EngineError> {
    let name = match &request.name {
        Some(name) => Reference::parse(name)?,
        None => {
            let given = Reference::parse(&request.name_of_image)?;
            if request.from_misses {
                return Ok(given);
            }
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

/// Runs an image once.
fn run(
    home: &Home,
    (image, command): (&Digest, &[String]),
    (request, number): (&SlimRequest, usize),
    how: &How<'_>,
    warn: &mut dyn FnMut(String),
) -> Result<Recorded, EngineError> {
    let of_run = run_request((image, command), request, how)?;
    let count = u32::try_from(number + 1).unwrap_or(0);
    let is_traced = matches!(how, How::Traced);
    let mut watch = match RootWatch::new(count) {
        Ok(watch) => Some(watch).filter(|_| is_traced),
        // Only root may ask the kernel for reports of opened files; others listen to the calls.
        Err(Errno::PERM) => None,
        Err(errno) => return Err(SlimError::Watch(errno).into()),
    };
    let hearing = Hearing {
        files: watch.is_none(),
        rights: request.rights,
    };
    let hearing = Some(hearing).filter(|hearing| is_traced && (hearing.files || hearing.rights));
    let mut prepared = prepare(home, of_run, false, None)?;
    let probes = if number == 0 { &request.probes[..] } else { &[] };
    let id = prepared.container().id.clone();
    let mut prober = Prober::new(
        home,
        id,
        probes,
        times(request, probes),
        hearing.map(|hearing| (hearing, count)),
    );
    let begin = Instant::now();
    let mut listening = hearing.map(|hearing| Listening::new(hearing, count));
    let mut asides: Vec<&mut dyn Aside> = vec![&mut prober];
    if let Some(watch) = &mut watch {
        prepared.plan.watch_root();
        asides.push(watch);
    }
    if let Some(listening) = &mut listening {
        listening.listen_to(&mut prepared.plan)?;
        asides.push(listening);
    }
    let finished: Finished = run_beside(home, prepared, (None, asides), None, warn)?;
    let mut probed = prober.results()?;
    let mut heard = listening.map(Listening::heard).transpose()?.unwrap_or_default();
    heard.add(std::mem::take(&mut probed.heard));
    let traced_by = match (&watch, is_traced) {
        (_, false) => "",
        (Some(_), true) => "fanotify",
        (None, true) => "seccomp",
    };
    let mut uses = watch.map(RootWatch::uses).transpose()?.unwrap_or_default();
    for (path, how) in std::mem::take(&mut heard.uses) {
        uses.entry(path).or_insert_with(|| how.into());
    }
    let report = RunReport {
        of_slim: !is_traced,
        command: command.join(" "),
        traced_by: traced_by.to_owned(),
        exit_code: (!probed.stopped).then_some(finished.exit_code),
        files: uses.len() as u64,
        probes: probed.probes.clone(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    Ok(Recorded {
        uses,
        heard,
        report,
        probed,
        code: finished.exit_code,
    })
}

fn run_request(
    (image, command): (&Digest, &[String]),
    request: &SlimRequest,
    how: &How<'_>,
) -> Result<RunRequest, EngineError> {
    let mut options = request.options.clone();
    options.command = command.to_vec();
    options.rm = true;
    options.set("driver", "overlay")?;
    options.set("no-healthcheck", "true")?;
    if !request.show_output {
        options.attach = vec![Stream::Stdin];
    }
    if let How::With(rights, capabilities) = how {
        rights.give(&mut options, capabilities);
    }
    Ok(RunRequest {
        image: Image::Stored(image.to_string()),
        options,
        given: request.given.clone(),
        kept: false,
        init: HostInit::default(),
    })
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
    id: &Digest,
    (request, number): (&SlimRequest, usize),
    (before, how): (&Recorded, &How<'_>),
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
    let commands = [&request.options.command];
    let words = commands.into_iter().chain(&request.also).nth(number);
    let words = words.map_or(&[][..], Vec::as_slice);
    match run(home, (id, words), (request, number), how, warn) {
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
