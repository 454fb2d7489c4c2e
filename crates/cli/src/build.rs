//! `tote build`.

use crate::commands::build as commands;
use crate::home::home;
use crate::image::given::note_image;
use crate::remote::progress::Progress;
use crate::tell::{engine_error, print, print_made, warning};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use tote_engine::ImagesError;
use tote_engine::{
    Attestations, BuildContext, BuildEvent, BuildFault, BuildNamed, BuildOptionError, BuildOptions,
    BuildOutput, BuildRequest, BuiltImage, EngineError, NamedContext, Platform, RequestError, RunOptions,
    SecretSource, Voice, WhenToPull, WholeFile,
};
use tote_options::{Parsed, UsageError};
use tote_view::size;

/// Why a build failed.
enum Failed {
    Usage(UsageError),
    Engine(EngineError),
}

impl From<UsageError> for Failed {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

pub(crate) fn build(parsed: &Parsed) -> ExitCode {
    if let Some(file) = parsed.value("logfile")
        && let Err(error) = tote_engine::send_output(file.as_ref(), true)
    {
        return engine_error(&error);
    }
    match run(parsed) {
        Ok(code) => code,
        Err(Failed::Usage(error)) => crate::tell::usage_error(&error),
        Err(Failed::Engine(error)) => {
            engine_error(&error);
            ExitCode::from(tote_engine::interrupted(&error).unwrap_or(1))
        }
    }
}

fn run(parsed: &Parsed) -> Result<ExitCode, Failed> {
    let request = request(parsed)?;
    if is_check(parsed)? {
        return check(parsed, &request);
    }
    // If the result goes to standard output, messages go to standard error.
    let beside = request.outputs.iter().any(BuildOutput::is_stdout);
    let tty = std::io::stdout().is_terminal() && parsed.value("progress").is_none_or(|how| how != "plain");
    let progress = Arc::new(Progress::new(request.quiet || beside, tty));
    let pushed = Arc::clone(&progress);
    let mut told = false;
    let mut tell = |event: BuildEvent<'_>| {
        progress.end();
        // One line is enough for all steps.
        if matches!(event, BuildEvent::NoNetwork(_)) && std::mem::replace(&mut told, true) {
            return;
        }
        tell(&event, request.quiet, beside);
    };
    let voice = Voice {
        say: &mut tell,
        pull: &|event| progress.event(event),
        push: Arc::new(move |event| pushed.push_event(event)),
        guard: &guard,
    };
    let built = tote_engine::build(home(parsed)?, &request, voice)?;
    note_image(parsed, &built.id)?;
    note_metadata(parsed, &built)?;
    if beside {
        return Ok(ExitCode::SUCCESS);
    }
    if request.quiet {
        return Ok(print_made(&built.id.to_string(), "the image is"));
    }
    let mut text = format!("Successfully built {}\n", built.id.short());
    for name in &built.names {
        text += &format!("Successfully tagged {}\n", name.familiar());
    }
    for pushed in &built.pushed {
        let (name, digest, size) = (pushed.name.familiar(), pushed.digest, pushed.size);
        text += &format!("Successfully pushed {name}: digest: {digest} size: {size}\n");
    }
    Ok(print(&text))
}

/// Parses `--provenance`, `--sbom` and `--attest`; as in docker's builder, the short forms are applied after the
/// long one.
fn attestations(parsed: &Parsed) -> Result<Attestations, Failed> {
    let mut wanted = Attestations::default();
    for text in parsed.texts("attest")? {
        wanted.attest(text)?;
    }
    if let Some(text) = parsed.text("provenance")? {
        wanted.provenance(text)?;
    }
    if let Some(text) = parsed.text("sbom")? {
        wanted.sbom(text)?;
    }
    Ok(wanted)
}

/// Writes `--metadata-file`, with docker's names.
fn note_metadata(parsed: &Parsed, built: &BuiltImage) -> Result<(), EngineError> {
    let Some(path) = parsed.value("metadata-file") else {
        return Ok(());
    };
    let digest = built.pushed.first().map_or(&built.id, |pushed| &pushed.digest);
    let mut metadata = match &built.manifest {
        Some(manifest) => serde_json::json!({
            "containerimage.digest": manifest.digest.to_string(),
            "containerimage.descriptor": {
                "mediaType": manifest.media_type,
                "digest": manifest.digest.to_string(),
                "size": manifest.size,
            },
        }),
        None => serde_json::json!({ "containerimage.digest": digest.to_string() }),
    };
    // An index of several images has no configuration of its own.
    if let Some(image) = &built.image {
        metadata["containerimage.config.digest"] = image.to_string().into();
    }
    if !built.names.is_empty() {
        let names: Vec<String> = built.names.iter().map(ToString::to_string).collect();
        metadata["image.name"] = names.join(",").into();
    }
    Ok(WholeFile::put(
        "metadata-file",
        path.as_ref(),
        &format!("{metadata:#}\n"),
    )?)
}

