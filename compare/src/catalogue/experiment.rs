//! An experiment: what is run in containers, what of it is on the clock, and what the result is.

use crate::record::Quantity;
use anyhow::{Result, ensure};
use bench::apparatus::Plan;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A procedure that is measured. The format: `docs/bench.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) about: String,
    /// Name of the experiment whose runs this one shows in another quantity, or by another number of their output; it has none of its
    /// own then.
    pub(crate) of: Option<String>,
    /// Candidate that others are compared with in this experiment, unless the report was asked for another.
    pub(crate) baseline: Option<String>,
    #[serde(default)]
    pub(crate) image: String,
    /// Images of single sizes, where they differ.
    #[serde(default)]
    images: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    /// Words before each command on the clock: a program that counts what the command does. The numbers of all commands
    /// are added.
    #[serde(default)]
    pub(crate) under: Vec<String>,
    /// Command of another container of the same network, whose address is `{noted:peer}`.
    #[serde(default)]
    pub(crate) peer: Vec<String>,
    /// Port of the container that is published (80).
    pub(crate) listens: Option<u16>,
    /// Environment of the experiment, besides that of candidates.
    #[serde(default)]
    pub(crate) apparatus: Plan,
    /// Part of the output without which a run does not count.
    #[serde(default)]
    pub(crate) contains: String,
    /// Exit code without which a run does not count.
    #[serde(default)]
    pub(crate) exit: i32,
    /// Text that the published port has to answer with; adds the phase `response`.
    pub(crate) answer: Option<String>,
    /// Command of the host that uses the published port (`{port}`) once it has answered; the result is in its output.
    #[serde(default)]
    pub(crate) client: Vec<String>,
    /// Programs of the host that the client is, or that go into the image.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default = "none")]
    pub(crate) network: String,
    #[serde(default)]
    pub(crate) publish: bool,
    /// Verbs on the clock, in order.
    #[serde(default)]
    pub(crate) phases: Vec<String>,
    /// True if the only verb is run as often at once as the size says.
    #[serde(default)]
    pub(crate) together: bool,
    /// Quantity that is the result; if absent, the number after `figure`, else the time.
    result: Option<Quantity>,
    /// True if a failure says that the candidate lies about exit codes.
    #[serde(default)]
    pub(crate) honesty: bool,
    /// True if the command changes files of the image, or writes beside them.
    #[serde(default)]
    pub(crate) writes: bool,
    /// True if the command removes what it has written, so that it can also run in a root that all runs share.
    #[serde(default)]
    pub(crate) tidies: bool,
    /// Text before the number that is the result; without it the result is the time.
    pub(crate) figure: Option<String>,
    /// Unit of that number.
    #[serde(default)]
    pub(crate) unit: String,
    /// True if less of that number is better.
    #[serde(default)]
    pub(crate) less: bool,
    /// Names of sizes (`{size}` in the command) with their places on the axis.
    #[serde(default)]
    pub(crate) sizes: BTreeMap<String, f64>,
    #[serde(default)]
    pub(crate) quick_sizes: Vec<String>,
    #[serde(default)]
    pub(crate) axis: String,
    #[serde(default)]
    pub(crate) runs: usize,
    /// Rounds with `--quick`; 0 leaves the experiment out.
    #[serde(default)]
    pub(crate) quick: usize,
    /// Place among the experiments.
    #[serde(default)]
    pub(crate) order: usize,
}

fn none() -> String {
    "none".to_owned()
}

impl Experiment {
    pub(super) fn check(&self) -> Result<()> {
        let Experiment { name, .. } = self;
        if self.of.is_some() {
            ensure!(
                self.result.is_some() || self.figure.is_some(),
                "the experiment {name} lacks a result"
            );
            return Ok(());
        }
        ensure!(!self.image.is_empty(), "the experiment {name} lacks an image");
        ensure!(!self.phases.is_empty(), "the experiment {name} lacks phases");
        ensure!(self.runs > 0, "the experiment {name} never runs");
        ensure!(
            !self.together || self.phases.len() == 1,
            "the experiment {name} runs several phases at once"
        );
        for size in &self.quick_sizes {
            ensure!(
                self.sizes.contains_key(size),
                "the experiment {name} has the unknown size {size:?}"
            );
        }
        Ok(())
    }

    /// Returns the quantity that is the result.
    pub(crate) fn quantity(&self) -> Quantity {
        let usual = if self.figure.is_some() {
            Quantity::Figure
        } else {
            Quantity::Time
        };
        self.result.unwrap_or(usual)
    }

    /// Returns the image of a size.
    pub(crate) fn image_of(&self, size: &str) -> &str {
        self.images.get(size).unwrap_or(&self.image)
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &String> {
        let own = Some(&self.image).filter(|image| !image.is_empty());
        own.into_iter().chain(self.images.values())
    }

    /// Lists the sizes with their places on the axis, in ascending order; a single one without a name if the experiment lacks sizes.
    pub(crate) fn steps(&self, quick: bool) -> Vec<(String, f64)> {
        if self.sizes.is_empty() {
            return vec![(String::new(), 0.0)];
        }
        let mut sizes: Vec<_> = (self.sizes.iter())
            .filter(|(name, _)| !quick || self.quick_sizes.contains(name))
            .map(|(name, place)| (name.clone(), *place))
            .collect();
        sizes.sort_by(|a, b| a.1.total_cmp(&b.1));
        sizes
    }
}
