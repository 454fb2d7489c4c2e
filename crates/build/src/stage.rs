//! A stage: execution of its instructions, one after the other.

use crate::config::{self, absolute, argv, note, shell};
use crate::key::Key;
use crate::scope::{Globals, Scope};
use crate::transfer::{self, Special, Verb};
use crate::worker::{Built, Event, Origin, RunStep, StepMount, Worker};
use crate::{BuildError, CopyStep, Fault};
use tote_dockerfile::{Arg, Command, CommandLine, Network, Run, Transfer, is_only_heredoc};
use tote_image::{Digest, ImageConfig};

/// Function that looks up the source named by `--from`.
pub(crate) type Find<'a, W> = &'a dyn Fn(&str, &mut W) -> Result<Origin, Failed<<W as Worker>::Error>>;

/// A stage while it is built.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) config: ImageConfig,
    /// Id of the present configuration; `None` for an empty stage on `scratch`.
    pub(crate) id: Option<Digest>,
    pub(crate) scope: Scope,
    /// The part that is not of this build.
    pub(crate) below: Below,
    /// True if the stage has its own `CMD`.
    pub(crate) has_cmd: bool,
    pub(crate) no_cache: bool,
    /// True if the stage differs from its base.
    pub(crate) is_new: bool,
}

/// The part of an image that was there before the build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    /// Number of layers.
    pub(crate) layers: usize,
    /// Number of entries of the history.
    pub(crate) steps: usize,
}

impl Below {
    pub(crate) fn of(base: &ImageConfig) -> Self {
        Self {
            layers: base.rootfs.diff_ids.len(),
            steps: base.history.len(),
        }
    }
}

/// Why an instruction failed, before its place in the file is added.
pub(crate) enum Failed<E> {
    Fault(Fault),
    Worker(E),
}

impl<E: std::error::Error + 'static> Failed<E> {
    pub(crate) fn at(self, line: usize, text: &str) -> BuildError<E> {
        let text = text.to_owned();
        match self {
            Self::Fault(source) => BuildError::Instruction { line, text, source },
            Self::Worker(source) => BuildError::Step { line, text, source },
        }
    }
}

impl<E> From<Fault> for Failed<E> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

type Outcome<W> = Result<(), Failed<<W as Worker>::Error>>;

impl Stage {
    fn env(&self) -> &[String] {
        &self.config.config.env
    }

    fn layers(&self) -> &[Digest] {
        &self.config.rootfs.diff_ids
    }

    /// Executes an instruction.
    pub(crate) fn execute<W: Worker>(
        &mut self,
        command: &Command,
        globals: &mut Globals,
        find: Find<'_, W>,
        worker: &mut W,
    ) -> Outcome<W> {
        match command {
            Command::Run(run) => self.run(run, globals, find, worker),
            Command::Copy(copy) => {
                let special = Special {
                    verb: Verb::Copy,
                    from: match &copy.from {
                        None => Origin::Context,
                        Some(name) => find(name, worker)?,
                    },
                    parents: copy.parents,
                    unpack: None,
                    checksum: None,
                    keep_git_dir: false,
                };
                self.transfer(special, &copy.transfer, globals, worker)
            }
            Command::Add(add) => {
                let special = Special {
                    verb: Verb::Add,
                    from: Origin::Context,
                    parents: false,
                    unpack: add.unpack,
                    checksum: add.checksum.as_deref(),
                    keep_git_dir: add.keep_git_dir,
                };
                self.transfer(special, &add.transfer, globals, worker)
            }
            Command::Workdir(path) => {
                let path = self.scope.expand(globals, path, self.env())?;
                let path = absolute(&self.config.config.working_dir, &path);
                let text = format!("WORKDIR {path}");
                let user = self.config.config.user.clone();
                let key = Key::new("WORKDIR").with(&path).with(&user);
                self.step(key, &nop(&text), worker, |stage, worker| {
                    let layer = worker.directory(stage.layers(), &path, &user)?;
                    stage.config.config.working_dir.clone_from(&path);
                    Ok(layer)
                })
            }
            Command::Arg(args) => self.arg(args, globals, worker),
            other => self.configure(other, globals, worker),
        }
    }

