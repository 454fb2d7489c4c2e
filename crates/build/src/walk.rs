//! The walk through a file, from the first instruction to the last.

use crate::key::Key;
use crate::plan;
use crate::scope::{EPOCH, Globals, Scope, Wanted};
use crate::stage::{Below, Failed, Stage};
use crate::worker::{Built, Event, Origin, Worker};
use crate::{BuildError, Fault, config};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tote_dockerfile::{Command, Dockerfile};
use tote_image::{Digest, ImageConfig, Platform};

/// A context given by `--build-context`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A directory, which the worker knows by its name: [`Origin::Named`].
    Directory,
    /// An image.
    Image(String),
}

/// Options of a build, besides its file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--build-arg`.
    pub args: BTreeMap<String, String>,
    /// `--target`: the stage to end with, by name or number.
    pub target: Option<String>,
    /// `--label`.
    pub labels: BTreeMap<String, String>,
    /// True if the cache is ignored.
    pub no_cache: bool,
    /// `--no-cache-filter`: stages that ignore the cache, by name or number.
    pub no_cache_stages: Vec<String>,
    /// `--platform`; the host's if not given.
    pub platform: Option<Platform>,
    /// `--build-context`, by name; these win over stages and images of the same name.
    pub contexts: BTreeMap<String, Named>,
    /// `--squash`: true if the layers that the last stage adds to its base are merged into one.
    pub squash: bool,
    /// True if files of the result's own layers are no younger than [`EPOCH`] says.
    pub rewrite_timestamp: bool,
    /// `--jobs`: number of stages that are built at once at most; 0 counts as 1.
    pub at_once: usize,
}

/// Builds the target, and the stages that it needs.
///
/// # Errors
/// [`BuildError`]. The next build finds finished steps in the cache.
pub fn build<W: Worker>(
    file: &Dockerfile,
    options: &Options,
    worker: &mut W,
) -> Result<Built, BuildError<W::Error>> {
    let Beginning {
        platform,
        globals,
        last,
        bases,
        epoch,
    } = Beginning::of(file, options)?;
    let needed = plan::needed(file, &bases, last, &options.contexts);
    let part_of_result = plan::part_of_result(file, &bases, last, &options.contexts);
    let steps = needed.iter().map(|at| 1 + file.stages[*at].instructions.len());
    let mut walk = Walk {
        file,
        options,
        platform,
        globals,
        bases,
        last,
        epoch,
        part_of_result,
        done: HashMap::new(),
        number: 0,
        total: steps.sum::<usize>() + usize::from(!options.labels.is_empty()) + usize::from(options.squash),
    };
    match options.at_once > 1 && walk.has_independent(&needed) {
        true => walk.together(&needed, worker)?,
        false => needed.iter().try_for_each(|at| walk.complete(*at, worker))?,
    }
    let unused = walk.globals.unused();
    if !unused.is_empty() {
        worker.say(Event::Unused(&unused));
    }
    walk.done
        .remove(&last)
        .map(|done| done.built)
        .ok_or_else(|| no_target(file, &last.to_string()))
}

pub(crate) fn no_target<E: std::error::Error + 'static>(file: &Dockerfile, name: &str) -> BuildError<E> {
    BuildError::Target {
        name: name.to_owned(),
        suggestion: plan::similar(file, name, file.stages.len()).map(ToOwned::to_owned),
    }
}

/// The plan of a build, made before anything is executed.
struct Beginning {
    platform: Platform,
    globals: Globals,
    /// Index of the stage to end with.
    last: usize,
    /// Bases of the stages up to `last`, variables replaced.
    bases: Vec<String>,
    /// Time at which the result is said to be made.
    epoch: Option<Duration>,
}

impl Beginning {
    fn of<E: std::error::Error + 'static>(
        file: &Dockerfile,
        options: &Options,
    ) -> Result<Self, BuildError<E>> {
        let platform = options.platform.clone().unwrap_or_else(Platform::host);
        let last_name = file.stages.last().and_then(|stage| stage.name.as_deref());
        let wanted = Wanted {
            platform: &platform,
            machine: &Platform::host(),
            stage: options.target.as_deref().or(last_name),
        };
        let globals = Globals::new(file, &options.args, &wanted);
        let globals = globals.map_err(|fault| Failed::from(fault).at(0, "ARG"))?;
        let last = match &options.target {
            None => file.stages.len().saturating_sub(1),
            Some(target) => {
                plan::find(file, target, true, file.stages.len()).ok_or_else(|| no_target(file, target))?
            }
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
        let epoch = epoch(&options.args).map_err(|fault| Failed::from(fault).at(0, EPOCH))?;
        Ok(Self {
            platform,
            globals,
            last,
            bases,
            epoch,
        })
    }
}

