//! Filling: creation, change and refill of pools.

use super::error::{MOST, PoolError};
use super::keeper;
use super::list::ERROR;
use super::lock::Lock;
use super::record::{Pool, make_dir, parse_name};
use super::remove::{drain, drain_all_but, sweep, sweep_sockets};
use crate::container::{self, Container, Report, fault};
use crate::making::Purpose;
use crate::prepare::prepare_from;
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::{EngineError, Home, HostInit, RunRequest};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use tote_bundle::{Image, Name, RunOptions};
use tote_state::new_id;
use tote_sys::{Footprint, best_effort};

/// Limit of the checks whether a pool is full.
const ROUNDS: u32 = 16;

/// Request to fill a pool.
#[derive(Debug)]
pub struct FillRequest {
    /// Name of the pool.
    pub name: String,
    /// Number of sandboxes to keep; by default the present number, or one for a new pool.
    pub size: Option<u32>,
    /// Image of the sandboxes; without one only the size changes.
    pub image: Option<Image>,
    /// Options by their long names.
    pub given: Vec<(String, String)>,
    /// Words behind the image.
    pub command: Vec<String>,
}

/// Result of a filling.
#[derive(Clone, Debug)]
pub struct Filled {
    /// Pool after the filling.
    pub pool: Pool,
    /// Number of ready sandboxes.
    pub ready: usize,
}

/// Makes or changes a pool, and fills it. Sandboxes that were made from other options or another image are removed.
///
/// # Errors
/// [`PoolError`], and [`EngineError`] of the sandboxes' options and image.
pub fn fill(home: &Home, request: FillRequest, warn: &mut dyn FnMut(String)) -> Result<Filled, EngineError> {
    let name = parse_name(&request.name)?;
    if let Some(size) = request.size.filter(|size| *size > MOST) {
        return Err(PoolError::Size(size).into());
    }
    let wanted = wanted(home, name.clone(), request)?;
    sweep(home);
    make_dir(home.pool(&name))?;
    let mut lock = None;
    while lock.is_none() {
        lock = Lock::fill(home, &name)?;
        if lock.is_none() {
            make_dir(home.pool(&name))?;
        }
    }
    let pool = match Pool::read(home, &name)? {
        Some(before) => wanted.over(before),
        None => wanted.afresh()?,
    };
    container::sweep(home);
    pool.write(home)?;
    fault::point("pool-written");
    drain_all_but(home, &home.pool(&name), Some(&pool.generation))?;
    // Each sandbox has the same to say.
    let mut told = BTreeSet::new();
    let mut warn_once = |text: String| {
        if told.insert(text.clone()) {
            warn(text);
        }
    };
    let filled = top_up(home, &pool, &mut lock, &mut warn_once);
    note_error(home, &name, filled.as_ref().err());
    filled?;
    Ok(Filled {
        ready: pool.ready(home).len(),
        pool,
    })
}

/// Requested pool: its size, and, if an image was given, everything else.
struct Wanted {
    name: Name,
    size: Option<u32>,
    pool: Option<Pool>,
}

impl Wanted {
    fn over(self, before: Pool) -> Pool {
        let size = self.size.unwrap_or(before.size);
        let same = |pool: &Pool| {
            let template = Container {
                created: before.template.created,
                id: before.template.id.clone(),
                ..pool.template.clone()
            };
            template == before.template
        };
        match self.pool {
            Some(pool) if !same(&pool) => Pool { size, ..pool },
            _ => Pool { size, ..before },
        }
    }

    fn afresh(self) -> Result<Pool, EngineError> {
        let size = self.size.unwrap_or(1);
        match self.pool {
            Some(pool) => Ok(Pool { size, ..pool }),
            None => Err(PoolError::NoImage(self.name.to_string()).into()),
        }
    }
}

/// Plans one of the sandboxes, so that errors in the options are reported now.
fn wanted(home: &Home, name: Name, request: FillRequest) -> Result<Wanted, EngineError> {
    let size = request.size;
    let Some(image) = request.image else {
        if Pool::read(home, &name)?.is_none() {
            return Err(PoolError::NoImage(name.to_string()).into());
        }
        if !request.given.is_empty() {
            return Err(PoolError::OptionsAlone(name.to_string()).into());
        }
        return Ok(Wanted {
            name,
            size,
            pool: None,
        });
    };
    let mut given = vec![("rm".to_owned(), "true".to_owned())];
    given.extend(request.given);
    let mut options = RunOptions::default();
    for (option, value) in &given {
        options.set(option, value)?;
    }
    options.command = request.command;
    crate::given::read_env_files(&mut options.env)?;
    let given = container::resolve(home, given, &options)?;
    let source = Source::open(home, &image)?;
    let config = source.config();
    let request = RunRequest {
        image,
        options,
        given,
        kept: false,
        init: HostInit::default(),
    };
    let planned = prepare_from(home, request, source, Purpose::Plan, None)?;
    let process = planned.spec.process.unwrap_or_default();
    let Some(id) = new_id()?.as_str().get(..16).map(str::to_owned) else {
        return Err(PoolError::Missing(name.to_string()).into());
    };
    let template = planned.entry.container;
    let hostname = format!("HOSTNAME={}", template.id.short());
    let pool = Pool {
        name: name.clone(),
        size: 0,
        generation: id,
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        named_by_id: process.env.contains(&hostname),
        env: process.env,
        cwd: process.cwd,
        template,
    };
    Ok(Wanted {
        name,
        size,
        pool: Some(pool),
    })
}

