//! Checks of a picture after a power cut.

use super::commands::{Commands, Outcome};
use super::sample::{Sample, ran};
use super::session::{BASE, Before, KEPT, KEPT_POD};
use super::workload::MADE;
use crate::model::Tree;
use anyhow::Result;
use std::fmt::{Display, Formatter};

/// Violation of a promise.
#[derive(Clone, Debug)]
pub(super) enum Finding {
    /// State of before the last sync that is gone.
    Lost(String),
    /// Command that ran with or showed wrong bytes, and reported no error.
    Wrong(String),
    /// Command that did not end.
    Hung(String),
    /// Failure of a command that must succeed after a power cut.
    Failed(String),
    /// Entry that remains after everything was removed.
    Left(String),
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (kind, text) = match self {
            Self::Lost(text) => ("LOST", text),
            Self::Wrong(text) => ("WRONG BYTES", text),
            Self::Hung(text) => ("HUNG", text),
            Self::Failed(text) => ("FAILED", text),
            Self::Left(text) => ("LEFT", text),
        };
        write!(f, "{kind}: {text}")
    }
}

pub(super) struct Check<'a> {
    commands: Commands,
    samples: &'a [Sample],
    draw: u64,
    pub(super) findings: Vec<Finding>,
    /// Number of runs of damaged images that were refused.
    pub(super) refused: usize,
    /// True if `store verify` has found damage.
    pub(super) damaged: bool,
}

impl<'a> Check<'a> {
    pub(super) fn new(commands: Commands, samples: &'a [Sample], draw: u64) -> Self {
        Self {
            commands,
            samples,
            draw,
            findings: Vec::new(),
            refused: 0,
            damaged: false,
        }
    }

    /// Checks everything, then removes everything.
    ///
    /// # Errors
    /// Fails if the commands cannot be executed at all.
    pub(super) fn all(&mut self, before: Option<&Before>) -> Result<()> {
        if !self.commands.root().exists() {
            // The picture is older than the state root.
            return Ok(());
        }
        for words in [
            &["ps", "-a"][..],
            &["images"],
            &["system", "df"],
            &["volume", "ls"],
            &["pod", "ps"],
        ] {
            self.succeeds(words)?;
        }
        if self.draw.is_multiple_of(2) {
            self.reloaded()?;
        } else if self.draw.is_multiple_of(3) {
            self.verified(&["store", "verify", "--full"])?;
        }
        if let Some(before) = before {
            self.kept(before)?;
        }
        self.ran()?;
        self.started()?;
        self.verified(&["store", "verify", "--full"])?;
        self.verified(&["store", "verify", "--full", "--repair"])?;
        self.reloaded()?;
        self.succeeds(&["store", "verify", "--full"])?;
        self.removed()?;
        let tree = Tree::read(self.commands.root())?;
        self.findings.extend(left(&tree).into_iter().map(Finding::Left));
        Ok(())
    }

    fn give(&mut self, words: &[&str]) -> Result<Outcome> {
        let outcome = self.commands.give(words)?;
        if outcome.hung {
            self.findings.push(Finding::Hung(outcome.told()));
        }
        Ok(outcome)
    }

    fn succeeds(&mut self, words: &[&str]) -> Result<String> {
        let outcome = self.give(words)?;
        if outcome.code != 0 {
            self.findings.push(Finding::Failed(outcome.told()));
        }
        Ok(outcome.out)
    }

    /// Runs `store verify`: code 1 reports damage, which is allowed; any other failure is a finding.
    fn verified(&mut self, words: &[&str]) -> Result<()> {
        let outcome = self.give(words)?;
        match outcome.code {
            0 => {}
            1 => self.damaged = true,
            _ => self.findings.push(Finding::Failed(outcome.told())),
        }
        Ok(())
    }

    /// Checks that everything from before the last sync is unchanged.
    fn kept(&mut self, before: &Before) -> Result<()> {
        if !before.base.list.is_empty() {
            let base = Sample {
                image: BASE.to_owned(),
                ..before.base.clone()
            };
            let outcome = self.give(&base.listing())?;
            self.same(&outcome, &base.list);
        }
        let mut words = ran(BASE, "cat /v/file").to_vec();
        words.splice(1..1, ["-v", "kept:/v"]);
        let outcome = self.give(&words)?;
        self.same(&outcome, "kept\n");
        let outcome = self.give(&["start", "-a", KEPT])?;
        self.same(&outcome, KEPT);
        let outcome = self.give(&["pod", "exists", KEPT_POD])?;
        self.same(&outcome, "");
        Ok(())
    }

    fn same(&mut self, outcome: &Outcome, expected: &str) {
        if outcome.code != 0 {
            self.findings.push(Finding::Lost(outcome.told()));
        } else if outcome.out != expected {
            self.findings.push(Finding::Wrong(outcome.told()));
        }
    }

