//! The temporary directory that a run works in: compiled programs, trees, bundles, state directories.
//!
//! ```text
//! /tmp/tote-bench-TAG/
//!   program/NAME      compiled C, and the source of `peak`
//!   tree/NAME/        small root file systems
//!   bundle/NAME/      config.json and rootfs/
//!   state/NAME/       what runtimes keep; empty again at the end, or something leaked. A tmpfs, as `/run` is, where
//!                     the mount namespace is the run's own
//!   run-user/         XDG_RUNTIME_DIR of the unprivileged user where the host has none
//!   home/             HOME of that user where the account's own does not exist, as a system user's
//! ```

use crate::account::Account;
use crate::apparatus::succeed;
use crate::mountinfo;
use crate::scenario::{Bundle, Scenario, Tree};
use crate::step::{expand, words};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Search path for programs, and the PATH of every candidate.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const PEAK_SOURCE: &str = include_str!("../floor/peak.c");

/// The prepared directory.
#[derive(Debug)]
pub struct Stage {
    scratch: PathBuf,
    /// Values of the places in argv templates.
    pub places: BTreeMap<String, String>,
    /// Places of trees and bundles that could not be made, with the reason.
    pub missing: BTreeMap<String, String>,
    /// Word in the names of all objects made for this run.
    pub tag: String,
    /// Program that reports another program's peak memory.
    pub peak: PathBuf,
    /// XDG_RUNTIME_DIR of the unprivileged user.
    pub runtime_dir: PathBuf,
    /// HOME of the unprivileged user.
    pub home: PathBuf,
    /// Mount point of a tmpfs for the state of runtimes.
    states: Option<PathBuf>,
    /// Lock on the directory, held as long as the run lives.
    _lock: File,
}

impl Stage {
    /// Prepares the needs of `scenario`, whose file is in `directory`. Bundles whose runtime is missing are left
    /// out. `private` is true if the mount namespace is this program's own.
    pub fn set_up(
        scenario: &Scenario,
        directory: &Path,
        tag: &str,
        user: &Account,
        private: bool,
    ) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("tote-{tag}"));
        DirBuilder::new()
            .mode(0o755)
            .create(&scratch)
            .with_context(|| format!("make {}", scratch.display()))?;
        let lock = File::open(&scratch).with_context(|| format!("open {}", scratch.display()))?;
        tote_sys::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("lock {}", scratch.display()))?;
        let mut stage = Stage {
            peak: scratch.join("program/peak"),
            runtime_dir: PathBuf::from(format!("/run/user/{}", user.uid)),
            home: user.home.clone(),
            places: BTreeMap::new(),
            missing: BTreeMap::new(),
            tag: tag.to_owned(),
            scratch,
            states: None,
            _lock: lock,
        };
        for (name, value) in [("uid", user.uid), ("gid", user.gid)] {
            stage.places.insert(format!("user:{name}"), value.to_string());
        }
        stage.fill(scenario, directory, user, private)?;
        let own = [("home", stage.home.clone()), ("run", stage.runtime_dir.clone())];
        for (name, path) in own {
            stage.place("user", name, &path);
        }
        Ok(stage)
    }

    fn fill(&mut self, scenario: &Scenario, directory: &Path, user: &Account, private: bool) -> Result<()> {
        let programs = self.make_directory("program")?;
        let source = programs.join("peak.c");
        fs::write(&source, PEAK_SOURCE).with_context(|| format!("write {}", source.display()))?;
        compile(&source, &["-O2".to_owned(), "-static".to_owned()], &self.peak)?;
        for (name, program) in &scenario.programs {
            let output = programs.join(name);
            compile(&directory.join(&program.source), &program.flags, &output)?;
            self.place("program", name, &output);
        }
        let trees = self.make_directory("tree")?;
        let disk = scenario
            .tree_disk
            .as_ref()
            .filter(|_| private && !scenario.trees.is_empty());
        let disk = disk.and_then(|disk| disk.make(&trees, "trees").ok());
        let trees = disk.unwrap_or(trees);
        for (name, tree) in &scenario.trees {
            crate::interruption::check()?;
            let root = trees.join(name);
            fs::create_dir(&root).with_context(|| format!("make {}", root.display()))?;
            match make_tree(tree, &root, &self.places) {
                Ok(()) => self.place("tree", name, &root),
                Err(error) => drop(self.missing.insert(format!("tree:{name}"), format!("{error:#}"))),
            }
        }
        for (name, bundle) in &scenario.bundles {
            self.fill_bundle(scenario, name, bundle)?;
        }
        if private && !scenario.states.is_empty() {
            let states = self.make_directory("state")?;
            mount(
                "tmpfs",
                &states,
                "tmpfs",
                MountFlags::NOSUID | MountFlags::NODEV,
                None,
            )
            .with_context(|| format!("mount a tmpfs on {}", states.display()))?;
            self.states = Some(states);
        }
        for name in &scenario.states {
            let root = self.make_directory(&format!("state/{name}"))?;
            self.place("state", name, &root);
        }
        if !self.runtime_dir.is_dir() {
            self.runtime_dir = self.make_directory_of(user, "run-user")?;
        }
        if !self.home.is_dir() {
            self.home = self.make_directory_of(user, "home")?;
        }
        Ok(())
    }

    /// Makes a bundle, or notes why it cannot be made.
    fn fill_bundle(&mut self, scenario: &Scenario, name: &str, bundle: &Bundle) -> Result<()> {
        let patch = bundle.patch.to_string();
        let lacks = |(place, _): &(&String, &String)| {
            **place == format!("tree:{}", bundle.tree) || patch.contains(&format!("{{{place}}}"))
        };
        let reason = match find_program(&bundle.spec[0]) {
            None => Some(format!("needs {}", bundle.spec[0])),
            Some(_) => (self.missing.iter().find(lacks)).map(|(_, reason)| reason.clone()),
        };
        if let Some(reason) = reason {
            self.missing.insert(format!("bundle:{name}"), reason);
            return Ok(());
        }
        let root = self.make_directory(&format!("bundle/{name}"))?;
        make_bundle(bundle, &scenario.trees[&bundle.tree], &root, &self.places)
            .with_context(|| format!("make the bundle {name}"))?;
        self.place("bundle", name, &root);
        Ok(())
    }

    /// Makes a directory in the scratch directory that only `user` may enter.
    fn make_directory_of(&mut self, user: &Account, name: &str) -> Result<PathBuf> {
        let made = self.make_directory(name)?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o700))
            .and_then(|()| chown(&made, Some(user.uid), Some(user.gid)))
            .with_context(|| format!("give {} to its user", made.display()))?;
        Ok(made)
    }

    /// Lists the state that candidates left, and unmounts it if it is in memory, and the trees if they have a file system of their own.
    pub fn take_states(&mut self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for (_, path) in self
            .places
            .iter()
            .filter(|(place, _)| place.starts_with("state:"))
        {
            for entry in fs::read_dir(path).with_context(|| format!("read {path}"))? {
                left.push(format!(
                    "state {}",
                    entry.with_context(|| format!("read {path}"))?.path().display()
                ));
            }
        }
        crate::apparatus::unmount_below(&self.scratch.join("tree"))?;
        if let Some(states) = self.states.take() {
            unmount(&states, UnmountFlags::NOFOLLOW)
                .with_context(|| format!("unmount {}", states.display()))?;
        }
        Ok(left)
    }

    /// Removes everything. Refuses if there is a mount below, because the removal would go through it.
    pub fn remove(&self) -> Result<()> {
        remove_unmounted(&self.scratch)
    }

    /// Adds the place `{KIND:NAME}`.
    pub fn place(&mut self, kind: &str, name: &str, path: &Path) {
        self.places
            .insert(format!("{kind}:{name}"), path.to_string_lossy().into_owned());
    }

    /// Makes a directory below the run's own.
    pub fn make_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.join(name);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }
}