    fn arg<W: Worker>(&mut self, args: &[Arg], globals: &mut Globals, worker: &mut W) -> Outcome<W> {
        let mut text = String::from("ARG");
        let env = self.config.config.env.clone();
        for arg in args {
            self.scope.declare(globals, arg, &env)?;
            let default = arg.default.as_ref().map(|default| format!("={default}"));
            text += &format!(" {}{}", arg.name, default.unwrap_or_default());
        }
        self.step(Key::new("ARG").with(&text), &nop(&text), worker, |_, _| Ok(None))
    }

    /// Executes an instruction that only changes the configuration.
    fn configure<W: Worker>(&mut self, command: &Command, globals: &Globals, worker: &mut W) -> Outcome<W> {
        let mut config = self.config.clone();
        let mut has_cmd = self.has_cmd;
        let text = self.changed(command, globals, &mut config, &mut has_cmd)?;
        self.has_cmd = has_cmd;
        // The text becomes a part of the image's history, so the result depends on it as it is.
        self.step(
            Key::new("configuration").with(&text),
            &nop(&text),
            worker,
            |stage, _| {
                stage.config = config;
                Ok(None)
            },
        )
    }

    /// Applies an instruction to the configuration; returns its text with variables replaced.
    fn changed(
        &self,
        command: &Command,
        globals: &Globals,
        image: &mut ImageConfig,
        has_cmd: &mut bool,
    ) -> Result<String, Fault> {
        let expand = |text: &str| self.scope.expand(globals, text, self.env());
        let config = &mut image.config;
        Ok(match command {
            Command::Env(pairs) => all("ENV", pairs, &expand, &mut |name, value| {
                config::set_env(&mut config.env, &name, &value);
            })?,
            Command::Label(pairs) => all("LABEL", pairs, &expand, &mut |name, value| {
                config.labels.insert(name, value);
            })?,
            Command::Expose(words) => {
                let mut text = String::from("EXPOSE");
                for word in words {
                    for port in self.scope.words(globals, word, self.env())? {
                        config.exposed_ports.extend(config::ports(&port)?);
                        text += &format!(" {port}");
                    }
                }
                text
            }
            Command::Volume(paths) => {
                let paths = paths
                    .iter()
                    .map(|path| expand(path))
                    .collect::<Result<Vec<_>, _>>()?;
                config.volumes.extend(paths.iter().cloned());
                format!("VOLUME {paths:?}")
            }
            Command::User(user) => {
                config.user = expand(user)?;
                format!("USER {}", config.user)
            }
            Command::StopSignal(signal) => {
                config.stop_signal = stop_signal(expand(signal)?)?;
                format!("STOPSIGNAL {}", config.stop_signal)
            }
            Command::Cmd(line) => {
                config.cmd = argv(config, line);
                *has_cmd = true;
                format!("CMD {:?}", config.cmd)
            }
            Command::Entrypoint(line) => {
                config.entrypoint = argv(config, line);
                // The base image's command was meant for its own entrypoint.
                if !*has_cmd {
                    config.cmd.clear();
                }
                format!("ENTRYPOINT {:?}", config.entrypoint)
            }
            Command::Shell(words) => {
                config.shell.clone_from(words);
                format!("SHELL {words:?}")
            }
            Command::Healthcheck(check) => {
                let check = config::healthcheck(config, check);
                let text = format!("HEALTHCHECK {check:?}");
                config.healthcheck = Some(check);
                text
            }
            Command::Onbuild(text, _) => {
                config.on_build.push(text.clone());
                format!("ONBUILD {text}")
            }
            Command::Maintainer(name) => {
                image.author = expand(name)?;
                format!("MAINTAINER {}", image.author)
            }
            _ => String::new(),
        })
    }

