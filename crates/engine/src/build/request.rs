//! What a build is asked for.

use super::{Attestations, BuildContext, BuildOutput, CacheFrom, CacheTo, SecretSource};
use crate::{Access, PullEvent, PushReport, PushedImage, WhenToPull};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;
use tote_build::Event;
use tote_bundle::RunOptions;
use tote_image::{Digest, Platform, Reference};

/// What somebody wants built.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The files.
    pub context: BuildContext,
    /// `-f`; `-` is standard input.
    pub dockerfile: Option<PathBuf>,
    /// `--ignorefile`: in place of the context's own `.dockerignore`.
    pub ignore_file: Option<PathBuf>,
    /// `-t`.
    pub tags: Vec<String>,
    /// `--build-context`: files by the names that [`tote_build::Options::contexts`] has for them.
    pub contexts: BTreeMap<String, BuildContext>,
    /// `--annotation`: what the manifest says beside.
    pub annotations: BTreeMap<String, String>,
    /// Arguments, the target and what else concerns instructions.
    pub options: tote_build::Options,
    /// `--platform`: what is built for, one image each; this machine where there is none. It stands for
    /// [`tote_build::Options::platform`].
    pub platforms: Vec<Platform>,
    /// `--secret`, by id.
    pub secrets: BTreeMap<String, SecretSource>,
    /// `--ssh`: sockets of agents, by id.
    pub agents: BTreeMap<String, PathBuf>,
    /// What holds for the container of every `RUN`: limits, `--add-host`, `--network` and the like.
    pub run: RunOptions,
    /// When images that the build begins with are pulled.
    pub pull: WhenToPull,
    /// How registries are spoken to.
    pub access: Access,
    /// `--output`: where else the result goes.
    pub outputs: Vec<BuildOutput>,
    /// The attestations to make of the image.
    pub attestations: Attestations,
    /// `--push`: whether it goes to the registries of its names.
    pub push: bool,
    /// `--cache-from`: where what is not here is looked for.
    pub cache_from: Vec<CacheFrom>,
    /// `--cache-to`: where what others can go on from is left.
    pub cache_to: Vec<CacheTo>,
    /// Whether nobody wants to see what commands print.
    pub quiet: bool,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltImage {
    /// The id that its names stand for: that of an index where it was built for several platforms, or has attestations.
    pub id: Digest,
    /// The id of the image itself, where it is one.
    pub image: Option<Digest>,
    /// The manifest or index of it, where that is known: at a registry where it was pushed, and else as `save` writes it.
    pub manifest: Option<BuiltManifest>,
    /// The names that it has now.
    pub names: Vec<Reference>,
    /// What it is at registries now.
    pub pushed: Vec<PushedImage>,
}

/// A descriptor of what was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltManifest {
    /// The type of the document.
    pub media_type: String,
    /// The manifest's digest.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// Whom a build tells what it does.
pub struct Voice<'a> {
    /// Told of each step.
    pub say: &'a mut dyn FnMut(Event<'_>),
    /// Told how far a pull is, from several threads.
    pub pull: &'a (dyn Fn(PullEvent<'_>) + Sync),
    /// Told how far a push is, from several threads.
    pub push: PushReport,
    /// Starts a process that removes this directory as soon as its lock is free: the build was killed then. Without one
    /// it is the next build that does.
    pub guard: &'a dyn Fn(&Path) -> Option<Child>,
}

impl std::fmt::Debug for Voice<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Voice").finish_non_exhaustive()
    }
}
