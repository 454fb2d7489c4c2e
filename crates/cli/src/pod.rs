//! `tote pod …`.

mod ps;
mod watch;

pub(crate) use ps::ps;
pub(crate) use watch::{logs, stats, top};

use crate::ask::agreed;
use crate::home::home;
use crate::life::given::parse_signal;
use crate::life::given::stop_timeout;
use crate::listing::describe;
use crate::tell::{engine_error, failure, print, print_made, warning};
use crate::words::values;
use crate::words::words;
use std::collections::BTreeMap;
use std::process::ExitCode;
use tote_engine::container::StopOptions;
use tote_engine::pod::{self, PodEntry, PodError, PodRequest};
use tote_engine::{EngineError, Home, RequestError, Signal};
use tote_options::Parsed;

/// Options of `pod create` that apply to the infra container.
const OF_INFRA: [&str; 24] = [
    "isolation",
    "hostname",
    "pid",
    "uts",
    "userns",
    "sysctl",
    "network",
    "publish",
    "network-alias",
    "ip",
    "ip6",
    "mac-address",
    "net-rate",
    "net-burst",
    "add-host",
    "no-hosts",
    "dns",
    "dns-search",
    "dns-option",
    "egress",
    "egress-keep",
    "expose",
    "publish-all",
    "shm-size",
];

/// Options of `pod create` that apply to the pod's cgroup.
const LIMITS: [&str; 7] = [
    "cgroup-parent",
    "cpus",
    "cpu-shares",
    "cpuset-cpus",
    "cpuset-mems",
    "memory",
    "memory-swap",
];

pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let text = |option: &str| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let word = words(parsed).into_iter().next();
    let name = match (text("name"), word) {
        (Some(_), Some(_)) => return Err(PodError::TwoNames.into()),
        (name, word) => name.or(word),
    };
    let given = |names: &[&str]| -> Vec<(String, String)> {
        let given = parsed.values().iter();
        let given = given.filter(|(option, _)| names.contains(&option.long));
        given
            .map(|(option, value)| (option.long.to_owned(), value.to_string_lossy().into_owned()))
            .collect()
    };
    let mut labelled = Vec::new();
    for path in values(parsed, "label-file") {
        labelled.extend(labels_in(&path)?);
    }
    // Labels of the command line win over those of files.
    labelled.extend(values(parsed, "label"));
    let request = PodRequest {
        name,
        share: text("share"),
        infra: text("infra").map(|infra| infra == "true"),
        infra_name: text("infra-name"),
        options: given(&OF_INFRA),
        limits: given(&LIMITS),
        exit_policy: text("exit-policy"),
        labels: labels(&labelled),
        id_file: parsed.value("pod-id-file").map(Into::into),
        command: tote_engine::arguments()
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    };
    if let Some(name) = request.name.as_ref().filter(|_| parsed.flag("replace")) {
        match pod::remove_named(&home, name) {
            Err(errors) if !errors.iter().all(is_missing) => return Ok(tell_all(&errors)),
            _ => {}
        }
    }
    let made = pod::create(&home, request, &mut |text| warning(&text))?;
    Ok(print_made(&made.id.to_string(), "the pod is"))
}

/// Reads labels from a file, one on each line; lines that begin with `#` are comments.
fn labels_in(path: &str) -> Result<Vec<String>, EngineError> {
    let text = std::fs::read_to_string(path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "label-file",
            attempt: "read",
            path: path.into(),
            source,
        })
    })?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

fn labels(given: &[String]) -> BTreeMap<String, String> {
    let pairs = given
        .iter()
        .map(|label| label.split_once('=').unwrap_or((label, "")));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn is_missing(error: &EngineError) -> bool {
    matches!(error, EngineError::Pod(PodError::Missing(_)))
}

/// True if the command has this flag, and it is set.
fn flag(parsed: &Parsed, long: &str) -> bool {
    parsed.takes(long) && parsed.flag(long)
}

/// Returns the files that contain ids of pods.
fn in_files(parsed: &Parsed) -> Vec<String> {
    if parsed.takes("pod-id-file") {
        values(parsed, "pod-id-file")
    } else {
        Vec::new()
    }
}

/// Lists the pods that the command names: by name, by files with ids, the latest, or all that `fit`.
fn wanted(
    parsed: &Parsed,
    home: &Home,
    fits: impl Fn(&PodEntry) -> bool,
) -> Result<Vec<String>, EngineError> {
    let mut wanted = words(parsed);
    for path in in_files(parsed) {
        wanted.push(id_in(&path)?);
    }
    let ids = || {
        let pods = pod::list(home)?.into_iter().filter(fits);
        Ok::<Vec<String>, EngineError>(pods.map(|entry| entry.pod.id.to_string()).collect())
    };
    let more = if flag(parsed, "all") {
        ids()?
    } else if flag(parsed, "latest") {
        ids()?.into_iter().take(1).collect()
    } else if wanted.is_empty() {
        return Err(EngineError::Usage(
            "you must provide at least one name or id".to_owned(),
        ));
    } else {
        Vec::new()
    };
    wanted.extend(more);
    Ok(wanted)
}

fn tell_all(errors: &[EngineError]) -> ExitCode {
    errors
        .iter()
        .fold(ExitCode::SUCCESS, |_, error| engine_error(error))
}

/// Calls `act` for each pod, and prints the returned text; a failure does not stop the others. If `passes` is true,
/// missing pods are not reported.
fn each(
    parsed: &Parsed,
    passes: bool,
    act: impl FnMut(&Home, &str) -> Result<String, Vec<EngineError>>,
) -> Result<ExitCode, EngineError> {
    each_of(parsed, passes, |entry| entry.damaged.is_none(), act)
}

/// Calls `act` as [`each`] does; `--all` means the pods that fit.
fn each_of(
    parsed: &Parsed,
    passes: bool,
    fits: impl Fn(&PodEntry) -> bool,
    mut act: impl FnMut(&Home, &str) -> Result<String, Vec<EngineError>>,
) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let mut code = ExitCode::SUCCESS;
    for wanted in wanted(parsed, &home, fits)? {
        match act(&home, &wanted) {
            Ok(text) => {
                print(&format!("{text}\n"));
            }
            Err(errors) if passes && errors.iter().all(is_missing) => {}
            Err(errors) => code = tell_all(&errors),
        }
    }
    Ok(code)
}

