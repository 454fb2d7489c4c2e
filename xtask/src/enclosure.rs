//! Isolation of a run: its own namespaces, cgroups, device nodes, `/run` and process ids. Runtimes, engines and
//! suites would otherwise change the host: they chown its device nodes, and leave processes, cgroups and mounts
//! behind.
//!
//! A command that needs this runs itself twice more, by hidden words: `--enter` joins the run's own cgroups and
//! unshares, `--inside` is then isolated in its namespaces and does the work. A lock admits one run at a time.
//!
//! All mounts of a run are made in a mount namespace from which nothing propagates. When the first process of its
//! PID namespace ends, the kernel ends all others. Only files below the scratch directory and cgroups below the
//! run's own remain, and the process that created them removes them.

mod hierarchy;
mod leftovers;
mod scratch;

pub(crate) use leftovers::Before;

use crate::program::{program, succeed};
use anyhow::{Context, Error, Result, bail};
use hierarchy::Hierarchy;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Device nodes that runtimes give to containers as standard streams, and that some then chown: name, major and
/// minor number.
const NODES: &[(&str, &str, &str)] = &[
    ("null", "1", "3"),
    ("zero", "1", "5"),
    ("full", "1", "7"),
    ("random", "1", "8"),
    ("urandom", "1", "9"),
    ("tty", "5", "0"),
];

/// Script that becomes the first process of a PID namespace, runs a command and reaps all orphans.
///
/// Without a reaper, ended processes stay as zombies, and tests wait for them in vain. The last command keeps the
/// shell from executing the first in its own process.
const REAPER: &str = r#""$@" </dev/null; exit $?"#;

/// The isolation of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enclosure {
    /// Subcommand of `cargo xtask` that calls itself.
    pub(crate) command: &'static str,
    /// Base name of all objects that a run makes outside of the build directory: the lock, the scratch directory,
    /// the cgroups.
    pub(crate) name: &'static str,
}

/// Hierarchies of cgroups that a run sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All that the host has.
    #[default]
    All,
    /// Version 1 alone, unless the host has none; `--no-unified`.
    First,
    /// Version 2 alone, which then is where engines look for it on a host without the others; `--only-unified`.
    Second,
}

impl Shown {
    /// Parses the word of a command line that chooses the hierarchies; `None` for any other word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        [Self::First, Self::Second]
            .into_iter()
            .find(|shown| shown.word() == Some(word))
    }

    /// Returns the word that [`Self::named`] turns into this; `None` for all, which no word chooses.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::First => Some("--no-unified"),
            Self::Second => Some("--only-unified"),
        }
    }
}

/// Makes a path of a command line absolute, because what is run has directories of its own. Links are not resolved: a
/// program may depend on its name.
pub(crate) fn absolute(path: &str) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("path {path:?}"))
}

impl Enclosure {
    /// Returns the directory for the files of a run.
    pub(crate) fn scratch(self) -> PathBuf {
        std::env::temp_dir().join(self.name)
    }

    /// Runs the hidden stages, if the words select one: `--enter` enters, and `--inside` does the command's work.
    pub(crate) fn stage(
        self,
        words: &[&str],
        inside: fn(&str, &[&str]) -> Result<ExitCode>,
    ) -> Option<Result<ExitCode>> {
        match words {
            ["--enter", outside, rest @ ..] => Some(Err(self.enter(outside, rest))),
            ["--inside", outside, rest @ ..] => Some(inside(outside, rest)),
            _ => None,
        }
    }

    /// Runs the command inside with these words, and afterwards removes the files and cgroups of the run.
    pub(crate) fn run(self, words: &[String]) -> Result<ExitCode> {
        let _lock = scratch::lock(&self.scratch())?;
        let scratch = self.scratch();
        scratch::remove_tree(&scratch)?;
        scratch::create(&scratch, 0o755)?;
        scratch::create(&scratch.join("tmp"), 0o1777)?;
        let groups = hierarchy::make_groups(self.name)?;
        let result = self.spawn(words);
        let removed = hierarchy::remove_groups(&groups).and_then(|()| scratch::remove_tree(&scratch));
        let code = result?;
        removed?;
        Ok(code)
    }

    /// Runs the command inside and waits for it; the kernel kills it if this process ends first.
    fn spawn(self, words: &[String]) -> Result<ExitCode> {
        let status = program("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(own_executable()?)
            .args([self.command, "--enter", &mount_namespace()?])
            .args(words)
            .status()
            .context("setpriv")?;
        match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(code) => Ok(ExitCode::from(code)),
            None => bail!("the run ended by {status}"),
        }
    }

