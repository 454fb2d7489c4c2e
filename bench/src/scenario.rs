//! Scenarios: a file names the candidates, their needs, the expected answers and the claims about them. A new
//! candidate is a new paragraph of JSON. The format: `docs/benchmarks.md`.

use crate::step::Step;
use crate::{apparatus, grid};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Base name of the report's files.
    pub name: String,
    /// Question of the scenario in a sentence or two; printed above the report.
    pub about: String,
    /// Time limit in milliseconds; a run that takes longer is killed and does not count.
    #[serde(default = "default_time_limit")]
    pub time_limit_ms: u64,
    /// Mount points that are unmounted, if they exist, in the private mount namespace of the candidates.
    #[serde(default)]
    pub hidden_mounts: Vec<PathBuf>,
    /// C programs compiled for the run: `{program:NAME}`.
    #[serde(default)]
    pub programs: BTreeMap<String, Program>,
    /// Directory trees made for the run: `{tree:NAME}`.
    #[serde(default)]
    pub trees: BTreeMap<String, Tree>,
    /// File system in a file on which the trees are made. As users other than root, and where none can be mounted, they are in the
    /// directory of the run.
    #[serde(default)]
    pub tree_disk: Option<apparatus::Disk>,
    /// OCI bundles made for the run: `{bundle:NAME}`.
    #[serde(default)]
    pub bundles: BTreeMap<String, Bundle>,
    /// Directories for the state of candidates, which must leave them empty: `{state:NAME}`.
    #[serde(default)]
    pub states: Vec<String>,
    /// Further environment of the candidates.
    #[serde(default)]
    pub apparatus: apparatus::Plan,
    /// Commands that print each peer's version.
    #[serde(default)]
    pub versions: BTreeMap<String, Vec<String>>,
    /// Commands that are measured.
    pub candidates: Vec<Candidate>,
    /// Claims about them.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
}

fn default_time_limit() -> u64 {
    10_000
}

/// A C source and its compiler flags.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Path of the source, relative to the scenario file.
    pub source: PathBuf,
    /// Flags of the compiler.
    pub flags: Vec<String>,
}

/// A small root file system; paths are relative to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// Directories.
    #[serde(default)]
    pub directories: Vec<PathBuf>,
    /// Copies of the host's programs, or of those compiled for the run: maps the path to the program's name or its
    /// place.
    #[serde(default)]
    pub programs: BTreeMap<PathBuf, String>,
    /// Symbolic links: maps the link to its target.
    #[serde(default)]
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Commands that make the rest, in order; `{root}` is the tree.
    #[serde(default)]
    pub make: Vec<Vec<String>>,
}

/// An OCI bundle: the runtime's own default specification with the changes that a run of the program needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Command that is run inside the bundle and writes `config.json`.
    pub spec: Vec<String>,
    /// The tree that becomes `rootfs`.
    pub tree: String,
    /// The container's argv.
    pub args: Vec<String>,
    /// Absolute paths of the host, bound read-only at the same path.
    #[serde(default)]
    pub binds: Vec<String>,
    /// JSON merge patch (RFC 7396) with further changes.
    #[serde(default)]
    pub patch: serde_json::Value,
}

/// A command to run and measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Name.
    pub name: String,
    /// Command line; words may hold `{…}` places.
    pub argv: Vec<String>,
    /// Steps before the clock starts.
    #[serde(default)]
    pub before: Vec<Step>,
    /// Further steps on the clock.
    #[serde(default)]
    pub then: Vec<Step>,
    /// Steps after the clock has stopped, also after a failure.
    #[serde(default)]
    pub after: Vec<Step>,
    /// Number of times that `argv` and `then` are run, one after another on one clock, and then `after`; `{n}`
    /// counts from 0.
    #[serde(default = "once")]
    pub times: usize,
    /// Number of times that `argv` is started at once; `{n}` counts from 0.
    #[serde(default = "once")]
    pub together: usize,
    /// Number of processes that are left when the clock stops, for `after` to end.
    #[serde(default)]
    pub leaves: usize,
    /// Program of which the processes left are measured: their mean PSS, once they have come to rest.
    pub idle: Option<String>,
    /// Text after which the program prints a number that is kept: [`crate::sample::Sample::figure`].
    pub figure: Option<String>,
    /// Further texts, each before a number that is kept: [`crate::sample::Sample::further`].
    #[serde(default)]
    pub further: Vec<String>,
    /// True if the text stands in the output more than once, and the numbers are added.
    #[serde(default)]
    pub adds: bool,
    /// The candidate runs only in every `every`th round, beginning with the first.
    #[serde(default = "once")]
    pub every: usize,
    /// User that runs it.
    #[serde(default, rename = "as")]
    pub as_user: AsUser,
    /// Programs that must be in PATH, besides the first word of `argv`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Variables added to the candidate's small environment; values may hold `{…}` places.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Expected result.
    #[serde(default)]
    pub expect: Expectation,
}

fn once() -> usize {
    1
}

/// The user that a candidate runs as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AsUser {
    /// Root.
    #[default]
    Root,
    /// The user of `--as-user`; the caller if the caller is not root.
    User,
}

