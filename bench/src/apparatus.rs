//! Environment of candidates besides trees and bundles: image archives, file systems, daemons, a network.
//!
//! Everything is made for a single run: directories below the run's own, file systems in files there, daemons that
//! listen there or on the loopback device of a private network namespace. If a part cannot be made, only the
//! candidates that need it are skipped, with the reason.

mod archive;
mod daemon;
mod disk;

pub use archive::{Archive, seal};
pub use daemon::Daemon;
pub use disk::{Disk, mount_disk};

use crate::stage::{PATH, Stage, find_program};
use crate::step::expand;
use crate::{interruption, mountinfo};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Pid;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Value of the key `apparatus` in a scenario.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// True if all candidates run in a network namespace of their own, which has only a loopback device. As root
    /// only.
    pub private_network: bool,
    /// True if all candidates run in a pid namespace of their own, so that nothing outlives this program. As root only.
    pub private_processes: bool,
    /// Directories of the host that are covered by an empty tmpfs, if they exist, because programs write there
    /// unasked.
    pub covered: Vec<PathBuf>,
    /// Directories for any content: `{directory:NAME}`.
    pub directories: Vec<String>,
    /// File systems in files; `{disk:NAME}` is the mount point.
    pub disks: BTreeMap<String, Disk>,
    /// Archives as `docker save` writes them, with compressed layers: `{archive:NAME}`.
    pub archives: BTreeMap<String, Archive>,
    /// Texts in which places are replaced: `{file:NAME}`.
    pub files: BTreeMap<String, String>,
    /// Services, started in this order.
    pub services: Vec<Service>,
}

/// A daemon, preparations, or both; the place `{have:NAME}` exists once they have succeeded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name of the place.
    pub name: String,
    /// Value of the place.
    pub value: String,
    #[serde(default)]
    needs: Vec<String>,
    daemon: Option<Vec<String>>,
    /// Command that succeeds as soon as the daemon answers.
    answers: Option<Vec<String>>,
    /// Commands that run once, one after another.
    #[serde(default)]
    pub run: Vec<Vec<String>>,
    /// Commands that run once at the end, before daemons end.
    #[serde(default)]
    end: Vec<Vec<String>>,
}

/// The environment that was made; dropping this value removes it.
#[derive(Debug)]
pub struct Apparatus {
    daemons: Vec<Daemon>,
    /// Commands to run at the end.
    ends: Vec<Command>,
    place: PathBuf,
    /// Places that could not be made, with the reason.
    pub missing: BTreeMap<String, String>,
}

impl Service {
    /// Iterates over all words in which places are filled in.
    fn words(&self) -> impl Iterator<Item = &String> {
        let commands = self
            .daemon
            .iter()
            .chain(&self.answers)
            .chain(&self.run)
            .chain(&self.end);
        std::iter::once(&self.value).chain(commands.flatten())
    }

    /// Describes a preparation of one command.
    #[must_use]
    pub fn of_command(name: &str, value: &str, argv: Vec<String>) -> Self {
        Service {
            name: name.to_owned(),
            value: value.to_owned(),
            needs: Vec::new(),
            daemon: None,
            answers: None,
            run: vec![argv],
            end: Vec::new(),
        }
    }
}

impl Plan {
    /// Adds the parts of another plan. Parts of the same name are made once.
    pub fn add(&mut self, other: &Plan) {
        self.private_network |= other.private_network;
        self.private_processes |= other.private_processes;
        let add = |to: &mut Vec<String>, from: &[String]| {
            for name in from {
                if !to.contains(name) {
                    to.push(name.clone());
                }
            }
        };
        add(&mut self.directories, &other.directories);
        for path in &other.covered {
            if !self.covered.contains(path) {
                self.covered.push(path.clone());
            }
        }
        self.disks.extend(other.disks.clone());
        self.archives.extend(other.archives.clone());
        self.files.extend(other.files.clone());
        for service in &other.services {
            if self.services.iter().all(|known| known.name != service.name) {
                self.services.push(service.clone());
            }
        }
    }
}

impl Apparatus {
    /// Makes the parts of `plan` and adds their places to `stage`.
    pub fn set_up(plan: &Plan, stage: &mut Stage) -> Result<Self> {
        // podman refuses a runroot of more than 50 characters, so the name is short.
        let place = stage.make_directory("kit")?;
        let mut made = Apparatus {
            daemons: Vec::new(),
            ends: Vec::new(),
            place,
            missing: stage.missing.clone(),
        };
        for name in &plan.directories {
            let path = stage.make_directory(&format!("kit/{name}"))?;
            stage.place("directory", name, &path);
        }
        for (name, disk) in &plan.disks {
            interruption::check()?;
            let found = disk.make(&made.place, name);
            made.note(stage, "disk", name, found);
        }
        for (name, archive) in &plan.archives {
            interruption::check()?;
            let tree = format!("{{tree:{}}}", archive.tree());
            let found = (made.has(std::iter::once(&tree)))
                .and_then(|()| archive.make(&made.place, name, &stage.places));
            made.note(stage, "archive", name, found);
        }
        for (name, text) in &plan.files {
            let path = made.place.join(format!("file-{name}"));
            let found = made.has(std::iter::once(text)).and_then(|()| {
                fs::write(&path, fill(text, &stage.places)?)
                    .with_context(|| format!("write {}", path.display()))
            });
            made.note(stage, "file", name, found.map(|()| path));
        }
        for service in &plan.services {
            interruption::check()?;
            let found = made
                .has(service.words())
                .and_then(|()| made.serve(service, &stage.places))
                .and_then(|()| fill(&service.value, &stage.places));
            made.note(stage, "have", &service.name, found.map(PathBuf::from));
        }
        interruption::check()?;
        Ok(made)
    }

