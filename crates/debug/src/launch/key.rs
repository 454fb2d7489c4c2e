//! Keys of launchers: the tools, and their state when the launchers were made.

use super::libraries;
use super::tree::{PROGRAMS, ToolsTree};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::path::{Path, PathBuf};
use tote_store::sha256;
use tote_sys::Errno;

/// Version of the launchers; another one whenever this program would make others than an earlier one.
const FORMAT: u8 = 1;

/// The tools that launchers are for, and the state of these tools.
pub(super) struct Key {
    tools: Vec<u8>,
    pub state: Vec<u8>,
}

impl Key {
    /// Looks at the tools: a tree that may change is known by its directories of programs and libraries, and by each program.
    ///
    /// # Errors
    /// Those of the root directory; what is below it and cannot be read is left out, as it is among the launchers.
    pub(super) fn of(tools: &ToolsTree<'_>, dirs: &[PathBuf]) -> Result<Self, Errno> {
        let mut seen = Seen(vec![FORMAT]);
        seen.0.extend(tools.search.as_bytes());
        if let Some(fixed) = &tools.fixed {
            return Ok(Self {
                tools: fixed.clone().into_bytes(),
                state: seen.0,
            });
        }
        let mut of = Seen(Vec::new());
        let root = rustix::fs::fstat(tools.root)?;
        of.number(root.st_dev);
        of.number(root.st_ino);
        seen.stat(&rustix::fs::fstat(tools.top)?);
        let mut places: Vec<&Path> = dirs.iter().flat_map(|dir| dir.ancestors().skip(1)).collect();
        let of_libraries = libraries::STANDARD.iter().chain(&libraries::CONFIGURED);
        places.extend(of_libraries.map(Path::new));
        for dir in places {
            if let Ok(found) = find(tools.root, dir, OFlags::PATH) {
                seen.stat(&rustix::fs::fstat(found)?);
            }
        }
        for dir in dirs {
            // As one that is not there.
            tote_sys::best_effort(seen.programs(tools, dir));
        }
        Ok(Self {
            tools: of.0,
            state: seen.0,
        })
    }

    /// Returns the beginning of the names of all directories of these tools, and the name of the one for this state.
    pub(super) fn names(&self) -> (String, String) {
        let short = |bytes: &[u8], length| sha256(bytes).hex()[..length].to_owned();
        let boot = crate::container::boot();
        let tools = format!("{}-{}-", short(boot.as_bytes(), 8), short(&self.tools, 16));
        let name = format!("{tools}{}", short(&self.state, 32));
        (tools, name)
    }
}

/// Opens a path of the tools.
fn find(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    tote_sys::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// State of files, as bytes that are compared.
struct Seen(Vec<u8>);

impl Seen {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_ne_bytes());
    }

    fn stat(&mut self, stat: &Stat) {
        self.number(stat.st_dev);
        self.number(stat.st_ino);
        self.number(stat.st_ctime.cast_unsigned());
        self.number(stat.st_ctime_nsec);
    }

    /// Looks at a directory of programs and at each of them, which may be overwritten in its place or be behind a link.
    fn programs(&mut self, tools: &ToolsTree<'_>, dir: &Path) -> Result<(), Errno> {
        let opened = find(tools.root, dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.stat(&rustix::fs::fstat(&opened)?);
        for entry in Dir::read_from(&opened)?.take(PROGRAMS) {
            let entry = entry?;
            let name = entry.file_name();
            let stat = if tools.is_here {
                rustix::fs::statat(&opened, name, AtFlags::empty())
            } else if entry.file_type() == FileType::Symlink {
                let path = dir.join(name.to_string_lossy().as_ref());
                find(tools.root, &path, OFlags::PATH).and_then(|found| rustix::fs::fstat(found.as_fd()))
            } else {
                rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
            };
            self.0.extend(name.to_bytes_with_nul());
            if let Ok(stat) = stat {
                self.stat(&stat);
            }
        }
        Ok(())
    }
}
