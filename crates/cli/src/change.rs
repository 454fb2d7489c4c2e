//! `tote commit`, `tote diff` and `tote export`.

use crate::{engine_error, failure, home, print, warning};
use std::io::{BufWriter, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use tote_engine::{CommitOptions, EngineError, Home, Status, WholeFile};
use tote_options::Parsed;

/// As much as is written at once.
const BUFFER: usize = 256 << 10;

pub(crate) fn dispatch(parsed: &Parsed) -> ExitCode {
    let done = match parsed.command().name {
        "commit" => commit(parsed),
        "diff" => diff(parsed),
        _ => export(parsed),
    };
    done.unwrap_or_else(|error| engine_error(&error))
}

fn word(parsed: &Parsed, at: usize) -> Option<String> {
    let word = parsed.positionals().get(at)?;
    Some(word.to_string_lossy().into_owned())
}

/// The state root, for a process that may read what containers wrote.
fn ready(parsed: &Parsed) -> Result<Home, EngineError> {
    let home = home(parsed)?;
    tote_engine::enter_ids(&home)?;
    Ok(home)
}

fn text(parsed: &Parsed, option: &str) -> String {
    let value = parsed.value(option).unwrap_or_default();
    value.to_string_lossy().into_owned()
}

fn commit(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let options = CommitOptions {
        author: text(parsed, "author"),
        message: text(parsed, "message"),
        changes: parsed
            .all("change")
            .map(|change| change.to_string_lossy().into_owned())
            .collect(),
        pause: parsed.value("pause").is_none_or(|value| value == "true"),
    };
    let container = word(parsed, 0).unwrap_or_default();
    let committed = tote_engine::commit(&ready(parsed)?, &container, word(parsed, 1).as_deref(), &options)?;
    if committed.went_on {
        warning("the container went on meanwhile, because this user cannot suspend it");
    }
    Ok(print(&format!("{}\n", committed.id)))
}

fn diff(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut text = String::new();
    tote_engine::changes(
        &ready(parsed)?,
        &word(parsed, 0).unwrap_or_default(),
        &mut |changed| {
            let letter = match changed.status {
                Status::Added => 'A',
                Status::Changed => 'C',
                Status::Deleted => 'D',
            };
            text += &format!("{letter} {}\n", changed.path);
        },
    )?;
    Ok(print(&text))
}

fn export(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let container = word(parsed, 0).unwrap_or_default();
    if let Some(path) = parsed.value("output").map(Path::new) {
        let failed = |attempt| {
            move |source| EngineError::File {
                option: "output",
                attempt,
                path: path.to_owned(),
                source,
            }
        };
        let mut file = WholeFile::create(path).map_err(failed("make"))?;
        let code = export_to(parsed, &container, &mut file)?;
        file.finish().map_err(failed("write"))?;
        return Ok(code);
    }
    let out = std::io::stdout().lock();
    if out.is_terminal() {
        return Ok(failure(
            "an archive is not written to a terminal",
            Some("use -o FILE, or redirect the output"),
            1,
        ));
    }
    export_to(parsed, &container, out)
}

fn export_to(parsed: &Parsed, container: &str, out: impl std::io::Write) -> Result<ExitCode, EngineError> {
    tote_engine::export(&ready(parsed)?, container, BufWriter::with_capacity(BUFFER, out))?;
    Ok(ExitCode::SUCCESS)
}
