//! An engine, and how it carries out a group of lines.

use super::lines::Group;
use crate::dropin::{PATH, Place};
use crate::enclosure::path;
use crate::program::program;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Time limit of a line in seconds.
const LIMIT: &str = "60";

/// Brings the engine back to where each group begins. What it prints is of no interest.
const CLEAN: &str = "\
docker ps -aq | xargs -r docker unpause
docker ps -aq | xargs -r docker rm -f -v
docker volume ls -q | xargs -r docker volume rm
docker network ls -q --filter type=custom | xargs -r docker network rm
docker images -aq | sort -u | xargs -r docker rmi -f
docker image prune -af
docker import -c 'CMD [\"sh\"]' -c 'ENV PATH=/bin' ../rootfs.tar busybox
";

/// Exit code and output of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Exit code; 124 where the line did not end in time.
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) errors: String,
}

#[derive(Debug)]
pub(super) struct Side<'a> {
    place: &'a Place,
    name: &'static str,
    /// Directory in which `docker` is this side's engine.
    programs: PathBuf,
}

impl<'a> Side<'a> {
    pub(super) fn tote(place: &'a Place, tote: &Path) -> Result<Self> {
        let root = place.work.join("tote");
        let exec = format!("exec {} --root {} \"$@\"", path(tote)?, path(&root)?);
        Self::new(place, "tote", &exec)
    }

    pub(super) fn docker(place: &'a Place, docker: &Path) -> Result<Self> {
        Self::new(place, "docker", &format!("exec {} \"$@\"", path(docker)?))
    }

    fn new(place: &'a Place, name: &'static str, exec: &str) -> Result<Self> {
        let programs = place.work.join(format!("{name}-programs"));
        std::fs::create_dir_all(&programs).with_context(|| format!("create {}", programs.display()))?;
        let program = programs.join("docker");
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&program);
        file.and_then(|mut file| writeln!(file, "#!/bin/sh\n{exec}"))
            .with_context(|| format!("write {}", program.display()))?;
        Ok(Self {
            place,
            name,
            programs,
        })
    }

    /// Carries out a group from a clean state: an answer for each line.
    pub(super) fn group(&self, group: &Group) -> Result<Vec<Answer>> {
        println!("{:6} {}", self.name, group.title);
        // The same path for both, because it is part of what some lines print.
        let here = self.place.work.join("here");
        match std::fs::remove_dir_all(&here) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", here.display()));
            }
            _ => std::fs::create_dir(&here).with_context(|| format!("create {}", here.display()))?,
        }
        let clean = self.script(&here, CLEAN)?;
        ensure!(clean.code == 0, "{}: clean: {}", self.name, clean.errors);
        let mut answers = Vec::new();
        for line in &group.lines {
            answers.push(self.script(&here, &line.script)?);
        }
        let clean = self.script(&here, CLEAN)?;
        ensure!(clean.code == 0, "{}: clean: {}", self.name, clean.errors);
        Ok(answers)
    }

    /// Runs a script. Its output goes to files: a process that outlives the script may keep them open.
    fn script(&self, here: &Path, script: &str) -> Result<Answer> {
        let files = ["out", "errors"].map(|name| self.place.work.join(name));
        let mut command = program("timeout");
        command
            .args(["--kill-after", "5", LIMIT, "sh", "-c", script])
            .env_clear()
            .env("PATH", format!("{}:{PATH}", path(&self.programs)?))
            .env("HOME", self.place.work.join("home"))
            .env("TMPDIR", self.place.work.join("tmp"))
            .env("TERM", "xterm")
            .current_dir(here)
            .stdin(Stdio::null())
            .stdout(emptied(&files[0])?)
            .stderr(emptied(&files[1])?);
        let status = command.status().with_context(|| format!("run {script}"))?;
        let read = |path: &PathBuf| {
            let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            Ok::<_, anyhow::Error>(String::from_utf8_lossy(&text).into_owned())
        };
        Ok(Answer {
            code: status.code().unwrap_or(-1),
            out: read(&files[0])?,
            errors: read(&files[1])?,
        })
    }
}

/// Opens a file to write it anew.
pub(super) fn emptied(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).write(true).truncate(true);
    options
        .open(path)
        .with_context(|| format!("open {}", path.display()))
}
