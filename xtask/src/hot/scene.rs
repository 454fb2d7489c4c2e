//! The traced commands: the life of a container by `tote oci`; and `tote run`, without and with a pool, `exec`, `ps` and
//! `debug`, also of a container of podman.

use crate::program::{program, read};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Program of all containers.
const BUSYBOX: &str = "/usr/bin/busybox";

/// Name of the container that is noted as podman's.
const PODMANS: &str = "hot-of-podman";

/// Time limit for a container to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A bundle, with a state root of its own.
pub(super) struct Scene {
    dir: PathBuf,
    tote: PathBuf,
    step: PathBuf,
    /// Number of traces so far.
    traces: std::cell::Cell<u32>,
}

impl Scene {
    /// Creates the bundle in that directory.
    pub(super) fn set(dir: &Path, tote: PathBuf, step: PathBuf) -> Result<Self> {
        let scene = Self {
            dir: dir.to_owned(),
            tote,
            step,
            traces: std::cell::Cell::new(0),
        };
        let bin = dir.join("bundle/rootfs/bin");
        std::fs::create_dir_all(&bin).with_context(|| format!("create {}", bin.display()))?;
        for name in ["true", "sleep"] {
            std::fs::copy(BUSYBOX, bin.join(name))
                .with_context(|| format!("copy {BUSYBOX}, which has to be a static one"))?;
        }
        let config = scene.bundle().join("config.json");
        if config.try_exists().unwrap_or(false) {
            std::fs::remove_file(&config).with_context(|| format!("remove {}", config.display()))?;
        }
        read(
            program(&scene.tote)
                .args(["oci", "spec", "--bundle"])
                .arg(scene.bundle()),
        )?;
        Ok(scene)
    }

    fn bundle(&self) -> PathBuf {
        self.dir.join("bundle")
    }

    /// Runs the commands. Returns the addresses that each of them reached, in order, and the number of the first
    /// ones that belong to `tote oci`.
    pub(super) fn play(&self) -> Result<(Vec<Vec<u64>>, usize)> {
        let mut traces = self.play_bundles()?;
        let bundles = traces.len();
        let run = ["run", "--rm", "host", "true"];
        // The first run makes files that later ones reuse.
        read(&mut self.engine(&run))?;
        traces.push(self.engine_trace(true, &run)?);
        let others = self.others();
        self.clear();
        traces.extend(others?);
        Ok((traces, bundles))
    }

    /// Runs the commands of `tote oci` alone. Returns the addresses that each of them reached, in order.
    pub(super) fn play_bundles(&self) -> Result<Vec<Vec<u64>>> {
        self.clear();
        self.set_program(&["true"])?;
        let mut traces = vec![self.oci(true, &["run", "--bundle", "bundle", "hot"])?];
        self.set_program(&["sleep", "1000"])?;
        traces.extend(self.life().inspect_err(|_| self.clear())?);
        Ok(traces)
    }

    /// Removes the objects that the commands make, also those of a killed run. They may be missing, so errors are
    /// ignored.
    fn clear(&self) {
        drop(self.plain(&["delete", "--force", "hot"]).output());
        for words in [["rm", "-f", "hot"], ["pool", "rm", "hot"]] {
            drop(self.engine(&words).output());
        }
    }

    /// Traces further commands that should be fast.
    fn others(&self) -> Result<Vec<Vec<u64>>> {
        read(&mut self.engine(&["pool", "fill", "hot", "host", "--", "true"]))?;
        // The process that refills the pool is not followed, because it need not be fast.
        let mut traces = vec![self.engine_trace(false, &["run", "--pool", "hot", "true"])?];
        read(&mut self.engine(&["run", "-d", "--name", "hot", "host", "sleep", "1000"]))?;
        traces.push(self.engine_trace(true, &["exec", "hot", "true"])?);
        traces.push(self.engine_trace(false, &["ps"])?);
        // The first session makes files that later ones reuse.
        read(&mut self.engine(&["debug", "hot", "true"]))?;
        traces.push(self.engine_trace(true, &["debug", "hot", "true"])?);
        let pid = read(&mut self.engine(&["inspect", "-f", "{{.State.Pid}}", "hot"]))?;
        let process = format!("pid:{}", pid.trim());
        traces.push(self.engine_trace(true, &["debug", &process, "true"])?);
        self.note_for_podman(pid.trim())?;
        // The first session makes a file of the filter.
        self.trace_beside_podman(&["debug", PODMANS, "true"])?;
        traces.push(self.trace_beside_podman(&["debug", PODMANS, "true"])?);
        Ok(traces)
    }