/// Reads the time at which the result is said to be made. An empty value counts as no value, as in BuildKit.
fn epoch(args: &BTreeMap<String, String>) -> Result<Option<Duration>, Fault> {
    let Some(text) = args.get(EPOCH).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| i64::try_from(*seconds).is_ok());
    let seconds = seconds.ok_or_else(|| Fault::Value {
        what: EPOCH,
        value: text.clone(),
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

/// Plans a build without executing it, to find errors that do not depend on files.
///
/// # Errors
/// [`BuildError`], without those of a worker.
pub fn check_plan<E: std::error::Error + 'static>(
    file: &Dockerfile,
    options: &Options,
) -> Result<(), BuildError<E>> {
    let last = Beginning::of(file, options)?.last;
    for (at, stage) in file.stages[..=last].iter().enumerate() {
        for instruction in &stage.instructions {
            let froms = plan::froms_of(&instruction.command).into_iter();
            let later = froms
                .filter(|from| plan::given(&options.contexts, from).is_none())
                .find_map(|from| plan::later(file, from, at));
            if let Some(fault) = later {
                return Err(Failed::from(fault).at(instruction.lines.first, &instruction.text));
            }
        }
    }
    Ok(())
}

/// A stage that was built, for the stages that are based on it or take files from it.
pub(crate) struct Done {
    pub(crate) built: Built,
    pub(crate) scope: Scope,
    pub(crate) below: Below,
}

pub(crate) struct Walk<'a> {
    pub(crate) file: &'a Dockerfile,
    pub(crate) options: &'a Options,
    platform: Platform,
    pub(crate) globals: Globals,
    pub(crate) bases: Vec<String>,
    /// Index of the stage that the build ends with.
    last: usize,
    epoch: Option<Duration>,
    /// Indexes of the stages that the result is based on, the last one included.
    part_of_result: Vec<usize>,
    pub(crate) done: HashMap<usize, Done>,
    /// Number of the instruction that has begun last.
    pub(crate) number: usize,
    total: usize,
}