pub(crate) fn start(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    each(parsed, false, |home, wanted| {
        pod::start(home, wanted, &mut |text| warning(&text))?;
        Ok(wanted.to_owned())
    })
}

pub(crate) fn stop(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let options = StopOptions {
        signal: None,
        timeout: stop_timeout(parsed)?,
    };
    each(parsed, parsed.flag("ignore"), |home, wanted| {
        pod::stop(home, wanted, options)?;
        Ok(wanted.to_owned())
    })
}

/// Calls `act` with the id of each pod, and prints the ids.
fn change(
    parsed: &Parsed,
    mut act: impl FnMut(&Home, &str) -> Result<(), Vec<EngineError>>,
) -> Result<ExitCode, EngineError> {
    each(parsed, false, |home, wanted| {
        let entry = pod::find(home, wanted).map_err(|error| vec![error])?;
        let id = entry.pod.id.to_string();
        act(home, &id)?;
        Ok(id)
    })
}

pub(crate) fn restart(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    change(parsed, |home, id| {
        pod::restart(home, id, &mut |text| warning(&text))
    })
}

pub(crate) fn kill(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let signal = match parsed.value("signal") {
        Some(text) => parse_signal(&text.to_string_lossy())?,
        None => Signal::KILL,
    };
    change(parsed, |home, id| pod::kill(home, id, signal))
}

pub(crate) fn pause(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    change(parsed, pod::pause_pod)
}

pub(crate) fn unpause(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    change(parsed, pod::unpause)
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let force = parsed.flag("force");
    let timeout = stop_timeout(parsed)?;
    if timeout.is_some() && !force {
        let text = "--force option must be specified to use the --time option";
        return Err(EngineError::Usage(text.to_owned()));
    }
    let spared = spared(parsed)?;
    let passes = force || parsed.flag("ignore");
    let fits = |entry: &PodEntry| !entry.damaged.as_ref().is_some_and(|damaged| damaged.newer);
    let code = each_of(parsed, passes, fits, |home, wanted| {
        pod::remove(home, wanted, force, timeout).map(|id| id.to_string())
    })?;
    let code = if spared { ExitCode::FAILURE } else { code };
    if code == ExitCode::SUCCESS {
        // podman removes the files too, once their pods are removed.
        for path in in_files(parsed) {
            drop(std::fs::remove_file(path));
        }
    }
    Ok(code)
}

/// Reports the pods of a newer tote that `pod rm --all` leaves: they are removed only if they are named.
fn spared(parsed: &Parsed) -> Result<bool, EngineError> {
    if !flag(parsed, "all") {
        return Ok(false);
    }
    let damaged = pod::list(&home(parsed)?)?.into_iter();
    let newer = damaged
        .filter_map(|entry| entry.damaged)
        .filter(|damaged| damaged.newer);
    let reports = newer.map(|damaged| failure(&damaged.reason, None, 1));
    Ok(reports.count() > 0)
}

pub(crate) fn prune(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    if !agreed(parsed, "This will remove all stopped/exited pods..") {
        return Ok(ExitCode::SUCCESS);
    }
    let (removed, errors) = pod::prune(&home(parsed)?);
    print(&removed.iter().map(|id| format!("{id}\n")).collect::<String>());
    Ok(tell_all(&errors))
}

pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let wanted = words(parsed);
    match pod::find(&home, wanted.first().map_or("", String::as_str)) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if is_missing(&error) => Ok(ExitCode::from(1)),
        Err(error) => Err(error),
    }
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for wanted in wanted(parsed, &home, |entry| entry.damaged.is_none())? {
        match pod::find(&home, &wanted) {
            Ok(entry) => found.push(tote_view::pod_details(&home, &entry)),
            Err(error) => errors.push(error),
        }
    }
    if found.is_empty() && !errors.is_empty() {
        return Ok(tell_all(&errors));
    }
    let printed = describe(parsed, &found);
    if errors.is_empty() {
        return Ok(printed);
    }
    tell_all(&errors);
    Ok(ExitCode::from(1))
}

/// Reads the id in a file of `--pod-id-file`.
pub(crate) fn id_in(path: &str) -> Result<String, EngineError> {
    let id = std::fs::read_to_string(path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "pod-id-file",
            attempt: "read",
            path: path.into(),
            source,
        })
    })?;
    Ok(id.trim().to_owned())
}
