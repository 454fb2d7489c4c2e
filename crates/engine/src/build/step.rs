//! `RUN`: a container on the layers so far, whose writes become the next layer.

use super::BuildFault;
use super::mounts::{AGENTS, SECRETS};
use super::mute::Muted;
use super::stubs::Stubs;
use super::worker::Building;
use crate::making::Purpose;
use crate::prepare::prepare_from;
use crate::rootfs::{BuildTree, Source};
use crate::{EngineError, HostInit, ImageFault, NetworkFault, RunRequest};
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
        let image = Image::Stored("build".to_owned());
        let muted = self.request.quiet.then(Muted::start);
        let prepared = prepare_from(
            self.home,
            RunRequest {
                image,
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
        let stubs = Stubs::of(
            &view,
            prepared
                .spec
                .mounts
                .iter()
                .map(|mount| mount.destination.as_str()),
        );
        let finished = crate::run::run(self.home, prepared, None, None, &mut |_| {});
        drop((muted, held));
        // What is muted hides messages, too.
        if let Some(reason) = &without_network {
            (self.say)(Event::NoNetwork(reason));
        }
        for dir in [SECRETS, AGENTS, "copies"] {
            best_effort(tote_sys::remove_tree(&self.workspace.path().join(dir)));
        }
        let finished = finished.map_err(|error| super::foreign::explained(error, step))?;
        if finished.exit_code != 0 {
            return Err(BuildFault::Command {
                command: step.argv.join(" "),
                code: finished.exit_code,
                reason: finished.reason,
                offline,
            }
            .into());
        }
        let upper = super::view::open(&scratch.upper, OFlags::RDONLY)
            .map_err(EngineError::file("open", &scratch.upper))?;
        stubs.clear(upper.as_fd());
        self.commit(layers, &lowers, (&view, upper), scratch.upper, &stubs.touched)
    }
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
