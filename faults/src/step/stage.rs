//! Stage of a scenario: a state root with durable state that must stay, and its traces on the host.

use super::enclosure::Enclosure;
use super::processes;
use super::scenario::Act;
use super::tracer::fresh;
use super::waiting::Waiting;
use crate::model::{self, Tree, View};
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a command without a fault.
const LIMIT: Duration = Duration::from_secs(30);

/// Time for which a leftover may still be about to go.
const SETTLING: Duration = Duration::from_secs(6);

/// Dockerfile with two stages that are built at once.
const TWO_STAGES: &str = "FROM tiny:1 AS one\nRUN echo built >/built\nFROM tiny:1 AS two\nCOPY mark /two\nFROM one\nCOPY --from=two /two /\n";

/// An environment of an image that was imported.
const TOTEFILE: &str = "packages = [\"dir:/bin\"]\n\n[files]\n\"/mark\" = \"mark\"\n";

/// Result of a command that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Exit code; `None` if the command hung and was killed.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// State before a scenario's first point, which must be the same after each.
#[derive(Debug)]
struct Baseline {
    tree: Tree,
    processes: BTreeSet<Pid>,
    cgroups: Vec<PathBuf>,
    links: Vec<String>,
    listed: String,
}

/// State root of a scenario. Drop ends its processes and removes it.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    tote: PathBuf,
    place: PathBuf,
    pub(crate) waiting: &'a Waiting,
    enclosure: &'a Enclosure,
    baseline: Option<Baseline>,
}

impl<'a> Stage<'a> {
    /// Makes a state root below `place`, an empty directory, with durable state: a running container and an ended
    /// one, each with a file of its own, a volume with a file in use, an image, a pod, and a network.
    ///
    /// # Errors
    /// Fails if one of these cannot be made.
    pub(crate) fn make(
        tote: &Path,
        place: &Path,
        waiting: &'a Waiting,
        enclosure: &'a Enclosure,
        bare: bool,
    ) -> Result<Self> {
        let mut stage = Self {
            tote: tote.to_owned(),
            place: place.to_owned(),
            waiting,
            enclosure,
            baseline: None,
        };
        fs::create_dir_all(place.join("dir")).with_context(|| format!("make {}", place.display()))?;
        stage.write_inputs()?;
        const KEPT: &str = "echo precious >/mark; echo precious >/db/row";
        let acts = [
            Act::Tote(&["import", "{dir}/tiny.tar", "tiny:1"]),
            Act::Tote(&["import", "{dir}/other.tar", "t:2"]),
            Act::Tote(&["save", "-o", "{dir}/saved.tar", "t:2"]),
            Act::Tote(&["rmi", "t:2"]),
            Act::Tote(&["image", "prune", "-af"]),
            Act::Tote(&["import", "{dir}/tiny.tar", "tiny:1"]),
            Act::Tote(&["run", "--rm", "host", "true"]),
            Act::Tote(&[
                "create", "--name", "keep", "-v", "db:/db", "tiny:1", "sleep", "100000",
            ]),
            Act::Tote(&["cp", "{dir}/mark", "keep:/mark"]),
            Act::Tote(&["start", "keep"]),
            Act::Tote(&["pod", "create", "--name", "group"]),
        ];
        for act in acts {
            stage.act(act)?;
        }
        // Other users have no networks in this release.
        let has_networks = nix::unistd::geteuid().is_root();
        if has_networks {
            // The directory of the places stays.
            stage.act(Act::Tote(&["mount", "keep"]))?;
            stage.act(Act::Tote(&["umount", "keep"]))?;
            stage.act(Act::Tote(&[
                "network",
                "create",
                "--subnet",
                "10.77.0.0/24",
                "lab",
            ]))?;
        }
        let ended = Act::Tote(&[
            "run",
            "--name",
            "kept",
            "-l",
            "is=precious",
            "-v",
            "db:/db",
            "tiny:1",
            "sh",
            "-c",
            KEPT,
        ]);
        stage.act(ended)?;
        if bare {
            stage.act(Act::Tote(&["pod", "rm", "group"]))?;
            if has_networks {
                stage.act(Act::Tote(&["network", "rm", "lab"]))?;
            }
            stage.act(Act::Tote(&["rm", "kept"]))?;
        }
        stage.settle()?;
        stage.baseline = Some(stage.look()?);
        Ok(stage)
    }

    /// Returns the path of the state root.
    pub(crate) fn root(&self) -> PathBuf {
        self.place.join("state")
    }

    /// Returns the directory of the traced command's output.
    pub(crate) fn scratch(&self) -> &Path {
        &self.place
    }

