//! `commit`: what a container changed becomes an image.

use super::container::{self, Container};
use super::differences::differences;
use super::export::{pack_tree, refuse_host};
use super::layer::{add_layer, pack_differences};
use super::{GuestChanges, What};
use crate::container::State;
use crate::{Caller, EngineError, Home, open_store};
use rustix::fs::FlockOperation;
use serde_json::Value;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use tote_bundle::{ContainerId, DEFAULT_PATH, Image};
use tote_cgroup::Cgroup;
use tote_image::{ContainerConfig, Digest, History, ImageConfig, Platform, Reference};
use tote_images::ImagesError;
use tote_images::{apply_change, or_nothing};
use tote_state::locked::flock_within;
use tote_store::{Ingest, Layer, Store};
use tote_sys::best_effort;

/// How an image is made of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOptions {
    /// Author; an empty text keeps that of the image.
    pub author: String,
    /// Why, in words.
    pub message: String,
    /// Instructions of a Dockerfile.
    pub changes: Vec<String>,
    /// Whether a running container is suspended meanwhile.
    pub pause: bool,
}

/// An image that was made of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its id.
    pub id: Digest,
    /// Whether the container went on, although it should not have: this caller could not suspend it.
    pub went_on: bool,
}

/// Makes an image of a container: the container's image with one more layer, or one layer with everything if it was made
/// of a directory. The process must have one thread, and becomes root of the ids that own images ([`tote_images::enter_ids`]).
///
/// # Errors
/// [`EngineError`].
pub fn commit(
    home: &Home,
    wanted: &str,
    name: Option<&str>,
    options: &CommitOptions,
) -> Result<Committed, EngineError> {
    let name = name.map(Reference::parse).transpose()?;
    if let Some(name) = name.as_ref().filter(|name| name.digest().is_some()) {
        return Err(ImagesError::TagIsDigest(name.familiar()).into());
    }
    let container = container::find(home, wanted)?;
    let what = What::Layer { holds: options.pause };
    let guest = GuestChanges::ask(home, &container, what)?;
    tote_images::enter_ids(home)?;
    let store = open_store(home)?;
    let image = add(home, &store, (&container, guest), name.as_ref(), options);
    or_nothing(&store, image)
}

fn add(
    home: &Home,
    store: &Store,
    (container, guest): (&Container, Option<GuestChanges>),
    name: Option<&Reference>,
    options: &CommitOptions,
) -> Result<Committed, EngineError> {
    let mut config = base(store, container)?;
    carry_over(
        &mut config.config,
        crate::look::asked_config(home, &container.entry),
    );
    apply(&mut config.config, &options.changes)?;
    let ingest = store.ingest_at_once()?;
    let (stillness, layer) = match guest {
        Some(guest) => (Stillness::Given, guest.layer(&ingest)?),
        None => (
            Stillness::keep(home, container, options.pause),
            layer(home, &ingest, container)?,
        ),
    };
    let went_on = matches!(stillness, Stillness::Refused) && container.runs_still();
    drop(stillness);
    describe(&mut config, container, options, layer.as_ref());
    // The first container of it makes its tree: what is committed is often only saved, pushed or committed to again.
    let image = ingest.image(&config.to_json(), None)?;
    if let Some(name) = name {
        ingest.tag(name, &image.id)?;
    }
    Ok(Committed {
        id: image.id,
        went_on,
    })
}

/// Puts what a container was made with over what its image says, as docker's commit does: a container of the new image runs
/// the same command with the same variables, as the same user.
fn carry_over(config: &mut ContainerConfig, mut asked: Value) {
    const CARRIED: [&str; 9] = [
        "User",
        "ExposedPorts",
        "Env",
        "Entrypoint",
        "Cmd",
        "Volumes",
        "WorkingDir",
        "Labels",
        "Healthcheck",
    ];
    if let Some(fields) = asked.as_object_mut() {
        fields.retain(|name, value| CARRIED.contains(&name.as_str()) && !value.is_null());
    }
    let Ok(asked) = serde_json::from_value::<ContainerConfig>(asked) else {
        return;
    };
    let is_silent = asked.cmd.is_empty() && asked.entrypoint.is_empty();
    *config = ContainerConfig {
        cmd: if is_silent {
            std::mem::take(&mut config.cmd)
        } else {
            asked.cmd.clone()
        },
        stop_signal: std::mem::take(&mut config.stop_signal),
        stop_timeout: config.stop_timeout,
        shell: std::mem::take(&mut config.shell),
        on_build: std::mem::take(&mut config.on_build),
        other: std::mem::take(&mut config.other),
        ..asked
    };
}

/// docker's rule: the image's command is not meant for another entrypoint.
fn apply(config: &mut ContainerConfig, changes: &[String]) -> Result<(), EngineError> {
    let about = |instruction: &str| {
        changes.iter().any(|line| {
            let first = line.split_whitespace().next();
            first.is_some_and(|first| first.eq_ignore_ascii_case(instruction))
        })
    };
    if about("ENTRYPOINT") && !about("CMD") {
        config.cmd.clear();
    }
    for line in changes {
        apply_change(line, config).map_err(ImagesError::Change)?;
    }
    Ok(())
}

