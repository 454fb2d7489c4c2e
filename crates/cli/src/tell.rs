//! Words to the caller: results on standard output, errors and warnings on standard error.

use std::process::ExitCode;
use tote_engine::{EngineError, ImageFault, chain};
use tote_options::{Fault, Parsed, UsageError};
use tote_view::one_line;

/// Prints to standard output. An image, a container or a registry may have written parts of the text: on a
/// terminal, control characters are shown as `\u{1b}`; other outputs get them unchanged.
pub(crate) fn print(text: &str) -> ExitCode {
    use std::io::IsTerminal as _;
    if text.contains(steers) && std::io::stdout().is_terminal() {
        print_as_is(&visible(text))
    } else {
        print_as_is(text)
    }
}

/// Prints a text with its control characters. If the reader has gone, the command fails silently; every other
/// failure is reported.
pub(crate) fn print_as_is(text: &str) -> ExitCode {
    match emit(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => failure(&format!("cannot write to standard output: {error}"), None, 1),
    }
}

/// Prints the name of a newly made object on a line of its own. If that fails, standard error gets the name: `is`
/// is the sentence that the name ends, such as `the container runs as`.
pub(crate) fn print_made(name: &str, is: &str) -> ExitCode {
    match emit(&format!("{name}\n")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(
            &format!("cannot write to standard output: {error}; {is} {name}"),
            None,
            1,
        ),
    }
}

/// Passes a line of output on, byte for byte, behind what it is the output of. A reader that has gone gets no further lines.
pub(crate) fn pass_line(of: &str, line: &[u8], is_error: bool) {
    use std::io::Write;
    let text = [b"[", of.as_bytes(), b"] ", line, b"\n"].concat();
    let write = |out: &mut dyn Write| out.write_all(&text).and_then(|()| out.flush());
    let written = match is_error {
        true => write(&mut std::io::stderr().lock()),
        false => write(&mut std::io::stdout().lock()),
    };
    // What is wrong with an output shows when the build itself writes to it.
    drop(written);
}

/// Says that the caller has left by the detach keys; docker's words and exit code, because the status of what goes on is unknown.
pub(crate) fn left() -> ExitCode {
    say("read escape sequence\n");
    ExitCode::from(1)
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
pub(crate) fn visible(text: &str) -> String {
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

pub(crate) fn usage_error(error: &UsageError) -> ExitCode {
    // docker's client has these two codes: 125 for options, 1 for all other errors that it finds itself.
    let code = match error.fault() {
        Fault::Positionals { .. } | Fault::UnknownCommand { .. } => 1,
        _ => 125,
    };
    failure(&error.to_string(), Some(&error.hint()), code)
}

/// Reports an error of a command other than `run`. With docker the daemon finds these errors, and the client then
/// ends with 1.
pub(crate) fn refusal(error: &EngineError) -> ExitCode {
    if error.exit_code() != 125 {
        return engine_error(error);
    }
    engine_error(error);
    ExitCode::FAILURE
}

pub(crate) fn engine_error(error: &EngineError) -> ExitCode {
    // The process that pulled has reported the reason.
    if matches!(error, EngineError::Image(ImageFault::NotPulled(_))) {
        return ExitCode::from(error.exit_code());
    }
    failure(&chain(error), error.hint().as_deref(), error.exit_code())
}

/// Reports a failure in a single line, with a hint on a second line if there is one.
pub(crate) fn failure(text: &str, hint: Option<&str>, code: u8) -> ExitCode {
    let hint = hint.map(|hint| format!("  hint: {hint}\n")).unwrap_or_default();
    say(&format!("tote: {}\n{hint}", one_line(text)));
    ExitCode::from(code)
}

pub(crate) fn warning(text: &str) {
    say(&format!("tote: warning: {}\n", one_line(text)));
}

/// Warns of the objects in a list that cannot be used; the reasons of the others are empty.
pub(crate) fn tell_damaged<'a>(reasons: impl IntoIterator<Item = &'a String>) {
    for reason in reasons.into_iter().filter(|reason| !reason.is_empty()) {
        warning(reason);
    }
}

/// Reports what a pruning could not remove; `None` if there was nothing.
pub(crate) fn tell_left(errors: &[EngineError]) -> Option<ExitCode> {
    for error in errors {
        engine_error(error);
    }
    (!errors.is_empty()).then_some(ExitCode::FAILURE)
}

/// Writes to standard error; a failure is ignored, because it could not be reported.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// Prints the help of a group of commands.
pub(crate) fn help(parsed: &Parsed) -> ExitCode {
    print(&parsed.help(width()))
}

/// Returns the width of the help: the terminal's, within limits.
pub(crate) fn width() -> usize {
    tote_engine::terminal_size().map_or(100, |(_, columns)| usize::from(columns).clamp(60, 140))
}

/// Returns the exit code of an ended container, and reports the reason if there is one.
pub(crate) fn finished(finished: tote_engine::Finished) -> ExitCode {
    match finished.reason {
        Some(reason) => failure(&reason, None, finished.exit_code),
        None => ExitCode::from(finished.exit_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let shown = "a\tb\\u{1b}]0;t\\u{7}\\u{9b}\\r\né\n";
        assert_eq!(visible("a\tb\x1b]0;t\x07\u{9b}\r\né\n"), shown);
    }
}
