//! `tote oci`: the commands of an OCI runtime.

mod log;
mod update;

use crate::about::VERSION;
use crate::tell::print;
use log::Log;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tote_engine::chain;
use tote_oci::{CreateOptions, EventsOptions, ExecOptions, Id, Level, Made, OciError, Store};
use tote_options::{Fault, Parsed, UsageError};

/// Result of a command: its exit code.
type Done = Result<ExitCode, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Oci(OciError),
    Usage(UsageError),
    /// The log has the reason already.
    Told,
}

impl Failure {
    fn text(self) -> Option<String> {
        match self {
            Self::Oci(error) => Some(chain(&error)),
            Self::Usage(error) => Some(format!("{error} ({})", error.hint())),
            Self::Told => None,
        }
    }
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
    name.is_some_and(|name| name == "tote-oci" || name == "tote-vm" || name == "runc" || name == "crun")
}

/// True if the program is called by the name of the runtime that puts each container into a virtual machine.
pub(crate) fn is_of_machines(program: &OsStr) -> bool {
    Path::new(program)
        .file_name()
        .is_some_and(|name| name == "tote-vm")
}

/// Puts a bundle that asks for it into a virtual machine.
fn in_machine(
    dir: &Path,
    rootfs: &Path,
    spec: &tote_engine::Spec,
) -> Result<Option<(tote_engine::Spec, PathBuf)>, String> {
    let by_name = tote_engine::arguments()
        .first()
        .is_some_and(|name| is_of_machines(name));
    tote_engine::bundle_in_machine((dir, rootfs, spec), by_name).map_err(|error| chain(&error))
}

/// Does so with another process of such a container.
fn process_in_machine(
    bundle: &Path,
    process: tote_engine::Process,
    init: std::os::fd::OwnedFd,
) -> Result<tote_engine::Process, String> {
    tote_engine::process_in_machine(bundle, process, init).map_err(|error| chain(&error))
}

/// Work of a command.
type Work = fn(&Parsed, &mut Log) -> Done;

/// Command that makes a process in a container. Before it touches one, it makes sure that no container can write to
/// this program (CVE-2019-5736).
pub(crate) struct Entering {
    work: Work,
    /// Text before the error. The words are runc's, because callers search for them.
    failed: &'static str,
    /// Exit code of a failure. As with runc, callers of `exec` must be able to tell it from the process's own code.
    code: u8,
}

/// `tote oci create`. The first word of its errors names this program, as that of `run`'s does.
pub(crate) static CREATE: Entering = Entering {
    work: create,
    failed: "tote in place of runc create failed: ",
    code: 1,
};

/// `tote oci run`.
pub(crate) static RUN: Entering = Entering {
    work: run,
    failed: "tote in place of runc run failed: ",
    code: 1,
};

/// `tote oci exec`.
pub(crate) static EXEC: Entering = Entering {
    work: exec,
    failed: "exec failed: ",
    code: 255,
};

/// Runs a command that makes a process in a container.
pub(crate) fn enter(parsed: &Parsed, command: &Entering) -> ExitCode {
    logged(parsed, command.failed, command.code, |log| {
        if let Err(error) = tote_oci::seal() {
            log.error(&format!("{} failed: {}", parsed.name(), chain(&error)));
            return Err(Failure::Told);
        }
        log.debug(
            "the executable cannot be written to from here, for which others have \
             runc exeseal: using overlayfs for sealed /proc/self/exe, or runc exeseal: using /proc/self/exe clone",
        );
        (command.work)(parsed, log)
    })
}

/// Runs a command that makes no process in a container.
pub(crate) fn serve(parsed: &Parsed, work: Work) -> ExitCode {
    logged(parsed, "", 1, |log| work(parsed, log))
}

/// Runs `tote oci` without a command.
pub(crate) fn itself(parsed: &Parsed) -> ExitCode {
    if !parsed.flag("version") {
        return serve(parsed, |parsed, _| Ok(print(&help(parsed))));
    }
    match Log::new(parsed) {
        Ok(_) => print(&version()),
        Err(text) => crate::tell::failure(&text, None, 1),
    }
}

