//! `RUN --mount`.

use super::agent::AgentRelay;
use super::place::Copying;
use super::worker::Building;
use super::workspace::make_dir;
use super::{BuildFault, SecretFault, inside};
use crate::EngineError;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_build::{CopyStep, Origin, RunStep, StepMount};
use tote_bundle::{
    Bind, EnvEntry, MountRequest, MountSource, Propagation, Recursion, Restrictions, RunOptions, Treatment,
};
use tote_sys::best_effort;

/// Directory of secrets and scripts in a build's own directory.
pub(crate) const SECRETS: &str = "secrets";

/// Name of a copy in the directory that is made for it.
pub(crate) const COPY: &str = "it";

/// Directory of the sockets that stand for those of agents, below the build's own directory.
pub(crate) const AGENTS: &str = "agents";

/// Resources that must exist during a step.
#[derive(Debug)]
pub(crate) struct Held {
    _files: Vec<OwnedFd>,
    _relays: Vec<AgentRelay>,
    /// Locks of caches.
    locks: Vec<OwnedFd>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A process that the step has left behind, such as the one that takes the network down a second later, has copies of these
        // descriptors: only an unlock frees all copies.
        for lock in &self.locks {
            best_effort(tote_sys::flock(lock, FlockOperation::Unlock));
        }
    }
}

