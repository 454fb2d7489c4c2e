//! `tote stats`.

use crate::home::home;
use crate::listing;
use crate::tell::{engine_error, print_as_is, visible};
use crate::words::words;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use tote_engine::{EngineError, Usage};
use tote_options::Parsed;
use tote_view::Listing;

/// Time between two updates, as with docker.
const PERIOD: Duration = Duration::from_secs(1);

/// Time over which processor usage is measured if it is shown only once.
const GLANCE: Duration = Duration::from_millis(250);

pub(crate) fn stats(parsed: &Parsed) -> ExitCode {
    show(parsed).unwrap_or_else(|error| engine_error(&error))
}

fn show(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let names = words(parsed);
    repeat(
        parsed,
        &mut || tote_engine::usage(&home, &names, parsed.flag("all")),
        &listing,
    )
}

/// Function that makes a list from the earlier and the present usage.
type Make<'a, T> = &'a dyn Fn(&Parsed, &[T], &[T]) -> Listing;

/// Shows a list of usage once, or again and again.
pub(crate) fn repeat<T>(
    parsed: &Parsed,
    look: &mut dyn FnMut() -> Result<Vec<T>, EngineError>,
    make: Make<'_, T>,
) -> Result<ExitCode, EngineError> {
    let mut before = look()?;
    if parsed.flag("no-stream") {
        tote_engine::wait_while_read(GLANCE);
        let now = look()?;
        return Ok(listing::show(&make(parsed, &before, &now), parsed));
    }
    // A terminal is cleared before each table. An empty table is printed too.
    let keeps = parsed.takes("no-reset") && parsed.flag("no-reset");
    let (start, end) = if std::io::stdout().is_terminal() && !keeps {
        ("\x1b[H\x1b[2J", "")
    } else {
        ("", "\n")
    };
    loop {
        tote_engine::wait_while_read(PERIOD);
        let now = look()?;
        let code = match listing::text(&make(parsed, &before, &now), parsed) {
            Ok(text) => print_as_is(&format!("{start}{}{end}", visible(&text))),
            Err(code) => return Ok(code),
        };
        // Stop if the output is closed.
        if code != ExitCode::SUCCESS {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

fn listing(parsed: &Parsed, before: &[Usage], now: &[Usage]) -> Listing {
    let shown = (parsed.flag("no-trunc"), is_read_by_people(parsed));
    tote_view::usage(&words(parsed), before, now, shown)
}

/// True if the default table is printed.
pub(crate) fn is_read_by_people(parsed: &Parsed) -> bool {
    let wanted = parsed.setting("format");
    let format = wanted.as_deref().and_then(std::ffi::OsStr::to_str);
    format.is_none_or(|format| format.trim() == "table")
}
