//! The container that a session joins: one of ours, a pod, one of another engine, or an image.

use super::noted::{OtherContainer, Process};
use super::still::Still;
use super::{DebugError, context, foreign};
use crate::container::{self, Entry};
use crate::exec::Target;
use crate::pod::PodError;
use crate::{EngineError, Home};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tote_bundle::Image;

/// A process to join, and the container around it if that is only made for the session. Both are large and are handed on many times.
pub(super) struct Found<'a> {
    pub target: Box<Target>,
    /// Command that the container would run; empty if it is not known.
    pub command: Vec<String>,
    /// Record of the container by another engine.
    pub(super) other: Option<OtherContainer>,
    /// Places of the spec that another engine gave a runtime.
    pub(super) specs: Vec<PathBuf>,
    /// Ends after the session.
    pub(super) still: Option<Box<Still<'a>>>,
}

impl Found<'_> {
    fn running(target: Target) -> Self {
        let target = Box::new(target);
        let command = match &target.entry {
            Some(entry) => entry.container.path_and_args.clone(),
            None => context::command_of(target.pid),
        };
        Self {
            target,
            command,
            other: None,
            specs: Vec::new(),
            still: None,
        }
    }

    fn process(process: Process, wanted: &str) -> Result<Self, DebugError> {
        let found = Self::running(context::of_process(process.pid, wanted)?);
        Ok(Self {
            other: process.container,
            specs: process.specs,
            ..found
        })
    }
}

/// Finds the process to join. A bare name is the name of a container, a pod, a container of another engine or an image of
/// the store, in this order.
///
/// # Errors
/// [`EngineError`].
pub(crate) fn find<'a>(
    home: &'a Home,
    wanted: &str,
    warn: &mut dyn FnMut(String),
) -> Result<Found<'a>, EngineError> {
    match wanted.split_once(':') {
        Some(("pod", name)) => return pod(home, name),
        Some(("image", name)) => return image(home, &Image::parse(name)?, warn),
        Some(("rootfs", _)) => return image(home, &Image::parse(wanted)?, warn),
        _ => {}
    }
    let unknown = match foreign::parse(wanted) {
        Ok(Some((engine, name))) => {
            return Ok(Found::process(foreign::find(engine, name)?, wanted)?);
        }
        Ok(None) => None,
        // `debian:bookworm` is an image.
        Err(error) => match in_store(home, wanted, warn)? {
            Some(found) => return Ok(found),
            None => Some(error),
        },
    };
    if let Some(error) = unknown {
        return Err(error.into());
    }
    let missing = match container::find(home, wanted) {
        Ok(entry) => return of_entry(home, entry, warn),
        Err(error) if error.is_missing_container() => error,
        Err(error) => return Err(error),
    };
    match pod(home, wanted) {
        Err(EngineError::Pod(PodError::Missing(_))) => {}
        found => return found,
    }
    if let Some(process) = foreign::find_anywhere(wanted)? {
        return Ok(Found::process(process, wanted)?);
    }
    in_store(home, wanted, warn)?.ok_or(missing)
}

/// Time for which a container that is about to run, or whose end is being recorded, is waited for.
const MOMENT: Duration = Duration::from_secs(2);

// Inlined, its variables would be in the frame of every session, and each page of a frame is touched when the function begins.
#[inline(never)]
fn of_entry<'a>(
    home: &'a Home,
    entry: Entry,
    warn: &mut dyn FnMut(String),
) -> Result<Found<'a>, EngineError> {
    if crate::vm::is_in_vm(&entry.container) {
        // A stopped one has no guest that could mount its root.
        return Ok(Found::running(Target::of(home, entry)?));
    }
    let (id, until) = (entry.container.id.clone(), Instant::now() + MOMENT);
    let mut entry = entry;
    loop {
        if entry.state.runs() || !entry.kept {
            return Ok(Found::running(Target::of(home, entry)?));
        }
        let command = entry.container.path_and_args.clone();
        match Still::of_container(home, entry, warn) {
            Ok(still) => {
                return Ok(Found {
                    target: Box::new(still.target()?),
                    command,
                    other: None,
                    specs: Vec::new(),
                    still: Some(Box::new(still)),
                });
            }
            // It may have started meanwhile, and then runs.
            Err(EngineError::Life(container::LifeError::Busy(busy))) => {
                let again = container::find(home, id.as_str())?;
                if !again.state.runs() || Instant::now() > until {
                    return Err(container::LifeError::Busy(busy).into());
                }
                entry = again;
            }
            Err(error) => return Err(error),
        }
    }
}

// As `of_entry`.
#[inline(never)]
fn pod<'a>(home: &Home, name: &str) -> Result<Found<'a>, EngineError> {
    let pod = crate::pod::find(home, name)?;
    let infra = pod.infra().filter(|infra| infra.state.runs()).cloned();
    let infra = infra.ok_or_else(|| DebugError::Pod(pod.pod.name.clone()))?;
    Ok(Found::running(Target::of(home, infra)?))
}

// As `of_entry`.
#[inline(never)]
fn image<'a>(home: &'a Home, image: &Image, warn: &mut dyn FnMut(String)) -> Result<Found<'a>, EngineError> {
    let still = Still::of_image(home, image.clone(), warn)?;
    Ok(Found {
        target: Box::new(still.target()?),
        command: still.command(),
        other: None,
        specs: Vec::new(),
        still: Some(Box::new(still)),
    })
}

/// Begins a throwaway container of an image of the store; `None` if no image has that name.
fn in_store<'a>(
    home: &'a Home,
    name: &str,
    warn: &mut dyn FnMut(String),
) -> Result<Option<Found<'a>>, EngineError> {
    let Ok(wanted @ Image::Stored(_)) = Image::parse(name) else {
        return Ok(None);
    };
    match image(home, &wanted, warn) {
        Err(error) if error.is_missing_image() => Ok(None),
        found => found.map(Some),
    }
}
