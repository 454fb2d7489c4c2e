//! Actions of a build.

use super::attest::Material;
use super::checkout::FoundCommit;
use super::context::{Files, Given};
use super::exchange::{Asker, Exports, Imports};
use super::hashes::Hashes;
use super::place::{Copying, make_dirs};
use super::select::{Chosen, Filter, choose, digest};
use super::stages::Stages;
use super::step_place::StepPlace;
use super::view::Lowers;
use super::workspace::Workspace;
use super::{BuildFault, BuildRequest, ContextError, Voice, cache, inside, layer};
use crate::{Caller, EngineError, Home, ImageFault, MachineError, PullEvent};
use rustix::fs::OFlags;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use tote_archive::EntryPath;
use tote_build::{
    Built, CopyStep, Event, Key, Origin, Outcome, Repository, RunStep, StageLabel, StageWork, Worker,
};
use tote_dockerfile::Ignore;
use tote_image::{Digest, ImageConfig, Platform, Raw};
use tote_store::{Image, ImageRecord, Ingest, Store, Tree};

/// Limit of a passwd or group file, in bytes.
const LIMIT: usize = 1 << 20;

/// Build in progress.
pub(crate) struct Building<'a> {
    pub home: &'a Home,
    pub request: &'a BuildRequest,
    pub files: &'a Files,
    pub(crate) workspace: &'a mut Workspace,
    pub store: &'a Store,
    pub ingest: &'a Ingest<'a>,
    pub say: &'a mut dyn FnMut(Event<'_>),
    pub pull: &'a (dyn Fn(PullEvent<'_>) + Sync),
    /// Caches of `--cache-from`.
    imports: Imports,
    /// Caches of `--cache-to`.
    pub(crate) exports: Exports,
    /// Networks of the steps.
    pub place: StepPlace,
    /// Platform to build for.
    platform: Platform,
    /// Images by name and platform.
    pub(crate) bases: HashMap<(String, Option<String>), Built>,
    /// Commits of the repositories in `ADD` instructions.
    pub(crate) commits: Vec<(Repository, FoundCommit)>,
    /// Downloads so far, for attestations.
    pub(crate) downloaded: Vec<Material>,
    /// Hashes of the context's files.
    pub(crate) hashes: Hashes,
    /// Stages that are built at once, in processes of their own.
    pub(crate) stages: Stages,
    /// Directories of layers on disk.
    pub(crate) made: HashMap<Vec<Digest>, Lowers>,
    /// Sources of the previous digest, with their step.
    chosen: Option<(CopyStep, Vec<Chosen>)>,
}