    /// Joins the cgroups before it unshares, so that the new cgroup namespace shows nothing else; returns only
    /// after a failure.
    fn enter(self, outside: &str, words: &[&str]) -> Error {
        let unshare = || -> Result<Error> {
            hierarchy::join_groups(self.name)?;
            let mut unshare = program("unshare");
            unshare
                .args([
                    "--mount",
                    "--propagation",
                    "private",
                    "--cgroup",
                    "--ipc",
                    "--uts",
                    "--net",
                ])
                .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
                .args(["sh", "-c", REAPER, "sh"])
                .arg(own_executable()?)
                .args([self.command, "--inside", outside])
                .args(words);
            Ok(Error::new(unshare.exec()).context("unshare"))
        };
        unshare().unwrap_or_else(|error| error)
    }

    /// Covers the parts of the host that a runtime could change.
    ///
    /// # Errors
    /// The present mount namespace is still the one in which the run was started; nothing is changed then.
    pub(crate) fn furnish(self, outside: &str, shown: Shown) -> Result<()> {
        if mount_namespace()? == outside {
            bail!("this is not a mount namespace of our own");
        }
        let hierarchies = hierarchy::all()?;
        own_cgroups(&hierarchies, shown)?;
        own_nodes(&self.scratch().join("dev"))?;
        mount(
            &["-t", "devpts", "-o", "newinstance,ptmxmode=0666,gid=5,mode=620"],
            "devpts",
            "/dev/pts",
        )?;
        mount(&["-t", "tmpfs", "-o", "mode=755"], "tmpfs", "/run")?;
        succeed(program("ip").args(["link", "set", "lo", "up"]))
    }
}

/// Mounts the same hierarchies again, of which the cgroup namespace shows only this run's groups.
fn own_cgroups(hierarchies: &[Hierarchy], shown: Shown) -> Result<()> {
    succeed(program("umount").args(["--recursive", hierarchy::ROOT]))?;
    let options = ["-t", "cgroup2", "-o", "nosuid,nodev,noexec"];
    let alone = hierarchies.iter().all(Hierarchy::is_v2);
    if shown == Shown::Second && !alone {
        return mount(&options, "cgroup2", hierarchy::ROOT);
    }
    if !alone {
        mount(&["-t", "tmpfs", "-o", "mode=755"], "tmpfs", hierarchy::ROOT)?;
    }
    for hierarchy in hierarchies
        .iter()
        .filter(|h| alone || shown == Shown::All || !h.is_v2())
    {
        std::fs::create_dir_all(&hierarchy.mount)
            .with_context(|| format!("create {}", hierarchy.mount.display()))?;
        if !hierarchy.is_v2() {
            // A hierarchy without controllers has a name, and needs the option `none`.
            let none = hierarchy.controllers.starts_with("name=").then_some("none,");
            let value = format!("{}{}", none.unwrap_or_default(), hierarchy.controllers);
            mount(
                &["-t", &hierarchy.kind, "-o", &value],
                "cgroup",
                path(&hierarchy.mount)?,
            )?;
            continue;
        }
        mount(&options, "cgroup2", path(&hierarchy.mount)?)?;
    }
    Ok(())
}

/// Mounts new device nodes over those of the host.
fn own_nodes(directory: &Path) -> Result<()> {
    scratch::create(directory, 0o755)?;
    // The scratch directory may be on a file system mounted without devices.
    mount(&["-t", "tmpfs", "-o", "mode=755,dev"], "tmpfs", path(directory)?)?;
    for (name, major, minor) in NODES {
        let node = directory.join(name);
        succeed(
            program("mknod")
                .args(["--mode", "0666"])
                .arg(&node)
                .args(["c", major, minor]),
        )?;
        mount(&["--bind"], path(&node)?, &format!("/dev/{name}"))?;
    }
    Ok(())
}

/// Calls mount(8) with these options.
pub(crate) fn mount(options: &[&str], source: &str, target: &str) -> Result<()> {
    succeed(program("mount").args(options).args([source, target]))
}

/// Converts a path to text, because mount(8) takes its arguments as text here.
pub(crate) fn path(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

fn mount_namespace() -> Result<String> {
    let link = std::fs::read_link("/proc/self/ns/mnt").context("read /proc/self/ns/mnt")?;
    Ok(link.to_string_lossy().into_owned())
}

fn own_executable() -> Result<PathBuf> {
    std::env::current_exe().context("find this executable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_own_mounts_are_not_touched() {
        let here = mount_namespace().unwrap();
        let enclosure = Enclosure {
            command: "none",
            name: "tote-nonexistent",
        };
        let error = enclosure.furnish(&here, Shown::All).unwrap_err();
        assert_eq!(error.to_string(), "this is not a mount namespace of our own");
    }
}
