//! `tote run` and `tote create`.

pub(crate) mod source;

use crate::home::home;
use crate::seal::sealed;
use crate::tell::{engine_error, failure, print, print_made, say, warning};
use std::process::ExitCode;
use tote_engine::ImagesError;
use tote_engine::container::{self, Streams};
use tote_engine::{
    ContainerId, EngineError, Home, HostInit, Image, ImageFault, Prepared, RequestError, RunOptions,
    RunRequest, SdNotify, SpecError, Timings, WholeFile,
};
use tote_options::Parsed;

/// Options that this command handles itself; all others are passed to the engine by their names.
pub(crate) const OURS: [&str; 18] = [
    "conmon-pidfile",
    "rootfs",
    "rmi",
    "detach-keys",
    "pidfile",
    "pod-id-file",
    "replace",
    "sig-proxy",
    "plan",
    "pool",
    "timings",
    "pull",
    "platform",
    "tls-verify",
    "authfile",
    "cert-dir",
    "creds",
    "quiet",
];

/// Meaning of the first word of a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Image,
    /// A node, or a program whose closure is the root file system.
    Closure,
}

/// Runs `tote graph run`.
pub(crate) fn run_closure(parsed: &Parsed) -> ExitCode {
    sealed(parsed, |parsed| perform(parsed, Names::Closure))
}

/// Runs `tote run`.
pub(crate) fn run(parsed: &Parsed) -> ExitCode {
    // The command that takes a sandbox makes no process that a container can see, and must be fast; as root it can
    // still seal the program when it fills the pool afterwards.
    if parsed.value("pool").is_some() && tote_oci::is_root() {
        return perform(parsed, Names::Image);
    }
    sealed(parsed, |parsed| perform(parsed, Names::Image))
}

fn perform(parsed: &Parsed, names: Names) -> ExitCode {
    let mut timings = parsed
        .flag("timings")
        .then(|| Timings::since(Timings::process_start()));
    if let Some(timings) = &mut timings {
        timings.mark("parent: start tote");
    }
    if names == Names::Image
        && let Some(pool) = parsed.value("pool")
    {
        let code = crate::pool::run(parsed, pool.to_string_lossy().into_owned(), &mut timings);
        if let Some(timings) = &timings {
            report(timings);
        }
        return code;
    }
    if parsed.positionals().is_empty() {
        return crate::tell::usage_error(&parsed.too_few_words(1));
    }
    if parsed.flag("detach") && parsed.value("attach").is_some() {
        // docker's words.
        let text = "conflicting options: cannot specify both --attach and --detach";
        return failure(text, Some("see 'tote run --help'"), 1);
    }
    if parsed.flag("detach") && parsed.flag("rmi") {
        let text = "conflicting options: --rmi is done by the command that sees the end: leave out --detach";
        return failure(text, Some("see 'tote run --help'"), 125);
    }
    let code = match prepare(parsed, names, &mut timings) {
        // Other commands end with 1 then, as docker's do.
        Err(error @ EngineError::Image(ImageFault::Images(ImagesError::OtherPlatform { .. }))) => {
            engine_error(&error);
            ExitCode::from(125)
        }
        Err(error) => engine_error(&error),
        Ok((_, prepared)) if parsed.flag("plan") => plan(&prepared),
        Ok((home, prepared)) => {
            let code = begin(parsed, &home, prepared, &mut timings);
            if parsed.flag("rmi") {
                remove_image(parsed, &home);
            }
            code
        }
    };
    if let Some(timings) = &timings {
        report(timings);
    }
    code
}

/// Removes the image as well, for `--rmi`, unless another container uses it.
fn remove_image(parsed: &Parsed, home: &Home) {
    let name = parsed.positionals()[0].to_string_lossy().into_owned();
    if !matches!(Image::parse(&name), Ok(Image::Stored(_))) {
        return;
    }
    let told = |done: Result<_, EngineError>| match done {
        Ok(_) | Err(EngineError::Image(ImageFault::ImageInUse { .. })) => {}
        Err(error) => warning(&tote_engine::chain(&error)),
    };
    let removed = tote_engine::enter_ids(home)
        .map_err(EngineError::from)
        .and_then(|()| tote_engine::remove_images(home, &[name], &[], false, &mut |done| told(done)));
    if let Err(error) = removed {
        warning(&tote_engine::chain(&error));
    }
}