fn remove_unmounted(scratch: &Path) -> Result<()> {
    if let Some(mount) = mountinfo::read()?
        .iter()
        .find(|mount| mount.target.starts_with(scratch))
    {
        bail!(
            "keep {}: {} is mounted",
            scratch.display(),
            mount.target.display()
        );
    }
    fs::remove_dir_all(scratch).with_context(|| format!("remove {}", scratch.display()))
}

/// Removes the directories of runs that were killed, and their control groups, which have their names. Returns the paths.
/// Directories of runs that live stay: they are locked. Call it outside of private namespaces, where all processes can be
/// seen.
pub fn sweep() -> Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    let place = std::env::temp_dir();
    for entry in fs::read_dir(&place).with_context(|| format!("read {}", place.display()))? {
        let path = entry.with_context(|| format!("read {}", place.display()))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(tag) = name.strip_prefix("tote-").filter(|tag| tag.starts_with("bench-")) else {
            continue;
        };
        if lives(tag) {
            continue;
        }
        // The directory that holds the runs is everybody's, so a name in it may be a link that a stranger planted.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = open(&path, flags, Mode::empty()).map(File::from) else {
            continue;
        };
        let meta = directory
            .metadata()
            .with_context(|| format!("look at {}", path.display()))?;
        let own = rustix::process::geteuid().as_raw();
        if !meta.is_dir()
            || meta.uid() != own
            || tote_sys::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            continue;
        }
        for cgroup in crate::leaks::cgroups_named(tag) {
            // A group whose processes live is not the sweep's to end.
            if fs::remove_dir(&cgroup).is_ok() {
                removed.push(cgroup);
            }
        }
        remove_unmounted(&path)?;
        removed.push(path);
    }
    Ok(removed)
}

/// True if the process whose number is in a run's tag exists. Runs in a pid namespace of their own all have number 1.
fn lives(tag: &str) -> bool {
    let number = tag
        .split('-')
        .nth(1)
        .and_then(|number| u32::from_str_radix(number, 16).ok());
    number.is_some_and(|number| number != 1 && Path::new(&format!("/proc/{number}")).exists())
}

/// Cleans up after an error; failures cannot be reported any more.
impl Drop for Stage {
    fn drop(&mut self) {
        if self.scratch.exists() {
            drop(self.take_states().and_then(|_| self.remove()));
        }
    }
}

