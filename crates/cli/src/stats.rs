//! `tote stats`.

use crate::home::home;
use crate::listing::Listing;
use crate::tell::{engine_error, print_as_is, visible};
use crate::text;
use serde_json::{Map, Value};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;
use tote_engine::{EngineError, Usage};
use tote_options::Parsed;

/// Time between two updates, as with docker.
const PERIOD: Duration = Duration::from_secs(1);

/// Time over which processor usage is measured if it is shown only once.
const GLANCE: Duration = Duration::from_millis(250);

const HEADINGS: &[(&str, &str)] = &[
    ("Container", "CONTAINER"),
    ("ID", "CONTAINER ID"),
    ("Name", "NAME"),
    ("CPUPerc", "CPU %"),
    ("MemUsage", "MEM USAGE / LIMIT"),
    ("MemPerc", "MEM %"),
    ("NetIO", "NET I/O"),
    ("BlockIO", "BLOCK I/O"),
    ("PIDs", "PIDS"),
    ("Sums", "SUMS"),
];

pub(crate) fn stats(parsed: &Parsed) -> ExitCode {
    show(parsed).unwrap_or_else(|error| engine_error(&error))
}

fn show(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let names: Vec<String> = parsed
        .positionals()
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
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
    listing: Make<'_, T>,
) -> Result<ExitCode, EngineError> {
    let mut before = look()?;
    if parsed.flag("no-stream") {
        tote_engine::wait_while_read(GLANCE);
        let now = look()?;
        return Ok(listing(parsed, &before, &now).print(parsed));
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
        let code = match listing(parsed, &before, &now).text(parsed) {
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
    let whole = parsed.flag("no-trunc");
    let marks = is_read_by_people(parsed);
    let rows = now.iter().map(|usage| {
        let earlier = before.iter().find(|earlier| earlier.id == usage.id);
        let mut row = row(usage, earlier.unwrap_or(usage), (whole, marks));
        // docker shows the container's name as the user gave it.
        let means = |word: &&std::ffi::OsString| {
            let word = word.to_string_lossy();
            word.trim_start_matches('/') == usage.name || usage.id.starts_with(&*word)
        };
        if let Some(word) = parsed.positionals().iter().find(means) {
            row["Container"] = Value::from(word.to_string_lossy());
        }
        row
    });
    Listing {
        headings: HEADINGS,
        columns: "{{.ID}}\t{{.Name}}\t{{.CPUPerc}}\t{{.MemUsage}}\t{{.MemPerc}}\t{{.NetIO}}\t{{.BlockIO}}\t{{.PIDs}}"
            .to_owned(),
        rows: rows.collect(),
        ..Listing::default()
    }
}

/// True if the default table is printed.
pub(crate) fn is_read_by_people(parsed: &Parsed) -> bool {
    let wanted = parsed.setting("format");
    let format = wanted.as_deref().and_then(std::ffi::OsStr::to_str);
    format.is_none_or(|format| format.trim() == "table")
}

/// Builds a row with docker's fields. In a table, a value that was added up from processes has a mark.
pub(crate) fn row(usage: &Usage, before: &Usage, (whole, marks): (bool, bool)) -> Value {
    let mark = |sum: bool, text: String| if sum && marks { format!("~{text}") } else { text };
    let pair = |(one, other): (u64, u64)| format!("{} / {}", text::size(one), text::size(other));
    let id = if whole {
        &usage.id[..]
    } else {
        usage.id.get(..12).unwrap_or(&usage.id)
    };
    let memory = format!("{} / {}", binary(usage.memory), binary(usage.memory_limit));
    let sums = [
        ("CPUPerc", usage.cpu_is_sum),
        ("MemUsage", usage.memory_is_sum),
        ("BlockIO", usage.blocks_are_sum),
    ];
    let sums = sums.iter().filter(|(_, sum)| *sum).map(|(name, _)| *name);
    let fields = [
        ("BlockIO", mark(usage.blocks_are_sum, pair(usage.blocks))),
        (
            "CPUPerc",
            mark(usage.cpu_is_sum, format!("{:.2}%", usage.cpu_percent(before))),
        ),
        ("Container", id.to_owned()),
        ("ID", id.to_owned()),
        (
            "MemPerc",
            mark(usage.memory_is_sum, format!("{:.2}%", usage.memory_percent())),
        ),
        ("MemUsage", mark(usage.memory_is_sum, memory)),
        ("Name", usage.name.clone()),
        ("NetIO", pair(usage.network)),
        ("PIDs", usage.pids.to_string()),
        ("Sums", sums.collect::<Vec<_>>().join(",")),
    ];
    let fields = fields
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Value::from(text)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Formats a number of bytes with four digits and powers of 1024, as docker shows memory: `5.629MiB`.
fn binary(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        value if unit == 0 || value >= 999.95 => 0,
        value if value >= 99.995 => 1,
        value if value >= 9.9995 => 2,
        _ => 3,
    };
    let mut number = format!("{value:.digits$}");
    if number.contains('.') {
        let kept = number.trim_end_matches('0').trim_end_matches('.').len();
        number.truncate(kept);
    }
    format!("{number}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (5_902_434, "5.629MiB"),
            (2_096_103_424, "1.952GiB"),
            (1_048_051_712, "999.5MiB"),
            (1_073_000_000, "1023MiB"),
        ] {
            assert_eq!(binary(bytes), text, "{bytes}");
        }
    }
}
