//! Lines as runc's log has them, which callers read back.

use crate::clock;

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time="…" level=error msg="…"`
    #[default]
    Text,
    /// One object on each line.
    Json,
}

/// Who is told of what goes on beside the result.
pub type Say<'a> = &'a mut dyn FnMut(Level, &str);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Only of interest to who looks for a fault.
    Debug,
    /// The container has to do without something.
    Warning,
    /// The command failed.
    Error,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One line, with its end.
#[must_use]
pub fn line(format: LogFormat, level: Level, message: &str) -> String {
    write(format, level, message, &clock::now_in_seconds())
}

fn write(format: LogFormat, level: Level, message: &str, time: &str) -> String {
    // JSON's way to quote is also what Go's %q gives for everything that occurs.
    let quoted = serde_json::Value::from(message);
    let level = level.word();
    match format {
        LogFormat::Text => format!("time=\"{time}\" level={level} msg={quoted}\n"),
        LogFormat::Json => {
            format!("{{\"level\":\"{level}\",\"msg\":{quoted},\"time\":\"{time}\"}}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let message = "exec: \"x\": not\nfound";
        assert_eq!(
            write(LogFormat::Text, Level::Error, message, "T"),
            "time=\"T\" level=error msg=\"exec: \\\"x\\\": not\\nfound\"\n"
        );
        assert_eq!(
            write(LogFormat::Json, Level::Warning, message, "T"),
            "{\"level\":\"warning\",\"msg\":\"exec: \\\"x\\\": not\\nfound\",\"time\":\"T\"}\n"
        );
    }
}
