//! Builds: the actions of a Dockerfile's steps, the workspace in which they happen, the caches, and what comes out.
//!
//! Invariants:
//! - An image gets its name when the build has succeeded; of a failed build only the cache is left.
//! - A path of a context, of a stage or of an image is opened below its root, and no link leads out of it.
//! - Stages that are built at once have a process each, with a directory of its own below the workspace, and no such process outlives the
//!   build.
//! - What is kept for later builds can be removed at any time: a build finds it, or makes it again.
//!
//! Which steps there are and when an earlier result is used again is decided by the pure crate `build`; a command of a step is a
//! container as any other, of the crate `life`.

mod agent;
mod attest;
mod base;
mod built;
mod cache;
mod cache_mount;
mod checkout;
mod context;
mod dirs;
mod download;
mod epoch;
mod error;
mod exchange;
mod foreign;
mod git;
mod hashes;
mod inside;
mod layer;
mod links;
mod mounts;
mod mute;
mod named;
mod output;
mod place;
mod platforms;
mod prune;
mod repositories;
mod request;
mod room;
mod secret;
mod select;
mod squash;
mod stage_inputs;
mod stage_output;
mod stage_report;
mod stage_work;
mod stages;
mod step;
mod step_place;
mod stubs;
mod view;
mod worker;
mod workspace;

pub use attest::{Attestations, ProvenanceMode, ProvenanceVersion};
pub use built::{BuiltImage, BuiltManifest};
pub use cache::is_kept;
pub use error::{
    BuildFault, BuildOptionError, CacheFault, ContextError, GitFailure, RepositoryFault, SecretFault,
    StageFault, interrupted,
};
pub use exchange::{CacheFrom, CachePlace, CacheTo, parse_cache_from, parse_cache_to};
pub use foreign::build_platforms;
pub use inside::open_straight;
pub use layer::pack;
pub use named::{NamedContext, layout_name, parse_annotation, parse_context};
pub use output::BuildOutput;
pub use prune::forget_stale;
pub use prune::{BuildSpace, BuildsPruned, PruneBuilds, build_space, prune_builds};
pub use request::{BuildContext, BuildRequest, Voice};
pub use room::Room;
pub use secret::{SecretSource, parse_agent, parse_secret};
pub use workspace::{Workspace, guard_build, make_dir};

use tote_images::{
    Access, PullEvent, PullRequest, PushEvent, PushReport, PushRequest, PushStep, PushedImage, SaveTarget,
    Wanted, WhenToPull, WholeFile, pull, push, save, wanted,
};
use tote_life::{changes, prepare, run};
use tote_networks as network;
use tote_networks::NetworkFault;
use tote_prepare::{HostInit, RunRequest, making, rootfs};
use tote_records::{Caller, EngineError, Home, ImageFault, MachineError, RequestError, container};

use platforms::Platforms;
use step_place::StepPlace;
use tote_build::Warning;
use tote_bundle::DEFAULT_NETWORK;
use tote_dockerfile::Dockerfile;
use tote_image::Reference;
use tote_images::ImagesError;
use tote_images::sweep_a_little;
use tote_state::config::NetworkUser;

/// Builds an image. The process must have one thread; it has other ids and mounts of its own afterwards.
///
/// # Errors
/// [`EngineError`]; of the build only its cache is left then.
pub fn build(home: Home, request: &BuildRequest, voice: Voice<'_>) -> Result<BuiltImage, EngineError> {
    let (names, began) = (request.names()?, tote_calendar::now());
    request.check_egress()?;
    request.access.check()?;
    let options = tote_images::store_options(&home)?;
    let (home, place) = enter(home, request)?;
    let store = tote_store::Store::open(&home.store(), options)?;
    let mut workspace = Workspace::make(&home, voice.guard)?;
    let files = context::open(request, &workspace)?;
    let dockerfile = Dockerfile::parse(&files.dockerfile).map_err(ContextError::Parse)?;
    let ingest = store.ingest()?;
    let push = std::sync::Arc::clone(&voice.push);
    let platforms = Platforms {
        home: &home,
        store: &store,
        ingest: &ingest,
        request,
        files: &files,
        dockerfile: &dockerfile,
        names: &names,
        began,
        place,
    };
    let id = platforms.build(&mut workspace, voice)?;
    let decision = store.decide()?;
    for name in &names {
        ingest.tag(name, &id)?;
    }
    let mut built = BuiltImage {
        id,
        // Another command may take the names away at once.
        image: platforms::only_image(&store, &id)?,
        manifest: None,
        names,
        pushed: Vec::new(),
    };
    drop((decision, ingest));
    sweep_a_little(&store);
    if request.is_pushed() {
        for name in &built.names {
            let request = PushRequest {
                image: name.to_string(),
                destination: None,
                platforms: Vec::new(),
                access: request.access.clone(),
            };
            built.pushed.push(crate::push(&home, &request, &push)?);
        }
    }
    built.manifest = platforms::manifest_of(&store, &built.id)?;
    for output in &request.outputs {
        output.save(&home, &built)?;
    }
    Ok(built)
}

