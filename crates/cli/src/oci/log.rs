//! Where an OCI runtime's errors go: to standard error, and to the file that the caller reads them from.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use tote_oci::best_effort;
use tote_oci::{Level, LogFormat, line};
use tote_options::Parsed;

/// The log of one command.
pub(crate) struct Log {
    file: Option<File>,
    format: LogFormat,
    debug: bool,
}

impl Log {
    /// As the options say.
    ///
    /// # Errors
    /// One line: nobody has heard of the format, or the file cannot be opened. What the command has to say would be lost.
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

    /// What the command failed for. It is on standard error in any case.
    pub(crate) fn error(&mut self, text: &str) {
        if self.file.is_some() {
            crate::say(&format!("{}\n", crate::one_line(text)));
        }
        self.write(Level::Error, text);
    }

    /// What kept a program from running after its start: a line for standard error, and a text for a file.
    pub(crate) fn error_of_program(&mut self, line: &str, text: &str) {
        crate::say(&format!("{}\n", crate::one_line(line)));
        if self.file.is_some() {
            self.write(Level::Error, text);
        }
    }

    /// What the container has to do without.
    pub(crate) fn warn(&mut self, text: &str) {
        self.write(Level::Warning, text);
    }

    /// Whatever it is.
    pub(crate) fn say(&mut self, level: Level, text: &str) {
        match level {
            Level::Debug => self.debug(text),
            Level::Warning => self.warn(text),
            Level::Error => self.error(text),
        }
    }

    /// What is of interest to who looks for a fault.
    pub(crate) fn debug(&mut self, text: &str) {
        if self.debug {
            self.write(Level::Debug, text);
        }
    }

    fn write(&mut self, level: Level, text: &str) {
        let line = line(self.format, level, text);
        // A log on a full disk keeps no container from its work.
        match &mut self.file {
            Some(file) => best_effort(file.write_all(line.as_bytes())),
            None => best_effort(std::io::stderr().write_all(line.as_bytes())),
        }
    }
}