    /// Returns the path of a file in the scratch directory that commands see.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.join("dir").join(name)
    }

    /// Writes archives, a build context, and a file to copy.
    fn write_inputs(&self) -> Result<()> {
        let dir = self.file("");
        let busybox = ["/bin/busybox", "/usr/bin/busybox"]
            .iter()
            .map(Path::new)
            .find(|path| path.exists());
        let busybox = busybox.context("needs busybox-static")?;
        for (name, word) in [("tiny", "first"), ("other", "second")] {
            let tree = dir.join(name);
            for below in ["bin", "tmp", "etc"] {
                fs::create_dir_all(tree.join(below)).with_context(|| format!("make {}", tree.display()))?;
            }
            fs::copy(busybox, tree.join("bin/busybox")).context("copy busybox")?;
            for applet in ["sh", "true", "echo", "sleep", "cat"] {
                std::os::unix::fs::symlink("busybox", tree.join("bin").join(applet))
                    .context("make a link")?;
            }
            fs::write(tree.join("etc/word"), word).context("write a file of an image")?;
            let archive = dir.join(format!("{name}.tar"));
            let done = Command::new("tar")
                .arg("-C")
                .arg(&tree)
                .arg("-cf")
                .arg(&archive)
                .arg(".")
                .status();
            ensure!(done.context("run tar")?.success(), "tar failed");
        }
        fs::create_dir_all(dir.join("context")).context("make a context")?;
        fs::write(
            dir.join("context/Dockerfile"),
            "FROM tiny:1\nRUN echo built >/built\nCOPY mark /mark\n",
        )
        .and_then(|()| fs::write(dir.join("context/Two"), TWO_STAGES))
        .and_then(|()| fs::write(dir.join("context/mark"), "precious\n"))
        .and_then(|()| fs::write(dir.join("context/Totefile"), TOTEFILE))
        .and_then(|()| fs::write(dir.join("mark"), "precious\n"))
        .context("write a context")
    }

    /// Builds a command line: the global options, then `words` with `{dir}` replaced by the scratch directory.
    pub(crate) fn words(&self, words: &[&str]) -> Vec<String> {
        let dir = self.place.join("dir");
        let dir = dir.to_string_lossy();
        let mut all = vec!["--root".to_owned(), self.root().to_string_lossy().into_owned()];
        all.extend(words.iter().map(|word| word.replace("{dir}", &dir)));
        all
    }

    /// Runs a command of tote to its end.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub(crate) fn tote(&self, words: &[&str]) -> Result<Ended> {
        let pid = self.start(words, "own")?;
        let code = self.waiting.end(pid, LIMIT)?;
        let mut waits = String::new();
        if code.is_none() {
            waits = crate::waits::below(std::process::id());
            kill(pid, Signal::SIGKILL).ok();
        }
        let (out, err) = self.output("own")?;
        Ok(Ended {
            code,
            out,
            err: err + &waits,
        })
    }

    /// Starts a command of tote; `name` is the stem of its output files.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub(crate) fn start(&self, words: &[&str], name: &str) -> Result<Pid> {
        let [out, err] = self.output_of(name);
        let child = Command::new(&self.tote)
            .args(self.words(words))
            .envs(crate::NO_NETWORK)
            .stdin(Stdio::null())
            .stdout(fresh(&out)?)
            .stderr(fresh(&err)?)
            .spawn()
            .with_context(|| format!("start {}", self.tote.display()))?;
        Ok(Pid::from_raw(i32::try_from(child.id()).context("a process id")?))
    }

    /// Reads the standard output and the standard error of the command with this stem.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub(crate) fn output(&self, name: &str) -> Result<(String, String)> {
        let read = |path: &Path| {
            let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
            Ok::<_, anyhow::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let [out, err] = self.output_of(name);
        Ok((read(&out)?, read(&err)?))
    }

    fn output_of(&self, name: &str) -> [PathBuf; 2] {
        ["out", "err"].map(|end| self.place.join(format!("{name}.{end}")))
    }

    /// Carries out an action that prepares or ends a scenario.
    ///
    /// # Errors
    /// Fails if the action fails.
    pub(crate) fn act(&self, act: Act) -> Result<()> {
        match act {
            Act::Tote(words) => {
                let ended = self.tote(words)?;
                let words = words.join(" ");
                match ended.code {
                    Some(0) => Ok(()),
                    Some(code) => bail!("`{words}` fails with {code}: {}", ended.err.trim()),
                    None => bail!("`{words}` hangs: {}", ended.err.trim()),
                }
            }
            Act::KillMonitor(name) => {
                let asked = self.tote(&["inspect", "--format", "{{.Id}}", name])?;
                let path = self
                    .root()
                    .join("containers")
                    .join(asked.out.trim())
                    .join("state.json");
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let state: serde_json::Value =
                    serde_json::from_str(&text).context("understand state.json")?;
                let pid = state.pointer("/monitor/pid").and_then(serde_json::Value::as_i64);
                let pid = pid
                    .and_then(|pid| i32::try_from(pid).ok())
                    .context("no monitor in state.json")?;
                kill(Pid::from_raw(pid), Signal::SIGKILL).context("kill a monitor")?;
                self.settle()
            }
            Act::Remove(name) => match fs::remove_file(self.file(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).context("remove a file")
                }
                _ => Ok(()),
            },
        }
    }

    /// Waits until no process is about to end: the same processes are there at two looks, and none is a zombie.
    ///
    /// # Errors
    /// Fails if the processes cannot be listed.
    pub(crate) fn settle(&self) -> Result<()> {
        let start = Instant::now();
        let mut before = None;
        while start.elapsed() < SETTLING {
            self.waiting.reap()?;
            let now = processes::below_us()?;
            let calm = now.values().all(|state| matches!(state, 'S' | 'D')); // D: frozen
            let now: BTreeSet<Pid> = now.into_keys().collect();
            if calm && before.as_ref() == Some(&now) {
                return Ok(());
            }
            before = Some(now);
            self.waiting.poll(Duration::from_millis(3))?;
        }
        Ok(())
    }

    fn look(&self) -> Result<Baseline> {
        self.waiting.reap()?;
        Ok(Baseline {
            tree: Tree::read(&self.root())?,
            processes: processes::below_us()?.into_keys().collect(),
            cgroups: self.enclosure.containers(),
            links: processes::links()?,
            listed: self.tote(&["ps", "-a", "--format", "{{.Names}} {{.State}}"])?.out,
        })
    }

    /// Lists entries of the state root and cgroups that nothing explains at this moment.
    ///
    /// # Errors
    /// Fails if the state root cannot be read.
    pub(crate) fn strangers(&self) -> Result<Vec<String>> {
        self.patiently(|| {
            let locked = model::locked(&self.root())?;
            let tree = Tree::read(&self.root())?;
            let mut found = model::strangers(&View {
                tree: &tree,
                locked: &locked,
            });
            for group in self.enclosure.containers() {
                let name = group.file_name().unwrap_or_default().to_string_lossy();
                if !name.strip_prefix("tote-").is_some_and(|id| locked.contains(id)) {
                    found.push(format!("cgroup {}: no container that runs has it", name));
                }
            }
            Ok(found)
        })
    }

    /// Lists the differences from the moment before the first point.
    ///
    /// # Errors
    /// Fails if the state cannot be examined.
    pub(crate) fn changes(&self) -> Result<Vec<String>> {
        let Some(before) = &self.baseline else {
            bail!("there is no earlier moment");
        };
        self.patiently(|| {
            let now = self.look()?;
            let mut found = model::difference(&before.tree, &now.tree);
            for pid in now.processes.difference(&before.processes) {
                found.push(format!("process left: {}", processes::name(*pid)));
            }
            for pid in before.processes.difference(&now.processes) {
                found.push(format!("process {pid} of a container that must go on is gone"));
            }
            for group in now.cgroups.iter().filter(|group| !before.cgroups.contains(group)) {
                found.push(format!("cgroup left: {}", group.display()));
            }
            if now.links != before.links {
                found.push(format!(
                    "links and settings: {:?}, not {:?}",
                    now.links, before.links
                ));
            }
            if now.listed != before.listed {
                found.push(format!("`ps -a` says {:?}, not {:?}", now.listed, before.listed));
            }
            found.extend(processes::mounts_and_loops(&self.place)?);
            Ok(found)
        })
    }

    /// Repeats a check for a while as long as it has findings, because leftovers may be about to go.
    fn patiently(&self, look: impl Fn() -> Result<Vec<String>>) -> Result<Vec<String>> {
        let start = Instant::now();
        loop {
            let found = look()?;
            if found.is_empty() || start.elapsed() > SETTLING {
                return Ok(found);
            }
            self.waiting.reap()?;
            self.waiting.poll(Duration::from_millis(20))?;
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            let Ok(left) = processes::below_us() else { break };
            if left.is_empty() {
                break;
            }
            for pid in left.keys() {
                kill(*pid, Signal::SIGKILL).ok();
            }
            drop(self.waiting.poll(Duration::from_millis(5)));
            drop(self.waiting.reap());
        }
        self.enclosure.clear();
        drop(fs::remove_dir_all(&self.place));
    }
}
