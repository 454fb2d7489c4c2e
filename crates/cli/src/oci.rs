//! `tote oci`: the commands of an OCI runtime.

mod log;
mod update;

use crate::about::VERSION;
use crate::tell::{chain, print};
use log::Log;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tote_oci::{CreateOptions, EventsOptions, ExecOptions, Id, Level, Made, OciError, Store};
use tote_options::{Command, Fault, Parsed, UsageError};

/// Result of a command: its exit code.
type Done = Result<ExitCode, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Oci(OciError),
    Usage(UsageError),
}

impl From<OciError> for Failure {
    fn from(error: OciError) -> Self {
        Self::Oci(error)
    }
}

impl From<UsageError> for Failure {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

/// True if the program is called by the name of an OCI runtime.
pub(crate) fn is_called_so(program: &OsStr) -> bool {
    let name = Path::new(program).file_name();
    name.is_some_and(|name| name == "tote-oci" || name == "runc" || name == "crun")
}

/// Runs the command.
pub(crate) fn dispatch(parsed: &Parsed) -> ExitCode {
    let mut log = match Log::new(parsed) {
        Ok(log) => log,
        Err(text) => return crate::tell::failure(&text, None, 1),
    };
    let name = parsed.command().name;
    if parsed.flag("version") {
        return print(&version());
    }
    log.debug(&format!("{name} begins"));
    if matches!(name, "create" | "run" | "exec") {
        if let Err(error) = seal() {
            log.error(&format!("{name} failed: {error}"));
            return ExitCode::from(failure_code(name));
        }
        log.debug(
            "the executable cannot be written to from here, for which others have \
             runc exeseal: using overlayfs for sealed /proc/self/exe, or runc exeseal: using /proc/self/exe clone",
        );
    }
    match perform(name, parsed, &mut log) {
        Ok(code) => {
            log.debug(&format!("{name} is done"));
            code
        }
        Err(failure) => {
            if let ("run", Failure::Oci(error @ OciError::Interpreter { program, .. })) = (name, &failure) {
                // The caller has seen the start succeed, so the error goes to standard error in plain text, not in
                // the log's format.
                let line = format!("exec {program}: no such file or directory");
                log.error_of_program(&line, &chain(error));
                return ExitCode::from(failure_code(name));
            }
            let text = match failure {
                Failure::Oci(error) => chain(&error),
                Failure::Usage(error) => format!("{error} ({})", error.hint()),
            };
            // The words are runc's, because callers search for them; the first word names this program.
            let text = match name {
                "create" | "run" => format!("tote in place of runc {name} failed: {text}"),
                "exec" => format!("exec failed: {text}"),
                _ => text,
            };
            log.error(&text);
            ExitCode::from(failure_code(name))
        }
    }
}

/// Reports an invalid command line.
pub(crate) fn usage_error(error: &UsageError) -> ExitCode {
    let text = match error.fault() {
        Fault::UnknownCommand { name, .. } => format!("No help topic for '{name}'"),
        fault => fault.to_string(),
    };
    crate::tell::failure(&text, Some(&error.hint()), 1)
}

/// Builds the text of `--help`. The name comes first, as in runc's, because scripts recognise a runtime by that.
pub(crate) fn help(path: &[&'static Command]) -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let own = if is_called_so(&program) {
        let name = Path::new(&program).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    } else {
        "tote oci".to_owned()
    };
    let name = match path.last() {
        Some(command) if !std::ptr::eq(*command, &raw const crate::OCI) => {
            format!("{own} {} - {}", command.name, command.about)
        }
        _ => format!("{own}, in place of runc - Open Container Initiative runtime"),
    };
    let text = tote_options::help(path, crate::tell::width());
    format!("NAME:\n   {name}\n\n{text}")
}

/// Builds the three lines of `--version`, which callers parse. Name and version are this program's; the line must
/// also contain `runc`, whose command line this is.
fn version() -> String {
    format!(
        "tote in place of runc version {VERSION}\ncommit: {VERSION}\nspec: {}\n",
        tote_engine::OCI_VERSION
    )
}

/// Returns the exit code of a failure. As with runc, callers of `exec` must be able to tell it from the process's
/// own code.
fn failure_code(name: &str) -> u8 {
    if name == "exec" { 255 } else { 1 }
}

/// Makes sure that no container can write to this program (CVE-2019-5736); called before the command touches a
/// container.
fn seal() -> Result<(), String> {
    tote_oci::seal().map_err(|error| chain(&error))
}

fn perform(name: &str, parsed: &Parsed, log: &mut Log) -> Done {
    match name {
        "create" => create(parsed, log),
        "run" => run(parsed, log),
        "exec" => exec(parsed, log),
        "start" => {
            let warn = &mut |text: String| log.warn(&text);
            succeed(tote_oci::start(&store(parsed), &id(parsed)?, warn))
        }
        "kill" => kill(parsed),
        "delete" => {
            let force = parsed.flag("force");
            succeed(tote_oci::delete(
                &store(parsed),
                &id(parsed)?,
                force,
                &mut |text| log.warn(&text),
            ))
        }
        "pause" => succeed(tote_oci::pause(&store(parsed), &id(parsed)?)),
        "resume" => succeed(tote_oci::resume(&store(parsed), &id(parsed)?)),
        "update" => {
            let options = update::options(parsed)?;
            let warn = &mut |text: String| log.warn(&text);
            succeed(tote_oci::update(&store(parsed), &id(parsed)?, &options, warn))
        }
        "state" => show(&tote_oci::state(&store(parsed), &id(parsed)?)?),
        "list" => list(parsed),
        "ps" => ps(parsed),
        "events" => events(parsed),
        "spec" => spec(parsed),
        "features" => show(&tote_oci::features(VERSION)),
        "checkpoint" | "restore" => {
            Err(OciError::Usage(format!("{name} is not supported: tote does not work with criu")).into())
        }
        _ => Ok(print(&help(parsed.path()))),
    }
}

fn succeed(result: Result<(), OciError>) -> Done {
    Ok(result.map(|()| ExitCode::SUCCESS)?)
}

fn store(parsed: &Parsed) -> Store {
    match parsed.value("root") {
        Some(path) => Store::new(PathBuf::from(path)),
        None => {
            let dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            let user = std::env::var("USER").ok();
            Store::usual(dir.filter(|_| tote_oci::has_runtime_dir(user.as_deref())))
        }
    }
}

fn id(parsed: &Parsed) -> Result<Id, Failure> {
    Ok(parsed.positional_text(0)?.unwrap_or_default().parse()?)
}

fn path(parsed: &Parsed, option: &str) -> Option<PathBuf> {
    parsed
        .value(option)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn creation(parsed: &Parsed) -> Result<CreateOptions, Failure> {
    Ok(CreateOptions {
        bundle: path(parsed, "bundle").unwrap_or_else(|| PathBuf::from(".")),
        no_pivot: parsed.flag("no-pivot"),
        console_socket: path(parsed, "console-socket"),
        pidfd_socket: path(parsed, "pidfd-socket"),
        pid_file: path(parsed, "pid-file"),
        preserve_fds: parsed.number("preserve-fds")?.unwrap_or(0),
        systemd_cgroup: parsed.flag("systemd-cgroup"),
        no_new_keyring: parsed.flag("no-new-keyring"),
    })
}

fn create(parsed: &Parsed, log: &mut Log) -> Done {
    let say = &mut |level: Level, text: &str| log.say(level, text);
    succeed(tote_oci::create(
        &store(parsed),
        &id(parsed)?,
        &creation(parsed)?,
        say,
    ))
}

fn run(parsed: &Parsed, log: &mut Log) -> Done {
    let how = (parsed.flag("detach"), parsed.flag("keep"));
    let say = &mut |level: Level, text: &str| log.say(level, text);
    let made = tote_oci::run(&store(parsed), &id(parsed)?, &creation(parsed)?, how, say)?;
    Ok(code(made))
}

fn code(made: Made) -> ExitCode {
    match made {
        Made::Detached => ExitCode::SUCCESS,
        Made::Ended(code) => ExitCode::from(code),
    }
}

fn exec(parsed: &Parsed, log: &mut Log) -> Done {
    let texts = |option: &str| -> Result<Vec<String>, Failure> {
        Ok(parsed.texts(option)?.into_iter().map(ToOwned::to_owned).collect())
    };
    let text = |option: &str| -> Result<Option<String>, Failure> {
        Ok(parsed
            .text(option)?
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned))
    };
    let mut gids = Vec::new();
    for gid in texts("additional-gids")? {
        let number = gid.parse();
        gids.push(
            number
                .map_err(|_| parsed.invalid("additional-gids", OsStr::new(&gid), "not a group's number"))?,
        );
    }
    let words = parsed.positionals().iter().skip(1);
    let options = ExecOptions {
        args: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        process: path(parsed, "process"),
        console_socket: path(parsed, "console-socket"),
        pidfd_socket: path(parsed, "pidfd-socket"),
        pid_file: path(parsed, "pid-file"),
        cwd: text("cwd")?,
        env: texts("env")?,
        tty: parsed.flag("tty"),
        user: text("user")?,
        additional_gids: gids,
        detach: parsed.flag("detach"),
        process_label: text("process-label")?,
        apparmor: text("apparmor")?,
        no_new_privs: parsed.value("no-new-privs").map(|value| value == "true"),
        caps: texts("cap")?,
        preserve_fds: parsed.number("preserve-fds")?.unwrap_or(0),
        cgroups: texts("cgroup")?,
        ignore_paused: parsed.flag("ignore-paused"),
    };
    let say = &mut |level: Level, text: &str| log.say(level, text);
    Ok(code(tote_oci::exec(&store(parsed), &id(parsed)?, &options, say)?))
}

fn kill(parsed: &Parsed) -> Done {
    let signal = parsed.positional_text(1)?.unwrap_or("SIGTERM");
    succeed(tote_oci::kill(
        &store(parsed),
        &id(parsed)?,
        signal,
        parsed.flag("all"),
    ))
}

/// Prints a document as indented JSON.
fn show(value: &impl serde::Serialize) -> Done {
    let text = serde_json::to_string_pretty(value).map_err(|error| OciError::Usage(error.to_string()))?;
    Ok(print(&format!("{text}\n")))
}

/// Parses `--format`: true for JSON, false for a table.
fn wants_json(parsed: &Parsed) -> Result<bool, Failure> {
    match parsed.text("format")? {
        None | Some("table") => Ok(false),
        Some("json") => Ok(true),
        Some(other) => Err(parsed
            .invalid("format", OsStr::new(other), "invalid format option")
            .into()),
    }
}

fn list(parsed: &Parsed) -> Done {
    let json = wants_json(parsed)?;
    if let Some(root) = parsed.value("root")
        && let Err(error) = std::fs::metadata(root)
    {
        return Err(OciError::Usage(format!("read {}: {error}", root.to_string_lossy())).into());
    }
    let containers = tote_oci::list(&store(parsed))?;
    if parsed.flag("quiet") {
        let lines = containers.iter().flat_map(|one| [one.id.as_str(), "\n"]);
        return Ok(print(&lines.collect::<String>()));
    }
    if json {
        let text = serde_json::to_string(&containers).map_err(|error| OciError::Usage(error.to_string()))?;
        return Ok(print(&text));
    }
    Ok(print(&tote_oci::table(&containers)))
}

fn ps(parsed: &Parsed) -> Done {
    let json = wants_json(parsed)?;
    let pids = tote_oci::ps(&store(parsed), &id(parsed)?)?;
    if json {
        let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
        return Ok(print(&format!("[{}]\n", pids.join(","))));
    }
    let words = parsed.positionals().iter().skip(1);
    let options: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .filter(|word| word != "--")
        .collect();
    Ok(print(&tote_oci::ps_table(&pids, &options)?))
}

fn events(parsed: &Parsed) -> Done {
    let interval = parsed.converted("interval", |text| {
        duration(text).ok_or("a number and a unit is expected, as in 500ms or 5s")
    })?;
    let options = EventsOptions {
        stats: parsed.flag("stats"),
        interval: interval.unwrap_or(Duration::from_secs(5)),
    };
    let mut emit = |line: &str| print(&format!("{line}\n")) == ExitCode::SUCCESS;
    succeed(tote_oci::events(&store(parsed), &id(parsed)?, options, &mut emit))
}

/// Parses Go's durations with a single unit.
fn duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("us", 0), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let (unit, millis) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = if millis == 0 {
        number / 1e6
    } else {
        number * f64::from(millis) / 1e3
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn spec(parsed: &Parsed) -> Done {
    let path = path(parsed, "bundle").unwrap_or_default().join("config.json");
    let ids = parsed.flag("rootless").then(tote_oci::own_ids);
    let text = tote_oci::specification(ids)?;
    let written = std::fs::File::create_new(&path).and_then(|mut file| {
        use std::io::Write as _;
        file.write_all(text.as_bytes())
    });
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(OciError::Usage(format!("File {} exists. Remove it first", path.display())).into())
        }
        Err(error) => Err(OciError::Usage(format!("write {}: {error}", path.display())).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        for bad in ["", "5", "s", "-1s", "xs", "infs"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_the_program() {
        for (name, is) in [
            ("tote-oci", true),
            ("/x/runc", true),
            ("tote", false),
            ("/", false),
        ] {
            assert_eq!(is_called_so(OsStr::new(name)), is, "{name}");
        }
    }
}