/// The configuration to begin with: the image's own.
fn base(store: &Store, container: &Container) -> Result<ImageConfig, EngineError> {
    if let Image::Stored(id) = container.image()? {
        let mut config = store.image(&store.resolve(&id)?)?.config.value().clone();
        // What docker of old noted of the container that the image was made of.
        config.other.remove("container");
        config.other.remove("container_config");
        return Ok(config);
    }
    Ok(bare(ContainerConfig {
        cmd: vec!["/bin/sh".to_owned()],
        ..ContainerConfig::default()
    }))
}

/// An image of this machine's architecture with the usual `PATH` and no layers.
pub(crate) fn bare(config: ContainerConfig) -> ImageConfig {
    let platform = Platform::host();
    ImageConfig {
        architecture: platform.architecture,
        os: platform.os,
        variant: platform.variant,
        config: ContainerConfig {
            env: vec![format!("PATH={DEFAULT_PATH}")],
            ..config
        },
        ..ImageConfig::default()
    }
}

/// The new layer; none where nothing changed.
fn layer(home: &Home, ingest: &Ingest<'_>, container: &Container) -> Result<Option<Layer>, EngineError> {
    let source = container.source(home)?;
    refuse_host(container, &source)?;
    let shift = container.shift();
    if source.image_id().is_none() {
        let image = source.dir()?;
        return add_layer(ingest, |out| pack_tree(container, image, (None, shift), out)).map(Some);
    }
    let mut changes = differences(container, source.dir()?)?.peekable();
    if changes.peek().is_none() {
        return Ok(None);
    }
    let id = container.id.short();
    add_layer(ingest, |out| pack_differences(id, Box::new(changes), shift, out)).map(Some)
}

fn describe(config: &mut ImageConfig, container: &Container, options: &CommitOptions, layer: Option<&Layer>) {
    let created = Some(tote_calendar::in_seconds(tote_calendar::now()));
    if !options.author.is_empty() {
        config.author.clone_from(&options.author);
    }
    config.created.clone_from(&created);
    config.rootfs.diff_ids.extend(layer.map(|layer| layer.diff_id));
    config.history.push(History {
        created,
        created_by: container.entry.container.path_and_args.join(" "),
        author: options.author.clone(),
        comment: options.message.clone(),
        empty_layer: layer.is_none(),
    });
}

/// Whether a container stands still, for as long as this lives.
#[derive(Debug)]
enum Stillness<'a> {
    /// The container is suspended for this commit, and perhaps for other commits.
    Kept(Cgroup, Turn, &'a Home, &'a ContainerId),
    /// The user has paused it, and it stays paused; or it does not run, or may go on; or its guest holds its writes.
    Given,
    /// This caller cannot suspend it.
    Refused,
}

impl<'a> Stillness<'a> {
    fn keep(home: &'a Home, container: &'a Container, wanted: bool) -> Self {
        if !wanted || !container.runs {
            return Self::Given;
        }
        // Groups are root's, or delegated: from inside a user namespace they are not reached.
        let record = container.entry.state.cgroup.as_deref();
        let record = record.filter(|_| home.caller != Caller::User);
        // absence: the user is told that the container went on
        let Some(group) = record.and_then(|record| Cgroup::open(record).ok()) else {
            return Self::Refused;
        };
        // From here on no other command lets it go on.
        let Ok(turn) = Turn::share(home, &container.id) else {
            return Self::Refused;
        };
        if group.is_frozen().unwrap_or(false) && is_paused(home, &container.id) {
            Self::Given
        } else if group.freeze().is_ok() {
            Self::Kept(group, turn, home, &container.id)
        } else {
            Self::Refused
        }
    }
}

impl Drop for Stillness<'_> {
    fn drop(&mut self) {
        if let Self::Kept(group, turn, home, id) = self
            && turn.is_last()
            && !is_paused(home, id)
        {
            best_effort(group.thaw());
        }
    }
}

/// Lock that all commits which keep a container suspended share. The last one lets the container go on.
///
/// It is a lock of flock(2) on the file of the container's claim. What has the claim has the other kind of lock (`lock_file`), which
/// does not meet this one. The container has no way to that file, as it has to each directory of its cgroup: it would hold the
/// lock of one of these, and with it every commit, or keep itself suspended.
#[derive(Debug)]
struct Turn(File, PathBuf);

impl Turn {
    fn share(home: &Home, id: &ContainerId) -> std::io::Result<Self> {
        let path = home.live().join(id.as_str());
        let file = File::open(&path)?;
        flock_within(
            file.as_fd(),
            FlockOperation::LockShared,
            tote_sys::MOMENT_LOCK,
            &path,
        )?;
        Ok(Self(file, path))
    }

    /// True if no other commit keeps the container suspended. What begins to do so afterwards suspends it anew.
    fn is_last(&self) -> bool {
        let alone = FlockOperation::NonBlockingLockExclusive;
        flock_within(self.0.as_fd(), alone, tote_sys::MOMENT_LOCK, &self.1).is_ok()
    }
}

/// True if the user has paused the container.
fn is_paused(home: &Home, id: &ContainerId) -> bool {
    // absence: a container that stays suspended without a reason known to its user would be worse than one that goes on
    State::read(home, id).is_ok_and(|state| state.paused)
}
