//! Execution of a plan: directories, inherited values, limits.

use crate::apply::apply;
use crate::cgroup::{Cgroup, Dir};
use crate::controllers::Controllers;
use crate::error::{Error, Losses, Warning, Why};
use crate::file;
use crate::path::Start;
use crate::plan::{Group, Plan, Policy, Unified};
use crate::record::is_absent;
use crate::write::Write;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, mkdir, rmdir};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Attempts at making a directory: another process can remove an empty parent before the group is made in it.
const MKDIR_TRIES: usize = 8;

impl Cgroup {
    /// Makes the groups and writes the limits. On an error every new directory is removed again.
    ///
    /// An existing group is taken over: the caller has to check whether it may have members ([`Cgroup::pids`]).
    ///
    /// # Errors
    /// Under [`Policy::Strict`] every obstacle to a limit; under [`Policy::Warn`] only a memory limit below the
    /// usage, and faults other than a missing permission or controller.
    pub fn create(plan: &Plan) -> Result<(Self, Vec<Warning>), Error> {
        let mut cgroup = Self {
            dirs: Vec::with_capacity(plan.v1.len() + 1),
        };
        let mut losses = plan.losses.clone();
        match cgroup.fill(plan, &mut losses) {
            Ok(()) => {}
            Err(error) => {
                // Groups that existed before stay. The error to report is the first one.
                cgroup.dirs.retain(|dir| dir.fresh);
                _ = cgroup.remove();
                return Err(error);
            }
        }
        let mut warnings = plan.clamped.clone();
        warnings.extend(losses.into_warning());
        Ok((cgroup, warnings))
    }

    fn fill(&mut self, plan: &Plan, losses: &mut Losses) -> Result<(), Error> {
        for group in &plan.v1 {
            match make_v1(group) {
                Ok(dir) => {
                    self.dirs.push(dir);
                    let dir = &self.dirs[self.dirs.len() - 1];
                    apply(dir.fd.as_fd(), &dir.path, &group.writes, plan.policy, losses)?;
                }
                Err((path, errno)) => forgo(plan, path, errno, &group.writes, losses)?,
            }
        }
        let Some(unified) = &plan.v2 else { return Ok(()) };
        match make_v2(unified) {
            Ok(dir) => {
                self.dirs.push(dir);
                let dir = &self.dirs[self.dirs.len() - 1];
                apply(dir.fd.as_fd(), &dir.path, &unified.writes, plan.policy, losses)
            }
            Err((path, errno)) => {
                if plan.device_program().is_some() && plan.policy == Policy::Warn {
                    losses.push("devices", Why::from_errno(errno));
                }
                forgo(plan, path, errno, &unified.writes, losses)
            }
        }
    }
}

/// Goes on without a group, if the policy allows that.
fn forgo(
    plan: &Plan,
    path: PathBuf,
    errno: Errno,
    writes: &[Write],
    losses: &mut Losses,
) -> Result<(), Error> {
    let permitted = !matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS);
    let gone = matches!(errno, Errno::NOENT | Errno::NODEV);
    if plan.policy == Policy::Warn && (!permitted || gone) {
        writes
            .iter()
            .for_each(|write| losses.push(write.limit, Why::from_errno(errno)));
        return Ok(());
    }
    if permitted || plan.explicit {
        return Err(Error::Create { path, source: errno });
    }
    // As in runc without root, the group is left out, which is an error only if it was to carry a limit. Device rules
    // cannot work there, and every bundle has some.
    match writes
        .iter()
        .find(|write| write.controllers != Controllers::DEVICES)
    {
        Some(write) => {
            let name = write.controllers.v1_names().next().unwrap_or(write.limit);
            Err(Error::NoController {
                limit: name.to_owned(),
            })
        }
        None => Ok(()),
    }
}

type Refused = (PathBuf, Errno);

/// Result of [`make_below`].
struct Made {
    /// True if the group did not exist.
    fresh: bool,
    /// Number of directories between base and group that did not exist.
    above: usize,
}

impl Made {
    /// Removes the new directories again if the group cannot be used after all.
    fn undo(&self, path: &Path) {
        let dirs = path.ancestors().take(if self.fresh { self.above + 1 } else { 0 });
        dirs.for_each(|dir| _ = rmdir(dir));
    }
}

