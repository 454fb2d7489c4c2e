//! Environment of a test: the binary, a state root and a scratch directory of its own, and images made for it.

use crate::fixture;
use crate::invocation::Invocation;
use crate::output::Output;
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the variable with the directory of the runner's fixtures.
pub(crate) const RUN_DIRECTORY: &str = "TOTE_E2E_RUN_DIRECTORY";

/// Variable in the environment of every tote process, which no container may see.
pub(crate) const SECRET: (&str, &str) = ("TOTE_E2E_SECRET", "a-secret-of-the-host");

/// Environment of one test.
#[derive(Debug)]
pub(crate) struct Context {
    tote: PathBuf,
    fixtures: PathBuf,
    scratch: PathBuf,
    root: PathBuf,
    /// Process whose mounts and network tote sees; `None` for those of this process.
    mounts: Option<i32>,
}

impl Context {
    /// Makes the directories of the test with this name.
    pub(crate) fn of(tote: &Path, name: &str) -> Result<Self> {
        let run = PathBuf::from(std::env::var_os(RUN_DIRECTORY).context("tests are started by the runner")?);
        let scratch = run.join(name.replace("::", "-"));
        let root = scratch.join("state");
        fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
        Ok(Self {
            tote: tote.to_owned(),
            fixtures: run,
            scratch,
            root,
            mounts: None,
        })
    }

    /// Copies the environment, with the state root in this directory of the mounts of another process, and with its
    /// network.
    pub(crate) fn in_mounts_of(&self, pid: i32, root: &str) -> Self {
        Self {
            tote: self.tote.clone(),
            fixtures: self.fixtures.clone(),
            scratch: self.scratch.clone(),
            root: PathBuf::from(root),
            mounts: Some(pid),
        }
    }

    /// Copies the environment, with another state root.
    pub(crate) fn at(&self, root: PathBuf) -> Self {
        Self {
            tote: self.tote.clone(),
            fixtures: self.fixtures.clone(),
            scratch: self.scratch.clone(),
            root,
            mounts: self.mounts,
        }
    }

    /// Returns the directory of the run, which its tests share.
    pub(crate) fn run_directory(&self) -> &Path {
        &self.fixtures
    }

    /// Returns the binary under test.
    pub(crate) fn binary(&self) -> &Path {
        &self.tote
    }

    /// Returns a directory for this test alone.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Returns the state root, by a path that this process can use.
    pub(crate) fn root(&self) -> PathBuf {
        match self.mounts {
            None => self.root.clone(),
            Some(pid) => PathBuf::from(format!("/proc/{pid}/root{}", self.root.display())),
        }
    }

    /// Names the image that most tests run: busybox and a few files in `/etc`. Tests must not change it.
    pub(crate) fn image(&self) -> String {
        format!("rootfs:{}", self.shared_rootfs().display())
    }

    /// Returns the directory behind [`Context::image`].
    pub(crate) fn shared_rootfs(&self) -> PathBuf {
        self.fixtures.join(fixture::ROOTFS)
    }

    /// Copies the image, so that this test can change it. Returns the copy's directory and name.
    pub(crate) fn own_rootfs(&self, name: &str) -> Result<(PathBuf, String)> {
        let copy = self.scratch.join(name);
        fixture::copy(&self.shared_rootfs(), &copy)?;
        let image = format!("rootfs:{}", copy.display());
        Ok((copy, image))
    }

    /// Makes a directory in the scratch directory, and returns its path as text.
    pub(crate) fn directory(&self, name: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        self.path(name)
    }

    /// Makes a file in the scratch directory, and returns its path as text.
    pub(crate) fn file(&self, name: &str, content: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        self.path(name)
    }

    /// Returns a path in the scratch directory, as text.
    pub(crate) fn path(&self, name: &str) -> Result<String> {
        let path = self.scratch.join(name);
        Ok(path
            .to_str()
            .with_context(|| format!("{} is not text", path.display()))?
            .to_owned())
    }

    /// Builds `tote --root ROOT WORDS…`.
    pub(crate) fn tote(&self, words: &[&str]) -> Invocation {
        self.other_tote(&self.tote, words)
    }

    /// Builds `tote --root ROOT WORDS…` with another copy of the binary.
    pub(crate) fn other_tote(&self, binary: &Path, words: &[&str]) -> Invocation {
        let start = [binary.as_os_str(), "--root".as_ref(), self.root.as_os_str()];
        let tote = Invocation::new(start.into_iter().chain(words.iter().map(AsRef::as_ref)))
            .env(SECRET.0, SECRET.1)
            .env("HOME", &self.scratch);
        self.among_mounts(tote)
    }

    /// Runs a command among the mounts and in the network that tote sees.
    pub(crate) fn among_mounts(&self, command: Invocation) -> Invocation {
        match self.mounts {
            None => command,
            Some(pid) => {
                let of = |kind: &str, file: &str| format!("--{kind}=/proc/{pid}/ns/{file}");
                command.under(&["nsenter", &of("mount", "mnt"), &of("net", "net"), "--"])
            }
        }
    }

    /// Builds `tote --root ROOT run --rm WORDS…`, without starting it.
    pub(crate) fn run_command(&self, words: &[&str]) -> Invocation {
        self.tote(&[&["run", "--rm"], words].concat())
    }

    /// Runs `tote --root ROOT run --rm WORDS…` to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Output> {
        self.run_command(words).output()
    }

    /// Runs `run --rm OPTIONS IMAGE sh -c SCRIPT` to its end.
    pub(crate) fn shell(&self, options: &[&str], script: &str) -> Result<Output> {
        self.run(&[options, &[&self.image(), "sh", "-c", script]].concat())
    }

    /// Lists the ids in the state root: running containers (`live`) and kept ones (`containers`).
    pub(crate) fn containers(&self) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        for dir in ["live", "containers"].map(|name| self.root().join(name)) {
            if dir.exists() {
                for entry in fs::read_dir(&dir).with_context(|| format!("list {}", dir.display()))? {
                    let name = entry?.file_name().to_string_lossy().into_owned();
                    // The socket notifies commands that wait for the end of a container in the foreground.
                    ids.insert(name.strip_suffix(".socket").unwrap_or(&name).to_owned());
                }
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Checks that no container is left in the state root, and that the shared image is unchanged.
    pub(crate) fn nothing_left(&self) -> Result<()> {
        let left = self.containers()?;
        ensure!(left.is_empty(), "left in the state root: {}", left.join(", "));
        let before = fs::read_to_string(self.fixtures.join(fixture::LISTING))?;
        tree::unchanged(&self.shared_rootfs(), &before).context("the shared image")
    }
}

/// Adds to the test's transcript, which the runner shows when the test fails.
pub(crate) fn note(text: &str) {
    println!("{}", text.trim_end());
}
