//! Commands that start, stop, change and remove containers: `start`, `stop`, `rm` and so on.

pub(crate) mod given;

use crate::home::home;
use crate::life::given::attaching;
use crate::life::given::parse_signal;
use crate::life::given::stop_timeout;
use crate::tell::{engine_error, failure, print, refusal, tell_left, usage_error, warning};
use std::process::ExitCode;
use tote_engine::container::{self, Entry, State, StopOptions, Streams};
use tote_engine::{EngineError, Home, HostInit, RequestError, Selection, Signal};
use tote_options::Parsed;

/// Work of a command on containers.
type Work = fn(&Home, &Parsed) -> Result<ExitCode, EngineError>;

/// Runs a command on containers; its errors end with their own codes.
pub(crate) fn execute(parsed: &Parsed, work: Work) -> ExitCode {
    reported(parsed, work, engine_error)
}

/// Runs a command that changes what is recorded of containers; docker's daemon finds its errors.
pub(crate) fn change(parsed: &Parsed, work: Work) -> ExitCode {
    reported(parsed, work, refusal)
}

fn reported(parsed: &Parsed, work: Work, report: fn(&EngineError) -> ExitCode) -> ExitCode {
    if names_none(parsed) {
        return usage_error(&parsed.too_few_words(1));
    }
    let home = match home(parsed) {
        Ok(home) => home,
        Err(error) => return engine_error(&error),
    };
    work(&home, parsed).unwrap_or_else(|error| match error {
        EngineError::Usage(text) => {
            let hint = format!("see 'tote {} --help'", parsed.name());
            failure(&text, Some(&hint), 125)
        }
        error => report(&error),
    })
}

