//! A program's report about its own steps with `--timings`: lines `timings: MICROSECONDS LABEL` on stderr, in
//! order, the last of them `timings: MICROSECONDS total`.

use serde::{Deserialize, Serialize};

/// Label of the line with the total.
pub const TOTAL: &str = "total";

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Name of the step.
    pub label: String,
    /// Duration in microseconds.
    pub us: u64,
}

/// Parses the steps in `stderr`; other lines are ignored. Lines with one label are summed up.
pub fn parse(stderr: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in stderr.lines() {
        let Some((us, label)) = parse_line(line) else {
            continue;
        };
        match steps.iter_mut().find(|step| step.label == label) {
            Some(step) => step.us = step.us.saturating_add(us),
            None => steps.push(Step {
                label: label.to_owned(),
                us,
            }),
        }
    }
    steps
}

fn parse_line(line: &str) -> Option<(u64, &str)> {
    let (us, label) = line.strip_prefix("timings: ")?.trim_start().split_once(' ')?;
    let label = label.trim();
    (!label.is_empty()).then_some((us.parse().ok()?, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_order_others_ignored_repeats_summed() {
        let text = "warning: x\ntimings: 12 read config\ntimings:    7 clone\ntimings: 3 read config\ntimings: 30 total\n";
        let found: Vec<_> = parse(text)
            .into_iter()
            .map(|step| (step.label, step.us))
            .collect();
        let expected = [("read config", 15), ("clone", 7), (TOTAL, 30)];
        assert_eq!(found, expected.map(|(label, us)| (label.to_owned(), us)));
    }

    #[test]
    fn malformed_lines_are_not_steps() {
        for text in [
            "",
            "timings:",
            "timings: x y",
            "timings: 5",
            "timings: 5 ",
            "timings: -5 a",
            " timings: 5 a",
        ] {
            assert_eq!(parse(text), [], "{text:?}");
        }
    }
}