/// Starts the container, and stays with it until its end if it is attached.
fn begin(parsed: &Parsed, home: &Home, prepared: Prepared, timings: &mut Option<Timings>) -> ExitCode {
    let mut warn = |text: String| warning(&text);
    let id = prepared.container().id.clone();
    let Streams { stdout, stderr, .. } = streams(parsed);
    let result = if !prepared.is_kept() {
        let how = crate::life::given::attaching(parsed, streams(parsed));
        tote_engine::run(home, prepared, Some(&how), timings.as_mut(), &mut warn)
    } else if parsed.flag("detach") {
        let started = container::run_detached(home, prepared, &mut warn);
        return match started.and_then(|()| note_process(parsed, home, &id)) {
            Ok(()) => print_made(id.as_str(), "the container runs as"),
            Err(error) => {
                // docker names the container all the same: it is there, and can be looked at and removed.
                // absence: the error is shown in any case, and the id of a container that is known to be there
                if matches!(container::open(home, &id), Ok(Some(_))) {
                    print(&format!("{id}\n"));
                }
                engine_error(&error)
            }
        };
    } else {
        let how = crate::life::given::attaching(parsed, streams(parsed));
        container::run_attached(home, prepared, &how, &mut warn)
    };
    match result {
        Err(error) => not_started(parsed, &error),
        Ok(end) => {
            if !stdout && !stderr {
                // docker's way: a caller that sees nothing of the container is told its id.
                print(&format!("{id}\n"));
            }
            crate::tell::finished(end)
        }
    }
}

/// Reports the error of a start. A program that is not there is missing in an image, and the hint says in which one.
fn not_started(parsed: &Parsed, error: &EngineError) -> ExitCode {
    let hint = error.hint().or_else(|| {
        let program = error.missing_program()?;
        let image = parsed.positionals().first()?.to_string_lossy();
        Some(format!(
            "{program} is not in the image {image}, or not on its PATH"
        ))
    });
    failure(&tote_engine::chain(error), hint.as_deref(), error.exit_code())
}