impl<'a> Building<'a> {
    pub(crate) fn new(
        home: &'a Home,
        (store, ingest): (&'a Store, &'a Ingest<'a>),
        (request, platform): (&'a BuildRequest, Option<&Platform>),
        files: &'a Files,
        workspace: &'a mut Workspace,
        voice: Voice<'a>,
    ) -> Self {
        Self {
            home,
            request,
            files,
            workspace,
            store,
            ingest,
            say: voice.say,
            pull: voice.pull,
            imports: Imports::new(&request.cache_from),
            exports: Exports::new(&request.cache_to),
            place: StepPlace::Here,
            platform: platform.cloned().unwrap_or_else(Platform::host),
            bases: HashMap::new(),
            commits: Vec::new(),
            downloaded: Vec::new(),
            hashes: Hashes::of(home, request.context.path()),
            stages: Stages::default(),
            made: HashMap::new(),
            chosen: None,
        }
    }

    pub(crate) fn in_user_namespace(&self) -> bool {
        self.home.caller != Caller::Root
    }

    /// Returns the layers as one directory of the store.
    pub(crate) fn flat(&self, layers: &[Digest]) -> Result<Tree, EngineError> {
        Ok(self.store.tree(&Self::bare(layers)?)?)
    }

    /// Makes an image of these layers without any other settings. The store finds trees by their layers alone.
    pub(crate) fn bare(layers: &[Digest]) -> Result<Image, EngineError> {
        let mut config = ImageConfig::default();
        config.rootfs.diff_ids = layers.to_vec();
        let json = config.to_json();
        let id = tote_store::sha256(&json);
        let config = Raw::read(json).map_err(ImageFault::ImageDocument)?;
        Ok(Image {
            id,
            config,
            record: ImageRecord::default(),
        })
    }

    pub(crate) fn lowers(&mut self, layers: &[Digest]) -> Result<Lowers, EngineError> {
        if let Some(made) = self.made.get(layers) {
            return Ok(made.clone());
        }
        let lowers = Lowers::of(self.flat(layers)?);
        self.made.insert(layers.to_vec(), lowers.clone());
        Ok(lowers)
    }

    /// Looks for the result of a key in imported caches; it is as good as a local one.
    fn imported(&mut self, key: &Key, before: &ImageConfig) -> Option<Built> {
        let asker = Asker {
            store: self.store,
            ingest: self.ingest,
            platform: self.platform.clone(),
            access: &self.request.access,
            report: self.pull,
        };
        let config = self.imports.find(&asker, key, before)?;
        // A result that cannot be recorded now is looked up again by the next build.
        let id = cache::put(self.home, key, &config).ok()?;
        Some(Built { id, config })
    }

    /// Packs the written files as a layer, on which the next step builds.
    pub(crate) fn commit(
        &mut self,
        layers: &[Digest],
        lowers: &Lowers,
        (view, upper): (&OwnedFd, OwnedFd),
        path: PathBuf,
        touched: &HashSet<EntryPath>,
    ) -> Result<Option<Digest>, EngineError> {
        let layer = layer::layer_of_upper(self.ingest, view.as_fd(), upper.as_fd(), touched)?;
        let Some(layer) = layer else { return Ok(None) };
        if let Some(higher) = lowers.and(path) {
            self.made.insert([layers, &[layer.diff_id]].concat(), higher);
        }
        Ok(Some(layer.diff_id))
    }

    /// Runs an action that writes to the layers so far.
    fn write(
        &mut self,
        layers: &[Digest],
        act: impl FnOnce(&Self, &OwnedFd) -> Result<(), EngineError>,
    ) -> Result<Option<Digest>, EngineError> {
        let lowers = self.lowers(layers)?;
        let scratch = self.workspace.scratch()?;
        let tree = lowers.writable(&scratch, self.in_user_namespace())?;
        act(self, &tree)?;
        drop(tree);
        let upper = super::view::open(&scratch.upper, OFlags::RDONLY)
            .map_err(EngineError::file("open", &scratch.upper))?;
        let view = lowers.view(self.in_user_namespace())?;
        let touched = HashSet::from([EntryPath::root()]);
        self.commit(layers, &lowers, (&view, upper), scratch.upper, &touched)
    }

    pub(crate) fn chosen(&mut self, step: &CopyStep) -> Result<Vec<Chosen>, EngineError> {
        if let Some((known, chosen)) = self.chosen.take()
            && known == *step
        {
            return Ok(chosen);
        }
        let exclude = Ignore::parse(&step.exclude.join("\n")).map_err(ContextError::Ignore)?;
        let mut chosen = match &step.from {
            given @ (Origin::Context | Origin::Named(_)) => {
                let Given { root, ignore, .. } = self.files.given(given)?;
                let filter = Filter {
                    ignore,
                    exclude,
                    sockets: true,
                };
                let mut chosen = choose(root, step, &filter)?;
                super::links::mark(&mut chosen);
                chosen
            }
            Origin::Layers(layers) => {
                let view = self.lowers(layers)?.view(self.in_user_namespace())?;
                let ignore = &Ignore::default();
                let filter = Filter {
                    ignore,
                    exclude,
                    sockets: false,
                };
                let mut chosen = choose(&view, step, &filter)?;
                self.mark_links(layers, &view, &mut chosen)?;
                chosen
            }
        };
        chosen.extend(self.downloads(step)?);
        chosen.extend(self.repositories(step)?);
        Ok(chosen)
    }

    /// Finds the owner for a copy. Names are those of the target image.
    fn owner(step: &CopyStep, tree: &OwnedFd) -> Result<Option<(u32, u32)>, EngineError> {
        match &step.chown {
            None => Ok(step.from.is_given().then_some((0, 0))),
            Some(chown) => ids(chown, tree).map(Some),
        }
    }
}

/// Parses `USER[:GROUP]` with the names of an image.
fn ids(chown: &str, tree: &OwnedFd) -> Result<(u32, u32), EngineError> {
    let read = |path| {
        let bytes = tote_rootfs::read_in_root(tree, path, LIMIT).map_err(MachineError::UserFile)?;
        Ok::<_, EngineError>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    };
    let (user, group) = chown.split_once(':').unwrap_or((chown, ""));
    // A number without a group is used for both, as in docker.
    let spec = match (user.parse::<u32>(), group) {
        (Ok(number), "") => format!("{number}:{number}"),
        _ => chown.to_owned(),
    };
    let found = tote_bundle::resolve_user(&spec, &read("etc/passwd")?, &read("etc/group")?)?;
    Ok((found.uid, found.gid))
}

impl Worker for Building<'_> {
    type Error = EngineError;

    fn image(&mut self, name: &str, platform: Option<&str>) -> Result<Built, EngineError> {
        self.base(name, platform)
    }

    fn stage(&mut self, in_result: bool) {
        self.exports.stage(in_result);
    }

    fn cached(&mut self, key: &Key, before: &ImageConfig) -> Option<Built> {
        let found = cache::find(self.home, self.store, key);
        let found = found.or_else(|| self.imported(key, before))?;
        self.exports.note(key, &found.config);
        Some(found)
    }

    fn remember(&mut self, key: &Key, config: &ImageConfig) -> Result<Digest, EngineError> {
        self.exports.note(key, config);
        cache::put(self.home, key, config)
    }

    fn keep(&mut self, config: &ImageConfig, last: bool) -> Result<Digest, EngineError> {
        let image = self.ingest.image(&config.to_json(), None)?;
        cache::keep(self.home, &image.id, !last);
        if last {
            self.store.make_tree(&image)?;
        }
        Ok(image.id)
    }

    fn claim(&mut self, key: &Key) -> Result<bool, EngineError> {
        self.claim_key(key)
    }

    fn release(&mut self) {
        self.stages.release();
    }

    fn start(&mut self, stage: &StageLabel, work: StageWork<'_, Self>) -> Result<(), EngineError> {
        self.start_stage(stage, work)
    }

    fn ended(&mut self) -> Result<(usize, Outcome<Self>), EngineError> {
        self.ended_stage()
    }

    fn stop(&mut self) {
        self.stop_stages();
    }

    fn run(&mut self, layers: &[Digest], step: &RunStep) -> Result<Option<Digest>, EngineError> {
        let layer = self.command(layers, step);
        self.stages.unblock_signals();
        layer
    }

    fn digest(&mut self, step: &CopyStep) -> Result<String, EngineError> {
        if let (Some(checksum), [url]) = (&step.checksum, step.downloads.as_slice()) {
            // The checksum is known without a download.
            self.downloaded
                .push(Material::new(tote_build::redacted(url), checksum));
            let key = Key::new("download")
                .with(&checksum.to_string())
                .with(&super::download::name(url))
                .with(&step.inline);
            return Ok(tote_store::sha256(key.as_bytes()).hex());
        }
        if !step.repositories.is_empty() {
            let key = self.repositories_key(step)?;
            let repositories = Vec::new();
            let others = CopyStep {
                repositories,
                ..step.clone()
            };
            let key = key.with(&self.digest(&others)?);
            return Ok(tote_store::sha256(key.as_bytes()).hex());
        }
        let chosen = self.chosen(step)?;
        let keeps_owners = !step.from.is_given() && step.chown.is_none();
        // Only files of the context have recorded hashes: a download is new, and a stage's files are read once.
        let is_context = step.from == Origin::Context && step.downloads.is_empty();
        let known = is_context.then_some(&mut self.hashes);
        let digest = digest(&chosen, step, keeps_owners, known)?;
        self.chosen = Some((step.clone(), chosen));
        Ok(digest)
    }

    fn copy(&mut self, layers: &[Digest], step: &CopyStep) -> Result<Option<Digest>, EngineError> {
        let chosen = self.chosen(step)?;
        self.write(layers, |_, root| {
            let owner = Self::owner(step, root)?;
            Copying { root, step, owner }.run(&chosen)
        })
    }

    fn directory(
        &mut self,
        layers: &[Digest],
        path: &str,
        user: &str,
    ) -> Result<Option<Digest>, EngineError> {
        let view = self.lowers(layers)?.view(self.in_user_namespace())?;
        let dir = inside::open(&view, path.as_bytes(), OFlags::PATH | OFlags::DIRECTORY);
        let dir = inside::found(dir).map_err(|errno| BuildFault::Place {
            path: path.to_owned(),
            source: errno.into(),
        })?;
        if dir.is_some() {
            return Ok(None);
        }
        self.write(layers, |_, root| {
            make_dirs(root, path.as_bytes(), ids(user, root)?, 0o755).map(drop)
        })
    }

    fn squash(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, EngineError> {
        self.merged(layers, below)
    }

    fn no_younger(&mut self, layers: &[Digest], time: Duration) -> Result<Vec<Digest>, EngineError> {
        self.older(layers, time)
    }

    fn now(&self) -> Duration {
        tote_calendar::now()
    }

    fn say(&mut self, event: Event<'_>) {
        (self.say)(event);
    }
}
