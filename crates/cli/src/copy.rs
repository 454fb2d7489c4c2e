//! `tote cp`.

use crate::home::home;
use crate::tell::{engine_error, failure, say, warning};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tote_engine::{Copied, CopyRequest, CopyStreams, EngineError};
use tote_options::Parsed;
use tote_view::size;

/// Copies that end within this time show no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Minimum time between two updates of the progress line.
const REDRAW: Duration = Duration::from_millis(100);

pub(crate) fn copy(parsed: &Parsed) -> ExitCode {
    let word = |at: usize| parsed.positionals().get(at).cloned().unwrap_or_default();
    let here = match std::path::absolute(".") {
        Ok(here) => here,
        Err(error) => return failure(&format!("find the current directory: {error}"), None, 1),
    };
    let request = CopyRequest {
        here,
        from: word(0),
        to: word(1),
        archive: parsed.flag("archive"),
        follow: parsed.flag("follow-link"),
        overwrite: parsed.flag("overwrite"),
    };
    if request.from == "-" && std::io::stdin().is_terminal() {
        let text = "an archive is not read from a terminal";
        return failure(text, Some("redirect the input, or give a path"), 1);
    }
    if request.to == "-" && std::io::stdout().is_terminal() {
        let text = "an archive is not written to a terminal";
        return failure(text, Some("redirect the output, or give a path"), 1);
    }
    let shown = !parsed.flag("quiet") && std::io::stderr().is_terminal();
    let mut progress = Progress::new(&request);
    let copied = carry_out(parsed, &request, &mut |bytes| {
        if shown {
            progress.advance(bytes);
        }
    });
    progress.clear();
    match copied {
        Ok(copied) => {
            if copied.devices_skipped > 0 {
                warning(&format!("{} device nodes were left out", copied.devices_skipped));
            }
            if shown && request.to != "-" {
                let to = request.to.to_string_lossy();
                say(&format!(
                    "Successfully copied {} to {}\n",
                    size(copied.bytes),
                    tote_view::one_line(&to)
                ));
            }
            ExitCode::SUCCESS
        }
        Err(error) => engine_error(&error),
    }
}

fn carry_out(
    parsed: &Parsed,
    request: &CopyRequest,
    told: &mut dyn FnMut(u64),
) -> Result<Copied, EngineError> {
    let streams = CopyStreams {
        input: &mut std::io::stdin().lock(),
        output: &mut std::io::stdout().lock(),
    };
    tote_engine::copy(&home(parsed)?, request, streams, told)
}

/// docker's progress, a single line that is rewritten.
struct Progress {
    header: &'static str,
    bytes: u64,
    began: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    fn new(request: &CopyRequest) -> Self {
        let first = request.to.as_encoded_bytes().first();
        let is_local = matches!(first, Some(b'.' | b'/')) || !request.to.as_encoded_bytes().contains(&b':');
        Self {
            header: if is_local {
                "Copying from container"
            } else {
                "Copying to container"
            },
            bytes: 0,
            began: Instant::now(),
            drawn: None,
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        let is_due = match self.drawn {
            Some(drawn) => drawn.elapsed() >= REDRAW,
            None => self.began.elapsed() >= PATIENCE,
        };
        if is_due {
            say(&format!("\r\x1b[K{} - {}", self.header, size(self.bytes)));
            self.drawn = Some(Instant::now());
        }
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            say("\r\x1b[K");
        }
    }
}
