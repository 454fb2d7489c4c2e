//! Bundles with roots of their own, and `tote oci` on them.

use crate::cgroup;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need;
use crate::output::Output;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Bundle whose program is not chosen yet.
#[derive(Debug)]
pub(crate) struct Bundle<'a> {
    cx: &'a Context,
    dir: PathBuf,
    state: PathBuf,
}

impl<'a> Bundle<'a> {
    /// Writes a new bundle on a copy of the shared root, as `spec` makes it for this user, without a terminal.
    pub(crate) fn new(cx: &'a Context, args: &[&str]) -> Result<Self> {
        let dir = PathBuf::from(cx.directory("bundle")?);
        cx.own_rootfs("bundle/rootfs")?;
        let bundle = Self {
            cx,
            state: cx.scratch().join("oci"),
            dir,
        };
        let rootless = if need::is_root() { &[][..] } else { &["--rootless"] };
        let path = bundle.dir.to_str().context("a path that is no text")?.to_owned();
        bundle
            .oci(&[&["spec", "--bundle", &path], rootless].concat())
            .output()?
            .exits(0)?;
        bundle.change(|spec| {
            spec["process"]["terminal"] = json!(false);
            spec["process"]["args"] = json!(args);
            if need::is_root() || cgroup::delegated("pids") {
                spec["linux"]["cgroupsPath"] = json!(bundle.group());
            }
        })?;
        Ok(bundle)
    }

    /// Returns the name of the container's cgroup, which is unique: other tests have containers of
    /// the same id at the same time.
    pub(crate) fn group(&self) -> String {
        let test = self
            .cx
            .scratch()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        format!("tote-e2e-{}-{test}", std::process::id())
    }

    /// Changes `config.json`.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) -> Result<()> {
        let path = self.config();
        let mut spec = serde_json::from_str(&fs::read_to_string(&path)?)?;
        change(&mut spec);
        fs::write(&path, spec.to_string()).context("write config.json")
    }

    /// Gives the container a user namespace, in which the 65536 ids from 0 map to those from `outside` on the host.
    pub(crate) fn maps_ids(&self, outside: u32) -> Result<()> {
        self.change(|spec| {
            let map = serde_json::json!([{"containerID": 0, "hostID": outside, "size": 65536}]);
            spec["linux"]["uidMappings"] = map.clone();
            spec["linux"]["gidMappings"] = map;
            if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
                list.push(serde_json::json!({"type": "user"}));
            }
        })
    }

    /// Has the next container of the bundle join the PID namespace of a process, and be in a cgroup of its own.
    pub(crate) fn joins_pids(&self, pid: i32) -> Result<()> {
        let group = format!("{}-b", self.group());
        self.change(|spec| {
            for namespace in spec["linux"]["namespaces"].as_array_mut().into_iter().flatten() {
                if namespace["type"] == "pid" {
                    namespace["path"] = json!(format!("/proc/{pid}/ns/pid"));
                }
            }
            spec["linux"]["cgroupsPath"] = json!(group);
        })
    }

    /// Deletes a container by force, and reaps its process as an engine does: the first process of its PID namespace, which may be
    /// another container's, does not end before.
    pub(crate) fn end(&self, id: &str) -> Result<()> {
        let pid = Pid::from_raw(self.pid(id)?).context("its process has ended")?;
        self.oci(&["delete", "-f", id]).output()?.exits(0)?;
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).context("reap the container")?;
        Ok(())
    }

    /// Returns the path of `config.json`.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("config.json")
    }

    /// Returns the path of the root.
    pub(crate) fn rootfs(&self) -> PathBuf {
        self.dir.join("rootfs")
    }

    /// Builds `tote oci --root STATE WORDS…`, to run in the bundle's directory.
    pub(crate) fn oci(&self, words: &[&str]) -> Invocation {
        self.oci_of(self.cx.binary(), words)
    }

    /// Builds the command with another copy of the binary.
    pub(crate) fn oci_of(&self, binary: &Path, words: &[&str]) -> Invocation {
        let start = [
            binary.as_os_str(),
            "oci".as_ref(),
            "--root".as_ref(),
            self.state.as_os_str(),
        ];
        Invocation::new(start.into_iter().chain(words.iter().map(AsRef::as_ref))).within(&self.dir)
    }

    /// Runs a command that leaves a container behind. The streams are files, because pipes would stay open until the
    /// container ends.
    pub(crate) fn detached(&self, words: &[&str]) -> Result<Output> {
        let script = r#"exec "$@" < /dev/null > out 2> err"#;
        let mut output = self.oci(words).under(&["sh", "-c", script, "sh"]).output()?;
        output.stderr = fs::read(self.dir.join("err"))?;
        Ok(output)
    }

    /// Reads the output of a container that [`Bundle::detached`] started.
    pub(crate) fn written(&self) -> Result<String> {
        fs::read_to_string(self.dir.join("out")).context("read the container's output")
    }

    /// Returns the output of `state`.
    pub(crate) fn state(&self, id: &str) -> Result<Value> {
        let output = self.oci(&["state", id]).output()?;
        output.exits(0)?;
        serde_json::from_slice(&output.stdout).context("state is no JSON")
    }

    /// Checks the status of a container.
    pub(crate) fn is(&self, id: &str, status: &str) -> Result<()> {
        let seen = self.state(id)?;
        ensure!(
            seen["status"] == status,
            "expected {id} to be {status}, saw {seen}"
        );
        Ok(())
    }

    /// Returns the first process of a container.
    pub(crate) fn pid(&self, id: &str) -> Result<i32> {
        let pid = self.state(id)?["pid"].as_i64().context("state has no pid")?;
        Ok(pid.try_into()?)
    }

    /// Checks that no container and no directory of one is left.
    pub(crate) fn nothing_left(&self) -> Result<()> {
        let left: Vec<_> = match fs::read_dir(&self.state) {
            Ok(entries) => entries.collect::<Result<_, _>>()?,
            Err(_) => return Ok(()),
        };
        ensure!(left.is_empty(), "left in the runtime's state: {left:?}");
        Ok(())
    }

    /// Checks that a command failed for that reason, in one line in the form of runc's log; warnings may precede it.
    pub(crate) fn refused(output: &Output, code: i32, naming: &[&str]) -> Result<()> {
        output.exits(code)?;
        let text = output.err();
        let mut lines = text.lines().rev();
        let shape = text.len() < 20_000
            && lines
                .next()
                .is_some_and(|line| line.contains("level=error msg=\""))
            && lines.all(|line| line.contains("level=warning msg=\""));
        ensure!(
            shape,
            "expected one line of a log on stderr, after warnings at most, saw {}",
            output.transcript()
        );
        naming.iter().try_for_each(|name| output.has_err(name).map(drop))
    }
}
