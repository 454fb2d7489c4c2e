//! `tote`: the command line.
//!
//! Arguments become a request, a result becomes text and an exit code. Nothing is decided here, and nothing else in
//! the workspace prints. The tables of commands and options are in [`commands`]; each command is executed by one of
//! the files below.

#![cfg_attr(not(test), no_main)]

mod about;
mod ask;
mod attach;
mod build;
mod buildx;
mod change;
mod commands;
mod complete;
mod copy;
mod exec;
mod generate;
mod health;
mod image;
mod life;
mod listing;
mod look;
mod manifest;
mod network;
mod oci;
mod output;
mod pod;
mod pool;
mod remote;
mod run;
mod stats;
mod system;
mod text;
mod unit;
mod volume;

use commands::{OCI, TOTE};
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{EngineError, Home};
use tote_options::{Fault, Parsed, Shell, UsageError};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(not(test))]
tote_engine::entry!(crate::main);

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let as_runtime = oci::is_called_so(&program);
    let implied = unit::called_as(&program).unwrap_or_default();
    let args = implied.iter().map(Into::into).chain(args);
    match tote_options::parse(if as_runtime { &OCI } else { &TOTE }, args) {
        Ok(mut parsed) => match name_first(&mut parsed) {
            Ok(()) => dispatch(&parsed),
            Err(error) => engine_error(&error),
        },
        Err(error) if error.path().iter().any(|command| command.name == OCI.name) => oci::usage_error(&error),
        Err(error) => usage_error(&error),
    }
}

/// Replaces `--latest` by the id of the container that was created last.
fn name_first(parsed: &mut Parsed) -> Result<(), EngineError> {
    if parsed.first_is_named_by().is_none() {
        return Ok(());
    }
    let newest = tote_engine::Selection {
        last: Some(1),
        ..tote_engine::Selection::default()
    };
    let found = tote_engine::select(&home(parsed)?, &newest)?;
    let newest = found
        .first()
        .ok_or_else(|| EngineError::Usage("--latest: there is no container".to_owned()))?;
    parsed.put_first(newest.container.id.as_str().into());
    Ok(())
}

/// Function that runs the commands of a group.
type Dispatch = fn(&Parsed) -> ExitCode;

fn dispatch(parsed: &Parsed) -> ExitCode {
    let is_runtime = parsed
        .path()
        .iter()
        .any(|command| std::ptr::eq(*command, &raw const OCI));
    if parsed.wants_help() {
        return print(&if is_runtime {
            oci::help(parsed.path())
        } else {
            tote_options::help(parsed.path(), width())
        });
    }
    if is_runtime {
        return oci::dispatch(parsed);
    }
    if enters_containers(parsed)
        && let Err(error) = tote_engine::prepare_seal()
    {
        return engine_error(&error.into());
    }
    if parsed.command().name == "build" {
        return build::build(parsed);
    }
    let is_of = |group: &str| parsed.path().iter().any(|command| command.name == group);
    if is_of("manifest") {
        return manifest::dispatch(parsed);
    }
    if is_of("builder") && parsed.command().name != "prune" {
        return buildx::dispatch(parsed);
    }
    // `events` and `info` of `system` are dispatched by their own names, below.
    let is_alone = matches!(parsed.command().name, "events" | "info");
    let mut groups = parsed.path().iter();
    if !is_alone && groups.any(|command| matches!(command.name, "image" | "builder" | "system" | "store")) {
        return image::dispatch(parsed);
    }
    let groups: [(&str, Dispatch); 5] = [
        ("volume", volume::dispatch),
        ("network", network::dispatch),
        ("pool", pool::dispatch),
        ("generate", unit::dispatch),
        ("pod", pod::dispatch),
    ];
    if let Some((_, group)) = groups.into_iter().find(|(group, _)| is_of(group)) {
        return group(parsed);
    }
    match parsed.command().name {
        // `prune` without a group is short for `system prune`.
        "prune" if parsed.path().len() == 2 => image::dispatch(parsed),
        "ps" | "ls" | "init" | "inspect" | "events" | "port" => look::dispatch(parsed),
        "images" | "load" | "save" | "import" | "history" | "rmi" | "tag" | "untag" => {
            image::dispatch(parsed)
        }
        "pull" | "push" | "search" | "login" | "logout" => remote::dispatch(parsed),
        "run" if parsed.path().iter().any(|command| command.name == "healthcheck") => health::run(parsed),
        "run" => run::run(parsed),
        "create" => run::create(parsed),
        "start" | "stop" | "restart" | "kill" | "rm" | "wait" | "rename" | "pause" | "unpause" | "update"
        | "exists" | "prune" => life::dispatch(parsed),
        "exec" => exec::exec(parsed),
        "top" => exec::top(parsed),
        "stats" => stats::stats(parsed),
        "attach" | "logs" => attach::dispatch(parsed),
        "cp" => copy::copy(parsed),
        "commit" | "diff" | "export" => change::dispatch(parsed),
        "version" => about::version(parsed),
        "info" => about::info(parsed),
        "help" => help(parsed),
        "completion" => completion(parsed),
        "__complete" => complete::complete(parsed),
        "__build-guard" => build::guard_build(parsed),
        "__man" => generate::man_pages(parsed),
        _ if parsed.flag("version") => print(&format!("tote version {VERSION}\n")),
        _ => print(&tote_options::help(parsed.path(), width())),
    }
}

