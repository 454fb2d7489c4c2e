//! The smallest program around the tables: help, version, completions, man pages, and what was parsed.

mod commands;

use commands::TOTE;
use std::io::Write;
use std::process::ExitCode;
use tote_options::{Parsed, Shell, find, help, man, parse};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    match parse(&TOTE, std::env::args_os().skip(1)) {
        Ok(parsed) => print(&answer(&parsed)),
        Err(error) => {
            let text = format!("tote: {error}\n  hint: {}\n", error.hint());
            let _ignored = std::io::stderr().write_all(text.as_bytes());
            ExitCode::from(125)
        }
    }
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(parsed: &Parsed) -> String {
    let words: Vec<&str> = parsed
        .positionals()
        .iter()
        .filter_map(|word| word.to_str())
        .collect();
    if parsed.wants_help() {
        return help(parsed.path(), 80);
    }
    if parsed.flag("version") {
        return format!("tote version {VERSION}\n");
    }
    match (parsed.command().name, words.as_slice()) {
        ("help", ["man", words @ ..]) => find(&TOTE, words)
            .map(|path| man(&path, VERSION))
            .unwrap_or_default(),
        ("help", words) => find(&TOTE, words).map(|path| help(&path, 80)).unwrap_or_default(),
        ("completion", [shell]) => Shell::named(shell)
            .map(|shell| shell.script(&TOTE))
            .unwrap_or_default(),
        ("tote", _) => help(parsed.path(), 80),
        _ => format!("{:#?}\n", parsed.values()),
    }
}
