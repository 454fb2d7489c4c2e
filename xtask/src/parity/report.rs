//! The result of a run.

use super::equal::{Difference, difference, missing_fields};
use super::lines::{Group, Kind};
use super::side::Answer;
use std::fmt::{self, Write as _};

/// Smallest share of lines that must be the same or differ in words only, in percent.
const SHARE: usize = 97;

/// Beginning of a reason that lies in docker's daemon at hand, which is older than its client and the reference. Such a line tells
/// nothing of tote.
const DAEMON: &str = "that daemon: ";

#[derive(Debug)]
struct Row<'a> {
    group: &'a str,
    script: &'a str,
    reason: Option<&'a str>,
    difference: Difference,
    ours: &'a Answer,
    theirs: &'a Answer,
}

impl Row<'_> {
    fn differs(&self) -> bool {
        matches!(self.difference, Difference::Output | Difference::Code)
    }

    /// True of a line that tells of tote.
    fn tells(&self) -> bool {
        !self.reason.is_some_and(|reason| reason.starts_with(DAEMON))
    }

    /// True of a difference without a reason, and of a reason without a difference.
    fn is_news(&self) -> bool {
        self.differs() != self.reason.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Report<'a> {
    rows: Vec<Row<'a>>,
}

impl<'a> Report<'a> {
    /// The answers are those of all lines of all groups, ours and docker's.
    pub(super) fn new(groups: &'a [Group], ours: &'a [Vec<Answer>], theirs: &'a [Vec<Answer>]) -> Self {
        let mut rows = Vec::new();
        for (group, (ours, theirs)) in groups.iter().zip(ours.iter().zip(theirs)) {
            for (line, (ours, theirs)) in group.lines.iter().zip(ours.iter().zip(theirs)) {
                let reason = match &line.kind {
                    Kind::Prepares if (ours.code, theirs.code) == (0, 0) => continue,
                    Kind::Prepares => {
                        // What is compared after it means nothing.
                        rows.push(Row {
                            group: &group.title,
                            script: &line.script,
                            reason: None,
                            difference: Difference::Code,
                            ours,
                            theirs,
                        });
                        continue;
                    }
                    Kind::Compared => None,
                    Kind::Differs(reason) => Some(reason.as_str()),
                };
                rows.push(Row {
                    group: &group.title,
                    script: &line.script,
                    reason,
                    difference: difference(ours, theirs),
                    ours,
                    theirs,
                });
            }
        }
        Self { rows }
    }

    fn count(&self, difference: Difference) -> usize {
        self.rows
            .iter()
            .filter(|row| row.difference == difference)
            .count()
    }

    fn alike(&self) -> usize {
        self.rows
            .iter()
            .filter(|row| row.tells() && !row.differs())
            .count()
    }

    /// Number of lines that tell of tote.
    fn told(&self) -> usize {
        self.rows.iter().filter(|row| row.tells()).count()
    }

    /// True if each difference has a reason, each reason a difference, and enough lines are alike.
    pub(super) fn is_sound(&self) -> bool {
        !self.rows.iter().any(Row::is_news) && self.alike() * 100 >= self.told() * SHARE
    }

    /// Shows each line that differs, with both answers.
    pub(super) fn differences(&self) -> String {
        let mut text = String::new();
        for row in self.rows.iter().filter(|row| row.differs() || row.is_news()) {
            _ = row.write(&mut text);
        }
        text
    }
}

impl Row<'_> {
    fn write(&self, text: &mut String) -> fmt::Result {
        let word = match (self.reason, self.differs()) {
            (Some(_), true) => "known",
            (Some(_), false) => "no longer differs",
            (None, _) => "DIFFERS",
        };
        writeln!(text, "{word}: [{}] {}", self.group, self.script)?;
        if let Some(reason) = self.reason {
            writeln!(text, "    {reason}")?;
        }
        for (name, answer) in [("docker", self.theirs), ("tote", self.ours)] {
            writeln!(text, "    {name}: exit code {}", answer.code)?;
            for (mark, part) in [("|", &answer.out), ("!", &answer.errors)] {
                for line in part.lines().take(12) {
                    let line: String = line.chars().take(300).collect();
                    writeln!(text, "      {mark} {line}")?;
                }
            }
        }
        let missing = missing_fields(&self.ours.out, &self.theirs.out);
        if !missing.is_empty() {
            writeln!(text, "    lacks: {}", missing.join(" "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.rows.len();
        let alike = self.alike();
        writeln!(f, "\n| lines | |\n|---|--:|")?;
        for (name, kind) in [
            ("the same", Difference::None),
            ("only the words of errors and warnings differ", Difference::Words),
            ("the output differs", Difference::Output),
            ("the exit code differs", Difference::Code),
        ] {
            writeln!(f, "| {name} | {} |", self.count(kind))?;
        }
        writeln!(f, "| all | {all} |\n")?;
        let told = self.told();
        let tenths = alike * 1000 / told.max(1);
        writeln!(
            f,
            "alike: {alike} of the {told} that are not that daemon's, {}.{} %; news: {}",
            tenths / 10,
            tenths % 10,
            self.rows.iter().filter(|row| row.is_news()).count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Line;
    use super::*;

    fn judged(reason: Option<&str>, is_alike: bool) -> bool {
        let kind = reason.map_or(Kind::Compared, |reason| Kind::Differs(reason.to_owned()));
        let same = |_| Line {
            script: "same".to_owned(),
            kind: Kind::Compared,
        };
        let mut lines: Vec<Line> = (0..99).map(same).collect();
        lines.push(Line {
            script: "docker x".to_owned(),
            kind,
        });
        let groups = [Group {
            title: "g".to_owned(),
            lines,
        }];
        let answers = |last: &str| {
            let mut answers: Vec<Answer> = (0..100).map(|_| Answer::default()).collect();
            answers[99].out = last.to_owned();
            vec![answers]
        };
        let (ours, theirs) = (answers(if is_alike { "a" } else { "b" }), answers("a"));
        let report = Report::new(&groups, &ours, &theirs);
        let text = report.differences();
        assert_eq!(text.contains("docker x"), !is_alike || reason.is_some(), "{text}");
        report.is_sound()
    }

    #[test]
    fn each_difference_has_a_reason_and_each_reason_a_difference() {
        assert!(judged(None, true));
        assert!(judged(Some("because"), false));
        assert!(!judged(None, false));
        assert!(!judged(Some("because"), true));
    }

    #[test]
    fn reasons_do_not_excuse_all() {
        let lines = (0..10).map(|_| Line {
            script: "x".to_owned(),
            kind: Kind::Differs("because".to_owned()),
        });
        let groups = [Group {
            title: "g".to_owned(),
            lines: lines.collect(),
        }];
        let answers = |code| {
            let answer = |_| Answer {
                code,
                ..Answer::default()
            };
            vec![(0..10).map(answer).collect::<Vec<_>>()]
        };
        let (ours, theirs) = (answers(0), answers(1));
        assert!(!Report::new(&groups, &ours, &theirs).is_sound());
    }
}
