//! A session of an engine with a runtime, from its start to its end.

use super::engine::{Engine, PATH};
use super::place::Place;
use super::table::Verdict;
use super::tables::{Case, PRELUDE};
use crate::enclosure::Before;
use crate::program::{program, succeed};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Time limit of a case in seconds.
const LIMIT: &str = "60";

/// Exit code of a case that cannot run here.
const SKIPPED: i32 = 77;

/// Cgroups of the engines and of the cases, which the runtime does not have to remove.
const ENGINES_OWN: &[&str] = &["docker", "libpod_parent", "conmon", "default", "parent"];

/// A mount that belongs to docker.
const ENGINES_MOUNT: &str = "mount /run/docker/netns/default";

#[derive(Debug)]
pub(super) struct Session<'a> {
    place: &'a Place,
    engine: Engine,
    directory: PathBuf,
    prelude: String,
    /// Daemons, in the order of their start.
    daemons: Vec<Child>,
    before: Before,
    logs: PathBuf,
}

impl<'a> Session<'a> {
    /// Starts the engine and loads its image.
    pub(super) fn open(place: &'a Place, engine: Engine, runtime: &Path, side: usize) -> Result<Self> {
        let name = format!("{}-{}", engine.name(), ["runtime", "reference"][side]);
        let directory = place.work.join(&name);
        let mut prelude = format!("W={}\n", place.work.display());
        prelude += &engine.prelude(&directory, runtime)?;
        prelude += PRELUDE;
        let mut session = Session {
            place,
            engine,
            logs: place.work.join("logs").join(&name),
            prelude,
            daemons: Vec::new(),
            before: Before::look(ENGINES_OWN)?,
            directory,
        };
        match std::fs::remove_dir_all(&session.logs) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", session.logs.display()));
            }
            _ => super::place::make(&session.logs)?,
        }
        for (daemon, answers) in engine.daemons(place, &session.directory, runtime)? {
            session.start(daemon, answers)?;
        }
        session.must("load", engine.load())?;
        Ok(session)
    }

    fn start(&mut self, mut daemon: Command, answers: &str) -> Result<()> {
        let name = daemon.get_program().to_string_lossy().into_owned();
        let (output, errors) = self.log(&format!("daemon {name}"))?;
        let child = daemon.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        self.daemons.push(child.with_context(|| format!("start {name}"))?);
        self.must(&format!("start {name}"), &format!("eventually {answers}"))
    }

    /// Runs a case, and removes the objects that it made.
    pub(super) fn attempt(&self, case: &Case) -> Result<Verdict> {
        let status = self.script(case.name, case.script)?;
        let verdict = match status.code() {
            Some(0) => Verdict::Passed,
            Some(SKIPPED) => Verdict::Skipped(self.last_line(case.name)?),
            Some(124 | 137) => Verdict::Failed(format!("did not end within {LIMIT} s")),
            _ => Verdict::Failed(self.last_line(case.name)?),
        };
        self.must("clean", self.engine.clean())?;
        println!("{:10} {:10} {}", self.engine.name(), verdict.word(), case.name);
        Ok(verdict)
    }

    /// Ends the engine; objects that remain then were left by the runtime.
    pub(super) fn close(mut self) -> Result<Verdict> {
        self.must("end", self.engine.end())?;
        while let Some(mut daemon) = self.daemons.pop() {
            // A daemon that has ended by itself is not reaped, so the number is still its own.
            succeed(program("kill").arg(daemon.id().to_string()))?;
            let ended = daemon.wait().context("wait for a daemon")?;
            if ended.code().is_none() {
                bail!("a daemon of {} ended by {ended}", self.engine.name());
            }
        }
        let mut left = self.before.restore()?;
        left.retain(|what| what != ENGINES_MOUNT);
        Ok(if left.is_empty() {
            Verdict::Passed
        } else {
            Verdict::Failed(left.join(", "))
        })
    }

    /// Runs a script that the cases depend on.
    fn must(&self, name: &str, script: &str) -> Result<()> {
        if self.script(name, script)?.success() {
            return Ok(());
        }
        bail!("{}: {name}: {}", self.engine.name(), self.last_line(name)?)
    }

    fn script(&self, name: &str, script: &str) -> Result<ExitStatus> {
        let (output, errors) = self.log(name)?;
        let mut command = self.engine.timeout();
        command
            .args(["--kill-after", "5", LIMIT, "sh", "-euc"])
            .arg(format!("{}{script}", self.prelude))
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.place.work.join("home"))
            .env("TMPDIR", self.place.work.join("tmp"))
            .envs(self.engine.environment(&self.directory))
            .current_dir(&self.place.work)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        command.status().with_context(|| format!("run {name}"))
    }

    fn log(&self, name: &str) -> Result<(File, File)> {
        let path = self.path(name);
        let open = || -> std::io::Result<(File, File)> {
            let file = File::options()
                .create(true)
                .write(true)
                .truncate(true)
                .open(&path)?;
            Ok((file.try_clone()?, file))
        };
        open().with_context(|| format!("open {}", path.display()))
    }

    fn last_line(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        Ok(line.unwrap_or("said nothing").trim().chars().take(300).collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{}.log", name.replace([' ', '/'], "-")))
    }
}
