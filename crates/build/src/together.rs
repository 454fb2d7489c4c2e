//! Stages that are built at once: each by a worker of its own, as soon as the stages are built that it names.
//!
//! Within a stage nothing is different: its instructions are carried out one after the other, by the same code. So keys and results
//! are those of a build of one stage after another.

use crate::plan;
use crate::scope::Scope;
use crate::stage::{Below, Failed};
use crate::walk::{Done, Named, Walk, no_target};
use crate::worker::{StageLabel, Told, Worker};
use crate::{BuildError, Fault};
use std::collections::BTreeMap;

/// An image that a stage begins with or takes files from.
struct Taken {
    name: String,
    platform: Option<String>,
    line: usize,
    /// Instruction that names it.
    text: String,
}

impl Walk<'_> {
    /// True if any two of the needed stages can be built at once.
    pub(crate) fn has_independent(&self, needed: &[usize]) -> bool {
        // Stages that all wait for the one before them are a chain; any other order leaves a choice.
        let names = |pair: &[usize]| self.needs(pair[1]).contains(&pair[0]);
        !needed.windows(2).all(names)
    }

    /// Builds the needed stages, several at once, and keeps their results.
    pub(crate) fn together<W: Worker>(
        &mut self,
        needed: &[usize],
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        // A name means one image in all stages, and each is fetched once.
        self.fetch(needed, worker)?;
        let walked = self.walk_together(needed, worker);
        if walked.is_err() {
            worker.stop();
        }
        walked
    }

    fn walk_together<W: Worker>(
        &mut self,
        needed: &[usize],
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        let labels = self.labels(needed);
        let numbers = self.first_numbers(needed);
        let mut waiting = needed.to_vec();
        let mut running = 0;
        while running > 0 || !waiting.is_empty() {
            let is_ready = |at: &usize| self.needs(*at).iter().all(|need| self.done.contains_key(need));
            let next = waiting.iter().position(is_ready);
            if let Some(next) = next.filter(|_| running < self.options.at_once) {
                let at = waiting.remove(next);
                let mut work = |worker: &mut W| {
                    self.number = numbers[&at];
                    self.complete(at, worker)?;
                    self.told(at)
                };
                let started = worker.start(&labels[&at], &mut work);
                started.map_err(BuildError::Result)?;
                running += 1;
                continue;
            }
            let (at, outcome) = worker.ended().map_err(BuildError::Result)?;
            running -= 1;
            let told = outcome.map_err(|error| BuildError::Stage {
                stage: labels[&at].text.clone(),
                source: Box::new(error),
            })?;
            self.hear(at, told);
        }
        Ok(())
    }

    fn needs(&self, at: usize) -> Vec<usize> {
        plan::needs(self.file, &self.bases, at, &self.options.contexts)
    }

    fn labels(&self, needed: &[usize]) -> BTreeMap<usize, StageLabel> {
        let label = |(place, at): (usize, &usize)| {
            let name = self.file.stages[*at].name.as_ref();
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            let text = format!("stage {}/{}{name}", place + 1, needed.len());
            (*at, StageLabel { at: *at, text })
        };
        needed.iter().enumerate().map(label).collect()
    }

    /// Returns for each stage the number of instructions in the stages before it.
    fn first_numbers(&self, needed: &[usize]) -> BTreeMap<usize, usize> {
        let mut before = 0;
        let number = |at: &usize| {
            let first = before;
            before += 1 + self.file.stages[*at].instructions.len();
            (*at, first)
        };
        needed.iter().map(number).collect()
    }

    /// Takes a stage out, for the walk that has started it: there the stage is known when it is heard of.
    fn told<E: std::error::Error + 'static>(&mut self, at: usize) -> Result<Told, BuildError<E>> {
        let done = self.done.remove(&at);
        let Done { built, scope, below } = done.ok_or_else(|| no_target(self.file, &at.to_string()))?;
        Ok(Told {
            built,
            args: scope.args().to_vec(),
            below: (below.layers, below.steps),
            asked: self.globals.asked(),
        })
    }

    fn hear(&mut self, at: usize, told: Told) {
        self.globals.ask(told.asked);
        let (layers, steps) = told.below;
        let done = Done {
            built: told.built,
            scope: Scope::of(told.args),
            below: Below { layers, steps },
        };
        self.done.insert(at, done);
    }

    /// Finds or pulls the images that stages name. Those of triggers, and names that may be misspelled, are left to the stages, which
    /// say more about them.
    fn fetch<W: Worker>(&self, needed: &[usize], worker: &mut W) -> Result<(), BuildError<W::Error>> {
        for at in needed {
            let (line, text) = (self.file.stages[*at].lines.first, self.line_of(*at));
            let taken = self.taken_by(*at);
            let taken = taken.map_err(|fault| Failed::from(fault).at(line, &text))?;
            for image in taken {
                worker
                    .image(&image.name, image.platform.as_deref())
                    .map_err(|error| Failed::Worker(error).at(image.line, &image.text))?;
            }
        }
        Ok(())
    }

    fn taken_by(&self, at: usize) -> Result<Vec<Taken>, Fault> {
        let stage = &self.file.stages[at];
        let mut taken = Vec::new();
        let base = &self.bases[at];
        let is_given = plan::given(&self.options.contexts, base).is_some();
        let is_stage = !is_given && plan::find(self.file, base, false, at).is_some();
        if let Some(name) = self.image_of(base).filter(|_| !is_stage) {
            taken.push(Taken {
                name,
                platform: self.platform_of(at)?,
                line: stage.lines.first,
                text: self.line_of(at),
            });
        }
        for instruction in &stage.instructions {
            for from in plan::froms_of(&instruction.command) {
                let is_given = plan::given(&self.options.contexts, from).is_some();
                let is_other = plan::find(self.file, from, true, self.file.stages.len()).is_some()
                    || from.parse::<usize>().is_ok()
                    || plan::similar(self.file, from, at).is_some();
                let Some(name) = self.image_of(from).filter(|_| is_given || !is_other) else {
                    continue;
                };
                taken.push(Taken {
                    name,
                    platform: self.options.platform.as_ref().map(ToString::to_string),
                    line: instruction.lines.first,
                    text: instruction.text.clone(),
                });
            }
        }
        Ok(taken)
    }

    /// Returns the image that a name would mean if no stage had it; `None` for the empty one and for a directory.
    fn image_of(&self, name: &str) -> Option<String> {
        let image = match plan::given(&self.options.contexts, name) {
            Some((_, Named::Directory)) => return None,
            Some((_, Named::Image(image))) => image,
            None => name,
        };
        Some(image.to_owned()).filter(|image| image != "scratch")
    }
}
