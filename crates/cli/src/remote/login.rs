//! `tote login` and `tote logout`.

use super::{tls_verify, usage};
use crate::{engine_error, print, say, warning};
use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;
use tote_options::Parsed;

/// More than any password or token has, in bytes.
const MOST: u64 = 64 << 10;

pub(super) fn login(parsed: &Parsed) -> ExitCode {
    let text = |option| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let terminal = std::io::stdin().is_terminal();
    let Some(username) = text("username").or_else(|| terminal.then(|| ask("Username: ")).flatten()) else {
        return usage("a name is needed to log in", "give --username NAME");
    };
    let password = if parsed.flag("password-stdin") {
        let mut password = String::new();
        let read = std::io::stdin().lock().take(MOST).read_to_string(&mut password);
        read.is_ok()
            .then(|| password.trim_end_matches(['\r', '\n']).to_owned())
    } else if let Some(password) = text("password") {
        warning("a password on the command line is seen by others: use --password-stdin");
        Some(password)
    } else if terminal {
        tote_engine::ask_secret("Password: ")
    } else {
        return usage(
            "a password is needed to log in",
            "give --password-stdin, or log in at a terminal",
        );
    };
    let Some(password) = password.filter(|password| !password.is_empty()) else {
        return usage(
            "the password is empty",
            "give --password-stdin, or log in at a terminal",
        );
    };
    let registry = registry(parsed);
    match tote_engine::login(&registry, &username, &password, tls_verify(parsed)) {
        Ok(_) => print("Login Succeeded\n"),
        Err(error) => {
            engine_error(&error);
            ExitCode::from(1)
        }
    }
}

pub(super) fn logout(parsed: &Parsed) -> ExitCode {
    let registry = registry(parsed);
    match tote_engine::logout(&registry) {
        Ok(true) => print(&format!("Removing login credentials for {registry}\n")),
        Ok(false) => print(&format!("Not logged in to {registry}\n")),
        Err(error) => {
            engine_error(&error);
            ExitCode::from(1)
        }
    }
}

fn registry(parsed: &Parsed) -> String {
    let given = parsed
        .positionals()
        .first()
        .map(|word| word.to_string_lossy().into_owned());
    given.unwrap_or_else(|| "docker.io".to_owned())
}

/// A line of standard input.
fn ask(question: &str) -> Option<String> {
    say(question);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}
