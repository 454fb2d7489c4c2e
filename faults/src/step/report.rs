//! Report of trials and findings, for people and for programs.

use super::call::Call;
use super::errno::shown;
use super::tracer::{Deed, Fault};
use serde::Serialize;
use std::collections::BTreeMap;

/// Finding, with the number of points that showed it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// Text without parts that differ from run to run: ids and numbers of processes.
    what: String,
    /// Command line that repeats the first of its points.
    again: String,
    /// Killed or failed call of the first of its points.
    call: String,
    /// Standard error of the command at the first of its points.
    said: String,
    times: usize,
}

/// Result of one scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    /// Number of processes of the command; the next field has the number of their calls.
    pub(crate) processes: usize,
    pub(crate) calls: usize,
    /// Number of points that were tried, including those whose call did not come this time.
    pub(crate) points: usize,
    /// Number of processes that were killed.
    pub(crate) killed: usize,
    /// Number of calls that failed.
    pub(crate) failed: usize,
    /// Number of points whose call did not come.
    pub(crate) missed: usize,
    /// Number of points with findings.
    pub(crate) faulty: usize,
    pub(crate) findings: BTreeMap<String, Finding>,
    /// Reason why the rest of the scenario could not be tried.
    pub(crate) broken: Option<String>,
}

/// Report of a whole run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) rows: Vec<Row>,
}

impl Row {
    /// Counts one point. Returns the findings that are new.
    pub(crate) fn note(
        &mut self,
        mut fault: Fault,
        hit: Option<&(usize, Call)>,
        findings: &[String],
        said: &str,
    ) -> Vec<String> {
        self.points += 1;
        match (hit, fault.deed) {
            (None, _) => self.missed += 1,
            (Some(_), Deed::Kill) => self.killed += 1,
            (Some(_), Deed::Fail { .. }) => self.failed += 1,
        }
        self.faulty += usize::from(!findings.is_empty());
        let call = match hit {
            None => "no such call".to_owned(),
            Some((number, call)) => {
                fault.call = *number;
                format!("{} {}", call.name, call.object)
            }
        };
        let mut first = Vec::new();
        for finding in findings {
            let what = masked(finding);
            if !self.findings.contains_key(&what) {
                first.push(format!(
                    "{}: {what}\n  {}",
                    self.scenario,
                    again(&self.scenario, fault)
                ));
            }
            let known = self.findings.entry(what.clone()).or_insert_with(|| Finding {
                what,
                again: again(&self.scenario, fault),
                call: call.clone(),
                said: said.trim().to_owned(),
                times: 0,
            });
            known.times += 1;
        }
        first
    }
}

/// Returns the command line that tries one point.
pub(crate) fn again(scenario: &str, fault: Fault) -> String {
    let place = format!(
        "cargo xtask faults {scenario} --process {} --call {}",
        fault.process, fault.call
    );
    match fault.deed {
        Deed::Kill => format!("{place} --kill"),
        Deed::Fail { errno, always } => {
            let always = if always { " --always" } else { "" };
            format!("{place} --errno {}{always}", shown(errno))
        }
    }
}

/// Masks the parts of a text that differ from run to run: long hexadecimal words become `ID`, other numbers `N`.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let close = |word: &mut String, out: &mut String| {
        let hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits = word.bytes().any(|byte| byte.is_ascii_digit());
        match word.len() {
            12.. if hex && digits => out.push_str("ID"),
            2.. if word.bytes().all(|byte| byte.is_ascii_digit()) => out.push('N'),
            _ => out.push_str(word),
        }
        word.clear();
    };
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            word.push(c);
        } else {
            close(&mut word, &mut out);
            out.push(c);
        }
    }
    close(&mut word, &mut out);
    out
}

impl Report {
    /// True if nothing was found, and everything could be tried.
    pub(crate) fn is_clean(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.faulty == 0 && row.broken.is_none())
    }

    /// Formats a table, the findings, and the totals in the last line.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<18} {:>9} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7}\n",
            "SCENARIO", "PROCESSES", "CALLS", "POINTS", "KILLED", "FAILED", "MISSED", "FAULTY"
        );
        let mut total = Row::default();
        for row in &self.rows {
            let line = format!(
                "{:<18} {:>9} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7}",
                row.scenario,
                row.processes,
                row.calls,
                row.points,
                row.killed,
                row.failed,
                row.missed,
                row.faulty
            );
            text.push_str(&line);
            text.push('\n');
            total.points += row.points;
            total.killed += row.killed;
            total.failed += row.failed;
            total.missed += row.missed;
            total.faulty += row.faulty;
        }
        for row in &self.rows {
            self.findings(row, &mut text);
        }
        let broken = self.rows.iter().filter(|row| row.broken.is_some()).count();
        let last = format!(
            "faults: {} points in {} s, {} killed, {} failed calls, {} missed; {} points with findings, {broken} scenarios broken off (seed {})\n",
            total.points, self.seconds, total.killed, total.failed, total.missed, total.faulty, self.seed
        );
        text + &last
    }

    fn findings(&self, row: &Row, text: &mut String) {
        for finding in row.findings.values() {
            text.push_str(&format!(
                "\n{}: {} ({} times)\n  at {}\n  {}\n",
                row.scenario, finding.what, finding.times, finding.call, finding.again
            ));
            if !finding.said.is_empty() {
                let said = finding.said.replace('\n', "\n           ");
                text.push_str(&format!("  it said: {said}\n"));
            }
        }
        if let Some(why) = &row.broken {
            text.push_str(&format!("\n{}: broken off: {why}\n", row.scenario));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn a_point_is_one_command_line() {
        let deed = Deed::Fail {
            errno: Errno::EMFILE,
            always: false,
        };
        let fault = Fault {
            process: 2,
            call: 117,
            name: None,
            deed,
        };
        assert_eq!(
            again("run-d", fault),
            "cargo xtask faults run-d --process 2 --call 117 --errno EMFILE"
        );
    }

    #[test]
    fn the_same_finding_is_counted_and_not_listed_twice() {
        let mut row = Row::default();
        let fault = Fault {
            process: 1,
            call: 2,
            name: None,
            deed: Deed::Kill,
        };
        for id in ["0123456789abcdef", "fedcba9876543210"] {
            row.note(fault, None, &[format!("live/{id}: nobody has its lock")], "");
        }
        assert_eq!(row.findings.len(), 1);
        assert_eq!(row.findings["live/ID: nobody has its lock"].times, 2);
        let report = Report {
            seed: 1,
            seconds: 0,
            rows: vec![row],
        };
        assert!(!report.is_clean());
        assert!(
            report.table().contains("2 points with findings"),
            "{}",
            report.table()
        );
    }
}