/// Parses `--check` and `--call`.
fn is_check(parsed: &Parsed) -> Result<bool, Failed> {
    match parsed.text("call")? {
        Some("check" | "lint") => Ok(true),
        None | Some("build" | "") => Ok(parsed.flag("check")),
        Some(other) => {
            Err(EngineError::from(BuildFault::Option(BuildOptionError::Call(other.to_owned()))).into())
        }
    }
}

/// Prints the warnings about a Dockerfile, in the form of docker's builder.
fn check(parsed: &Parsed, request: &BuildRequest) -> Result<ExitCode, Failed> {
    let checked = tote_engine::check_build(&home(parsed)?, request)?;
    let mut text = String::new();
    for warning in &checked.warnings {
        text += &format!("\nWARNING: {}\n{}\n", warning.rule, warning.text);
        let line = checked.dockerfile.lines().nth(warning.line.saturating_sub(1));
        let rule = "-".repeat(20);
        text += &format!(
            "Dockerfile:{}\n{rule}\n{:>4} | >>> {}\n{rule}\n",
            warning.line,
            warning.line,
            tote_view::one_line(line.unwrap_or_default())
        );
    }
    let (said, code) = match checked.warnings.len() {
        0 => (
            "Check complete, no warnings found.\n".to_owned(),
            ExitCode::SUCCESS,
        ),
        1 => (
            "Check complete, 1 warning has been found!\n".to_owned(),
            ExitCode::FAILURE,
        ),
        many => (
            format!("Check complete, {many} warnings have been found!\n"),
            ExitCode::FAILURE,
        ),
    };
    print(&(said + &text));
    Ok(code)
}

/// Starts a process that clears up if this build is killed: this very program, in a process group of its own, so
/// that the terminal's keys do not reach it.
fn guard(work: &Path) -> Option<Child> {
    // process: guard of a build
    #[expect(
        clippy::disallowed_methods,
        reason = "it is this very program, by the kernel's own link to it, and there is no container yet"
    )]
    let mut guard = std::process::Command::new("/proc/self/exe");
    guard.arg(commands::BUILD_GUARD.name).arg(work);
    guard
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // If it cannot be started, the next build clears up.
    guard.process_group(0).spawn().ok()
}

/// Runs `tote __build-guard DIR`.
pub(crate) fn guard_build(parsed: &Parsed) -> ExitCode {
    let work = parsed
        .positionals()
        .first()
        .map(Path::new)
        .unwrap_or(Path::new(""));
    match tote_engine::guard_build(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => engine_error(&error),
    }
}

/// Makes a path of the command line absolute, so that it stays right in another working directory.
fn absolute(option: &'static str, path: &Path) -> Result<PathBuf, EngineError> {
    std::path::absolute(path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option,
            attempt: "find",
            path: path.to_owned(),
            source,
        })
    })
}

/// Chooses the build's context. An existing directory or archive wins over an address that is written alike.
fn context(parsed: &Parsed) -> Result<BuildContext, Failed> {
    let path = parsed.positionals().first().map(Path::new);
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        return Ok(BuildContext::Stdin);
    };
    // absence: a path that cannot be examined is opened as one, which says why it cannot
    if path.try_exists().is_ok_and(|found| !found)
        && let Some(text) = path.to_str()
        && let Some(mut remote) = BuildContext::remote(text).map_err(EngineError::from)?
    {
        if let BuildContext::Repository(repository) = &mut remote {
            let kept = parsed
                .texts("build-arg")?
                .into_iter()
                .filter_map(|arg| arg.split_once('='));
            let mut kept = kept.filter(|(name, _)| *name == "BUILDKIT_CONTEXT_KEEP_GIT_DIR");
            if kept.any(|(_, value)| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")) {
                repository.keep_git_dir = Some(true);
            }
        }
        return Ok(remote);
    }
    // absence: reading the directory reports the reason
    Ok(match std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        true => BuildContext::Archive(absolute("file", path)?),
        false => BuildContext::Directory(absolute("file", path)?),
    })
}