impl Walk<'_> {
    /// Builds a stage after the stages that it needs, and keeps the result.
    pub(crate) fn complete<W: Worker>(
        &mut self,
        at: usize,
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        let last = at == self.last;
        worker.stage(self.part_of_result.contains(&at));
        let Stage {
            mut config,
            id,
            scope,
            mut is_new,
            below,
            ..
        } = self.stage(at, last, worker)?;
        // The stages below keep their times, and so does the cache: an epoch that changes makes no step run again.
        if let Some(epoch) = self.epoch.filter(|_| last && config.history.len() > below.steps) {
            if self.options.rewrite_timestamp {
                let own = config.rootfs.diff_ids.split_off(below.layers);
                let older = worker.no_younger(&own, epoch).map_err(BuildError::Result)?;
                config.rootfs.diff_ids.extend(older);
            }
            config::date(&mut config, below.steps, epoch);
            is_new = true;
        }
        let id = match id {
            Some(base) if !is_new => base,
            _ => worker.keep(&config, last).map_err(BuildError::Result)?,
        };
        let built = Built { id, config };
        self.done.insert(at, Done { built, scope, below });
        Ok(())
    }

    fn stage<W: Worker>(
        &mut self,
        at: usize,
        last: bool,
        worker: &mut W,
    ) -> Result<Stage, BuildError<W::Error>> {
        let file = self.file;
        let parsed = &file.stages[at];
        let text = self.line_of(at);
        self.begin(&text, worker);
        let mut stage = self
            .base(at, worker)
            .map_err(|failed| failed.at(parsed.lines.first, &text))?;
        // A step has reported the image already.
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
            // Keep the layers so far for the next build. If this fails as well, they are just made again.
            drop(worker.keep(&stage.config, false));
        }
        walked.map(|()| stage)
    }

    /// Returns the first line of a stage, with variables replaced.
    pub(crate) fn line_of(&self, at: usize) -> String {
        let name = self.file.stages[at].name.as_ref();
        let name = name.map(|name| format!(" AS {name}"));
        format!("FROM {}{}", self.bases[at], name.unwrap_or_default())
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
            let labelled = stage.step(Key::new("labels").with(&text), &text, worker, |stage, _| {
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
        let image = |name: &str, worker: &mut W| {
            if name == "scratch" {
                return Ok(Origin::Layers(Vec::new()));
            }
            let image = worker.image(name, platform.as_deref()).map_err(Failed::Worker)?;
            Ok(Origin::Layers(image.config.rootfs.diff_ids))
        };
        let find = |name: &str, worker: &mut W| {
            match plan::given(&options.contexts, name) {
                Some((known, Named::Directory)) => return Ok(Origin::Named(known.to_owned())),
                Some((_, Named::Image(given))) => return image(given, worker),
                None => {}
            }
            let before = plan::find(file, name, true, at);
            if let Some(done) = before.and_then(|found| done.get(&found)) {
                return Ok(Origin::Layers(done.built.config.rootfs.diff_ids.clone()));
            }
            match plan::later(file, name, at) {
                Some(later) => Err(later.into()),
                None if name.parse::<usize>().is_ok() => Err(Fault::From(name.to_owned()).into()),
                None => {
                    if let Some(stage) = plan::similar(file, name, at) {
                        worker.say(Event::Misspelled { name, stage });
                    }
                    image(name, worker)
                }
            }
        };
        stage.execute(command, globals, &find, worker)
    }

    /// Prepares a stage with its base.
    fn base<W: Worker>(&mut self, at: usize, worker: &mut W) -> Result<Stage, Failed<W::Error>> {
        let given = plan::given(&self.options.contexts, &self.bases[at]);
        let name = match given {
            Some((_, Named::Image(image))) => image,
            _ => &self.bases[at],
        };
        let stage_of = |name| plan::find(self.file, name, false, at).filter(|_| given.is_none());
        let is_directory = matches!(given, Some((_, Named::Directory)));
        let is_scratch = name == "scratch";
        let mut scope = Scope::default();
        let mut below = None;
        let (id, mut config): (Option<Digest>, ImageConfig) = if let Some(found) = stage_of(name) {
            let done = self.done.get(&found);
            let done = done.ok_or_else(|| Fault::From(name.clone()))?;
            scope.clone_from(&done.scope);
            below = Some(done.below);
            let built = &done.built;
            (Some(built.id), built.config.clone())
        } else if is_directory || is_scratch {
            (None, self.scratch())
        } else {
            let platform = self.platform_of(at)?;
            let image = worker.image(name, platform.as_deref()).map_err(Failed::Worker)?;
            (Some(image.id), image.config)
        };
        // docker's properties about the making of the base image.
        for gone in ["container", "container_config", "parent", "id"] {
            config.other.remove(gone);
        }
        let below = below.unwrap_or_else(|| Below::of(&config));
        let mut stage = Stage {
            config,
            id,
            scope,
            below,
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

    /// Returns the platform of a stage's base, if anything names one.
    pub(crate) fn platform_of(&self, at: usize) -> Result<Option<String>, Fault> {
        let platform = self.file.stages[at].platform.as_deref();
        let platform = platform.map(|text| self.globals.expand(text)).transpose()?;
        Ok(platform.or_else(|| self.options.platform.as_ref().map(ToString::to_string)))
    }

    fn scratch(&self) -> ImageConfig {
        ImageConfig {
            architecture: self.platform.architecture.clone(),
            os: self.platform.os.clone(),
            variant: self.platform.variant.clone(),
            ..ImageConfig::default()
        }
    }

    /// Executes the base image's `ONBUILD` triggers.
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
                self.needs_of_trigger(at, &instruction.command, worker)?;
                self.execute(at, stage, &instruction.command, worker)
                    .map_err(|failed| failed.at(line, text))?;
            }
        }
        Ok(())
    }

    /// Builds the stages that a trigger takes files from. The plan of the build did not include them, because
    /// triggers are known only with the base image.
    fn needs_of_trigger<W: Worker>(
        &mut self,
        at: usize,
        trigger: &Command,
        worker: &mut W,
    ) -> Result<(), BuildError<W::Error>> {
        let contexts = &self.options.contexts;
        let froms = plan::froms_of(trigger).into_iter();
        let froms = froms.filter(|from| plan::given(contexts, from).is_none());
        let stages: Vec<usize> = froms
            .filter_map(|from| plan::find(self.file, from, true, at))
            .flat_map(|found| plan::needed(self.file, &self.bases, found, contexts))
            .collect();
        for needed in stages {
            if self.done.contains_key(&needed) {
                continue;
            }
            self.total += 1 + self.file.stages[needed].instructions.len();
            self.complete(needed, worker)?;
            // Later steps belong to the stage of the trigger again.
            worker.stage(self.part_of_result.contains(&at));
        }
        Ok(())
    }
}
