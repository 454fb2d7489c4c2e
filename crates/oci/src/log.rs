//! Lines in the format of runc's log, which callers read back.

/// Format of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time="…" level=error msg="…"`
    #[default]
    Text,
    /// JSON object on each line.
    Json,
}

/// Function that gets messages beside the result.
pub type Say<'a> = &'a mut dyn FnMut(Level, &str);

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Only of interest when looking for a fault.
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

/// Formats a line, with its end.
#[must_use]
pub fn line(format: LogFormat, level: Level, message: &str) -> String {
    write(
        format,
        level,
        message,
        &tote_calendar::in_seconds(tote_calendar::now()),
    )
}

fn write(format: LogFormat, level: Level, message: &str, time: &str) -> String {
    let message = clipped(message);
    // JSON quotes as Go's %q does, for everything that occurs.
    let quoted = serde_json::Value::from(message);
    let level = level.word();
    match format {
        LogFormat::Text => format!("time=\"{time}\" level={level} msg={quoted}\n"),
        LogFormat::Json => {
            format!("{{\"level\":\"{level}\",\"msg\":{quoted},\"time\":\"{time}\"}}\n")
        }
    }
}

/// Longest message, in bytes: room for most paths and the words around them. Only a bundle can make longer ones.
const LONGEST: usize = 3840;

fn clipped(message: &str) -> std::borrow::Cow<'_, str> {
    if message.len() <= LONGEST {
        return message.into();
    }
    let end = message.floor_char_boundary(LONGEST);
    format!("{}… ({} bytes)", &message[..end], message.len()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_cannot_flood_the_log() {
        let long = "é".repeat(LONGEST);
        let line = write(LogFormat::Text, Level::Error, &long, "T");
        assert!(line.len() < LONGEST + 100, "{} bytes", line.len());
        assert!(
            line.ends_with(&format!("é… ({} bytes)\"\n", long.len())),
            "{line}"
        );
    }

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