fn request(parsed: &Parsed) -> Result<BuildRequest, Failed> {
    let context = context(parsed)?;
    let dockerfile = match parsed.value("file").map(Path::new) {
        Some(file) if file != Path::new("-") && matches!(context, BuildContext::Directory(_)) => {
            Some(absolute("file", file)?)
        }
        other => other.map(Path::to_owned),
    };
    let ignore_file = parsed.value("ignorefile").map(Path::new);
    let mut outputs = Vec::new();
    for text in parsed.texts("output")? {
        outputs.push(BuildOutput::parse(text)?);
    }
    let (secrets, agents) = forwarded(parsed)?;
    let (mut options, mut contexts) = (options(parsed)?, BTreeMap::new());
    for text in parsed.texts("build-context")? {
        let (name, what) = tote_engine::parse_context(text)?;
        let known = match what {
            NamedContext::Image(image) => BuildNamed::Image(image),
            NamedContext::Directory(dir) => {
                let dir = BuildContext::Directory(absolute("build-context", &dir)?);
                contexts.insert(name.clone(), dir);
                BuildNamed::Directory
            }
            NamedContext::Remote(remote) => {
                contexts.insert(name.clone(), remote);
                BuildNamed::Directory
            }
            NamedContext::Layout { dir, image } => {
                let dir = absolute("build-context", &dir)?;
                BuildNamed::Image(tote_engine::layout_name(&dir, &image))
            }
        };
        options.contexts.insert(name, known);
    }
    let annotations = parsed.texts("annotation")?.into_iter();
    let annotations = annotations.map(tote_engine::parse_annotation);
    let pull = match parsed.text("pull")? {
        _ if parsed.flag("pull-never") => WhenToPull::Never,
        None | Some("false") => WhenToPull::Missing,
        Some("true" | "newer") => WhenToPull::Always,
        Some(when) => when
            .parse()
            .map_err(|error: ImagesError| Failed::Engine(error.into()))?,
    };
    Ok(BuildRequest {
        context,
        dockerfile,
        ignore_file: ignore_file.map(|path| absolute("ignorefile", path)).transpose()?,
        tags: parsed.texts("tag")?.into_iter().map(ToOwned::to_owned).collect(),
        contexts,
        platforms: platforms(parsed)?,
        annotations: annotations.collect::<Result<_, _>>()?,
        options,
        secrets,
        agents,
        run: containers(parsed)?,
        network: parsed.text("network")?.map(str::to_owned),
        pull,
        access: crate::remote::access::access_with_creds(parsed)?,
        attestations: attestations(parsed)?,
        push: parsed.flag("push"),
        outputs,
        cache_from: caches(parsed, "cache-from", tote_engine::parse_cache_from)?,
        cache_to: caches(parsed, "cache-to", tote_engine::parse_cache_to)?,
        quiet: parsed.flag("quiet") || parsed.value("progress").is_some_and(|how| how == "quiet"),
    })
}

/// Parses all values of an option about caches.
fn caches<T>(
    parsed: &Parsed,
    option: &str,
    parse: fn(&str) -> Result<Vec<T>, EngineError>,
) -> Result<Vec<T>, Failed> {
    let mut caches = Vec::new();
    for text in parsed.texts(option)? {
        caches.extend(parse(text)?);
    }
    Ok(caches)
}

/// Parses the options about instructions.
fn options(parsed: &Parsed) -> Result<BuildOptions, UsageError> {
    let mut args = BTreeMap::new();
    for text in parsed.texts("build-arg")? {
        match text.split_once('=') {
            Some((name, value)) => drop(args.insert(name.to_owned(), value.to_owned())),
            None => args.extend(std::env::var(text).ok().map(|value| (text.to_owned(), value))),
        }
    }
    if !args.contains_key(tote_engine::EPOCH) {
        // As docker's builder takes it.
        let epoch = std::env::var(tote_engine::EPOCH).ok();
        args.extend(epoch.map(|epoch| (tote_engine::EPOCH.to_owned(), epoch)));
    }
    let rewrite_timestamp = (parsed.texts("output")?.into_iter()).any(BuildOutput::rewrites_timestamps);
    if rewrite_timestamp && args.get(tote_engine::EPOCH).is_none_or(String::is_empty) {
        warning("rewrite-timestamp does nothing, because SOURCE_DATE_EPOCH is not set");
    }
    let label = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        (name.to_owned(), value.to_owned())
    };
    let mut labels: BTreeMap<_, _> = parsed.texts("label")?.into_iter().map(label).collect();
    labels.extend(parsed.converted("disk-size", tote_engine::disk_size_label)?);
    let stages = parsed.texts("no-cache-filter")?;
    let target = parsed.text("target")?.filter(|target| !target.is_empty());
    Ok(BuildOptions {
        args,
        target: target.map(ToOwned::to_owned),
        labels,
        no_cache: parsed.flag("no-cache"),
        no_cache_stages: (stages.iter())
            .flat_map(|text| text.split(','))
            .map(ToOwned::to_owned)
            .collect(),
        platform: platforms(parsed)?.into_iter().next(),
        contexts: BTreeMap::new(),
        squash: parsed.flag("squash"),
        rewrite_timestamp,
        at_once: crate::jobs::at_once(parsed)?,
    })
}

