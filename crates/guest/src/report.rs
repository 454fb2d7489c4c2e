//! Reports of a worker to the agent: lines of text through a pipe.

use tote_channel::End;

/// Something that happened to the process of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Number of the process, which exists now.
    Born(i32),
    /// Process that has become its program.
    Runs,
    /// Number of a process that has become its program already: both in one, since each report wakes the agent.
    Began(i32),
    /// Something that the process has to do without.
    Warning(String),
    /// Exit code and reason of a process that could not begin.
    Failed(u8, String),
    /// End of the process.
    Ended(End),
}

impl Report {
    /// Returns the line.
    pub(crate) fn line(&self) -> String {
        let one = |text: &str| text.replace('\n', " ");
        match self {
            Self::Born(pid) => format!("born {pid}\n"),
            Self::Runs => "runs \n".to_owned(),
            Self::Began(pid) => format!("began {pid}\n"),
            Self::Warning(text) => format!("warning {}\n", one(text)),
            Self::Failed(code, text) => format!("failed {code} {}\n", one(text)),
            Self::Ended(End::Code(code)) => format!("code {code}\n"),
            Self::Ended(End::Signal(number)) => format!("signal {number}\n"),
        }
    }

    /// Reads a line without its end.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        Some(match word {
            "born" => Self::Born(rest.parse().ok()?),
            "runs" => Self::Runs,
            "began" => Self::Began(rest.parse().ok()?),
            "warning" => Self::Warning(rest.to_owned()),
            "failed" => {
                let (code, text) = rest.split_once(' ')?;
                Self::Failed(code.parse().ok()?, text.to_owned())
            }
            "code" => Self::Ended(End::Code(rest.parse().ok()?)),
            "signal" => Self::Ended(End::Signal(rest.parse().ok()?)),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        for report in [
            Report::Born(17),
            Report::Runs,
            Report::Began(18),
            Report::Warning("no keyring: a b".to_owned()),
            Report::Failed(127, "exec: \"x\": not found".to_owned()),
            Report::Ended(End::Code(3)),
            Report::Ended(End::Signal(9)),
        ] {
            let line = report.line();
            let line = line.strip_suffix('\n').unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(Report::parse(line), Some(report));
        }
        assert_eq!(Report::Warning("a\nb".to_owned()).line(), "warning a b\n");
        for line in ["", "born", "born x", "failed 3", "code 256", "other 1"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
