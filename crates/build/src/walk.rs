//! From the first instruction to the last.

use crate::plan;
use crate::scope::{Globals, Scope};
use crate::stage::{Failed, Stage};
use crate::worker::{Built, Event, Origin, Worker};
use crate::{BuildError, Fault};
use std::collections::{BTreeMap, HashMap};
use tote_dockerfile::{Command, Dockerfile};
use tote_image::{Digest, ImageConfig, Platform};

/// What `--build-context` gives a name to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A directory, which the worker knows by that name: [`Origin::Named`].
    Directory,
    /// An image.
    Image(String),
}

/// What a build is asked for, besides its file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--build-arg`.
    pub args: BTreeMap<String, String>,
    /// `--target`: the stage to end with, by name or number.
    pub target: Option<String>,
    /// `--label`.
    pub labels: BTreeMap<String, String>,
    /// Whether everything is made again.
    pub no_cache: bool,
    /// `--no-cache-filter`: stages that are made again, by name or number.
    pub no_cache_stages: Vec<String>,
    /// `--platform`; the host's where nothing is said.
    pub platform: Option<Platform>,
    /// `--build-context`, by name: before stages and images of that name.
    pub contexts: BTreeMap<String, Named>,
    /// `--squash`: whether what the last stage adds to its base becomes one layer.
    pub squash: bool,
}

/// Builds the target, and the stages that it needs.
///
/// # Errors
/// [`BuildError`]. What was made until then is found again by the next build.
pub fn build<W: Worker>(
    file: &Dockerfile,
    options: &Options,
    worker: &mut W,
) -> Result<Built, BuildError<W::Error>> {
    let platform = options.platform.clone().unwrap_or_else(Platform::host);
    let globals = Globals::new(file, &options.args, &platform);
    let globals = globals.map_err(|fault| Failed::from(fault).at(0, "ARG"))?;
    let last = match &options.target {
        None => file.stages.len().saturating_sub(1),
        Some(target) => plan::find(file, target, true, file.stages.len())
            .ok_or_else(|| BuildError::Target(target.clone()))?,
    };
    let mut bases = Vec::new();
    for stage in &file.stages[..=last] {
        let fault = |fault| Failed::from(fault).at(stage.lines.first, &format!("FROM {}", stage.base));
        let base = globals.expand(&stage.base).map_err(fault)?;
        if base.is_empty() {
            return Err(fault(Fault::BlankBase(stage.base.clone())));
        }
        bases.push(base);
    }
    let needed = plan::needed(file, &bases, last, &options.contexts);
    let part_of_result = plan::part_of_result(file, &bases, last, &options.contexts);
    let steps = needed.iter().map(|at| 1 + file.stages[*at].instructions.len());
    let mut walk = Walk {
        file,
        options,
        platform,
        globals,
        bases,
        done: HashMap::new(),
        number: 0,
        total: steps.sum::<usize>() + usize::from(!options.labels.is_empty()) + usize::from(options.squash),
    };
    for at in needed {
        worker.stage(part_of_result.contains(&at));
        let Stage {
            config, id, is_new, ..
        } = walk.stage(at, at == last, worker)?;
        let id = match id {
            Some(base) if !is_new => base,
            _ => worker.keep(&config, at == last).map_err(BuildError::Result)?,
        };
        walk.done.insert(at, Built { id, config });
    }
    let unused = walk.globals.unused();
    if !unused.is_empty() {
        worker.say(Event::Unused(&unused));
    }
    walk.done
        .remove(&last)
        .ok_or_else(|| BuildError::Target(last.to_string()))
}

struct Walk<'a> {
    file: &'a Dockerfile,
    options: &'a Options,
    platform: Platform,
    globals: Globals,
    bases: Vec<String>,
    done: HashMap<usize, Built>,
    number: usize,
    total: usize,
}

