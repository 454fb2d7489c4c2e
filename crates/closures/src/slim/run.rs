//! Runs of both images, and the comparison of their results.

use super::listen::{Heard, Hearing, Listening};
use super::probe::{Probed, Prober, Times};
use super::rights::Rights;
use super::watch::RootWatch;
use super::{SlimError, SlimProbe, SlimRequest, SlimStep};
use crate::run::run_beside;
use crate::{EngineError, Finished, Home, HostInit, RunRequest, prepare};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tote_bundle::{Image, Stream};
use tote_image::Digest;
use tote_needs::Use;
use tote_runtime::Aside;
use tote_slim::RunReport;
use tote_sys::Errno;

/// Results of a run.
pub(super) struct Recorded {
    pub(super) uses: BTreeMap<Vec<u8>, Use>,
    /// Rights that were used.
    pub(super) heard: Heard,
    pub report: RunReport,
    pub(super) probed: Probed,
    pub code: u8,
    /// Program of the container, and the directory that it begins in.
    pub program: (String, String),
}

/// Way of a run.
pub(super) enum How<'a> {
    /// Files and rights are told.
    Traced,
    /// With the options of the user alone.
    Plain,
    /// With rights and capabilities.
    With(&'a Rights, &'a BTreeSet<String>),
}

/// Runs the smaller image with the commands of all runs: with the least rights that are enough, where rights are given.
/// Returns the capabilities that were.
pub(super) fn verify_all(
    home: &Home,
    (image, id): (&Digest, &Digest),
    (request, recorded): (&SlimRequest, &[Recorded]),
    rights: Option<&Rights>,
    tell: &mut dyn FnMut(SlimStep<'_>),
    warn: &mut dyn FnMut(String),
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

/// Runs an image once.
pub(super) fn run(
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
    let process = prepared.spec.process.as_ref();
    let program = process.map(|process| {
        (
            process.args.first().cloned().unwrap_or_default(),
            process.cwd.clone(),
        )
    });
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
        uses.entry(path.0).or_insert_with(|| how.into());
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
        program: program.unwrap_or_default(),
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
pub(super) fn failure(run: &Recorded, wanted: Option<&Recorded>) -> Option<(String, String)> {
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