/// Opens the log and runs `work`. Its failure is logged after the text `failed`, and ends with the exit code `code`.
fn logged(parsed: &Parsed, failed: &str, code: u8, work: impl FnOnce(&mut Log) -> Done) -> ExitCode {
    let mut log = match Log::new(parsed) {
        Ok(log) => log,
        Err(text) => return crate::tell::failure(&text, None, 1),
    };
    let name = parsed.name();
    log.debug(&format!("{name} begins"));
    match work(&mut log) {
        Ok(code) => {
            log.debug(&format!("{name} is done"));
            code
        }
        Err(failure) => {
            if let Some(text) = failure.text() {
                log.error(&format!("{failed}{text}"));
            }
            ExitCode::from(code)
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
pub(crate) fn help(parsed: &Parsed) -> String {
    let program = tote_engine::arguments().into_iter().next().unwrap_or_default();
    let own = if is_called_so(&program) {
        let name = Path::new(&program).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    } else {
        "tote oci".to_owned()
    };
    let name = if parsed.is_group() {
        format!("{own}, in place of runc - Open Container Initiative runtime")
    } else {
        format!("{own} {} - {}", parsed.name(), parsed.about())
    };
    let text = parsed.help(crate::tell::width());
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
        elsewhere: Some(in_machine),
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
    let made = tote_oci::run(&store(parsed), &id(parsed)?, &creation(parsed)?, how, say);
    if let Err(error @ OciError::Interpreter { program, .. }) = &made {
        // The caller has seen the start succeed, so the error goes to standard error in plain text, not in the log's
        // format.
        let line = format!("exec {program}: no such file or directory");
        log.error_of_program(&line, &chain(error));
        return Err(Failure::Told);
    }
    Ok(code(made?))
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
        elsewhere: Some(process_in_machine),
    };
    let say = &mut |level: Level, text: &str| log.say(level, text);
    Ok(code(tote_oci::exec(&store(parsed), &id(parsed)?, &options, say)?))
}

pub(crate) fn start(parsed: &Parsed, log: &mut Log) -> Done {
    let warn = &mut |text: String| log.warn(&text);
    succeed(tote_oci::start(&store(parsed), &id(parsed)?, warn))
}

pub(crate) fn delete(parsed: &Parsed, log: &mut Log) -> Done {
    let force = parsed.flag("force");
    let warn = &mut |text: String| log.warn(&text);
    succeed(tote_oci::delete(&store(parsed), &id(parsed)?, force, warn))
}

pub(crate) fn pause(parsed: &Parsed, _: &mut Log) -> Done {
    succeed(tote_oci::pause(&store(parsed), &id(parsed)?))
}

pub(crate) fn resume(parsed: &Parsed, _: &mut Log) -> Done {
    succeed(tote_oci::resume(&store(parsed), &id(parsed)?))
}

pub(crate) fn update(parsed: &Parsed, log: &mut Log) -> Done {
    let options = update::options(parsed)?;
    let warn = &mut |text: String| log.warn(&text);
    succeed(tote_oci::update(&store(parsed), &id(parsed)?, &options, warn))
}

/// Refuses `checkpoint` and `restore`.
pub(crate) fn refuse_criu(parsed: &Parsed, _: &mut Log) -> Done {
    let text = format!("{} is not supported: tote does not work with criu", parsed.name());
    Err(OciError::Usage(text).into())
}

pub(crate) fn kill(parsed: &Parsed, _: &mut Log) -> Done {
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

pub(crate) fn state(parsed: &Parsed, _: &mut Log) -> Done {
    show(&tote_oci::state(&store(parsed), &id(parsed)?)?)
}

pub(crate) fn features(_: &Parsed, _: &mut Log) -> Done {
    show(&tote_oci::features(VERSION))
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

pub(crate) fn list(parsed: &Parsed, _: &mut Log) -> Done {
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

pub(crate) fn ps(parsed: &Parsed, _: &mut Log) -> Done {
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

pub(crate) fn events(parsed: &Parsed, _: &mut Log) -> Done {
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

/// Parses a duration in Go's syntax that is not negative.
fn duration(text: &str) -> Option<Duration> {
    let nanos = u64::try_from(tote_calendar::parse_duration(text)?).ok()?;
    Some(Duration::from_nanos(nanos))
}

pub(crate) fn spec(parsed: &Parsed, _: &mut Log) -> Done {
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
        assert_eq!(duration("2m30s"), Some(Duration::from_secs(150)));
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