/// Parses `--platform`, which may hold several platforms between commas, and be given several times.
fn platforms(parsed: &Parsed) -> Result<Vec<Platform>, UsageError> {
    let mut platforms = Vec::new();
    for text in parsed.texts("platform")? {
        for word in text.split(',') {
            let platform = word.trim().parse::<Platform>();
            let invalid = |error: &dyn std::fmt::Display| {
                parsed.invalid("platform", std::ffi::OsStr::new(text), &error.to_string())
            };
            platforms.push(platform.map_err(|error| invalid(&error))?);
        }
    }
    Ok(platforms)
}

type Forwarded = (BTreeMap<String, SecretSource>, BTreeMap<String, PathBuf>);

/// Parses secrets and SSH agents.
fn forwarded(parsed: &Parsed) -> Result<Forwarded, Failed> {
    let (mut secrets, mut agents) = (BTreeMap::new(), BTreeMap::new());
    for text in parsed.texts("secret")? {
        let (id, source) = tote_engine::parse_secret(text, &|name| std::env::var_os(name).is_some())?;
        secrets.insert(id, source);
    }
    for text in parsed.texts("ssh")? {
        let own = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
        let (id, socket) = tote_engine::parse_agent(text, own)?;
        agents.insert(id, socket);
    }
    Ok((secrets, agents))
}

/// Parses the options for the container of every `RUN`; they have the names and meanings that they have for `run`.
fn containers(parsed: &Parsed) -> Result<RunOptions, Failed> {
    let mut run = RunOptions::default();
    for (option, value) in parsed.values() {
        if !commands::OF_CONTAINERS.contains(&option.long) {
            continue;
        }
        let set = match option.long {
            "network" => Ok(()),
            "volume" => run.set("volume", &crate::run::source::of_volume(value)?),
            long => run.set(long, &value.to_string_lossy()),
        };
        set.map_err(EngineError::from)?;
    }
    Ok(run)
}

/// Prints an event in the words of docker's builder.
fn tell(event: &BuildEvent<'_>, quiet: bool, beside: bool) {
    let print = |text: &str| {
        if beside {
            crate::tell::say(text);
        } else {
            print(text);
        }
    };
    match event {
        BuildEvent::Unused(names) => {
            warning(&format!(
                "one or more build-args [{}] were not consumed",
                names.join(" ")
            ));
        }
        BuildEvent::Misspelled { name, stage } => {
            warning(&format!(
                "there is no stage {name} before this one, so it is an image's name (did you mean {stage}?)"
            ));
        }
        BuildEvent::Line {
            stage,
            line,
            is_error,
        } => crate::tell::pass_line(stage, line, *is_error),
        BuildEvent::NoNetwork(reason) => warning(&format!("RUN: {reason}")),
        _ if quiet => {}
        BuildEvent::Platform(platform) => print(&format!("Platform {platform}\n")),
        BuildEvent::Step { number, total, text } => {
            print(&format!(
                "Step {number}/{total} : {}\n",
                tote_view::one_line(text)
            ));
        }
        // The next line overwrites this one.
        BuildEvent::Download {
            url,
            received,
            length,
        } => {
            if std::io::stderr().is_terminal() {
                let of = length.map_or(String::new(), |length| format!("/{}", size(length)));
                crate::tell::say(&format!(
                    "\r\x1b[K{}: {}{of}\r",
                    tote_view::one_line(url),
                    size(*received)
                ));
            }
        }
        BuildEvent::Triggers(1) => print("# Executing 1 build trigger\n"),
        BuildEvent::Triggers(count) => print(&format!("# Executing {count} build triggers\n")),
        BuildEvent::Cached => print(" ---> Using cache\n"),
        BuildEvent::Image(id) => print(&format!(" ---> {}\n", id.short())),
    }
}