/// Dockerfile that was checked without a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDockerfile {
    /// Text of the Dockerfile.
    pub dockerfile: String,
    /// Unwise instructions.
    pub warnings: Vec<Warning>,
}

/// Checks a Dockerfile: whether it can be parsed and planned, and whether it has unwise instructions. No image is
/// looked for, and nothing is built.
///
/// # Errors
/// [`EngineError`] if a build would fail with any files in its context.
pub fn check_build(home: &Home, request: &BuildRequest) -> Result<CheckedDockerfile, EngineError> {
    request.names()?;
    let workspace = Workspace::make(home, &|_| None)?;
    let dockerfile = context::open(request, &workspace)?.dockerfile;
    let parsed = Dockerfile::parse(&dockerfile).map_err(ContextError::Parse)?;
    tote_build::check_plan(&parsed, &request.options).map_err(|error| BuildFault::Build(Box::new(error)))?;
    Ok(CheckedDockerfile {
        warnings: tote_build::check(&parsed, &dockerfile),
        dockerfile,
    })
}

impl BuildRequest {
    /// Parses the names for the image.
    fn names(&self) -> Result<Vec<Reference>, EngineError> {
        let named = self.outputs.iter().flat_map(|output| match output {
            BuildOutput::Store { names, .. } => names.as_slice(),
            _ => &[],
        });
        let names: Vec<Reference> = self
            .tags
            .iter()
            .chain(named)
            .map(|tag| name(tag))
            .collect::<Result<_, _>>()?;
        if names.is_empty() && self.is_pushed() {
            return Err(BuildFault::PushNameless.into());
        }
        Ok(names)
    }

    /// Refuses an egress policy that steps would not hold.
    fn check_egress(&self) -> Result<(), EngineError> {
        let mut options = self.run.clone();
        options.network = self.network()?.parse().map_err(NetworkFault::Mode)?;
        Ok(network::check_step(&options)?)
    }

    /// The network of a `RUN` that names none.
    pub fn network(&self) -> Result<String, EngineError> {
        let has_policy = self.run.egress.is_some();
        match self.network.as_deref() {
            None => network::default_of(NetworkUser::Step, has_policy),
            Some("default") if has_policy => Ok(DEFAULT_NETWORK.to_owned()),
            Some(network) if ["default", "bridge", "none", "host"].contains(&network) => {
                Ok(network.to_owned())
            }
            Some(other) => Err(BuildFault::Option(BuildOptionError::Network(other.to_owned())).into()),
        }
    }

    fn is_pushed(&self) -> bool {
        let pushes = |output: &BuildOutput| matches!(output, BuildOutput::Store { push: true, .. });
        self.push || self.outputs.iter().any(pushes)
    }
}

fn name(tag: &str) -> Result<Reference, EngineError> {
    let name = Reference::parse(tag)?;
    match name.digest() {
        Some(_) => Err(ImagesError::TagIsDigest(name.familiar()).into()),
        None => Ok(name),
    }
}

/// Makes this process root of a user namespace with mounts of its own, so that it may own and mount the files of
/// images. A user without ranges of ids has a single id. Where steps may have networks, that namespace is the one of the user's
/// networks: links are given only to namespaces below it.
fn enter(home: Home, request: &BuildRequest) -> Result<(Home, StepPlace), EngineError> {
    if home.caller != Caller::User {
        return Ok((home, StepPlace::Here));
    }
    let wants = !["none", "host"].contains(&request.network()?.as_str());
    let place = if wants && network::enter_user(&home).is_ok() {
        StepPlace::Apart
    } else {
        tote_images::enter_ids(&home)?;
        if !rustix::process::geteuid().is_root() {
            tote_images::enter_one_id()?;
        }
        StepPlace::Nowhere
    };
    tote_sys::own_mounts().map_err(|source| EngineError::Kernel {
        attempt: "make mounts of the build's own",
        source,
    })?;
    Ok((Home::open(Some(home.root()))?, place))
}