    /// Makes the files in which podman notes a container, for a process that need not be podman's.
    fn note_for_podman(&self, pid: &str) -> Result<()> {
        let id = "0123456789abcdef".repeat(4);
        let list = json!([{"id": id, "names": [PODMANS]}]);
        let architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"];
        let allowed = [
            "read",
            "write",
            "open",
            "openat",
            "execve",
            "exit_group",
            "mmap",
            "brk",
        ];
        let spec = json!({
            "ociVersion": "1.0.2",
            "process": {"args": ["sleep", "1000"], "env": ["PATH=/usr/bin:/bin"], "cwd": "/"},
            "linux": {"seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "architectures": architectures,
                "syscalls": [{"names": allowed, "action": "SCMP_ACT_ALLOW"}, {"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}],
            }},
        });
        let of_storage = "lib/containers/storage/overlay-containers";
        for (path, text) in [
            (format!("{of_storage}/containers.json"), list.to_string()),
            (
                format!("{of_storage}/{id}/userdata/config.json"),
                spec.to_string(),
            ),
            (
                format!("run/containers/storage/overlay-containers/{id}/userdata/pidfile"),
                pid.to_owned(),
            ),
        ] {
            let path = self.dir.join("podman").join(path);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, text))
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    /// Traces a command that finds these files in the place of podman's.
    fn trace_beside_podman(&self, words: &[&str]) -> Result<Vec<u64>> {
        const BESIDE: &str =
            r#"mount --bind podman/lib /var/lib && mount --bind podman/run /run && exec "$@""#;
        let mut command = program("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", BESIDE, "sh"]);
        command.arg(&self.step);
        self.trace(command, true, |command| {
            command.arg("--root").arg(self.root()).args(words)
        })
    }

    /// Traces a container's life from create to delete.
    fn life(&self) -> Result<Vec<Vec<u64>>> {
        // Not followed: a tracer of the container's process would have to stay with it.
        let mut traces = vec![self.oci(false, &["create", "--bundle", "bundle", "hot"])?];
        for words in [&["state", "hot"][..], &["start", "hot"]] {
            traces.push(self.oci(false, words)?);
        }
        traces.push(self.oci(true, &["exec", "hot", "/bin/true"])?);
        traces.push(self.oci(false, &["kill", "hot", "KILL"])?);
        let begin = Instant::now();
        while !read(&mut self.plain(&["state", "hot"]))?.contains("\"stopped\"") {
            if begin.elapsed() > PATIENCE {
                bail!("the container does not end");
            }
        }
        traces.push(self.oci(false, &["delete", "hot"])?);
        Ok(traces)
    }

    fn set_program(&self, args: &[&str]) -> Result<()> {
        let path = self.bundle().join("config.json");
        let failed = || format!("change {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(failed)?;
        let mut spec: Value = serde_json::from_str(&text).with_context(failed)?;
        spec["process"]["terminal"] = json!(false);
        spec["process"]["args"] = json!(args);
        // As in runc's default; a capability that the caller lacks only gives a warning.
        spec["process"]["capabilities"]["ambient"] = json!(["CAP_KILL"]);
        std::fs::write(&path, spec.to_string()).with_context(failed)
    }

    fn plain(&self, words: &[&str]) -> Command {
        let mut command = program(&self.tote);
        command
            .args(["oci", "--root", "state"])
            .args(words)
            .current_dir(&self.dir);
        command
    }

    fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    fn engine(&self, words: &[&str]) -> Command {
        let mut command = program(&self.tote);
        command.arg("--root").arg(self.root()).args(words);
        command
    }

    fn engine_trace(&self, follow: bool, words: &[&str]) -> Result<Vec<u64>> {
        self.trace(program(&self.step), follow, |command| {
            command.arg("--root").arg(self.root()).args(words)
        })
    }

    fn oci(&self, follow: bool, words: &[&str]) -> Result<Vec<u64>> {
        self.trace(program(&self.step), follow, |command| {
            command.args(["oci", "--root", "state"]).args(words)
        })
    }

    /// Returns the addresses that a command reached; with `follow` also in the processes that it makes. `command` runs the tracer.
    fn trace(
        &self,
        mut command: Command,
        follow: bool,
        words: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Vec<u64>> {
        let out = self
            .dir
            .join(format!("trace.{}", self.traces.replace(self.traces.get() + 1)));
        command.args(follow.then_some("-f")).arg(&out).arg(&self.tote);
        // The container's process keeps the standard streams, so they must not be pipes.
        let null = || Stdio::null();
        let command = words(&mut command)
            .current_dir(&self.dir)
            .stdin(null())
            .stdout(null())
            .stderr(null());
        let status = command.status().with_context(|| format!("{command:?}"))?;
        if !status.success() {
            bail!("{command:?}: {status}; this is for root on a machine that runs containers");
        }
        let text = std::fs::read_to_string(&out).with_context(|| format!("read {}", out.display()))?;
        text.lines()
            .map(|line| u64::from_str_radix(line, 16).with_context(|| format!("an address: {line}")))
            .collect()
    }
}
