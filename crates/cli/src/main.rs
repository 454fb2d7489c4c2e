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
mod debug;
mod exec;
mod generate;
mod health;
mod home;
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
mod tell;
mod text;
mod unit;
mod volume;
mod words;

use crate::about::VERSION;
use crate::home::home;
use crate::tell::engine_error;
use crate::tell::failure;
use crate::tell::print;
use crate::tell::usage_error;
use crate::tell::width;
use commands::{OCI, TOTE};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::{Parsed, Shell};

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
    let groups: [(&str, Dispatch); 6] = [
        ("volume", volume::dispatch),
        ("network", network::dispatch),
        ("pool", pool::dispatch),
        ("generate", unit::dispatch),
        ("pod", pod::dispatch),
        ("port", look::dispatch),
    ];
    if let Some((_, group)) = groups.into_iter().find(|(group, _)| is_of(group)) {
        return group(parsed);
    }
    match parsed.command().name {
        // `prune` without a group is short for `system prune`.
        "prune" if parsed.path().len() == 2 => image::dispatch(parsed),
        "ps" | "ls" | "init" | "inspect" | "events" => look::dispatch(parsed),
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
        "debug" => debug::debug(parsed),
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
        "run" | "start" | "restart" | "exec" | "debug" | "cp" | "build" | "fill" => true,
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
