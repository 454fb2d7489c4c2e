//! The Test Anything Protocol as the suites use it: results in the first column, other text around them.

/// A report in TAP.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report<'a> {
    /// Number of announced results: `1..N`.
    pub(super) planned: Option<usize>,
    /// The words after `ok` and the number.
    pub(super) passed: Vec<&'a str>,
    /// The words after `not ok` and the number.
    pub(super) failed: Vec<&'a str>,
    /// The reasons given after `# SKIP`.
    pub(super) skipped: Vec<&'a str>,
}

impl<'a> Report<'a> {
    /// Parses a report. Lines that are not TAP are ignored, and a terminal's carriage returns are removed.
    pub(super) fn parse(text: &'a str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let line = line.trim_end();
            if let Some(plan) = line.strip_prefix("1..") {
                report.plan(plan);
            } else if let Some(words) = result(line, "not ok") {
                report.failed.push(words);
            } else if let Some(words) = result(line, "ok") {
                match skip(words) {
                    Some(reason) => report.skipped.push(reason),
                    None => report.passed.push(words),
                }
            }
        }
        report
    }

    /// Adds a plan. Several reports may follow each other. `1..0 # skip reason` counts as a result.
    fn plan(&mut self, plan: &'a str) {
        let number = plan.split(' ').next().unwrap_or(plan);
        let skipped = skip(plan);
        let results = usize::from(skipped.is_some());
        if let Ok(number) = number.parse::<usize>() {
            let planned = self.planned.unwrap_or(0).saturating_add(number);
            self.planned = Some(planned.saturating_add(results));
        }
        self.skipped.extend(skipped);
    }

    /// Returns the number of results.
    pub(super) fn results(&self) -> usize {
        self.passed.len() + self.failed.len() + self.skipped.len()
    }
}

/// Returns the text after the verdict and the number.
fn result<'a>(line: &'a str, verdict: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(verdict)?;
    let rest = match rest.strip_prefix(' ') {
        Some(rest) => rest,
        None if rest.is_empty() => rest,
        None => return None,
    };
    let words = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    Some(words.trim_start_matches([' ', '-']))
}

/// Returns the reason of a `# SKIP` or `# skip` directive.
fn skip(words: &str) -> Option<&str> {
    let directive = words.rsplit_once("# ")?.1;
    let (word, reason) = directive.split_once(' ').unwrap_or((directive, ""));
    word.eq_ignore_ascii_case("skip").then(|| reason.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports() {
        let text = "TAP version 13\n1..4\nok 1 - a\r\n  ok 9 nested\nnot ok 2 - b\n# why\nok 3 c # SKIP no x\nok\nokay\n";
        assert_eq!(
            Report::parse(text),
            Report {
                planned: Some(4),
                passed: vec!["a", ""],
                failed: vec!["b"],
                skipped: vec!["no x"],
            }
        );
        let bats = "1..1\nok 1 runc x # skip test requires criu\n";
        assert_eq!(Report::parse(bats).skipped, ["test requires criu"]);
        let nothing = Report::parse("1..0 # SKIP not here\n");
        assert_eq!((nothing.planned, nothing.skipped), (Some(1), vec!["not here"]));
        assert_eq!(Report::parse("runc: error\n"), Report::default());
    }
}