/// Finds the program `name`: a path if it has a slash, else the first match in [`PATH`].
pub fn find_program(name: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(executable);
    }
    PATH.split(':')
        .map(|directory| Path::new(directory).join(name))
        .find(executable)
}

fn compile(source: &Path, flags: &[String], output: &Path) -> Result<()> {
    let compiled = Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(source)
        .output()
        .context("run cc")?;
    ensure!(
        compiled.status.success(),
        "compile {}: {}",
        source.display(),
        String::from_utf8_lossy(&compiled.stderr).trim()
    );
    Ok(())
}

fn make_tree(tree: &Tree, root: &Path, places: &BTreeMap<String, String>) -> Result<()> {
    for directory in &tree.directories {
        let path = root.join(directory);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
    }
    for (path, name) in &tree.programs {
        let program = find_program(&expand(name, places)?).with_context(|| format!("needs {name}"))?;
        let path = root.join(path);
        fs::copy(&program, &path)
            .with_context(|| format!("copy {} to {}", program.display(), path.display()))?;
    }
    for (link, target) in &tree.links {
        let path = root.join(link);
        symlink(target, &path).with_context(|| format!("link {}", path.display()))?;
    }
    let mut places = places.clone();
    places.insert("root".to_owned(), root.to_string_lossy().into_owned());
    for argv in &tree.make {
        let argv = words(argv, &places)?;
        let (program, arguments) = argv.split_first().context("a tree has an empty command")?;
        succeed(Command::new(program).args(arguments)).with_context(|| format!("make {}", root.display()))?;
    }
    Ok(())
}

fn make_bundle(bundle: &Bundle, tree: &Tree, root: &Path, places: &BTreeMap<String, String>) -> Result<()> {
    let rootfs = root.join("rootfs");
    fs::create_dir(&rootfs).with_context(|| format!("make {}", rootfs.display()))?;
    make_tree(tree, &rootfs, places)?;
    let made = Command::new(&bundle.spec[0])
        .args(&bundle.spec[1..])
        .current_dir(root)
        .output()
        .with_context(|| format!("run {}", bundle.spec[0]))?;
    ensure!(
        made.status.success(),
        "{:?}: {}",
        bundle.spec,
        String::from_utf8_lossy(&made.stderr).trim()
    );
    let path = root.join("config.json");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let mut config: Value =
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    adapt(&mut config, bundle)?;
    let mut text = config.to_string();
    for (place, value) in places {
        text = text.replace(&format!("{{{place}}}"), value);
    }
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

/// Adapts the runtime's default specification: the program, the terminal and the binds; the rest is left unchanged.
fn adapt(config: &mut Value, bundle: &Bundle) -> Result<()> {
    let process = config
        .get_mut("process")
        .and_then(Value::as_object_mut)
        .context("find process in config.json")?;
    process.insert("terminal".to_owned(), json!(false));
    process.insert("args".to_owned(), json!(bundle.args));
    let mounts = config
        .get_mut("mounts")
        .and_then(Value::as_array_mut)
        .context("find mounts in config.json")?;
    for path in &bundle.binds {
        mounts.push(json!({"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]}));
    }
    merge(config, &bundle.patch);
    Ok(())
}

/// Applies a JSON merge patch (RFC 7396), except that a patch of `null` as a whole changes nothing.
fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Null => {}
        Value::Object(members) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (name, value) in members {
                match target.as_object_mut() {
                    Some(object) if value.is_null() => drop(object.remove(name)),
                    _ => merge(&mut target[name], value),
                }
            }
        }
        other => other.clone_into(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_keep_the_default_specification() {
        let bundle = Bundle {
            spec: vec!["crun".into(), "spec".into()],
            tree: "usr".into(),
            args: vec!["/bin/true".into()],
            binds: vec!["/usr".into()],
            patch: json!({"linux": {"resources": {"memory": {"limit": 5}}, "seccomp": null}, "process": {"cwd": "/x"}}),
        };
        let mut config = json!({
            "process": {"terminal": true, "args": ["sh"], "cwd": "/"},
            "mounts": [{"destination": "/proc"}],
            "linux": {"maskedPaths": ["/proc/kcore"], "seccomp": {}},
        });
        adapt(&mut config, &bundle).unwrap();
        assert_eq!(
            config["process"],
            json!({"terminal": false, "args": ["/bin/true"], "cwd": "/x"})
        );
        assert_eq!(config["mounts"][0], json!({"destination": "/proc"}));
        assert_eq!(config["mounts"][1]["options"], json!(["rbind", "ro"]));
        assert_eq!(
            config["linux"],
            json!({"maskedPaths": ["/proc/kcore"], "resources": {"memory": {"limit": 5}}})
        );
        assert!(adapt(&mut json!({}), &bundle).is_err());
    }

    #[test]
    fn programs_are_found_in_the_candidates_path() {
        assert!(find_program("sh").unwrap().is_absolute());
        assert_eq!(find_program("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("no-such-program-here"), None);
        assert_eq!(find_program("/etc/passwd"), None, "not executable");
    }
}