impl Building<'_> {
    /// Adds the mounts of a step. Returns the resources that the caller holds during the step.
    pub(crate) fn mounts(&mut self, step: &RunStep, options: &mut RunOptions) -> Result<Held, EngineError> {
        let (mut held, mut relays, mut agents) = (Vec::new(), Vec::new(), 0);
        let dir = self.workspace.path().join(SECRETS);
        if let Some(script) = &step.script {
            let path = step.argv.first().cloned().unwrap_or_default();
            let file = self.private_file(&dir, script.as_bytes(), 0o755, (0, 0))?;
            options.mounts.push(bind(&file, path, true));
        }
        let caches = self.cache_mounts(&step.mounts)?;
        for (place, mount) in step.mounts.iter().enumerate() {
            match mount {
                StepMount::Tmpfs { target, size } => options.mounts.push(tmpfs(target, *size)),
                StepMount::Secret { .. } => self.secret(mount, &dir, options)?,
                StepMount::Cache {
                    target, read_only, ..
                } => {
                    let path = caches.paths.get(&place).into_iter();
                    (options.mounts).extend(path.map(|path| bind(path, target.clone(), *read_only)));
                }
                StepMount::Bind {
                    target,
                    source,
                    from,
                    writable,
                } => {
                    let has_ignore = from.is_given() && self.files.given(from)?.has_ignore;
                    let path = if *writable || has_ignore {
                        self.copied(source, from)?
                    } else {
                        self.bound(source, from, &mut held)?
                    };
                    options.mounts.push(bind(&path, target.clone(), !writable));
                }
                StepMount::Ssh {
                    id,
                    target,
                    required,
                    mode,
                    uid,
                    gid,
                } => {
                    agents += 1;
                    let Some(socket) = self.request.agents.get(id) else {
                        if *required {
                            return Err(BuildFault::NoAgent(id.clone()).into());
                        }
                        continue;
                    };
                    let target = target
                        .clone()
                        .unwrap_or_else(|| format!("/run/buildkit/ssh_agent.{}", agents - 1));
                    let variable = format!("SSH_AUTH_SOCK={target}");
                    options.env.entries.push(EnvEntry::Set(variable));
                    if mode.or(*uid).or(*gid).is_none() {
                        options.mounts.push(bind(socket, target, true));
                        continue;
                    }
                    let (owner, mode) = ((uid.unwrap_or(0), gid.unwrap_or(0)), mode.unwrap_or(0o600));
                    let dir = self.workspace.path().join(AGENTS);
                    let relay = AgentRelay::start(&dir, socket, owner, mode)?;
                    options.mounts.push(bind(&relay.path, target, true));
                    relays.push(relay);
                }
            }
        }
        Ok(Held {
            _files: held,
            _relays: relays,
            locks: caches.locks,
        })
    }

    fn secret(&self, mount: &StepMount, dir: &Path, options: &mut RunOptions) -> Result<(), EngineError> {
        let StepMount::Secret {
            id,
            target,
            env,
            required,
            mode,
            uid,
            gid,
        } = mount
        else {
            return Ok(());
        };
        let Some(source) = self.request.secrets.get(id) else {
            if *required {
                return Err(SecretFault::Missing(id.clone()).into());
            }
            return Ok(());
        };
        let content = source.read(id)?;
        if let Some(name) = env {
            let value = String::from_utf8(content.clone()).map_err(|_| SecretFault::NotText(id.clone()))?;
            options.env.entries.push(EnvEntry::Set(format!("{name}={value}")));
            if target.is_none() {
                return Ok(());
            }
        }
        let ids = (uid.unwrap_or(0), gid.unwrap_or(0));
        let file = self.private_file(dir, &content, mode.unwrap_or(0o400), ids)?;
        let target = target.clone().unwrap_or_else(|| format!("/run/secrets/{id}"));
        options.mounts.push(bind(&file, target, true));
        Ok(())
    }

    /// Makes a file of the build's own with that content. Its mode is for the step: no other user can pass the
    /// directory. It loses its name as soon as the step has it mounted ([`crate::rootfs::BuildTree`]).
    fn private_file(
        &self,
        dir: &Path,
        content: &[u8],
        mode: u32,
        ids: (u32, u32),
    ) -> Result<PathBuf, EngineError> {
        make_dir(dir, 0o700)?;
        let path = super::workspace::next_in(dir)?;
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(EngineError::file("make", &path))?;
        file.write_all(content)
            .map_err(EngineError::file("write", &path))?;
        let (uid, gid) = (Uid::from_raw(ids.0), Gid::from_raw(ids.1));
        rustix::fs::fchown(&file, Some(uid), Some(gid))
            .and_then(|()| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)))
            .map_err(EngineError::file("change the owner of", &path))?;
        Ok(path)
    }

    /// Makes a copy that is removed with the step, for sources that are writable or only partly visible.
    fn copied(&mut self, source: &str, from: &Origin) -> Result<PathBuf, EngineError> {
        let all = self.workspace.path().join("copies");
        make_dir(&all, 0o700)?;
        let dir = super::workspace::next_in(&all)?;
        make_dir(&dir, 0o700)?;
        self.copy_out(source, from, &dir)?;
        Ok(dir.join(COPY))
    }

    /// Copies a source as [`COPY`] into a directory.
    pub(crate) fn copy_out(&mut self, source: &str, from: &Origin, dir: &Path) -> Result<(), EngineError> {
        let step = CopyStep::of(from.clone(), source.to_owned(), format!("/{COPY}"));
        let chosen = self.chosen(&step)?;
        let root = super::view::open(dir, OFlags::RDONLY).map_err(EngineError::file("open", dir))?;
        let owner = from.is_given().then_some((0, 0));
        let copying = Copying {
            root: &root,
            step: &step,
            owner,
        };
        copying.run(&chosen)
    }

    fn bound(
        &mut self,
        source: &str,
        from: &Origin,
        held: &mut Vec<OwnedFd>,
    ) -> Result<PathBuf, EngineError> {
        let found = |errno: rustix::io::Errno| BuildFault::Source {
            path: source.to_owned(),
            source: errno.into(),
        };
        let view;
        let root = match from {
            Origin::Context | Origin::Named(_) => &self.files.given(from)?.root,
            Origin::Layers(layers) => {
                // It is mounted by its path.
                let tree = self.flat(layers)?;
                let links = self.store.links(&Self::bare(layers)?, &tree)?;
                view = super::view::open(&links, OFlags::RDONLY).map_err(found)?;
                &view
            }
        };
        let fd = inside::open(root, source.as_bytes(), OFlags::PATH).map_err(found)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        held.push(fd);
        Ok(path.map_err(|source_error| BuildFault::Source {
            path: source.to_owned(),
            source: source_error,
        })?)
    }
}

fn tmpfs(target: &str, size: Option<u64>) -> MountRequest {
    let mut words = ["rw", "nosuid", "nodev", "mode=1777"].map(str::to_owned).to_vec();
    words.extend(size.map(|size| format!("size={size}")));
    MountRequest {
        destination: target.to_owned(),
        source: MountSource::Tmpfs(words),
        readonly: false,
        restrictions: Restrictions::default(),
        treatment: Treatment::default(),
    }
}

fn bind(path: &Path, destination: String, readonly: bool) -> MountRequest {
    MountRequest {
        destination,
        source: MountSource::Bind(Bind {
            path: path.to_string_lossy().into_owned(),
            propagation: Propagation::default(),
            recursion: Recursion::default(),
            create: false,
            relabel: None,
        }),
        readonly,
        restrictions: Restrictions::default(),
        treatment: Treatment::default(),
    }
}
