//! `build`: the acts of a build, and where it works.

mod cache;
mod context;
mod error;
mod inside;
mod layer;
mod mounts;
mod mute;
mod place;
mod secret;
mod select;
mod step;
mod stubs;
mod view;
mod worker;
mod workspace;

pub(crate) use cache::is_kept;
pub use context::BuildContext;
pub use error::BuildFault;
pub use secret::{SecretSource, parse_secret};

use crate::image::sweep_a_little;
use crate::{Caller, EngineError, Home};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tote_build::Event;
use tote_dockerfile::Dockerfile;
use tote_image::{Digest, Reference};
use worker::Building;
use workspace::Workspace;

/// What somebody wants built.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The files.
    pub context: BuildContext,
    /// `-f`; `-` is standard input.
    pub dockerfile: Option<PathBuf>,
    /// `-t`.
    pub tags: Vec<String>,
    /// Arguments, the target and what else concerns instructions.
    pub options: tote_build::Options,
    /// `--secret`, by id.
    pub secrets: BTreeMap<String, SecretSource>,
    /// `--network host`.
    pub host_network: bool,
    /// Whether nobody wants to see what commands print.
    pub quiet: bool,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltImage {
    /// Its id.
    pub id: Digest,
    /// The names that it has now.
    pub names: Vec<Reference>,
}

/// Builds an image. The process must have one thread; it has other ids and mounts of its own afterwards.
///
/// # Errors
/// [`EngineError`]; nothing of the build is left then but what the next one can go on from.
pub fn build(
    home: Home,
    request: &BuildRequest,
    say: &mut dyn FnMut(Event<'_>),
) -> Result<BuiltImage, EngineError> {
    let names = request
        .tags
        .iter()
        .map(|tag| name(tag))
        .collect::<Result<Vec<_>, _>>()?;
    let options = crate::image::store_options(&home);
    let home = enter(home)?;
    let store = tote_store::Store::open(&home.store(), options)?;
    let mut workspace = Workspace::make(&home)?;
    let files = context::open(&request.context, request.dockerfile.as_deref(), &workspace)?;
    let dockerfile = Dockerfile::parse(&files.dockerfile).map_err(BuildFault::Parse)?;
    let ingest = store.ingest()?;
    let mut building = Building::new(&home, (&store, &ingest), request, &files, &mut workspace, say);
    let built = tote_build::build(&dockerfile, &request.options, &mut building);
    let built = built.map_err(|error| EngineError::Build(Box::new(error)))?;
    for name in &names {
        ingest.tag(name, &built.id)?;
    }
    drop(ingest);
    sweep_a_little(&store);
    Ok(BuiltImage { id: built.id, names })
}

fn name(tag: &str) -> Result<Reference, EngineError> {
    let name = Reference::parse(tag)?;
    match name.digest() {
        Some(_) => Err(EngineError::TagIsDigest(name.familiar())),
        None => Ok(name),
    }
}

/// Makes this process root of a user namespace with mounts of its own, so that it may own and mount what images have. A
/// user without ranges of ids has one.
fn enter(home: Home) -> Result<Home, EngineError> {
    if home.caller != Caller::User {
        return Ok(home);
    }
    crate::image::enter_ids(&home)?;
    if !rustix::process::geteuid().is_root() {
        crate::image::enter_one_id()?;
    }
    tote_sys::own_mounts().map_err(|source| EngineError::Kernel {
        attempt: "make mounts of the build's own",
        source,
    })?;
    Home::open(Some(home.root()))
}