    fn transfer<W: Worker>(
        &mut self,
        special: Special<'_>,
        transfer: &Transfer,
        globals: &Globals,
        worker: &mut W,
    ) -> Outcome<W> {
        let name = special.verb.name();
        let place = (self.env(), &*self.config.config.working_dir);
        let step = transfer::step(special, transfer, (&self.scope, globals), place)?;
        let digest = worker.digest(&step).map_err(Failed::Worker)?;
        let text = nop(&format!("{name} {digest} in {}", step.destination));
        let CopyStep {
            chown,
            mode,
            unpack,
            unpack_downloads,
            destination,
            downloads,
            ..
        } = &step;
        let key = Key::new(name)
            .with(&digest)
            .with(destination)
            .with(chown)
            .with(mode)
            .with(unpack)
            .with(unpack_downloads)
            // The downloads at the end of the list are not extracted, other than the files before them.
            .with(&(downloads.len() as u64));
        self.step(key, &text, worker, |stage, worker| {
            worker.copy(stage.layers(), &step)
        })
    }

    /// Copies all files of a directory into the first layer.
    pub(crate) fn begin_with<W: Worker>(&mut self, from: Origin, worker: &mut W) -> Outcome<W> {
        let step = CopyStep::of(from, "/".to_owned(), "/".to_owned());
        let digest = worker.digest(&step).map_err(Failed::Worker)?;
        let text = format!("FROM {digest}");
        self.step(
            Key::new("FROM").with(&digest),
            &nop(&text),
            worker,
            |stage, worker| worker.copy(stage.layers(), &step),
        )
    }

    /// Merges the layers above the base into one; the base has the given numbers of layers and history entries. The
    /// history stays.
    pub(crate) fn squash<W: Worker>(
        &mut self,
        (layers, steps): (usize, usize),
        worker: &mut W,
    ) -> Outcome<W> {
        if self.layers().len() <= layers {
            return Ok(());
        }
        let key = Key::new("squash").with(&(layers as u64)).with(&(steps as u64));
        let by = format!("merge {} layers into one", self.layers().len() - layers);
        self.step(key, &by, worker, |stage, worker| {
            let layer = worker.squash(stage.layers(), layers)?;
            stage.config.rootfs.diff_ids.truncate(layers);
            for step in stage.config.history.iter_mut().skip(steps) {
                step.empty_layer = true;
            }
            Ok(layer)
        })
    }

    fn run<W: Worker>(
        &mut self,
        run: &Run,
        globals: &Globals,
        find: Find<'_, W>,
        worker: &mut W,
    ) -> Outcome<W> {
        if run.insecure || !run.devices.is_empty() {
            return Err(Fault::Unsupported("RUN --security=insecure or --device".to_owned()).into());
        }
        let mut mounts = Vec::new();
        let mut digests = Vec::new();
        for mount in &run.mounts {
            let mount = self.mount(mount, globals, find, worker)?;
            if let StepMount::Bind { source, from, .. } = &mount {
                let files = CopyStep::of(from.clone(), source.clone(), "/".to_owned());
                digests.push(worker.digest(&files).map_err(Failed::Worker)?);
            }
            mounts.push(mount);
        }
        let (argv, script) = command_line(&shell(&self.config.config), run);
        let visible = self.scope.visible(self.env());
        let mut env = self.env().to_vec();
        env.extend(visible.iter().cloned());
        env.extend(self.scope.proxies(globals));
        let step = RunStep {
            argv,
            script,
            env,
            user: self.config.config.user.clone(),
            workdir: self.config.config.working_dir.clone(),
            host_network: match run.network {
                Network::Default => None,
                Network::None => Some(false),
                Network::Host => Some(true),
            },
            mounts,
            platform: self.config.platform(),
        };
        let RunStep {
            argv,
            script,
            host_network,
            mounts,
            ..
        } = &step;
        let mut by = argv.join(" ");
        if !visible.is_empty() {
            by = format!("|{} {} {by}", visible.len(), visible.join(" "));
        }
        let mounts: Vec<StepMount> = mounts.iter().map(StepMount::without_layers).collect();
        let key = Key::new("RUN")
            .with(argv)
            .with(script)
            .with(&visible)
            .with(host_network)
            .with(&mounts)
            .with(&digests);
        self.step(key, &by, worker, |stage, worker| {
            worker.run(stage.layers(), &step)
        })
    }