    /// Returns the pids of the daemons, which are children of this process and not left behind by a candidate.
    pub fn pids(&self) -> Vec<Pid> {
        self.daemons.iter().map(Daemon::pid).collect()
    }

    /// Ends the daemons and unmounts everything below the run's own directories.
    pub fn take_down(&mut self) -> Result<()> {
        while let Some(mut end) = self.ends.pop() {
            succeed(&mut end)?;
        }
        while let Some(daemon) = self.daemons.pop() {
            daemon.stop()?;
        }
        unmount_below(&self.place)
    }

    /// Checks that no word has a place that could not be made; the error is the reason why it could not.
    fn has<'a>(&self, mut words: impl Iterator<Item = &'a String>) -> Result<()> {
        let missing = words.find_map(|word| {
            let mut places = self.missing.iter();
            places.find(|(place, _)| word.contains(&format!("{{{place}}}")))
        });
        match missing {
            Some((_, reason)) => Err(anyhow!("{reason}")),
            None => Ok(()),
        }
    }

    fn note(&mut self, stage: &mut Stage, kind: &str, name: &str, found: Result<PathBuf>) {
        match found {
            Ok(path) => stage.place(kind, name, &path),
            Err(error) => drop(
                self.missing
                    .insert(format!("{kind}:{name}"), format!("{error:#}")),
            ),
        }
    }

    fn serve(&mut self, service: &Service, places: &BTreeMap<String, String>) -> Result<()> {
        for name in &service.needs {
            find_program(name).with_context(|| format!("needs {name}"))?;
        }
        if let Some(argv) = &service.daemon {
            let log = self.place.join(format!("{}.log", service.name));
            let daemon = Daemon::start(command(argv, places)?, &log)?;
            let answers = service.answers.as_deref().unwrap_or(&[]);
            let ready = daemon.await_answer(|| command(answers, places));
            self.daemons.push(daemon);
            ready?;
        }
        for argv in service.end.iter().rev() {
            self.ends.push(command(argv, places)?);
        }
        service
            .run
            .iter()
            .try_for_each(|argv| interruption::check().and_then(|()| succeed(&mut command(argv, places)?)))
    }
}

/// Ends and unmounts after an error as much as possible; failures cannot be reported any more.
impl Drop for Apparatus {
    fn drop(&mut self) {
        // Each failed part is dropped from the list, so the loop ends.
        while self.take_down().is_err() && !(self.ends.is_empty() && self.daemons.is_empty()) {}
    }
}

/// Unmounts everything below a directory of this run, the last mount first.
pub fn unmount_below(place: &Path) -> Result<()> {
    let mut mounts = mountinfo::read()?;
    mounts.retain(|mount| mount.target.starts_with(place));
    for mount in mounts.iter().rev() {
        unmount(&mount.target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .with_context(|| format!("unmount {}", mount.target.display()))?;
    }
    Ok(())
}

/// Replaces known places; a text with other braces, such as JSON, keeps them.
fn fill(text: &str, places: &BTreeMap<String, String>) -> Result<String> {
    if !text.starts_with('{') {
        return expand(text, places);
    }
    let mut filled = text.to_owned();
    for (name, value) in places {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    Ok(filled)
}

/// Builds the command of a program in the candidates' PATH, with a small environment.
fn command(argv: &[String], places: &BTreeMap<String, String>) -> Result<Command> {
    let words = argv
        .iter()
        .map(|word| expand(word, places))
        .collect::<Result<Vec<String>>>()?;
    let (name, arguments) = words.split_first().context("a service has an empty argv")?;
    let program = find_program(name).with_context(|| format!("needs {name}"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", "C")
        .env("HOME", "/root");
    Ok(command)
}

/// Runs a command to its end; the error is the last line of its stderr.
pub fn succeed(command: &mut Command) -> Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("run {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} ended with {}: {}",
        output.status,
        said.lines().last().unwrap_or_default()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_braces() {
        let places = BTreeMap::from([("directory:d".to_owned(), "/x".to_owned())]);
        assert_eq!(
            fill(r#"{"root": "{directory:d}/y"}"#, &places).unwrap(),
            r#"{"root": "/x/y"}"#
        );
        assert_eq!(fill("at {directory:d}", &places).unwrap(), "at /x");
        assert!(fill("at {directory:e}", &places).is_err());
    }

    #[test]
    fn failures_tell_the_last_line() {
        let error = succeed(Command::new("sh").args(["-c", "echo a >&2; echo b >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with(": b"), "{error}");
        assert!(succeed(&mut Command::new("true")).is_ok());
    }
}
