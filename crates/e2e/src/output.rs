//! Output of a finished command, and the checks that tests make on it. A failed check shows the whole transcript.

use anyhow::{Result, ensure};
use std::fmt::Write as _;

/// Length of the part of a stream that a failed check shows, in bytes.
const SHOWN: usize = 4000;

/// Value in place of an exit code while the command runs.
pub(crate) const RUNNING: i32 = i32::MIN;

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Output {
    /// Command line, for messages.
    pub(crate) command: String,
    /// Exit code; for a command that a signal ended, the signal's number, negated.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// Returns standard output as text.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns standard error as text.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Formats the result for people.
    pub(crate) fn transcript(&self) -> String {
        let end = if self.code == RUNNING {
            "still running".to_owned()
        } else {
            format!("exit {}", self.code)
        };
        let mut text = format!("$ {}\n{end}\n", self.command);
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let shown = String::from_utf8_lossy(&stream[..stream.len().min(SHOWN)]);
            for line in shown.lines() {
                // Writing to a string cannot fail.
                writeln!(text, "{name}: {}", line.escape_debug()).ok();
            }
            if stream.len() > SHOWN {
                writeln!(text, "{name}: … {} bytes in all", stream.len()).ok();
            }
        }
        text
    }

    /// Refers to the transcript, which was printed when the command ended.
    fn above(&self) -> String {
        format!("exit {} of this, shown above: {}", self.code, self.command)
    }

    /// Checks the exit code.
    pub(crate) fn exits(&self, code: i32) -> Result<&Self> {
        ensure!(self.code == code, "expected exit {code}, saw {}", self.above());
        Ok(self)
    }

    /// Checks that the command ended with 0, and that its standard output is exactly this text.
    pub(crate) fn prints(&self, text: &str) -> Result<&Self> {
        self.exits(0)?;
        ensure!(
            self.stdout == text.as_bytes(),
            "expected stdout {text:?}, saw {}",
            self.above()
        );
        Ok(self)
    }

    /// Checks that the command ended with this exit code, without any output.
    pub(crate) fn prints_nothing(&self, code: i32) -> Result<()> {
        self.exits(code)?.quietly()?;
        ensure!(
            self.stdout.is_empty(),
            "expected nothing on stdout, saw {}",
            self.above()
        );
        Ok(())
    }

    /// Checks that standard error is empty.
    pub(crate) fn quietly(&self) -> Result<&Self> {
        ensure!(
            self.stderr.is_empty(),
            "expected nothing on stderr, saw {}",
            self.above()
        );
        Ok(self)
    }

    /// Checks that standard output contains this text.
    pub(crate) fn has_out(&self, text: &str) -> Result<&Self> {
        ensure!(
            self.out().contains(text),
            "expected {text:?} in stdout, saw {}",
            self.above()
        );
        Ok(self)
    }

    /// Checks that standard error contains this text, ignoring case.
    pub(crate) fn has_err(&self, text: &str) -> Result<&Self> {
        let found = self.err().to_lowercase().contains(&text.to_lowercase());
        ensure!(found, "expected {text:?} in stderr, saw {}", self.above());
        Ok(self)
    }

    /// Checks that the command did not end with 0.
    pub(crate) fn fails(&self) -> Result<&Self> {
        ensure!(self.code != 0, "expected a failure, saw {}", self.above());
        Ok(self)
    }

    /// Checks that the command failed as tote fails: this exit code, nothing on standard output, and on standard
    /// error one line that starts with `tote: ` and contains each of `naming`; a second line may only be a hint.
    pub(crate) fn refuses(&self, code: i32, naming: &[&str]) -> Result<&Self> {
        self.exits(code)?;
        let text = self.err();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let hint = lines.next();
        let shape = first.starts_with("tote: ")
            && hint.is_none_or(|line| line.trim_start().starts_with("hint: "))
            && lines.next().is_none();
        ensure!(
            shape,
            "expected one line `tote: …` and at most a `hint: …`, saw {}",
            self.above()
        );
        for object in naming {
            let found = text.to_lowercase().contains(&object.to_lowercase());
            ensure!(
                found,
                "expected the error to name {object:?}, saw {}",
                self.above()
            );
        }
        ensure!(
            self.stdout.is_empty(),
            "expected nothing on stdout, saw {}",
            self.above()
        );
        Ok(self)
    }

    /// Checks that the command succeeded with exactly one line of warning from tote, which contains `naming`.
    pub(crate) fn warns_once(&self, naming: &str) -> Result<&Self> {
        self.exits(0)?;
        let text = self.err();
        let good =
            text.lines().count() == 1 && text.starts_with("tote: ") && text.to_lowercase().contains(naming);
        ensure!(
            good,
            "expected one line `tote: …` that names {naming:?} on stderr, saw {}",
            self.above()
        );
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    fn failed(stderr: &str) -> Output {
        let stderr = stderr.as_bytes().to_vec();
        Output {
            command: "tote x".into(),
            code: 125,
            stdout: Vec::new(),
            stderr,
        }
    }

    #[test]
    fn the_shape_of_an_error() {
        assert!(
            failed("tote: no Such thing: x\n")
                .refuses(125, &["such", "x"])
                .is_ok()
        );
        assert!(failed("tote: no\n  hint: do\n").refuses(125, &[]).is_ok());
        assert!(failed("tote: no\nmore\n").refuses(125, &[]).is_err());
        assert!(failed("tote: no\nhint: do\nmore\n").refuses(125, &[]).is_err());
        assert!(failed("error: no\n").refuses(125, &[]).is_err());
        assert!(failed("tote: no\n").refuses(125, &["object"]).is_err());
        assert!(failed("tote: no\n").refuses(126, &[]).is_err());
    }
}