/// Makes `path` below `base`, with the directories between. An existing path is not an error. `after` is called for
/// each new directory, the outermost first.
fn make_below(base: &Path, path: &Path, after: &mut dyn FnMut(&Path)) -> Result<Made, Errno> {
    let leaf = base.join(path);
    let mode = Mode::from_raw_mode(0o755);
    let mut made = 0;
    for _ in 0..MKDIR_TRIES {
        match mkdir(&leaf, mode) {
            Ok(()) => {
                after(&leaf);
                return Ok(Made {
                    fresh: true,
                    above: made,
                });
            }
            Err(Errno::EXIST) => {
                return Ok(Made {
                    fresh: false,
                    above: 0,
                });
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        made = 0;
        let between: Vec<_> = path
            .ancestors()
            .skip(1)
            .filter(|p| !p.as_os_str().is_empty())
            .collect();
        if between.is_empty() {
            return Err(Errno::NOENT);
        }
        for dir in between.iter().rev().map(|p| base.join(p)) {
            match mkdir(&dir, mode) {
                Ok(()) => {
                    made += 1;
                    after(&dir);
                }
                Err(Errno::EXIST) => made = 0,
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            }
        }
        if is_absent(base) {
            return Err(Errno::NOENT);
        }
    }
    Err(Errno::NOENT)
}

fn make_v1(group: &Group) -> Result<Dir, Refused> {
    let path = group.base.join(&group.path);
    let refused = |errno| (path.clone(), errno);
    let made = make_below(&group.base, &group.path, &mut |_| {}).map_err(refused)?;
    let opened = file::open_dir(&path).and_then(|fd| {
        if group.controllers.contains(Controllers::CPUSET) {
            inherit_cpuset(fd.as_fd(), &path)?;
        }
        Ok(fd)
    });
    let fd = opened.map_err(|errno| {
        made.undo(&path);
        refused(errno)
    })?;
    let Made { fresh, above } = made;
    Ok(Dir {
        is_v2: false,
        controllers: group.controllers,
        path,
        made: above,
        fresh,
        fd,
    })
}

/// Completes a new v1 cpuset, which has neither processors nor memory; no process can join it before it has both. The
/// ones above may lack them as well, depending on their makers; the root of the hierarchy always has both.
fn inherit_cpuset(fd: BorrowedFd<'_>, dir: &Path) -> Result<(), Errno> {
    // A missing file lacks nothing.
    let read = |fd, name| match file::read_at(fd, name) {
        Err(Errno::NOENT) => Ok(None),
        other => other.map(Some),
    };
    let mut missing = Vec::new();
    for name in ["cpuset.cpus", "cpuset.mems"] {
        if read(fd, name)?.is_some_and(|own| own.trim().is_empty()) {
            missing.push(name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let above = dir.parent().ok_or(Errno::NOENT)?;
    let parent = file::open_dir(above)?;
    inherit_cpuset(parent.as_fd(), above)?;
    for name in missing {
        let value = read(parent.as_fd(), name)?.unwrap_or_default();
        if !value.trim().is_empty() {
            file::write_at(fd, name, value.trim().as_bytes())?;
        }
    }
    Ok(())
}

/// Makes the v2 group as near to the caller as its controllers can be had.
///
/// A cgroup with processes cannot hand out controllers (EBUSY; only the root is exempt), and the caller's own usually
/// has some. So the ancestors are tried, the nearest first: this way the fewest limits around the caller are lost.
fn make_v2(unified: &Unified) -> Result<Dir, Refused> {
    let parents = unified.parents();
    if unified.path.start != Start::Near {
        let parent = parents.into_iter().next().unwrap_or_default();
        return make_v2_explicit(unified, &parent);
    }
    let mut short = Vec::new();
    let mut first_error = None;
    for parent in &parents {
        let missing = enable(parent, unified);
        if !missing.is_empty() {
            short.push((missing.len(), parent));
            continue;
        }
        match make_v2_below(unified, parent) {
            Err(refused) if may_be_higher(refused.1) => first_error = first_error.or(Some(refused)),
            result => return result,
        }
    }
    // Every place lacks something: the one that lacks least is used, and of those the nearest.
    short.sort_by_key(|(missing, _)| *missing);
    for (_, parent) in short {
        match make_v2_below(unified, parent) {
            Err(refused) if may_be_higher(refused.1) => first_error = first_error.or(Some(refused)),
            result => return result,
        }
    }
    Err(first_error.unwrap_or_else(|| (unified.mount_point.clone(), Errno::NOENT)))
}

fn may_be_higher(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT | Errno::AGAIN | Errno::OPNOTSUPP
    )
}

/// Makes a path that the user chose at that place, with controllers enabled all the way down as far as possible.
fn make_v2_explicit(unified: &Unified, parent: &Path) -> Result<Dir, Refused> {
    let above: Vec<_> = parent
        .ancestors()
        .take_while(|dir| dir.starts_with(&unified.mount_point))
        .collect();
    for dir in above.iter().rev() {
        enable(dir, unified);
    }
    make_v2_below(unified, parent)
}

/// Makes the group and the directories between it and the parent, which hand out the controllers as well.
fn make_v2_below(unified: &Unified, parent: &Path) -> Result<Dir, Refused> {
    let leaf = parent.join(unified.path.as_path());
    let mut dir = make_v2_in(unified, parent, &mut |dir| {
        if dir != leaf {
            enable(dir, unified);
        }
    })?;
    // Existing directories between were not enabled on the way.
    for existing in unified
        .path
        .as_path()
        .ancestors()
        .skip(1)
        .filter(|p| !p.as_os_str().is_empty())
    {
        if enable(&parent.join(existing), unified).is_empty() {
            break;
        }
    }
    if unified.holder(parent).is_some() {
        // The holder is removed with the last container, whichever container made it.
        dir.made = 1;
    }
    Ok(dir)
}

fn make_v2_in(unified: &Unified, parent: &Path, after: &mut dyn FnMut(&Path)) -> Result<Dir, Refused> {
    let path = parent.join(unified.path.as_path());
    let refused = |errno| (path.clone(), errno);
    let made = make_below(parent, unified.path.as_path(), after).map_err(refused)?;
    let opened = file::open_dir(&path).and_then(|fd| match kind(fd.as_fd()).as_deref() {
        // The parent is below a threaded domain: no process could be put into the group.
        Some("domain invalid") => Err(Errno::OPNOTSUPP),
        _ => Ok(fd),
    });
    let fd = opened.map_err(|errno| {
        made.undo(&path);
        refused(errno)
    })?;
    let Made { fresh, above } = made;
    Ok(Dir {
        is_v2: true,
        controllers: unified.needed,
        path,
        made: above,
        fresh,
        fd,
    })
}

/// Returns the kind, `domain` and the like; `None` for the root of the hierarchy, which alone has no such file.
fn kind(dir: BorrowedFd<'_>) -> Option<String> {
    let text = file::read_at(dir, "cgroup.type").ok()?;
    Some(text.trim().to_owned())
}

/// True if a cgroup has processes and is not the root. The kernel refuses to let it hand out most controllers, but
/// not cpu, cpuset and pids: it becomes a threaded domain with them, and no process can be put into any group below
/// it.
fn is_in_use(dir: BorrowedFd<'_>) -> bool {
    let any = |text: String| !text.trim().is_empty();
    file::read_at(dir, "cgroup.procs").is_ok_and(any) && kind(dir).is_some()
}

/// Enables the controllers for the children of `dir`; returns those that are still missing.
fn enable(dir: &Path, unified: &Unified) -> Controllers {
    let mut wanted = unified.needed;
    if wanted.is_empty() && !unified.all {
        return Controllers::NONE;
    }
    // absence: to enable what is enabled already does nothing
    let Ok(fd) = file::open_dir(dir) else {
        return wanted;
    };
    let list = |name| file::read_at(fd.as_fd(), name).map(|text| Controllers::from_list(&text, ' '));
    if unified.all {
        wanted = wanted.union(list("cgroup.controllers").unwrap_or_default().enableable());
    }
    let have = list("cgroup.subtree_control").unwrap_or_default();
    let missing = wanted.difference(have);
    if missing.is_empty() {
        return Controllers::NONE;
    }
    if is_in_use(fd.as_fd()) {
        return missing.intersection(unified.needed);
    }
    let words: Vec<_> = missing.v2_names().map(|name| format!("+{name}")).collect();
    let put = |value: &str| file::write_at(fd.as_fd(), "cgroup.subtree_control", value.as_bytes());
    if put(&words.join(" ")).is_ok() {
        return Controllers::NONE;
    }
    // A refused controller makes the whole line fail.
    let refused = words.iter().filter(|word| put(word).is_err());
    let missing = refused.filter_map(|word| Controllers::from_name(&word[1..]));
    // `all` asks for every controller there is; only those that a limit needs can be missing.
    missing
        .fold(Controllers::NONE, Controllers::union)
        .intersection(unified.needed)
}
