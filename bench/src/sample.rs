//! A raw measurement, which is a line of the `.jsonl` file; and how it is made of an outcome.

use crate::scenario::{Candidate, Expectation};
use crate::steps::{self, Step};
use crate::trial::{Ending, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// Fills caches; checked, never counted.
    WarmUp,
    /// Measures wall time.
    Wall,
    /// Measures peak memory; the wall time includes the wrapper's.
    PeakRss,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the candidate.
    pub candidate: String,
    /// Purpose.
    pub pass: Pass,
    /// Number of the round; every candidate runs once in a round.
    pub round: usize,
    /// Position within the round, from 0.
    pub position: usize,
    /// Time of all steps on the clock.
    pub wall_ns: u64,
    /// Time of each step on the clock, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub laps_ns: Vec<u64>,
    /// Number that the program printed after [`Candidate::figure`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<f64>,
    /// Numbers that it printed after other texts, [`Candidate::further`], by these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub further: BTreeMap<String, f64>,
    /// Peak memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_kib: Option<u64>,
    /// Memory of the processes that were left, at rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_pss_kib: Option<f64>,
    /// Memory of the control groups that the run made, at the same moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_group_kib: Option<f64>,
    /// Processor time of the whole machine while the clock ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ns: Option<u64>,
    /// Number of processes and threads that the whole machine made meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forks: Option<u64>,
    /// Time from the first stamp to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamps_ns: Option<u64>,
    /// The program's report about its own steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Reason why the run does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Sample {
    /// Returns a run of which the times of its steps are known, and nothing else.
    #[must_use]
    pub fn of_laps(candidate: String, round: usize, laps_ns: Vec<u64>) -> Self {
        Sample {
            candidate,
            pass: Pass::Wall,
            round,
            position: 0,
            wall_ns: laps_ns.iter().sum(),
            laps_ns,
            figure: None,
            further: BTreeMap::new(),
            peak_rss_kib: None,
            idle_pss_kib: None,
            idle_group_kib: None,
            processor_ns: None,
            forks: None,
            stamps_ns: None,
            steps: Vec::new(),
            fault: None,
        }
    }

    /// Judges the run of `candidate` at `place`, which is its round and position.
    pub fn judge(candidate: &Candidate, pass: Pass, place: (usize, usize), outcome: &Outcome) -> Self {
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        let peak_rss_kib = (pass == Pass::PeakRss).then(|| peak(&stderr)).flatten();
        let unmeasured = pass == Pass::PeakRss && peak_rss_kib.is_none();
        let stdout = String::from_utf8_lossy(&outcome.stdout);
        let figure = candidate.figure.as_deref().and_then(|label| {
            if candidate.adds {
                sum(&stdout, label)
            } else {
                figure_after(&stdout, label)
            }
        });
        let wanting = candidate.figure.as_deref().filter(|_| figure.is_none());
        Sample {
            candidate: candidate.name.clone(),
            pass,
            round: place.0,
            position: place.1,
            wall_ns: nanoseconds(outcome.wall),
            laps_ns: match outcome.laps.as_slice() {
                [] | [_] => Vec::new(),
                laps => laps.iter().copied().map(nanoseconds).collect(),
            },
            figure,
            further: (candidate.further.iter())
                .filter_map(|label| Some((label.clone(), figure_after(&stdout, label)?)))
                .collect(),
            peak_rss_kib,
            idle_pss_kib: outcome.idle_pss_kib,
            idle_group_kib: outcome.idle_group_kib,
            processor_ns: outcome.counted.processor_ns,
            forks: outcome.counted.forks,
            stamps_ns: stamps(&stderr),
            steps: steps::parse(&stderr),
            fault: fault(outcome, &candidate.expect, &stderr)
                .or_else(|| wanting.map(|label| format!("no number after {label:?}")))
                .or(unmeasured.then(|| "peak memory was not told".to_owned())),
        }
    }

    /// Sums up the microseconds of the steps whose labels begin with one of `beginnings`; `None` if a beginning has
    /// no step.
    pub fn sum_of(&self, beginnings: &[String]) -> Option<u64> {
        let begins = |beginning: &String| self.steps.iter().any(|step| step.label.starts_with(beginning));
        let counts = |step: &&Step| {
            beginnings
                .iter()
                .any(|beginning| step.label.starts_with(beginning))
        };
        beginnings
            .iter()
            .all(begins)
            .then(|| self.steps.iter().filter(counts).map(|step| step.us).sum())
    }

    /// Makes the sample of a run that could not be started or waited for.
    pub fn failed(candidate: &str, pass: Pass, place: (usize, usize), error: &anyhow::Error) -> Self {
        Sample {
            candidate: candidate.to_owned(),
            pass,
            round: place.0,
            position: place.1,
            wall_ns: 0,
            laps_ns: Vec::new(),
            figure: None,
            further: BTreeMap::new(),
            peak_rss_kib: None,
            idle_pss_kib: None,
            idle_group_kib: None,
            processor_ns: None,
            forks: None,
            stamps_ns: None,
            steps: Vec::new(),
            fault: Some(format!("{error:#}")),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the first number after `label`.
fn figure_after(stdout: &str, label: &str) -> Option<f64> {
    let (_, rest) = stdout.split_once(label)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// Adds the first numbers after each `label`; `None` without any.
fn sum(stdout: &str, label: &str) -> Option<f64> {
    let mut sum = None;
    let mut rest = stdout;
    while let Some((_, after)) = rest.split_once(label) {
        if let Some(number) = figure_after(rest, label) {
            sum = Some(sum.unwrap_or(0.0) + number);
        }
        rest = after;
    }
    sum
}

/// Returns the largest number, in KiB, of the lines that `peak` writes; the last line of stderr must be such a
/// line.
fn peak(stderr: &str) -> Option<u64> {
    let told = |line: &str| line.strip_prefix("peak: ")?.parse::<u64>().ok();
    told(stderr.lines().last()?)?;
    stderr.lines().filter_map(told).max()
}

/// Returns the time between the first and the last of the lines that `stamp` writes; `None` for fewer than two.
fn stamps(stderr: &str) -> Option<u64> {
    let told = |line: &str| line.strip_prefix("stamp: ")?.parse::<u64>().ok();
    let stamps: Vec<u64> = stderr.lines().filter_map(told).collect();
    match stamps.as_slice() {
        [first, .., last] => last.checked_sub(*first),
        _ => None,
    }
}

fn fault(outcome: &Outcome, expect: &Expectation, stderr: &str) -> Option<String> {
    let said = match stderr
        .lines()
        .rfind(|line| !line.is_empty() && !line.starts_with("peak: "))
    {
        Some(line) => format!(": {}", line.chars().take(200).collect::<String>()),
        None => String::new(),
    };
    match outcome.ending {
        Ending::Exited(code) if code == expect.exit => {}
        Ending::Exited(code) => return Some(format!("exit code {code} instead of {}{said}", expect.exit)),
        Ending::Signaled(signal) => return Some(format!("killed by signal {signal}{said}")),
        Ending::TimedOut => return Some(format!("did not end in time{said}")),
    }
    if !expect.stdout.matches(&outcome.stdout) {
        let found: String = String::from_utf8_lossy(&outcome.stdout)
            .chars()
            .take(80)
            .collect();
        return Some(format!("stdout {found:?} is not what was expected"));
    }
    let stragglers =
        || (outcome.stragglers > 0).then(|| format!("left {} processes behind", outcome.stragglers));
    outcome.trouble.clone().or_else(stragglers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Text;

    fn outcome(ending: Ending, stdout: &str, stderr: &str, stragglers: usize) -> Outcome {
        let (stdout, stderr) = (stdout.as_bytes().to_vec(), stderr.as_bytes().to_vec());
        Outcome {
            wall: Duration::from_micros(5),
            laps: vec![Duration::from_micros(5)],
            ending,
            stdout,
            stderr,
            idle_pss_kib: None,
            idle_group_kib: None,
            counted: crate::counters::Counters::default(),
            stragglers,
            trouble: None,
        }
    }

    fn expecting(expect: &Expectation) -> Candidate {
        let mut candidate: Candidate = serde_json::from_str(r#"{"name": "c", "argv": ["x"]}"#).unwrap();
        candidate.expect = expect.clone();
        candidate
    }

    #[test]
    fn a_number_stands_after_its_label() {
        let cases = [
            ("events per second:   812.25\n", Some(812.25)),
            ("x\nevents per second: 7", Some(7.0)),
            ("events per second: none", None),
            ("812.25", None),
        ];
        for (stdout, expected) in cases {
            assert_eq!(figure_after(stdout, "events per second:"), expected, "{stdout:?}");
        }
        assert_eq!(sum("calls 5\nx\ncalls 7.5\ncalls none", "calls "), Some(12.5));
        assert_eq!(sum("x", "calls "), None);
        let mut candidate = expecting(&Expectation {
            exit: 0,
            stdout: Text::Contains(String::new()),
        });
        candidate.further = vec!["avg: ".to_owned(), "max: ".to_owned()];
        let told = outcome(Ending::Exited(0), "avg: 3.5\nmax: none\n", "", 0);
        let sample = Sample::judge(&candidate, Pass::Wall, (0, 0), &told);
        assert_eq!(sample.further, BTreeMap::from([("avg: ".to_owned(), 3.5)]));
        candidate.figure = Some("speed".to_owned());
        let without = Sample::judge(
            &candidate,
            Pass::Wall,
            (0, 0),
            &outcome(Ending::Exited(0), "fast", "", 0),
        );
        assert_eq!(without.fault.as_deref(), Some("no number after \"speed\""));
    }

    #[test]
    fn only_the_expected_answer_counts() {
        let hi = Expectation {
            exit: 0,
            stdout: Text::Is("hi".into()),
        };
        let cases = [
            (outcome(Ending::Exited(0), "hi", "a warning", 0), None),
            (
                outcome(Ending::Exited(1), "hi", "", 0),
                Some("exit code 1 instead of 0"),
            ),
            (
                outcome(Ending::Exited(1), "", "x\nno\n\n", 0),
                Some("exit code 1 instead of 0: no"),
            ),
            (
                outcome(Ending::Signaled(9), "hi", "", 0),
                Some("killed by signal 9"),
            ),
            (
                outcome(Ending::TimedOut, "hi", "", 0),
                Some("did not end in time"),
            ),
            (
                outcome(Ending::Exited(0), "ho", "", 0),
                Some("stdout \"ho\" is not what was expected"),
            ),
            (
                outcome(Ending::Exited(0), "hi", "", 2),
                Some("left 2 processes behind"),
            ),
        ];
        for (outcome, expected) in cases {
            let sample = Sample::judge(&expecting(&hi), Pass::Wall, (0, 0), &outcome);
            assert_eq!(sample.fault.as_deref(), expected, "{outcome:?}");
            assert_eq!(sample.wall_ns, 5_000);
        }
    }

    #[test]
    fn steps_are_summed_by_how_they_begin() {
        let told = "timings: 5 mount a\ntimings: 7 mount b\ntimings: 11 end\n";
        let ended = outcome(Ending::Exited(0), "", told, 0);
        let sample = Sample::judge(&expecting(&Expectation::default()), Pass::Wall, (0, 0), &ended);
        let sum =
            |labels: &[&str]| sample.sum_of(&labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
        assert_eq!(sum(&["mount "]), Some(12));
        assert_eq!(sum(&["mount ", "end"]), Some(23));
        assert_eq!(sum(&["mount b", "mount"]), Some(12), "each once");
        assert_eq!(sum(&["mount ", "begin"]), None);
    }

    #[test]
    fn stamps_are_read_in_order() {
        let cases = [
            ("stamp: 5\nnoise\nstamp: 12\n", Some(7)),
            ("stamp: 5\nstamp: 9\nstamp: 12\n", Some(7)),
            ("stamp: 5\n", None),
            ("stamp: 12\nstamp: 5\n", None),
            ("stamp: x\nstamp: 5\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(stamps(text), expected, "{text:?}");
        }
    }

    #[test]
    fn peak_memory_is_read_or_missed() {
        let judge = |stderr: &str| {
            let ended = outcome(Ending::Exited(0), "", stderr, 0);
            Sample::judge(&expecting(&Expectation::default()), Pass::PeakRss, (0, 0), &ended)
        };
        assert_eq!(judge("noise\npeak: 980\n").peak_rss_kib, Some(980));
        assert_eq!(judge("peak: 980\n").fault, None);
        assert_eq!(judge("peak: 980\nnoise\npeak: 700\n").peak_rss_kib, Some(980));
        assert_eq!(
            judge("peak: 980\nnoise\n").fault.as_deref(),
            Some("peak memory was not told")
        );
        assert_eq!(judge("").fault.as_deref(), Some("peak memory was not told"));
    }
}