fn words(parsed: &Parsed) -> Vec<String> {
    let words = parsed.positionals().iter();
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Prints the given name of each container that succeeded, as docker does; a failure does not stop the others.
fn tell(wanted: &[String], results: Vec<Result<(), EngineError>>) -> Result<ExitCode, EngineError> {
    let mut code = ExitCode::SUCCESS;
    for (wanted, result) in wanted.iter().zip(results) {
        match result {
            Ok(()) => {
                print(&format!("{wanted}\n"));
            }
            Err(error) => code = refusal(&error),
        }
    }
    Ok(code)
}

fn each(parsed: &Parsed, work: impl FnMut(&str) -> Result<(), EngineError>) -> Result<ExitCode, EngineError> {
    each_of(&words(parsed), work)
}

fn each_of(
    wanted: &[String],
    mut work: impl FnMut(&str) -> Result<(), EngineError>,
) -> Result<ExitCode, EngineError> {
    // Each name is printed as soon as its work is done.
    let mut code = ExitCode::SUCCESS;
    for name in wanted {
        let result = work(name);
        if result.is_err() {
            code = ExitCode::FAILURE;
        }
        let told = tell(std::slice::from_ref(name), vec![result])?;
        if told != ExitCode::SUCCESS {
            code = told;
        }
    }
    Ok(code)
}

/// Lists the containers that a command names: by words, by files with ids, or by a selection. `--all` selects those
/// whose state `fits`.
pub(crate) fn chosen(
    home: &Home,
    parsed: &Parsed,
    fits: fn(&State) -> bool,
) -> Result<Vec<String>, EngineError> {
    chosen_of(home, parsed, |entry| entry.lost.is_none() && fits(&entry.state))
}

/// Lists them as [`chosen`] does, of all containers that fit: those with unreadable records as well.
fn chosen_of(
    home: &Home,
    parsed: &Parsed,
    fits: impl Fn(&Entry) -> bool,
) -> Result<Vec<String>, EngineError> {
    let has_filters = parsed.takes("filter");
    let mut wanted = words(parsed);
    let files = parsed.takes("cidfile").then(|| parsed.all("cidfile"));
    for file in files.into_iter().flatten() {
        let text = match std::fs::read_to_string(file) {
            // podman's rule: a container that was never created need not be stopped.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && parsed.flag("ignore") => continue,
            text => text.map_err(|source| {
                EngineError::Request(RequestError::File {
                    option: "cidfile",
                    attempt: "read",
                    path: file.into(),
                    source,
                })
            })?,
        };
        wanted.push(text.trim().to_owned());
    }
    let filters = has_filters.then(|| parsed.all("filter"));
    let filters: Vec<String> = filters
        .into_iter()
        .flatten()
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    if parsed.flag("all") || !filters.is_empty() {
        if !wanted.is_empty() {
            let filter = if has_filters { " and --filter" } else { "" };
            let text = format!("give either containers or --all{filter}");
            return Err(EngineError::Usage(text));
        }
        let selection = Selection {
            all: true,
            filters,
            ..Selection::default()
        };
        // The oldest come first, because others may depend on them.
        let found = tote_engine::select(home, &selection)?.into_iter().rev();
        let found = found.filter(fits);
        return Ok(found.map(|entry| entry.container.id.to_string()).collect());
    }
    Ok(wanted)
}

/// True if the command line names no containers, for a command that can name them in several ways.
fn names_none(parsed: &Parsed) -> bool {
    let is_given = |option| parsed.takes(option) && parsed.value(option).is_some();
    parsed.takes("all")
        && parsed.positionals().is_empty()
        && !(parsed.flag("all") || is_given("cidfile") || is_given("filter"))
}

/// State of containers that are selected whatever they do.
pub(crate) fn any(_: &State) -> bool {
    true
}

/// Runs `tote container exists`, podman's.
pub(crate) fn exists(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    match container::find(home, words(parsed).first().map_or("", String::as_str)) {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is_missing_container() => Ok(ExitCode::from(1)),
        Err(error) => Err(error),
    }
}

/// Drops missing containers from the results, so that they are not reported.
fn pass_over_missing(wanted: &mut Vec<String>, results: &mut Vec<Result<(), EngineError>>) {
    let missing =
        |result: &Result<(), EngineError>| result.as_ref().is_err_and(EngineError::is_missing_container);
    let keep: Vec<bool> = results.iter().map(|result| !missing(result)).collect();
    let mut kept = keep.iter();
    wanted.retain(|_| kept.next() == Some(&true));
    let mut kept = keep.iter();
    results.retain(|_| kept.next() == Some(&true));
}

pub(crate) fn start(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let wanted = chosen(home, parsed, |state| !state.runs())?;
    let (attach, interactive) = (parsed.flag("attach"), parsed.flag("interactive"));
    let mut init = HostInit::look();
    if let Some(how) = parsed.value("sdnotify") {
        init = init.telling(&how.to_string_lossy())?;
    }
    if !attach && !interactive {
        return each_of(&wanted, |wanted| {
            container::start(home, wanted, &init, &mut |text| warning(&text))
        });
    }
    let [wanted] = wanted.as_slice() else {
        return Ok(failure(
            "you cannot start and attach multiple containers at once",
            None,
            1,
        ));
    };
    let streams = Streams {
        stdin: interactive,
        stdout: true,
        stderr: true,
    };
    let how = attaching(parsed, streams);
    let finished = container::start_attached(home, wanted, &how, &init, &mut |text| warning(&text))?;
    Ok(crate::tell::finished(finished))
}

fn stop_options(parsed: &Parsed) -> Result<StopOptions, EngineError> {
    let signal = parsed
        .value("signal")
        .map(|signal| parse_signal(&signal.to_string_lossy()))
        .transpose()?;
    let timeout = stop_timeout(parsed)?;
    Ok(StopOptions { signal, timeout })
}

pub(crate) fn stop(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut wanted = chosen(home, parsed, any)?;
    let mut results = container::stop(home, &wanted, stop_options(parsed)?);
    if parsed.flag("ignore") {
        pass_over_missing(&mut wanted, &mut results);
    }
    tell(&wanted, results)
}

pub(crate) fn restart(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let wanted = chosen(home, parsed, any)?;
    for wanted in &wanted {
        container::check_restart(home, wanted)?;
    }
    let stopped = container::stop(home, &wanted, stop_options(parsed)?);
    let init = HostInit::look();
    let start = |(wanted, stopped): (&String, Result<(), EngineError>)| {
        stopped.and_then(|()| container::start(home, wanted, &init, &mut |text| warning(&text)))
    };
    let results = wanted.iter().zip(stopped).map(start).collect();
    tell(&wanted, results)
}

pub(crate) fn kill(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let signal = match parsed.value("signal") {
        Some(text) => match text.to_string_lossy().parse::<Signal>() {
            Ok(signal) => signal,
            // docker's client leaves names of signals to its daemon, so a wrong one ends with the daemon's code, 1.
            Err(error) => return Ok(failure(&error.to_string(), None, 1)),
        },
        None => Signal::KILL,
    };
    each_of(&chosen(home, parsed, State::runs)?, |wanted| {
        container::kill(home, wanted, signal)
    })
}

pub(crate) fn pause(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let wanted = chosen(home, parsed, |state| state.runs() && !state.paused)?;
    each_of(&wanted, |wanted| container::pause(home, wanted))
}

/// `tote network reload`.
pub(crate) fn reload(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    each_of(&chosen(home, parsed, State::runs)?, |wanted| {
        tote_engine::reload_network(home, wanted)
    })
}

pub(crate) fn unpause(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let wanted = chosen(home, parsed, |state| state.paused)?;
    each_of(&wanted, |wanted| container::unpause(home, wanted))
}

pub(crate) fn remove(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut wanted = chosen_of(home, parsed, |_| true)?;
    if parsed.flag("link") {
        let refused = wanted
            .iter()
            .map(|name| container::remove_link(home, name))
            .collect();
        return tell(&wanted, refused);
    }
    let (force, ignore) = (parsed.flag("force"), parsed.flag("ignore"));
    let spared = spare_newer(home, parsed, &mut wanted);
    if parsed.flag("depend") {
        wanted = depending(home, wanted)?;
    }
    if let Some(timeout) = stop_timeout(parsed)? {
        if !force {
            // podman's words.
            let text = "--force option must be specified to use the --time option";
            return Err(EngineError::Usage(text.to_owned()));
        }
        let options = StopOptions {
            signal: None,
            timeout: Some(timeout),
        };
        // A container that could not be stopped is killed, and a missing one is reported below.
        drop(container::stop(home, &wanted, options));
    }
    let mut results = container::remove(home, &wanted, force, parsed.flag("volumes"));
    // docker's -f counts missing containers as removed.
    if force || ignore {
        pass_over_missing(&mut wanted, &mut results);
    }
    let code = tell(&wanted, results)?;
    Ok(tell_left(&spared).unwrap_or(code))
}

/// Puts the containers that depend on others before them. A name of none stays, so that it is reported.
fn depending(home: &Home, wanted: Vec<String>) -> Result<Vec<String>, EngineError> {
    let mut all = container::dependents(home, &wanted)?;
    // absence: the removal reports what is wrong with it
    let missing = |name: &String| container::find(home, name).is_err();
    all.extend(wanted.into_iter().filter(missing));
    Ok(all)
}

/// Takes the containers of a newer tote out of a selection: they are removed only if they are named.
fn spare_newer(home: &Home, parsed: &Parsed, wanted: &mut Vec<String>) -> Vec<EngineError> {
    let mut spared = Vec::new();
    if words(parsed).is_empty() && parsed.all("cidfile").next().is_none() {
        wanted.retain(|id| match container::newer_record(home, id) {
            Some(error) => {
                spared.push(error);
                false
            }
            None => true,
        });
    }
    spared
}

pub(crate) fn wait(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut code = ExitCode::SUCCESS;
    let mut conditions = Vec::new();
    for word in crate::words::values(parsed, "condition") {
        let known = tote_engine::CONDITIONS.iter().find(|(name, _)| *name == word);
        let Some((_, condition)) = known else {
            let names = tote_engine::CONDITIONS.map(|(name, _)| name).join(", ");
            return Err(EngineError::Usage(format!("--condition {word}: give {names}")));
        };
        conditions.push(*condition);
    }
    for wanted in words(parsed) {
        let waited = if conditions.is_empty() {
            container::wait(home, &wanted)
        } else {
            tote_engine::wait_until(home, &wanted, &conditions)
        };
        match waited {
            Ok(status) => {
                print(&format!("{status}\n"));
            }
            Err(error) if parsed.flag("ignore") && error.is_missing_container() => {
                // podman's word for it.
                print("-1\n");
            }
            Err(error) => code = engine_error(&error),
        }
    }
    Ok(code)
}

pub(crate) fn rename(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let (Some(from), Some(to)) = (words.first(), words.get(1)) else {
        return Ok(ExitCode::FAILURE);
    };
    container::rename(home, from, to)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn update(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut given = Vec::new();
    for (option, value) in parsed.own_values() {
        given.push((option.long.to_owned(), value.to_string_lossy().into_owned()));
    }
    if given.is_empty() {
        return Ok(failure(
            "you must provide one or more flags when using this command",
            None,
            1,
        ));
    }
    each(parsed, |wanted| {
        container::update(home, wanted, &given, &mut |text| warning(&text))
    })
}

pub(crate) fn prune(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    if !crate::ask::agreed(parsed, "This will remove all stopped containers.") {
        return Ok(ExitCode::SUCCESS);
    }
    let filters: Vec<String> = parsed
        .all("filter")
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    tote_engine::enter_ids(home)?;
    let (removed, bytes, errors) = tote_engine::prune_containers(home, &filters)?;
    if !removed.is_empty() {
        let lines: String = removed.iter().map(|id| format!("{id}\n")).collect();
        print(&format!("Deleted Containers:\n{lines}\n"));
    }
    let mut code = print(&format!("Total reclaimed space: {}\n", tote_view::size(bytes)));
    for error in errors {
        code = engine_error(&error);
    }
    Ok(code)
}