    /// Checks that each image runs with its right files or is refused. Dead containers are removed first: while the
    /// needs of one are unknown, no image can be removed.
    fn ran(&mut self) -> Result<()> {
        for dead in self
            .succeeds(&["ps", "-aq", "--no-trunc", "-f", "status=dead"])?
            .lines()
        {
            self.succeeds(&["rm", "-f", dead])?;
        }
        for sample in self.samples.iter().filter(|sample| !sample.list.is_empty()) {
            let outcome = self.give(&sample.listing())?;
            self.right(&outcome, &sample.list);
        }
        let listed = self.succeeds(&["images", "--format", "{{.Repository}}:{{.Tag}}"])?;
        for name in listed.lines().filter(|name| name.starts_with(MADE)) {
            let outcome = self.give(&ran(name, "cat /made"))?;
            self.right(&outcome, name.trim_start_matches(MADE));
            if outcome.code != 0 {
                // No archive of this image exists to load again.
                self.succeeds(&["rmi", "-f", name])?;
            }
        }
        Ok(())
    }

    fn right(&mut self, outcome: &Outcome, expected: &str) {
        if outcome.code == 125 {
            self.refused += usize::from(!outcome.err.contains("Unable to find image"));
        } else if outcome.code != 0 || outcome.out != expected {
            self.findings.push(Finding::Wrong(outcome.told()));
        }
    }

    /// Starts containers; a start may be refused, but it must not hang.
    fn started(&mut self) -> Result<()> {
        let listed = self.succeeds(&["ps", "-aq", "--no-trunc"])?;
        for id in listed.lines().take(4) {
            self.give(&["start", id])?;
        }
        Ok(())
    }

    /// Loads all archives again, and checks that every image is complete.
    fn reloaded(&mut self) -> Result<()> {
        for sample in self.samples {
            self.succeeds(&sample.words())?;
            if !sample.list.is_empty() {
                let outcome = self.give(&sample.listing())?;
                if outcome.code == 0 {
                    self.right(&outcome, &sample.list);
                } else {
                    self.findings.push(Finding::Failed(outcome.told()));
                }
            }
        }
        Ok(())
    }

    fn removed(&mut self) -> Result<()> {
        for pod in self.succeeds(&["pod", "ps", "-q"])?.lines() {
            self.succeeds(&["pod", "rm", "-f", pod])?;
        }
        for container in self.succeeds(&["ps", "-aq", "--no-trunc"])?.lines() {
            self.succeeds(&["rm", "-f", container])?;
        }
        for volume in self.succeeds(&["volume", "ls", "-q"])?.lines() {
            self.succeeds(&["volume", "rm", "-f", volume])?;
        }
        for words in [
            &["volume", "prune", "-af"][..],
            &["image", "prune", "-af"],
            &["builder", "prune", "-af"],
            &["system", "prune", "-af", "--volumes"],
        ] {
            self.succeeds(words)?;
        }
        Ok(())
    }
}

/// Lists the entries of a state root that should be empty. Files that tote keeps for good are left out, and so are
/// the directories that hold entries. Entries below a listed directory are not listed themselves.
fn left(tree: &Tree) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    for path in tree.paths() {
        let stays = STAYS.contains(&path) || is_shard(path) || path.starts_with("host/host-");
        let is_told = || {
            left.iter()
                .any(|above| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')))
        };
        if !stays && !is_told() {
            left.push(path.to_owned());
        }
    }
    left
}

/// Entries of an empty state root.
const STAYS: [&str; 31] = [
    "build",
    "build/cache",
    "build/lock",
    "build/work",
    "containers",
    "events",
    "events.1",
    "graph",
    "graph/profiles",
    "graph/roots",
    "graph/starts",
    "host",
    "live",
    "mnt",
    "names",
    "pods",
    "pools",
    "store",
    "store/images",
    "store/layers",
    "store/lock",
    "store/names",
    "store/nodes",
    "store/objects",
    "store/trash",
    "store/trees",
    "store/unsynced",
    "templates",
    "volumes",
    "build/kept",
    "build/mounts",
];

/// True for a directory such as `store/objects/ab`.
fn is_shard(below: &str) -> bool {
    below
        .strip_prefix("store/objects/")
        .is_some_and(|shard| shard.len() == 2 && !shard.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_state_root_has_nothing_left() {
        let root = std::env::temp_dir().join(format!("faults-left-{}", std::process::id()));
        for below in ["store/objects/ab", "live", "containers/0123", "store/objects/abc"] {
            std::fs::create_dir_all(root.join(below)).unwrap();
        }
        std::fs::write(root.join("events"), "").unwrap();
        std::fs::write(root.join("store/objects/ab/cd"), "").unwrap();
        let found = left(&Tree::read(&root).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            ["containers/0123", "store/objects/ab/cd", "store/objects/abc"]
        );
    }
}
