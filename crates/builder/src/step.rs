//! `RUN`: a container on the layers so far, whose writes become the next layer.

use super::BuildFault;
use super::mounts::{AGENTS, SECRETS};
use super::mute::Muted;
use super::step_place::Ran;
use super::stubs::Stubs;
use super::worker::Building;
use crate::making::Purpose;
use crate::prepare::prepare_from;
use crate::rootfs::{BuildTree, Source};
use crate::{EngineError, Home, HostInit, ImageFault, NetworkFault, RunRequest};
use rustix::fs::OFlags;
use std::os::fd::AsFd as _;
use tote_build::{Event, RunStep};
use tote_bundle::{DEFAULT_PATH, Image, ImageConfig, NetworkMode, RunOptions};
use tote_image::Digest;
use tote_sys::best_effort;

impl Building<'_> {
    pub(crate) fn command(
        &mut self,
        layers: &[Digest],
        step: &RunStep,
    ) -> Result<Option<Digest>, EngineError> {
        let lowers = self.lowers(layers)?;
        let view = lowers.view(self.in_user_namespace())?;
        let scratch = self.workspace.scratch()?;
        let mut options = RunOptions {
            command: step.argv.clone(),
            rm: true,
            // A shell as PID 1 would ignore ^C.
            init: true,
            ..self.request.run.clone()
        };
        let network = match step.host_network {
            Some(true) => "host".to_owned(),
            Some(false) => "none".to_owned(),
            None => self.request.network()?,
        };
        options.network = network.parse().map_err(NetworkFault::Mode)?;
        if step.host_network == Some(false) {
            // It connects nowhere.
            (options.egress, options.egress_keep) = (None, None);
        }
        let lacks = self.place.adapt(&mut options)?;
        let held = self.mounts(step, &mut options)?;
        let source = Source::Build(Box::new(BuildTree {
            config: config(step),
            lowers: lowers.paths(),
            own_inodes: lowers.own_inodes(),
            upper: scratch.upper.clone(),
            work: scratch.work.clone(),
            view: view.try_clone().map_err(ImageFault::LayerOutput)?,
            secrets: self.workspace.path().join(SECRETS),
        }));
        let muted = self.request.quiet.then(Muted::start);
        let has_network = !options.network.attachments().is_empty();
        let (home, place) = (self.home, (self.home, self.workspace.path()));
        let ran = self
            .place
            .run(place, has_network, || ran(home, (options, network), source, step))?;
        let stubs = Stubs::of(&view, ran.mounts.iter().map(String::as_str));
        drop((muted, held));
        // What is muted hides messages, too.
        if let Some(reason) = ran.without_network.as_ref().or(lacks.as_ref()) {
            (self.say)(Event::NoNetwork(reason));
        }
        for dir in [SECRETS, AGENTS, "copies"] {
            best_effort(tote_sys::remove_tree(&self.workspace.path().join(dir)));
        }
        if ran.exit_code != 0 {
            return Err(BuildFault::Command {
                command: step.argv.join(" "),
                code: ran.exit_code,
                reason: ran.reason,
                offline: ran.offline,
            }
            .into());
        }
        let upper = super::view::open(&scratch.upper, OFlags::RDONLY)
            .map_err(EngineError::file("open", &scratch.upper))?;
        let cleared = stubs.clear(upper.as_fd());
        cleared.map_err(EngineError::file("clear", &scratch.upper))?;
        self.commit(layers, &lowers, (&view, upper), scratch.upper, &stubs.touched)
    }
}

/// Runs a step's command to its end.
fn ran(
    home: &Home,
    (options, network): (RunOptions, String),
    source: Source,
    step: &RunStep,
) -> Result<Ran, EngineError> {
    let prepared = prepare_from(
        home,
        RunRequest {
            image: Image::Stored("build".to_owned()),
            options,
            given: vec![("network".to_owned(), network)],
            kept: false,
            init: HostInit::default(),
        },
        source,
        Purpose::Now,
        None,
    )?;
    let offline = prepared.options.network == NetworkMode::None && step.host_network.is_none();
    let without_network = prepared.without_network.clone();
    let mounts = prepared.spec.mounts.iter();
    let mounts = mounts.map(|mount| mount.destination.clone()).collect();
    let finished = crate::run::run(home, prepared, None, None, &mut |_| {});
    let finished = finished.map_err(|error| super::foreign::explained(error, step))?;
    Ok(Ran {
        exit_code: finished.exit_code,
        reason: finished.reason,
        offline,
        without_network,
        mounts,
    })
}

fn config(step: &RunStep) -> ImageConfig {
    let mut env = step.env.clone();
    if !env.iter().any(|variable| variable.starts_with("PATH=")) {
        env.push(format!("PATH={DEFAULT_PATH}"));
    }
    ImageConfig {
        env,
        user: step.user.clone(),
        working_dir: step.workdir.clone(),
        ..ImageConfig::default()
    }
}