/// The expected result, without which a run does not count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectation {
    /// Exit code.
    pub exit: i32,
    /// Text.
    pub stdout: Text,
}

/// The expected text on stdout.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// The whole text.
    Is(String),
    /// Its beginning.
    StartsWith(String),
    /// A part of it.
    Contains(String),
}

impl Default for Text {
    fn default() -> Self {
        Text::Is(String::new())
    }
}

impl Text {
    /// True if `found` is as expected.
    pub fn matches(&self, found: &[u8]) -> bool {
        match self {
            Text::Is(text) => found == text.as_bytes(),
            Text::StartsWith(text) => found.starts_with(text.as_bytes()),
            Text::Contains(text) => {
                text.is_empty() || found.windows(text.len()).any(|window| window == text.as_bytes())
            }
        }
    }
}

/// A measured quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Measure {
    /// Milliseconds from before the start until after the reaping.
    #[default]
    #[serde(rename = "wall-ms")]
    Wall,
    /// The largest resident set among the candidate's processes, MiB.
    #[serde(rename = "peak-rss-mib")]
    PeakRss,
    /// Mean PSS of the processes of [`Candidate::idle`], MB.
    #[serde(rename = "idle-pss-mb")]
    IdlePss,
    /// Milliseconds from the first to the last `stamp: NANOSECONDS` on stderr.
    #[serde(rename = "stamps-ms")]
    Stamps,
    /// Milliseconds of some of the steps that the program reports with `--timings`, summed up.
    #[serde(rename = "steps-ms")]
    Steps,
}

/// A comparison of medians: `of` / `to`, or `of` alone without `to`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Candidate that is compared.
    pub of: String,
    /// Candidate that it is compared with.
    pub to: Option<String>,
    /// Compared quantity.
    #[serde(default)]
    pub measure: Measure,
    /// For [`Measure::Steps`]: beginnings of their labels.
    #[serde(default)]
    pub steps: Vec<String>,
    /// The target; without one the comparison is only informative.
    pub at_most: Option<f64>,
    /// Ratio that others have published for the same comparison, to be read beside the one found here.
    pub published: Option<f64>,
}

impl Scenario {
    /// Parses a scenario. Fails if it cannot be measured, or names two candidates alike.
    pub fn parse(text: &str) -> Result<Self> {
        let mut value: serde_json::Value = serde_json::from_str(text).context("read the scenario")?;
        for list in ["candidates", "comparisons"] {
            if let Some(paragraphs) = value.get_mut(list).and_then(serde_json::Value::as_array_mut) {
                grid::expand(paragraphs).with_context(|| format!("fill in the {list}"))?;
            }
        }
        let scenario: Scenario = serde_json::from_value(value).context("read the scenario")?;
        ensure!(
            !scenario.name.is_empty()
                && scenario
                    .name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-'),
            "scenario name {:?} is not made of letters, digits and dashes",
            scenario.name
        );
        let mut names = BTreeSet::new();
        for candidate in &scenario.candidates {
            ensure!(
                names.insert(candidate.name.as_str()),
                "two candidates named {:?}",
                candidate.name
            );
            let runs = candidate.steps().filter_map(Step::argv);
            ensure!(
                !candidate.argv.is_empty() && !runs.into_iter().any(<[String]>::is_empty),
                "candidate {:?} has a step without argv",
                candidate.name
            );
            ensure!(
                candidate.times > 0
                    && candidate.together > 0
                    && candidate.every > 0
                    && candidate.steps().all(Step::runs),
                "candidate {:?} never runs",
                candidate.name
            );
        }
        ensure!(!names.is_empty(), "no candidates");
        for comparison in &scenario.comparisons {
            for name in [Some(&comparison.of), comparison.to.as_ref()]
                .into_iter()
                .flatten()
            {
                ensure!(
                    names.contains(name.as_str()),
                    "comparison with unknown candidate {name:?}"
                );
            }
        }
        for (name, bundle) in &scenario.bundles {
            ensure!(
                scenario.trees.contains_key(&bundle.tree),
                "bundle {name:?} has an unknown tree"
            );
            ensure!(!bundle.spec.is_empty(), "bundle {name:?} has no spec command");
        }
        Ok(scenario)
    }
}

impl Scenario {
    /// Keeps the candidates whose names contain one of `words`, those that they are compared with, and their
    /// comparisons.
    pub fn only(&mut self, words: &[String]) -> Result<()> {
        let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
        self.comparisons.retain(|comparison| wanted(&comparison.of));
        let needed: BTreeSet<&str> = self.comparisons.iter().filter_map(|c| c.to.as_deref()).collect();
        self.candidates
            .retain(|candidate| wanted(&candidate.name) || needed.contains(candidate.name.as_str()));
        ensure!(
            !self.candidates.is_empty(),
            "no candidate is named like {words:?}"
        );
        Ok(())
    }
}