/// True if a command makes processes that a container can see. This program's file is then sealed first.
fn enters_containers(parsed: &Parsed) -> bool {
    let is_of = |group: &str| parsed.path().iter().any(|command| command.name == group);
    match parsed.command().name {
        // The command that takes a sandbox makes no such process and must be fast; as root it can still seal the
        // program when it fills the pool afterwards.
        "run" if !is_of("healthcheck") && parsed.value("pool").is_some() => !tote_oci::is_root(),
        "run" | "start" | "restart" | "exec" | "cp" | "build" | "fill" => true,
        "create" => is_of("pod"),
        _ => false,
    }
}

fn help(parsed: &Parsed) -> ExitCode {
    let words: Vec<&str> = parsed
        .positionals()
        .iter()
        .filter_map(|word| word.to_str())
        .collect();
    match tote_options::find(&TOTE, &words) {
        Some(path) => print(&tote_options::help(&path, width())),
        None => failure(
            &format!("no such command: {}", words.join(" ")),
            Some("see 'tote --help'"),
            1,
        ),
    }
}

fn completion(parsed: &Parsed) -> ExitCode {
    let name = parsed
        .positionals()
        .first()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match Shell::named(name) {
        Some(shell) => print(&shell.script(&TOTE)),
        None => failure(
            &format!("no completion for {name:?}"),
            Some("bash, zsh and fish are known"),
            1,
        ),
    }
}

/// Opens the state root that the command line or the environment names, or the default one.
fn home(parsed: &Parsed) -> Result<Home, EngineError> {
    let mut home = Home::open(parsed.setting("root").as_deref().map(Path::new))?;
    if let Some(how) = parsed.setting("share-host") {
        home.share_host(&how.to_string_lossy())?;
    }
    Ok(home)
}

/// Prints to standard output. An image, a container or a registry may have written parts of the text: on a
/// terminal, control characters are shown as `\u{1b}`; other outputs get them unchanged.
fn print(text: &str) -> ExitCode {
    use std::io::IsTerminal as _;
    if text.contains(steers) && std::io::stdout().is_terminal() {
        print_as_is(&visible(text))
    } else {
        print_as_is(text)
    }
}

/// Prints a text with its control characters. If the reader has gone, the command fails silently; every other
/// failure is reported.
fn print_as_is(text: &str) -> ExitCode {
    match emit(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => failure(&format!("cannot write to standard output: {error}"), None, 1),
    }
}

/// Prints the name of a newly made object on a line of its own. If that fails, standard error gets the name: `is`
/// is the sentence that the name ends, such as `the container runs as`.
fn print_made(name: &str, is: &str) -> ExitCode {
    match emit(&format!("{name}\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(
            &format!("cannot write to standard output: {error}; {is} {name}"),
            None,
            1,
        ),
    }
}

fn emit(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// Escapes control characters, which could control the terminal.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if steers(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

fn usage_error(error: &UsageError) -> ExitCode {
    // docker's client has these two codes: 125 for options, 1 for all other errors that it finds itself.
    let code = match error.fault() {
        Fault::Positionals { .. } | Fault::UnknownCommand { .. } => 1,
        _ => 125,
    };
    failure(&error.to_string(), Some(&error.hint()), code)
}

/// Reports an error of a command other than `run`. With docker the daemon finds these errors, and the client then
/// ends with 1.
fn refusal(error: &EngineError) -> ExitCode {
    if error.exit_code() != 125 {
        return engine_error(error);
    }
    engine_error(error);
    ExitCode::FAILURE
}

fn engine_error(error: &EngineError) -> ExitCode {
    // The process that pulled has reported the reason.
    if matches!(error, EngineError::NotPulled(_)) {
        return ExitCode::from(error.exit_code());
    }
    failure(&chain(error), error.hint().as_deref(), error.exit_code())
}

/// Reports a failure in a single line, with a hint on a second line if there is one.
fn failure(text: &str, hint: Option<&str>, code: u8) -> ExitCode {
    let hint = hint.map(|hint| format!("  hint: {hint}\n")).unwrap_or_default();
    say(&format!("tote: {}\n{hint}", one_line(text)));
    ExitCode::from(code)
}

fn warning(text: &str) {
    say(&format!("tote: warning: {}\n", one_line(text)));
}

/// Writes to standard error; a failure is ignored, because it could not be reported.
fn say(text: &str) {
    use std::io::Write as _;
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// Replaces control characters by spaces: parts of the text may come from an image or a file, and must not control
/// the terminal.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Joins an error and its causes into a single text.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the width of the help: the terminal's, within limits.
fn width() -> usize {
    tote_engine::terminal_size().map_or(100, |(_, columns)| usize::from(columns).clamp(60, 140))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\nb\x1b[31mc"), "a b [31mc");
        let shown = "a\tb\\u{1b}]0;t\\u{7}\\u{9b}\\r\né\n";
        assert_eq!(visible("a\tb\x1b]0;t\x07\u{9b}\r\né\n"), shown);
    }
}
