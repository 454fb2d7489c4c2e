//! `tote attach` and `tote logs`.

use crate::home::home;
use crate::tell::engine_error;
use std::io::{BufWriter, Stderr, Stdout, Write as _, stderr, stdout};
use std::process::ExitCode;
use tote_engine::container::{self, LogEntry, LogStream, LogsOptions, Streams};
use tote_engine::{EngineError, Home};
use tote_options::Parsed;

/// Returns the state root, and the first word, which names a container.
fn named(parsed: &Parsed) -> Result<(Home, String), EngineError> {
    let name = parsed.positionals().first().map(|word| word.to_string_lossy());
    Ok((home(parsed)?, name.unwrap_or_default().into_owned()))
}

pub(crate) fn attach(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (home, name) = named(parsed)?;
    let streams = Streams {
        stdin: !parsed.flag("no-stdin"),
        stdout: true,
        stderr: true,
    };
    let finished = container::attach(&home, &name, &crate::life::given::attaching(parsed, streams))?;
    match finished {
        Some(finished) => Ok(crate::tell::finished(finished)),
        None => Ok(crate::tell::left()),
    }
}

pub(crate) fn logs(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let (home, name) = named(parsed)?;
    if parsed.flag("egress") {
        return refused(&home, parsed);
    }
    let options = logs_options(parsed)?;
    if parsed.positionals().len() > 1 {
        return logs_of(&home, parsed, &options);
    }
    let mut printer = Printer::new(parsed, parsed.flag("details"));
    let mut broken = false;
    container::logs(&home, &name, &options, &mut |entry| {
        broken = printer.print("", entry).is_err();
        !broken
    })?;
    Ok(if broken || printer.flush().is_err() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints what egress policies have refused to containers.
fn refused(home: &Home, parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let mut out = BufWriter::new(stdout());
    let mut written = Ok(());
    for wanted in parsed.positionals() {
        for line in tote_engine::egress_log(home, &wanted.to_string_lossy())? {
            written = written.and_then(|()| writeln!(out, "{line}"));
        }
    }
    Ok(match written.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Prints the logs of several containers, as podman does, with the name of the container before each line.
fn logs_of(home: &Home, parsed: &Parsed, options: &LogsOptions) -> Result<ExitCode, EngineError> {
    let mut of = Vec::new();
    for wanted in parsed.positionals() {
        of.push(container::find(home, &wanted.to_string_lossy())?);
    }
    let mut printer = Printer::new(parsed, parsed.flag("details"));
    let mut broken = false;
    let errors = container::logs_of(home, &of, options, &mut |whose, entry| {
        let whose = if parsed.flag("names") {
            whose.container.display()
        } else {
            whose.container.id.short()
        };
        broken = printer.print(whose, entry).is_err();
        !broken
    });
    let mut code = ExitCode::SUCCESS;
    if broken || printer.flush().is_err() {
        code = ExitCode::FAILURE;
    }
    for error in &errors {
        code = engine_error(error);
    }
    Ok(code)
}

/// Parses the options of `logs`.
pub(crate) fn logs_options(parsed: &Parsed) -> Result<LogsOptions, EngineError> {
    let text = |option| {
        parsed
            .value(option)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let tail = match text("tail").as_deref() {
        None | Some("all" | "") => None,
        // docker's rule: a negative number means all.
        Some(number) if number.starts_with('-') && number[1..].parse::<u64>().is_ok() => None,
        Some(number) => Some(number.parse().map_err(|_| {
            EngineError::Usage(format!(
                "invalid value {number:?} for \"tail\": give a number of lines, or all"
            ))
        })?),
    };
    Ok(LogsOptions {
        follow: parsed.flag("follow"),
        since: text("since"),
        until: text("until"),
        tail,
    })
}

/// Prints log entries, each stream to its own output.
pub(crate) struct Printer {
    stdout: BufWriter<Stdout>,
    stderr: BufWriter<Stderr>,
    last: LogStream,
    /// True if each entry is flushed at once, because the log is followed.
    at_once: bool,
    times: bool,
    details: bool,
}

impl Printer {
    pub(crate) fn new(parsed: &Parsed, details: bool) -> Self {
        Self {
            stdout: BufWriter::new(stdout()),
            stderr: BufWriter::new(stderr()),
            last: LogStream::Stdout,
            at_once: parsed.flag("follow"),
            times: parsed.flag("timestamps"),
            details,
        }
    }

    /// Prints an entry, with `whose` before it unless that is empty.
    pub(crate) fn print(&mut self, whose: &str, entry: &LogEntry<'_>) -> std::io::Result<()> {
        if entry.stream != self.last {
            // Flush, so that both streams keep their order on one terminal.
            self.flush()?;
            self.last = entry.stream;
        }
        let out: &mut dyn std::io::Write = match entry.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        if !whose.is_empty() {
            write!(out, "{whose} ")?;
        }
        if self.times {
            write!(out, "{} ", entry.time.long_text())?;
        }
        if self.details {
            write!(out, "{} ", entry.details())?;
        }
        out.write_all(entry.text.as_bytes())?;
        if self.at_once {
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        self.stdout.flush()?;
        self.stderr.flush()
    }
}
