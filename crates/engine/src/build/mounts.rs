//! `RUN --mount`.

use super::worker::Building;
use super::workspace::{failed, make_dir};
use super::{BuildFault, inside};
use crate::EngineError;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_build::{Origin, RunStep, StepMount};
use tote_bundle::{Bind, EnvEntry, MountRequest, MountSource, Propagation, Recursion, RunOptions};
use tote_store::sha256;

impl Building<'_> {
    /// Adds what a step wants mounted. What must be held meanwhile is returned.
    pub(crate) fn mounts(
        &mut self,
        step: &RunStep,
        options: &mut RunOptions,
    ) -> Result<Vec<OwnedFd>, EngineError> {
        let mut held = Vec::new();
        let dir = self.workspace.path().join("secrets");
        if let Some(script) = &step.script {
            let path = step.argv.first().cloned().unwrap_or_default();
            let file = self.private_file(&dir, script.as_bytes(), 0o755, (0, 0))?;
            options.mounts.push(bind(&file, path, true));
        }
        for mount in &step.mounts {
            match mount {
                StepMount::Tmpfs { target, size } => {
                    let mut words: Vec<String> =
                        ["rw", "nosuid", "nodev", "mode=1777"].map(str::to_owned).to_vec();
                    words.extend(size.map(|size| format!("size={size}")));
                    options.mounts.push(MountRequest {
                        destination: target.clone(),
                        source: MountSource::Tmpfs(words),
                        readonly: false,
                    });
                }
                StepMount::Secret { .. } => self.secret(mount, &dir, options)?,
                StepMount::Cache {
                    id,
                    target,
                    mode,
                    uid,
                    gid,
                    read_only,
                    locked,
                } => {
                    let path = self
                        .home
                        .builds()
                        .join("mounts")
                        .join(sha256(id.as_bytes()).hex());
                    let fresh = !path.exists();
                    make_dir(&path, mode.unwrap_or(0o755))?;
                    let dir = super::view::open(&path, OFlags::RDONLY);
                    let dir = dir.map_err(|errno| failed("open", &path)(errno.into()))?;
                    if fresh {
                        let ids = (
                            Some(Uid::from_raw(uid.unwrap_or(0))),
                            Some(Gid::from_raw(gid.unwrap_or(0))),
                        );
                        rustix::fs::fchown(&dir, ids.0, ids.1)
                            .map_err(|errno| failed("change the owner of", &path)(errno.into()))?;
                    }
                    if *locked {
                        rustix::fs::flock(&dir, FlockOperation::LockExclusive)
                            .map_err(|errno| failed("lock", &path)(errno.into()))?;
                        held.push(dir);
                    }
                    options.mounts.push(bind(&path, target.clone(), *read_only));
                }
                StepMount::Bind { target, source, from } => {
                    let path = self.bound(source, from, &mut held)?;
                    options.mounts.push(bind(&path, target.clone(), true));
                }
            }
        }
        Ok(held)
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
                return Err(BuildFault::NoSecret(id.clone()).into());
            }
            return Ok(());
        };
        let content = source.read(id)?;
        if let Some(name) = env {
            let value = String::from_utf8(content.clone()).map_err(|_| BuildFault::SecretText(id.clone()))?;
            options.env.push(EnvEntry::Set(format!("{name}={value}")));
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

    /// A file of the build's own, with that content. It goes as soon as the step is over.
    fn private_file(
        &self,
        dir: &Path,
        content: &[u8],
        mode: u32,
        ids: (u32, u32),
    ) -> Result<PathBuf, EngineError> {
        make_dir(dir, 0o711)?;
        let count = std::fs::read_dir(dir).map_or(0, Iterator::count);
        let path = dir.join(count.to_string());
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(failed("make", &path))?;
        file.write_all(content).map_err(failed("write", &path))?;
        let (uid, gid) = (Uid::from_raw(ids.0), Gid::from_raw(ids.1));
        rustix::fs::fchown(&file, Some(uid), Some(gid))
            .and_then(|()| rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)))
            .map_err(|errno| failed("change the owner of", &path)(errno.into()))?;
        Ok(path)
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
            Origin::Context if self.files.has_ignore => return Err(BuildFault::BindIgnore.into()),
            Origin::Context => &self.files.root,
            Origin::Layers(layers) => {
                view = super::view::open(self.flat(layers)?.path(), OFlags::RDONLY).map_err(found)?;
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
    }
}
