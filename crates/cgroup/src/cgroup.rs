use crate::controllers::Controllers;
use crate::error::{Error, Losses, Warning};
use crate::place::GroupPlace;
use crate::plan::{Policy, checked, device_writes};
use crate::write::Writes;
use crate::{devices, file, v1, v2};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tote_spec::Resources;

/// A container's cgroup: one directory in each hierarchy that it uses, held open.
///
/// Dropping it leaves the directories; [`Cgroup::remove`] removes them.
#[derive(Debug)]
pub struct Cgroup {
    pub(crate) dirs: Vec<Dir>,
}

/// Directory of the group in one hierarchy.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) is_v2: bool,
    /// In v2: the controllers that were to be enabled.
    pub(crate) controllers: Controllers,
    pub(crate) path: PathBuf,
    /// Number of directories above this one that were made for it and are removed with it if they are empty.
    pub(crate) made: usize,
    /// True if it did not exist before it was created here.
    pub(crate) fresh: bool,
    pub(crate) fd: OwnedFd,
}

impl Dir {
    pub(crate) fn read(&self, name: &str) -> Result<String, Error> {
        file::read_at(self.fd.as_fd(), name).map_err(|source| Error::Read {
            path: self.path.join(name),
            source,
        })
    }

    pub(crate) fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let written = file::write_at(self.fd.as_fd(), name, value.as_bytes());
        written.map_err(|source| Error::Write {
            path: self.path.join(name),
            value: value.to_owned(),
            source,
        })
    }

    /// Reads a number; `None` for a missing file or no limit.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        file::read_number(self.fd.as_fd(), name).ok().flatten()
    }
}

impl Cgroup {
    /// Opens the directories that [`Cgroup::record`] noted; missing ones are left out.
    ///
    /// The place of a group depends on the cgroup of the process that created it, which need not be that of the
    /// process that removes it, so a record is needed and not only the id.
    ///
    /// # Errors
    /// A line is not a record, or an existing directory cannot be opened.
    pub fn open(record: &str) -> Result<Self, Error> {
        let mut dirs = Vec::new();
        for place in GroupPlace::all(record)? {
            let GroupPlace {
                is_v2,
                made,
                controllers,
                path,
            } = place;
            match file::open_dir(&path) {
                Ok(fd) => dirs.push(Dir {
                    is_v2,
                    controllers,
                    path,
                    made,
                    fresh: false,
                    fd,
                }),
                Err(Errno::NOENT) => {}
                Err(source) => return Err(Error::Open { path, source }),
            }
        }
        Ok(Self { dirs })
    }

    /// Returns the places of the group for a later [`Cgroup::open`]: a line for each directory.
    #[must_use]
    pub fn record(&self) -> String {
        GroupPlace::record(self.dirs.iter().map(|dir| GroupPlace {
            is_v2: dir.is_v2,
            made: dir.made,
            controllers: dir.controllers,
            path: dir.path.clone(),
        }))
    }

    /// Returns every directory with the controllers it carries.
    pub fn paths(&self) -> impl Iterator<Item = (Controllers, &Path)> {
        self.dirs.iter().map(|dir| (dir.controllers, dir.path.as_path()))
    }

