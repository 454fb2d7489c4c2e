//! `RUN --mount`: from the flag to the mount.

use crate::Fault;
use crate::config::absolute;
use crate::scope::Globals;
use crate::stage::{Failed, Find, Stage};
use crate::worker::{Origin, StepMount, Worker};
use tote_dockerfile::{MountFlag, MountKind};

impl Stage {
    /// Builds a mount of a command, with variables replaced.
    pub(crate) fn mount<W: Worker>(
        &self,
        flag: &MountFlag,
        globals: &Globals,
        find: Find<'_, W>,
        worker: &mut W,
    ) -> Result<StepMount, Failed<W::Error>> {
        let env = &self.config.config.env;
        let mount = flag.resolve::<Fault>(&|text| self.scope.expand(globals, text, env))?;
        let workdir = &self.config.config.working_dir;
        let target = mount.target.map(|target| absolute(workdir, &target));
        let id = mount.id;
        let source = mount.source;
        let (mode, uid, gid) = (mount.mode, mount.uid, mount.gid);
        match mount.kind {
            MountKind::Secret => {
                let name = target.as_deref().and_then(|target| target.rsplit('/').next());
                return Ok(StepMount::Secret {
                    id: id.or(source).or(name.map(ToOwned::to_owned)).unwrap_or_default(),
                    target,
                    env: mount.env,
                    required: mount.required,
                    mode,
                    uid,
                    gid,
                });
            }
            MountKind::Ssh => {
                return Ok(StepMount::Ssh {
                    id: id.unwrap_or_else(|| "default".to_owned()),
                    target,
                    required: mount.required,
                    mode,
                    uid,
                    gid,
                });
            }
            MountKind::Tmpfs | MountKind::Cache | MountKind::Bind => {}
        }
        let target = target.unwrap_or_else(|| absolute(workdir, ""));
        if target == "/" {
            return Err(Fault::MountOnRoot.into());
        }
        let from = mount.from.map(|name| find(&name, worker)).transpose()?;
        let source = source.unwrap_or_else(|| "/".to_owned());
        Ok(match mount.kind {
            MountKind::Tmpfs => StepMount::Tmpfs {
                target,
                size: mount.size,
            },
            MountKind::Cache => StepMount::Cache {
                id: id.unwrap_or_else(|| target.clone()),
                target,
                mode,
                uid,
                gid,
                read_only: mount.read_only == Some(true),
                sharing: mount.sharing,
                from,
                source,
            },
            _ => StepMount::Bind {
                target,
                source,
                from: from.unwrap_or(Origin::Context),
                writable: mount.read_only == Some(false),
            },
        })
    }
}
