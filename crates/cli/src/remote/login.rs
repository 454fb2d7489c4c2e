//! `tote login` and `tote logout`.

use crate::remote::access::access;
use crate::remote::access::usage;
use crate::tell::{engine_error, print, say, warning};
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use tote_engine::Access;
use tote_engine::ImagesError;
use tote_options::Parsed;

/// Maximum length of a password or token in bytes; real ones are shorter.
const MOST: u64 = 64 << 10;

pub(crate) fn login(parsed: &Parsed) -> ExitCode {
    if parsed.flag("get-login") {
        return told(tote_engine::login_name(&registry(parsed), &access(parsed)).map(|name| name + "\n"));
    }
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
    let done = tote_engine::login(&registry(parsed), &username, &password, &access(parsed));
    told(done.map(|_| "Login Succeeded\n".to_owned()))
}

pub(crate) fn logout(parsed: &Parsed) -> ExitCode {
    let access = Access {
        authfile: parsed.value("authfile").map(PathBuf::from),
        ..Access::default()
    };
    if parsed.flag("all") {
        if !parsed.positionals().is_empty() {
            return usage("--all takes no arguments", "leave out the registry, or --all");
        }
        let done = tote_engine::logout_everywhere(&access);
        return told(done.map(|()| "Removed login credentials for all registries\n".to_owned()));
    }
    let registry = registry(parsed);
    let done = tote_engine::logout(&registry, &access);
    // docker's words, whether or not there were any.
    let registry = match registry.as_str() {
        "docker.io" => "https://index.docker.io/v1/",
        registry => registry,
    };
    told(done.map(|_| format!("Removing login credentials for {registry}\n")))
}

/// Prints what was done, or why not.
fn told(done: Result<String, ImagesError>) -> ExitCode {
    match done {
        Ok(text) => print(&text),
        Err(error) => {
            engine_error(&error.into());
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

/// Asks a question and reads a line of standard input.
fn ask(question: &str) -> Option<String> {
    say(question);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}