impl Walk<'_> {
    fn stage<W: Worker>(
        &mut self,
        at: usize,
        last: bool,
        worker: &mut W,
    ) -> Result<Stage, BuildError<W::Error>> {
        let file = self.file;
        let parsed = &file.stages[at];
        let name = parsed.name.as_ref().map(|name| format!(" AS {name}"));
        let text = format!("FROM {}{}", self.bases[at], name.unwrap_or_default());
        self.begin(&text, worker);
        let mut stage = self
            .base(at, worker)
            .map_err(|failed| failed.at(parsed.lines.first, &text))?;
        // A step has said so already.
        if let (Some(id), false) = (&stage.id, stage.is_new) {
            worker.say(Event::Image(id));
        }
        let below = stage.config.rootfs.diff_ids.len();
        let steps = stage.config.history.len();
        let mut walked = self.walk(at, last, &mut stage, worker);
        if walked.is_ok() && last && self.options.squash {
            self.begin("SQUASH", worker);
            let squashed = stage.squash((below, steps), worker);
            walked = squashed.map_err(|failed| failed.at(0, "SQUASH"));
        }
        if walked.is_err() && stage.config.rootfs.diff_ids.len() > below {
            // The layers so far are found again; if this fails as well they are made again, no more.
            drop(worker.keep(&stage.config, false));
        }
        walked.map(|()| stage)
    }

    fn begin<W: Worker>(&mut self, text: &str, worker: &mut W) {
        self.number += 1;
        worker.say(Event::Step {
            number: self.number,
            total: self.total,
            text,
        });
    }

    fn walk<W: Worker>(
        &mut self,
        at: usize,
        last: bool,
        stage: &mut Stage,
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        let file = self.file;
        self.triggers(at, stage, worker)?;
        for instruction in &file.stages[at].instructions {
            self.begin(&instruction.text, worker);
            self.execute(at, stage, &instruction.command, worker)
                .map_err(|failed| failed.at(instruction.lines.first, &instruction.text))?;
        }
        if last && !self.options.labels.is_empty() {
            let labels = &self.options.labels;
            let text = labels.iter().fold(String::from("LABEL"), |text, (name, value)| {
                format!("{text} {name}={value}")
            });
            self.begin(&text, worker);
            let labelled = stage.step(&text, &text, worker, |stage, _| {
                stage.config.config.labels.extend(labels.clone());
                Ok(None)
            });
            labelled.map_err(|failed| failed.at(0, &text))?;
        }
        Ok(())
    }

    fn execute<W: Worker>(
        &mut self,
        at: usize,
        stage: &mut Stage,
        command: &Command,
        worker: &mut W,
    ) -> Result<(), Failed<W::Error>> {
        let Self {
            file,
            done,
            globals,
            options,
            ..
        } = self;
        let platform = options.platform.as_ref().map(ToString::to_string);
        let find = |name: &str, worker: &mut W| {
            match plan::given(&options.contexts, name) {
                Some((known, Named::Directory)) => return Ok(Some(Origin::Named(known.to_owned()))),
                Some((_, Named::Image(image))) => {
                    let image = worker.image(image, platform.as_deref())?;
                    return Ok(Some(Origin::Layers(image.config.rootfs.diff_ids)));
                }
                None => {}
            }
            if let Some(found) = plan::find(file, name, true, at) {
                let built = done.get(&found);
                return Ok(built.map(|built| Origin::Layers(built.config.rootfs.diff_ids.clone())));
            }
            if name.parse::<usize>().is_ok() {
                return Ok(None);
            }
            let image = worker.image(name, platform.as_deref())?;
            Ok(Some(Origin::Layers(image.config.rootfs.diff_ids)))
        };
        stage.execute(command, globals, &find, worker)
    }

    /// What a stage begins with.
    fn base<W: Worker>(&mut self, at: usize, worker: &mut W) -> Result<Stage, Failed<W::Error>> {
        let given = plan::given(&self.options.contexts, &self.bases[at]);
        let name = match given {
            Some((_, Named::Image(image))) => image,
            _ => &self.bases[at],
        };
        let stage_of = |name| plan::find(self.file, name, false, at).filter(|_| given.is_none());
        let is_directory = matches!(given, Some((_, Named::Directory)));
        let (id, mut config): (Option<Digest>, ImageConfig) = if let Some(found) = stage_of(name) {
            let built = self.done.get(&found);
            let built = built.ok_or_else(|| Fault::From(name.clone()))?;
            (Some(built.id), built.config.clone())
        } else if is_directory || (name == "scratch" && given.is_none()) {
            (None, self.scratch())
        } else {
            let platform = self.file.stages[at].platform.as_deref();
            let platform = platform.map(|text| self.globals.expand(text)).transpose()?;
            let platform = platform.or_else(|| self.options.platform.as_ref().map(ToString::to_string));
            let image = worker.image(name, platform.as_deref()).map_err(Failed::Worker)?;
            (Some(image.id), image.config)
        };
        // Properties of docker's that say how the base image was made.
        for gone in ["container", "container_config", "parent", "id"] {
            config.other.remove(gone);
        }
        let mut stage = Stage {
            config,
            id,
            scope: Scope::default(),
            has_cmd: false,
            no_cache: self.options.no_cache
                || (self.options.no_cache_stages.iter())
                    .any(|name| plan::find(self.file, name, true, self.file.stages.len()) == Some(at)),
            is_new: false,
        };
        if let Some((known, Named::Directory)) = given {
            stage.begin_with(Origin::Named(known.to_owned()), worker)?;
        }
        Ok(stage)
    }

    fn scratch(&self) -> ImageConfig {
        ImageConfig {
            architecture: self.platform.architecture.clone(),
            os: self.platform.os.clone(),
            variant: self.platform.variant.clone(),
            ..ImageConfig::default()
        }
    }

    /// The base image's `ONBUILD`s.
    fn triggers<W: Worker>(
        &mut self,
        at: usize,
        stage: &mut Stage,
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        let triggers = std::mem::take(&mut stage.config.config.on_build);
        if triggers.is_empty() {
            return Ok(());
        }
        let line = self.file.stages[at].lines.first;
        worker.say(Event::Triggers(triggers.len()));
        for text in &triggers {
            let parsed = Dockerfile::parse(&format!("FROM scratch\n{text}\n"));
            let parsed = parsed.map_err(|source| {
                let text = text.clone();
                Failed::from(Fault::Trigger { text, source }).at(line, "ONBUILD")
            })?;
            for instruction in parsed.stages.iter().flat_map(|stage| &stage.instructions) {
                self.execute(at, stage, &instruction.command, worker)
                    .map_err(|failed| failed.at(line, text))?;
            }
        }
        Ok(())
    }
}