/// The first word.
fn first(parsed: &Parsed) -> String {
    let word = parsed.positionals().first();
    word.map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Writes `--pidfile` and `--conmon-pidfile`.
fn note_process(parsed: &Parsed, home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    for option in ["pidfile", "conmon-pidfile"] {
        let Some(path) = parsed.value(option) else {
            continue;
        };
        let state = container::open(home, id)?.map(|entry| entry.state);
        let pid = state.map_or(0, |state| match state.monitor {
            Some(monitor) if option == "conmon-pidfile" => monitor.pid,
            _ => state.pid(),
        });
        WholeFile::put(option, path.as_ref(), &pid.to_string())?;
    }
    Ok(())
}

/// Chooses the streams to attach: those of `-a`, or docker's default.
fn streams(parsed: &Parsed) -> Streams {
    let given: Vec<String> = parsed
        .all("attach")
        .map(|name| name.to_string_lossy().to_lowercase())
        .collect();
    let has = |name: &str| given.is_empty() || given.iter().any(|given| given == name);
    Streams {
        stdin: parsed.flag("interactive") && has("stdin"),
        stdout: has("stdout"),
        stderr: has("stderr"),
    }
}

/// Runs `tote create`.
pub(crate) fn create(parsed: &Parsed) -> ExitCode {
    let (home, request) = match requested(parsed, Names::Image, false, &mut None) {
        Ok(requested) => requested,
        Err(error)
            if error.is_missing_image() || matches!(error, EngineError::Image(ImageFault::NotPulled(_))) =>
        {
            return crate::tell::refusal(&error);
        }
        Err(EngineError::Request(error)) => return not_created(&error.into()),
        Err(error) => return engine_error(&error),
    };
    match tote_engine::create(&home, request) {
        Ok(container) => print_made(container.id.as_str(), "the container is"),
        Err(error) => not_created(&error),
    }
}

/// Reports why the container was not made, with docker's codes: 125 for what its client refuses, 1 for errors of its daemon.
fn not_created(error: &EngineError) -> ExitCode {
    let is_clients = match error {
        EngineError::Request(RequestError::Option(error)) => !error.is_of_dockers_daemon(),
        EngineError::Request(RequestError::File { option, .. }) => {
            matches!(*option, "env-file" | "label-file")
        }
        EngineError::Request(RequestError::Spec(error)) => matches!(error, SpecError::Health),
        EngineError::Request(RequestError::Image(_)) | EngineError::Usage(_) => true,
        _ => false,
    };
    if is_clients {
        engine_error(error)
    } else {
        crate::tell::refusal(error)
    }
}

fn prepare(
    parsed: &Parsed,
    names: Names,
    timings: &mut Option<Timings>,
) -> Result<(Home, Prepared), EngineError> {
    crate::life::given::attaching(parsed, streams(parsed)).check()?;
    let (home, request) = requested(parsed, names, true, timings)?;
    let prepared = tote_engine::prepare(&home, request, parsed.flag("plan"), timings.as_mut())?;
    Ok((home, prepared))
}

/// Builds the request of a container, and makes sure that its image is in the store. `runs` is true if the container is started,
/// for which a missing terminal is reported before anything is pulled, as docker does it.
fn requested(
    parsed: &Parsed,
    names: Names,
    runs: bool,
    timings: &mut Option<Timings>,
) -> Result<(Home, RunRequest), EngineError> {
    let mut request = request(parsed, names)?;
    if runs && !request.options.detach {
        tote_engine::check_terminal(&request.options)?;
    }
    let home = home(parsed)?;
    if let Some(name) = request.options.name.as_ref().filter(|_| parsed.flag("replace")) {
        container::remove_named(&home, name)?;
    }
    if names == Names::Closure {
        let start = tote_engine::closure_start(&home, &first(parsed))?;
        request.image = Image::Stored(start.image.to_string());
        if request.options.entrypoint.is_none() {
            // The ARGs of a node without a program of its own begin with a program.
            request.options.command.splice(0..0, start.program);
        }
    } else if let Image::Stored(name) = &request.image {
        request.image = Image::Stored(crate::remote::present::present(parsed, &home, name)?);
    }
    if let Some(timings) = timings {
        timings.mark("parent: read the command line");
    }
    Ok((home, request))
}

/// Returns the engine's options, by their long names.
///
/// # Errors
/// A source of a mount that is not UTF-8.
pub(crate) fn given(parsed: &Parsed) -> Result<Vec<(String, String)>, EngineError> {
    let mut given = Vec::new();
    for (option, value) in parsed.own_values() {
        if !OURS.contains(&option.long) {
            let value = match option.long {
                "volume" => source::of_volume(value)?,
                "mount" => source::of_mount(value)?,
                // The process that writes it is in another directory.
                "report" => absolute_path(&value.to_string_lossy()),
                _ => value.to_string_lossy().into_owned(),
            };
            given.push((option.long.to_owned(), value));
        }
    }
    Ok(given)
}

/// Returns the storage driver of the environment variable, unless an option names one.
pub(crate) fn driver_of_environment(parsed: &Parsed) -> Option<(String, String)> {
    let said = parsed.value("driver").is_some();
    let driver = parsed.setting("driver").filter(|_| !said)?;
    Some(("driver".to_owned(), driver.to_string_lossy().into_owned()))
}

/// Splits podman's `--entrypoint '["a","b"]'`: the first word is the entrypoint, and the others come before the
/// command.
fn split_entrypoint(given: &mut [(String, String)]) -> Vec<String> {
    let entrypoint = given.iter_mut().rfind(|(option, _)| option == "entrypoint");
    let Some((_, value)) = entrypoint.filter(|(_, value)| value.starts_with('[')) else {
        return Vec::new();
    };
    let Ok(words) = serde_json::from_str::<Vec<String>>(value) else {
        return Vec::new();
    };
    let mut words = words.into_iter();
    *value = words.next().unwrap_or_default();
    words.collect()
}

/// Builds the engine's request from the command line.
fn request(parsed: &Parsed, names: Names) -> Result<RunRequest, EngineError> {
    let mut given = given(parsed)?;
    if names == Names::Closure && parsed.value("read-only").is_none() {
        given.push(("read-only".to_owned(), "true".to_owned()));
    }
    if let Some(path) = parsed.value("pod-id-file") {
        given.push(("pod".to_owned(), crate::pod::id_in(&path.to_string_lossy())?));
    }
    // podman's rule: --rmi implies --rm, because a container that stays would need its image.
    let mut values = parsed.values().iter();
    if values.any(|(option, value)| option.long == "rmi" && value == "true") {
        given.push(("rm".to_owned(), "true".to_owned()));
    }
    given.extend(driver_of_environment(parsed));
    let leading = split_entrypoint(&mut given);
    let mut options = RunOptions::default();
    for (option, value) in &given {
        options.set(option, value)?;
    }
    let mut words = parsed
        .positionals()
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let mut image = words.next().unwrap_or_default();
    if names == Names::Image && parsed.flag("rootfs") {
        image.insert_str(0, "rootfs:");
    }
    let image = match names {
        Names::Image => Image::parse(&image)?,
        Names::Closure => Image::Stored(image),
    };
    options.command = leading.into_iter().chain(words).collect();
    // Health checks need a monitor, so `--sdnotify healthy` needs a kept container too.
    let kept = !options.rm || options.detach || options.sdnotify == SdNotify::Healthy;
    Ok(RunRequest {
        image,
        options,
        given,
        kept,
        init: HostInit::look(),
    })
}

fn plan(prepared: &Prepared) -> ExitCode {
    let cgroup = prepared.cgroup().map(ToString::to_string).unwrap_or_default();
    let limit = prepared.limit().map(|limit| format!("{limit}\n"));
    match prepared.plan() {
        Ok(plan) => print(&format!("{cgroup}{}{plan}\n", limit.unwrap_or_default())),
        Err(error) => engine_error(&error),
    }
}

fn report(timings: &Timings) {
    let (spans, total) = timings.spans();
    let mut text = String::new();
    for (what, micros) in spans {
        text += &format!("timings: {micros:.0} {what}\n");
    }
    text += &format!("timings: {total:.0} total\n");
    say(&text);
}

/// Makes the path of a file to write absolute.
fn absolute_path(value: &str) -> String {
    std::path::absolute(value).map_or_else(|_| value.to_owned(), |path| path.display().to_string())
}