impl Candidate {
    /// Iterates over all steps except `argv`.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.before.iter().chain(&self.then).chain(&self.after)
    }

    /// Formats the candidate for people: the steps on the clock, and around it.
    pub fn told(&self) -> String {
        let join = |steps: &[Step]| steps.iter().map(Step::told).collect::<Vec<_>>().join("; ");
        let mut text = String::new();
        if !self.before.is_empty() {
            text += &format!("[{}] ", join(&self.before));
        }
        if self.times > 1 {
            text += &format!("{} times: ", self.times);
        }
        text += &self.argv.join(" ");
        if !self.then.is_empty() {
            text += &format!("; {}", join(&self.then));
        }
        if !self.after.is_empty() {
            text += &format!(" [{}]", join(&self.after));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_matches() {
        let cases = [
            (Text::default(), "", true),
            (Text::default(), "x", false),
            (Text::StartsWith("tote ".into()), "tote 0.1.0\n", true),
            (Text::StartsWith("tote ".into()), "a tote ", false),
            (Text::Contains("sage".into()), "Usage: x", true),
            (Text::Contains(String::new()), "", true),
            (Text::Contains("long".into()), "lo", false),
        ];
        for (text, found, expected) in cases {
            assert_eq!(text.matches(found.as_bytes()), expected, "{text:?} {found:?}");
        }
    }

    #[test]
    fn scenarios_that_cannot_be_measured_are_refused() {
        let with = |rest: &str| {
            Scenario::parse(&format!(
                r#"{{"name": "n", "about": "", "candidates": [{{"name": "a", "argv": ["x"]}}{rest}}}"#
            ))
        };
        assert!(with("]").is_ok());
        assert!(
            with(r#", {"name": "a", "argv": ["y"]}]"#).is_err(),
            "two of a name"
        );
        assert!(with(r#", {"name": "b", "argv": []}]"#).is_err(), "no argv");
        for nothing in [
            r#""then": [[]]"#,
            r#""times": 0"#,
            r#""every": 0"#,
            r#""after": ["rest"]"#,
            r#""before": [{"times": 0, "run": ["z"]}]"#,
            r#""before": [{"note": "pid", "of": []}]"#,
        ] {
            let candidate = format!(r#", {{"name": "b", "argv": ["y"], {nothing}}}]"#);
            assert!(with(&candidate).is_err(), "{nothing}");
        }
        assert!(
            with(r#", {"name": "b", "argv": ["y"], "colour": 1}]"#).is_err(),
            "unknown field"
        );
        assert!(
            with(r#"], "comparisons": [{"of": "a", "to": "b"}]"#).is_err(),
            "unknown candidate"
        );
        assert!(with(r#"], "comparisons": [{"of": "a", "at_most": 2}]"#).is_ok());
        assert!(Scenario::parse(r#"{"name": "../x", "about": "", "candidates": []}"#).is_err());
    }

    #[test]
    fn what_is_wanted_alone_keeps_what_it_is_compared_with() {
        let text = r#"{"name": "n", "about": "", "candidates": [
            {"name": "our-run", "argv": ["x"]}, {"name": "their-run", "argv": ["x"]}, {"name": "our-ps", "argv": ["x"]}],
            "comparisons": [{"of": "our-run", "to": "their-run"}, {"of": "our-ps"}]}"#;
        let only = |words: &[&str]| {
            let mut scenario = Scenario::parse(text).unwrap();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            scenario.only(&words).map(|()| {
                let names: Vec<String> = scenario.candidates.iter().map(|c| c.name.clone()).collect();
                (names.join(" "), scenario.comparisons.len())
            })
        };
        assert_eq!(only(&[]).unwrap(), ("our-run their-run our-ps".to_owned(), 2));
        assert_eq!(only(&["our-run"]).unwrap(), ("our-run their-run".to_owned(), 1));
        assert_eq!(only(&["ps"]).unwrap(), ("our-ps".to_owned(), 1));
        assert_eq!(only(&["their"]).unwrap(), ("their-run".to_owned(), 0));
        assert!(only(&["boot"]).is_err());
    }

    #[test]
    fn people_see_what_is_on_the_clock() {
        let read = |text: &str| serde_json::from_str::<Candidate>(text).unwrap();
        let alone = read(r#"{"name": "a", "argv": ["x", "y"]}"#);
        assert_eq!(alone.told(), "x y");
        let all = read(
            r#"{"name": "a", "argv": ["x"], "before": [["b", "c"]], "then": ["reap", ["d"]],
                "after": [["e"], {"note": "pid", "of": ["f"]}, {"times": 9, "run": ["g"]}], "times": 3}"#,
        );
        assert_eq!(all.told(), "[b c] 3 times: x; reap; d [e; f; 9 times: g]");
    }

    #[test]
    fn the_scenarios_here_can_be_read() {
        for text in [
            include_str!("../scenarios/boot.json"),
            include_str!("../scenarios/oci.json"),
            include_str!("../scenarios/timings.json"),
            include_str!("../scenarios/images.json"),
            include_str!("../scenarios/disks.json"),
            include_str!("../scenarios/engine.json"),
            include_str!("../scenarios/debug.json"),
            include_str!("../scenarios/graph.json"),
            include_str!("../scenarios/net.json"),
        ] {
            Scenario::parse(text).unwrap();
        }
    }
}
