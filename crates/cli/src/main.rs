//! `tote`: the command line.
//!
//! Arguments become a request, a result becomes text and an exit code. Nothing is decided here, and nothing else in
//! the workspace prints. The tables of commands and options are in [`commands`]; the row of each command names the
//! function, in one of the files below, that executes it.

#![cfg_attr(not(test), no_main)]

mod about;
mod ask;
mod attach;
mod bench;
mod build;
mod buildx;
mod change;
mod commands;
mod complete;
mod context;
mod copy;
mod debug;
mod exec;
mod exit;
mod generate;
mod global;
mod graph;
mod health;
mod home;
mod image;
mod jobs;
mod life;
mod listing;
mod look;
mod manifest;
mod mount;
mod network;
mod oci;
mod output;
mod pod;
mod podman;
mod pool;
mod remote;
mod run;
mod seal;
mod secret;
mod slim;
mod stats;
mod tell;
mod unit;
mod unshare;
mod vm;
mod vm_template;
mod volume;
mod words;

use crate::home::home;
use crate::tell::engine_error;
use crate::tell::print;
use crate::tell::usage_error;
use commands::{OCI, TOTE};
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

#[cfg(not(test))]
tote_engine::entry!(crate::main);

fn main() -> ExitCode {
    tote_engine::tell_long_waits(|text| tell::say(&format!("tote: {}\n", tote_view::one_line(text))));
    let mut args = tote_engine::arguments().into_iter();
    let program = args.next().unwrap_or_default();
    if let Some(code) = vm::called_as(&program) {
        return code;
    }
    let as_runtime = oci::is_called_so(&program);
    let implied = unit::called_as(&program).unwrap_or_default();
    let args = implied.iter().map(Into::into).chain(args);
    match tote_options::parse(if as_runtime { &OCI } else { &TOTE }, args) {
        Ok(mut parsed) => match name_first(&mut parsed) {
            Ok(()) => execute(&parsed),
            Err(error) => engine_error(&error),
        },
        Err(error) if error.is_below(&OCI) => oci::usage_error(&error),
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

fn execute(parsed: &Parsed) -> ExitCode {
    if parsed.wants_help() {
        return if parsed.is_below(&OCI) {
            print(&oci::help(parsed))
        } else {
            tell::help(parsed)
        };
    }
    // A link named tote-oci knows none of the options of `tote`.
    if std::ptr::eq(parsed.root(), &TOTE) {
        if let Err(code) = global::check(parsed) {
            return code;
        }
        if parsed.flag("noout")
            && let Err(error) = tote_engine::send_output("/dev/null".as_ref(), false)
        {
            return engine_error(&error);
        }
    }
    parsed.execute()
}