/// Brings a pool to its size: makes missing sandboxes, ends superfluous ones. The caller has the lock, which the new
/// processes give up.
fn top_up(
    home: &Home,
    pool: &Pool,
    lock: &mut Option<Lock>,
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    // This comes before the footprint, which measures the memory that the kernel can reload from the file.
    tote_runtime::seal_in_place()?;
    let footprint = Footprint::new();
    let size = pool.size as usize;
    sweep_sockets(&pool.sockets(home));
    let mut ready = pool.ready(home);
    if ready.len() > size {
        drain(home, &pool.sockets(home), &ready.split_off(size));
    }
    let mut count = ready.len();
    // The loop repeats, because sandboxes may have been taken meanwhile; it is limited, because new
    // ones may die at once.
    for _ in 0..ROUNDS {
        if count >= size {
            break;
        }
        for _ in count..size {
            // The pool has been replaced or removed.
            if Pool::read(home, &pool.name)?.as_ref() != Some(pool) {
                return Ok(());
            }
            park(home, pool, &footprint, lock, warn)?;
        }
        count = pool.ready(home).len();
    }
    Ok(())
}

/// Makes one sandbox, which is ready when this returns.
fn park(
    home: &Home,
    pool: &Pool,
    footprint: &Footprint,
    lock: &mut Option<Lock>,
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    let request = RunRequest {
        image: pool.template.source()?,
        options: pool.template.run_options()?,
        given: pool.template.options.clone(),
        kept: false,
        init: HostInit::default(),
    };
    let source = Source::open(home, &request.image)?;
    let mut prepared: Prepared = prepare_from(home, request, source, Purpose::Later, None)?;
    // The record shows the image's name instead of the id.
    prepared.entry.container.image.clone_from(&pool.template.image);
    let failed = |attempt| move |source| EngineError::Kernel { attempt, source };
    let (reader, writer) =
        pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe for a sandbox of the pool"))?;
    let report = Report::new(writer);
    // process: keeper of a pool
    let made = tote_sys::fork_worker(|| {
        *lock = None;
        keeper::live(home, pool, prepared, footprint, report);
        0
    });
    made.map_err(failed("fork the keeper of a sandbox"))?;
    // The keeper has the lock as well, and had time to release it last.
    tote_sys::settle_seal();
    container::listen(&mut File::from(reader), warn)
}

/// Starts a background process that fills the pool and ends. The caller does not wait for it, and
/// shares nothing with it.
pub(super) fn fill_apart(home: &Home, pool: &Name) {
    // If the process cannot be started, the next use of the pool tries again.
    best_effort(leave(home, pool));
}

fn leave(home: &Home, pool: &Name) -> Result<(), tote_sys::Errno> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let text = [
        home.root().as_os_str().as_bytes(),
        b"\0",
        pool.as_str().as_bytes(),
    ]
    .concat();
    // The text fits into any pipe.
    best_effort(File::from(writer).write_all(&text));
    // process: refill
    tote_sys::fork_apart(reader, refill)
}

/// Main function of the background process.
fn refill(pipe: OwnedFd) {
    let mut text = Vec::new();
    if File::from(pipe).read_to_end(&mut text).is_err() {
        return;
    }
    let Some(end) = text.iter().rposition(|byte| *byte == 0) else {
        return;
    };
    let name = String::from_utf8_lossy(&text[end + 1..]).into_owned();
    text.truncate(end);
    let root = PathBuf::from(std::ffi::OsString::from_vec(text));
    best_effort(rustix::thread::set_name(c"tote-refill"));
    if let (Ok(home), Ok(name)) = (Home::open(Some(Path::new(&root))), name.parse::<Name>()) {
        let filled = refill_pool(&home, &name);
        note_error(&home, &name, filled.as_ref().err());
    }
}

fn refill_pool(home: &Home, name: &Name) -> Result<(), EngineError> {
    let Some(place) = Lock::queue(home, name)? else {
        return Ok(());
    };
    let mut lock = Lock::fill(home, name)?;
    drop(place);
    container::sweep(home);
    match Pool::read(home, name)? {
        Some(pool) if lock.is_some() => top_up(home, &pool, &mut lock, &mut |_| {}),
        _ => Ok(()),
    }
}

/// Records an error of the background process, which has no other listener; `pool ls` shows it.
fn note_error(home: &Home, pool: &Name, error: Option<&EngineError>) {
    let path = home.pool(pool).join(ERROR);
    match error {
        // If the file cannot be written, the pool is gone or the disk is full.
        Some(error) => best_effort(tote_state::closed::write(&path, tote_sys::chain(error))),
        None => best_effort(std::fs::remove_file(path)),
    }
}