    /// Finds the result of a step in the cache, or executes the step.
    pub(crate) fn step<W: Worker>(
        &mut self,
        key: Key,
        created_by: &str,
        worker: &mut W,
        make: impl FnOnce(&mut Self, &mut W) -> Result<Option<Digest>, W::Error>,
    ) -> Outcome<W> {
        let parent = self.id.map_or_else(|| "scratch".to_owned(), |id| id.to_string());
        let key = key
            .with(&parent)
            .with(&self.config.platform().to_string())
            .with(&self.config.author);
        let mut found = self.cached(&key, worker);
        // Another stage may make the same result just now.
        if found.is_none() && worker.claim(&key).map_err(Failed::Worker)? {
            found = self.cached(&key, worker);
        }
        if let Some(Built { id, config }) = found {
            worker.say(Event::Cached);
            (self.id, self.config) = (Some(id), config);
        } else {
            // Nothing that follows a new result can be in the cache.
            let layer = make(self, worker).map_err(Failed::Worker)?;
            note(&mut self.config, worker.now(), created_by.to_owned(), layer);
            self.id = Some(worker.remember(&key, &self.config).map_err(Failed::Worker)?);
        }
        worker.release();
        self.is_new = true;
        if let Some(id) = &self.id {
            worker.say(Event::Image(id));
        }
        Ok(())
    }

    fn cached<W: Worker>(&self, key: &Key, worker: &mut W) -> Option<Built> {
        let may = !self.no_cache;
        may.then(|| worker.cached(key, &self.config)).flatten()
    }
}

/// Replaces variables in all pairs and passes each to `each`; returns the instruction's text.
fn all(
    verb: &str,
    pairs: &[(String, String)],
    expand: &dyn Fn(&str) -> Result<String, Fault>,
    each: &mut dyn FnMut(String, String),
) -> Result<String, Fault> {
    let mut text = verb.to_owned();
    for (name, value) in pairs {
        let (name, value) = (expand(name)?, expand(value)?);
        text += &format!(" {name}={value}");
        each(name, value);
    }
    Ok(text)
}

/// Formats an instruction that runs nothing, as in docker's history.
fn nop(text: &str) -> String {
    format!("/bin/sh -c #(nop) {text}")
}

fn stop_signal(signal: String) -> Result<String, Fault> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '+' || letter == '-';
    if !signal.is_empty() && signal.chars().all(fits) {
        return Ok(signal);
    }
    Err(Fault::Value {
        what: "signal",
        value: signal,
    })
}

/// Builds the command of `RUN`. If the text consists only of a here-document, its content becomes a script: for the
/// shell, or for the interpreter that its `#!` names. Other here-documents are left to the shell.
fn command_line(shell: &[String], run: &Run) -> (Vec<String>, Option<String>) {
    let text = match &run.command {
        CommandLine::Exec(words) => return (words.clone(), None),
        CommandLine::Shell(text) => text,
    };
    let word = |text: String| [shell, &[text]].concat();
    match run.heredocs.as_slice() {
        [] => (word(text.clone()), None),
        [only] if is_only_heredoc(text) => {
            if only.content.starts_with("#!") {
                (
                    vec![format!("/dev/pipes/{}", only.name)],
                    Some(only.content.clone()),
                )
            } else {
                (word(only.content.clone()), None)
            }
        }
        docs => {
            let mut script = text.clone();
            for doc in docs {
                script += &format!("\n{}{}", doc.content, doc.name);
            }
            (word(script), None)
        }
    }
}