    /// Returns the v2 directory, for CLONE_INTO_CGROUP and for attaching the device program.
    #[must_use]
    pub fn v2_dir(&self) -> Option<BorrowedFd<'_>> {
        self.v2().map(|dir| dir.fd.as_fd())
    }

    /// True if the group has no directory at all, because none was permitted or all have been removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// Returns the v1 files to which a new, still single-threaded child writes `0` in order to join.
    ///
    /// These and CLONE_INTO_CGROUP (for v2: [`Cgroup::v2_dir`]) are the ways in at a container's start. Every other
    /// way, [`Cgroup::attach`] first of all, takes the lock that keeps all of the machine's processes from forking,
    /// and on a machine where no process has been moved for a while that waits for RCU: 8 ms instead of 40 us,
    /// measured for two controllers. Only a thread that moves itself alone avoids this (Linux 5.5).
    pub fn tasks_files(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs
            .iter()
            .filter(|dir| !dir.is_v2)
            .map(|dir| dir.path.join("tasks"))
    }

    /// Opens [`Cgroup::tasks_files`] for writing: the kernel checks the rights of the process that opened them, so a
    /// child may use them after it has given up its privileges.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open_tasks(&self) -> Result<Vec<OwnedFd>, Error> {
        let open = |dir: &Dir| {
            let fd = file::open_for_write(dir.fd.as_fd(), "tasks");
            fd.map_err(|source| Error::Open {
                path: dir.path.join("tasks"),
                source,
            })
        };
        self.dirs.iter().filter(|dir| !dir.is_v2).map(open).collect()
    }

    /// Returns every file to which a process's pid is written in order to move it with all its threads.
    pub fn procs_files(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|dir| dir.path.join("cgroup.procs"))
    }

    /// Moves a process, with all its threads, into the group. Not for the start of a container: it can take
    /// milliseconds, see [`Cgroup::tasks_files`].
    ///
    /// # Errors
    /// A hierarchy refuses it: no permission, or no such process (ESRCH).
    pub fn attach(&self, pid: u32) -> Result<(), Error> {
        let pid = pid.to_string();
        self.dirs
            .iter()
            .try_for_each(|dir| dir.write("cgroup.procs", &pid))
    }

    /// Returns every process in the group and the groups below it, each once, in ascending order.
    ///
    /// # Errors
    /// A list of members cannot be read; a directory that vanished counts as empty.
    pub fn pids(&self) -> Result<Vec<i32>, Error> {
        // Every hierarchy should have the same members; if a later move left one out, v2 is right.
        let Some(dir) = self.v2().or_else(|| self.dirs.first()) else {
            return Ok(Vec::new());
        };
        let mut pids = BTreeSet::new();
        crate::tree::members(&dir.path, &mut pids)?;
        Ok(pids.into_iter().collect())
    }

    /// Changes limits while the container runs; absent ones stay unchanged. Swap is given with its memory limit, as
    /// v2 needs the difference. On v2 a device rule has no effect here: make a program of it
    /// ([`crate::device_program`]).
    ///
    /// # Errors
    /// A wrong value, or under [`Policy::Strict`] one that the kernel refuses; a memory limit below the usage is an
    /// error under either policy.
    pub fn update(&self, resources: &Resources, policy: Policy) -> Result<Vec<Warning>, Error> {
        let in_v1 = self.v1_controllers();
        let (mut resources, mut warnings) = checked(resources, policy, in_v1)?;
        if let (Some(dir), Some(cpu)) = (self.v2(), &resources.cpu)
            && !in_v1.contains(Controllers::CPU)
            && let Some(cpu) = v2::with_old_quota(cpu, || dir.read("cpu.max"))?
        {
            resources.to_mut().cpu = Some(cpu);
        }
        let mut losses = Losses::default();
        let wanted = crate::plan::limited(&resources);
        let mut for_v1 = Writes::for_controllers(in_v1);
        v1::writes(&resources, &mut for_v1);
        let mut for_v2 = Writes::for_controllers(wanted.difference(in_v1));
        v2::writes(&resources, &mut for_v2);
        v2::unified_writes(&resources, in_v1, &mut for_v2);
        if self.v2().is_none() {
            absent(wanted.difference(in_v1), policy, &mut losses)?;
        }
        for dir in &self.dirs {
            let own = |w: &crate::write::Write| dir.is_v2 || dir.controllers.contains(w.controllers);
            let list = if dir.is_v2 { &for_v2.list } else { &for_v1.list };
            let mut writes: Vec<_> = list.iter().filter(|w| own(w)).cloned().collect();
            if dir.controllers.contains(Controllers::DEVICES) && !dir.is_v2 && !resources.devices.is_empty() {
                let access =
                    devices::Access::from_rules(&resources.devices).map_err(crate::PlanError::from)?;
                let now = devices::Access::from_list(&dir.read("devices.list")?);
                writes.extend(device_writes(&access, &now));
            }
            crate::apply::apply(dir.fd.as_fd(), &dir.path, &writes, policy, &mut losses)?;
        }
        warnings.extend(losses.into_warning());
        Ok(warnings)
    }

    pub(crate) fn v2(&self) -> Option<&Dir> {
        self.dirs.iter().find(|dir| dir.is_v2)
    }

    /// Returns the v1 directory that has the controller.
    pub(crate) fn v1(&self, controller: Controllers) -> Option<&Dir> {
        self.dirs
            .iter()
            .find(|dir| !dir.is_v2 && dir.controllers.contains(controller))
    }

    fn v1_controllers(&self) -> Controllers {
        let v1 = self.dirs.iter().filter(|dir| !dir.is_v2);
        v1.fold(Controllers::NONE, |all, dir| all.union(dir.controllers))
    }
}

fn absent(controllers: Controllers, policy: Policy, losses: &mut Losses) -> Result<(), Error> {
    for name in controllers.v1_names() {
        if policy == Policy::Strict {
            return Err(Error::NoController {
                limit: name.to_owned(),
            });
        }
        losses.push(name, crate::error::Why::NoController);
    }
    Ok(())
}
