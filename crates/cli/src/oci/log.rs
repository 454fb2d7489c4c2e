//! Log of an OCI runtime: errors go to standard error, and to the file that the caller reads.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use tote_oci::best_effort;
use tote_oci::{Level, LogFormat, line};
use tote_options::Parsed;

/// The log of a command.
pub(crate) struct Log {
    file: Option<File>,
    format: LogFormat,
    debug: bool,
}

impl Log {
    /// Opens the log that the options name.
    ///
    /// # Errors
    /// A single line: the format is unknown, or the file cannot be opened. The command must not run then, because
    /// its messages would be lost.
    pub(crate) fn new(parsed: &Parsed) -> Result<Self, String> {
        let format = match parsed.value("log-format").and_then(|format| format.to_str()) {
            None | Some("text" | "") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => return Err(format!("invalid log-format {other:?}: text and json are known")),
        };
        let mut log = Self {
            file: None,
            format,
            debug: parsed.flag("debug"),
        };
        if let Some(path) = parsed.value("log").filter(|path| !path.is_empty()) {
            let opened = OpenOptions::new().append(true).create(true).open(path);
            let failed = |error| format!("cannot open the log {}: {error}", path.to_string_lossy());
            log.file = Some(opened.map_err(failed)?);
        }
        Ok(log)
    }

    /// Logs the error of a command. It always goes to standard error too.
    pub(crate) fn error(&mut self, text: &str) {
        if self.file.is_some() {
            crate::tell::say(&format!("{}\n", tote_view::one_line(text)));
        }
        self.write(Level::Error, text);
    }

    /// Logs why a program could not be executed after its start: a line for standard error, and a text for the log
    /// file.
    pub(crate) fn error_of_program(&mut self, line: &str, text: &str) {
        crate::tell::say(&format!("{}\n", tote_view::one_line(line)));
        if self.file.is_some() {
            self.write(Level::Error, text);
        }
    }

    /// Logs a warning about a feature that the container does not get.
    pub(crate) fn warn(&mut self, text: &str) {
        self.write(Level::Warning, text);
    }

    /// Logs a text with the given level.
    pub(crate) fn say(&mut self, level: Level, text: &str) {
        match level {
            Level::Debug => self.debug(text),
            Level::Warning => self.warn(text),
            Level::Error => self.error(text),
        }
    }

    /// Logs a detail for debugging.
    pub(crate) fn debug(&mut self, text: &str) {
        if self.debug {
            self.write(Level::Debug, text);
        }
    }

    fn write(&mut self, level: Level, text: &str) {
        let line = line(self.format, level, text);
        // A full disk must not stop a container, so failures to log are ignored.
        match &mut self.file {
            Some(file) => best_effort(file.write_all(line.as_bytes())),
            None => best_effort(std::io::stderr().write_all(line.as_bytes())),
        }
    }
}
