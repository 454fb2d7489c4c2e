use crate::controllers::Controllers;
use crate::error::{Error, Losses, Warning};
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

/// The group's directory in one hierarchy.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) is_v2: bool,
    /// In v2: those that were to be enabled.
    pub(crate) controllers: Controllers,
    pub(crate) path: PathBuf,
    /// How many directories above this one were made for it and go with it when they are empty.
    pub(crate) made: usize,
    /// It did not exist before it was created here.
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

    /// A number that may be absent: no such file, or no limit.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        file::read_number(self.fd.as_fd(), name).ok().flatten()
    }
}

impl Cgroup {
    /// Opens the directories that [`Cgroup::record`] noted; those that are gone are left out.
    ///
    /// A record and not a path from the id: where a group lies depends on the cgroup of whoever created it, which
    /// need not be that of whoever removes it.
    ///
    /// # Errors
    /// A line is no record, or a directory is there and cannot be opened.
    pub fn open(record: &str) -> Result<Self, Error> {
        let mut dirs = Vec::new();
        for line in record.lines() {
            let bad = || Error::Record {
                line: line.chars().take(128).collect(),
            };
            let mut fields = line.splitn(4, ' ');
            let mut field = || fields.next().ok_or_else(bad);
            let (version, made, list, path) = (field()?, field()?, field()?, field()?);
            let path = PathBuf::from(path);
            if !matches!(version, "v1" | "v2") || !path.is_absolute() {
                return Err(bad());
            }
            let made = made.parse().map_err(|_| bad())?;
            let controllers = Controllers::from_list(list, ',');
            match file::open_dir(&path) {
                Ok(fd) => dirs.push(Dir {
                    is_v2: version == "v2",
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

    /// Where the group lies, to be given to [`Cgroup::open`] later: a line for each directory.
    #[must_use]
    pub fn record(&self) -> String {
        let line = |dir: &Dir| {
            let version = if dir.is_v2 { "v2" } else { "v1" };
            format!(
                "{version} {} {} {}\n",
                dir.made,
                dir.controllers,
                dir.path.display()
            )
        };
        self.dirs.iter().map(line).collect()
    }

    /// Every directory with the controllers it carries.
    pub fn paths(&self) -> impl Iterator<Item = (Controllers, &Path)> {
        self.dirs.iter().map(|dir| (dir.controllers, dir.path.as_path()))
    }

    /// The v2 directory, for CLONE_INTO_CGROUP and for attaching the device program.
    #[must_use]
    pub fn v2_dir(&self) -> Option<BorrowedFd<'_>> {
        self.v2().map(|dir| dir.fd.as_fd())
    }

    /// Whether the group has no directory at all, because none was permitted or all are gone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// The v1 files to which a new, still single-threaded child writes `0` in order to join.
    ///
    /// This and CLONE_INTO_CGROUP (for v2: [`Cgroup::v2_dir`]) are the ways in at a container's start. Everything
    /// else, [`Cgroup::attach`] first, takes the lock that keeps all of the machine's processes from forking, and on a
    /// machine where nobody has moved a process for a while that waits for RCU: 8 ms instead of 40 us, measured for
    /// two controllers. Only a thread that moves itself alone is spared (Linux 5.5).
    pub fn tasks_files(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs
            .iter()
            .filter(|dir| !dir.is_v2)
            .map(|dir| dir.path.join("tasks"))
    }

    /// [`Cgroup::tasks_files`] opened for writing: the kernel judges by who opened them, so a child may use them after
    /// it has given up its privileges.
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

    /// Every file that a process's number is written to in order to move it with all its threads.
    pub fn procs_files(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs.iter().map(|dir| dir.path.join("cgroup.procs"))
    }

    /// Moves the process, with all its threads, into the group. Not for the start of a container: it can take
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

    /// Every process in the group and the groups below it, each once, in ascending order.
    ///
    /// # Errors
    /// A list of members cannot be read; a directory that vanished counts as empty.
    pub fn pids(&self) -> Result<Vec<i32>, Error> {
        // Every hierarchy has the same members; where one was left out of a later move, v2 is the one that is right.
        let Some(dir) = self.v2().or_else(|| self.dirs.first()) else {
            return Ok(Vec::new());
        };
        let mut pids = BTreeSet::new();
        crate::tree::members(&dir.path, &mut pids)?;
        Ok(pids.into_iter().collect())
    }

    /// Changes limits while the container runs; what is absent stays as it is. Swap is given with its memory limit, as
    /// v2 needs the difference. On v2 a device rule has no effect here: make a program of it ([`crate::device_program`]).
    ///
    /// # Errors
    /// A wrong value, or under [`Policy::Strict`] one that the kernel refuses; a memory limit below what is in use
    /// is an error under either policy.
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

    /// The v1 directory that has the controller.
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
