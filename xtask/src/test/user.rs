//! An unprivileged user, and a directory in which it can run the built binaries.

use crate::program::{program, succeed};
use anyhow::{Context, Result, bail};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the user and of its group.
pub(super) const NAME: &str = "tote-test";

/// Number of ids that a rootless container can map, as distributions give them to every user.
const RANGE: u32 = 65_536;

/// First id of a range; other users may have ids below.
const FIRST: u32 = 200_000;

/// Variables of the environment that are passed to the runner.
const PASSED: &[&str] = &["TOTE_TEST_REQUIRE", "TOTE_TEST_SLOW"];

/// A directory that every user can read, with the binaries, and a home and a runtime directory for the user.
///
/// The build directory cannot be used, because only its owner may be able to read it. The directory is removed when
/// this value is dropped.
#[derive(Debug)]
pub(super) struct Stage {
    root: PathBuf,
}

impl Stage {
    /// Creates the user if it is missing, and the directory.
    pub(super) fn prepare(binaries: &[&Path]) -> Result<Self> {
        let (uid, gid) = user()?;
        for file in ["/etc/subuid", "/etc/subgid"] {
            give_range(Path::new(file))?;
        }
        let root = std::env::temp_dir().join(format!("{NAME}-{}", std::process::id()));
        make(&root, 0o755)?;
        let stage = Self { root };
        make(&stage.root.join("bin"), 0o755)?;
        for own in ["home", "run"] {
            let path = stage.root.join(own);
            make(&path, 0o700)?;
            lchown(&path, Some(uid), Some(gid)).with_context(|| format!("chown {}", path.display()))?;
        }
        for binary in binaries {
            let name = binary.file_name().context("a binary without a name")?;
            let copy = stage.root.join("bin").join(name);
            std::fs::copy(binary, &copy).with_context(|| format!("copy {}", binary.display()))?;
            set_mode(&copy, 0o755)?;
        }
        Ok(stage)
    }

    /// Copies a directory beside the binaries.
    pub(super) fn add(&self, directory: &Path) -> Result<()> {
        succeed(program("cp").arg("-r").arg(directory).arg(self.root.join("bin")))
    }

    /// Returns the path of a copied binary.
    pub(super) fn binary(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// Builds the command that runs a binary as the user, in the user's home, with only [`PASSED`] of this
    /// environment.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = program("setpriv");
        command
            .arg(format!("--reuid={NAME}"))
            .arg(format!("--regid={NAME}"))
            .args(["--init-groups", "--reset-env", "env"])
            .arg(format!("HOME={}", self.root.join("home").display()))
            .arg(format!("XDG_RUNTIME_DIR={}", self.root.join("run").display()))
            .args(PASSED.iter().filter_map(|name| {
                let value = std::env::var(name).ok()?;
                Some(format!("{name}={value}"))
            }))
            .arg(self.binary(name))
            .current_dir(self.root.join("home"));
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A mount that a test left behind must not be emptied along with the directory.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let result = match mount_below(&mounts, &self.root.to_string_lossy()) {
            Some(mount) => Err(format!("{mount} is mounted")),
            None => std::fs::remove_dir_all(&self.root).map_err(|error| error.to_string()),
        };
        if let Err(error) = result {
            eprintln!("xtask: {} stays: {error}", self.root.display());
        }
    }
}

/// Creates a directory that must not exist.
fn make(path: &Path, mode: u32) -> Result<()> {
    let created = DirBuilder::new().mode(0o700).create(path);
    created.with_context(|| format!("create {}", path.display()))?;
    set_mode(path, mode)
}

/// Sets the mode whatever the umask; through a descriptor, as everywhere.
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    File::open(path)
        .and_then(|file| file.set_permissions(Permissions::from_mode(mode)))
        .with_context(|| format!("chmod {}", path.display()))
}

/// Returns the user's ids; creates a system user if it is missing.
fn user() -> Result<(u32, u32)> {
    let ids = || -> Result<_> {
        let passwd = std::fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
        Ok(ids(&passwd, NAME))
    };
    if let Some(ids) = ids()? {
        return Ok(ids);
    }
    println!("creating the user {NAME}");
    let mut useradd = program("useradd");
    useradd.args([
        "--system",
        "--user-group",
        "--no-create-home",
        "--shell",
        "/bin/sh",
    ]);
    succeed(useradd.arg(NAME))?;
    ids()?.with_context(|| format!("/etc/passwd has no {NAME} after useradd"))
}

/// Finds the user and group id of a name in passwd(5).
fn ids(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let mut numbers = fields.skip(1);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

/// Adds a range to subuid(5) or subgid(5) if `useradd` gave none, as for system users.
fn give_range(path: &Path) -> Result<()> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("read {}", path.display()))?,
    };
    if has_range(&text) {
        return Ok(());
    }
    let Some(start) = free_range(&text) else {
        bail!("{}: no {RANGE} ids are free", path.display());
    };
    let newline = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let line = format!("{newline}{NAME}:{start}:{RANGE}\n");
    append(path, &line).with_context(|| format!("append to {}", path.display()))
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn has_range(text: &str) -> bool {
    text.lines().any(|line| line.split(':').next() == Some(NAME))
}

/// Finds the first id above all assigned ranges, and not below [`FIRST`].
fn free_range(text: &str) -> Option<u32> {
    let end = |line: &str| -> Option<u32> {
        let mut fields = line.split(':').skip(1);
        let start: u32 = fields.next()?.parse().ok()?;
        start.checked_add(fields.next()?.trim().parse().ok()?)
    };
    let start = text.lines().filter_map(end).fold(FIRST, u32::max);
    start.checked_add(RANGE).map(|_| start)
}

/// Finds the first mount point at or below a directory, from proc_pid_mountinfo(5).
fn mount_below<'a>(mountinfo: &'a str, directory: &str) -> Option<&'a str> {
    mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|point| {
            point
                .strip_prefix(directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd() {
        let text = "root:x:0:0:root:/root:/bin/sh\ntote-test:x:998:997::/nonexistent:/bin/sh\nbad:x\n";
        assert_eq!(ids(text, NAME), Some((998, 997)));
        assert_eq!(ids(text, "bad"), None);
        assert_eq!(ids(text, "nobody"), None);
    }

    #[test]
    fn ranges_do_not_overlap() {
        for (text, start) in [
            ("", Some(200_000)),
            ("a:100000:65536\n", Some(200_000)),
            ("a:100000:65536\nb:250000:65536\n", Some(315_536)),
            ("a:4294967000:65536\nbroken\n", Some(200_000)),
            ("a:4294900000:67295", None),
        ] {
            assert_eq!(free_range(text), start, "{text}");
        }
        assert!(has_range("a:1:2\ntote-test:3:4\n"));
        assert!(!has_range("tote-tester:3:4\n"));
    }

    #[test]
    fn mounts_below_a_directory() {
        let text = "1 0 8:1 / / rw - ext4 x rw\n2 1 0:5 / /tmp/a/b rw - tmpfs x rw\n3 1 0:5 / /tmp/ab rw - tmpfs x rw\n";
        assert_eq!(mount_below(text, "/tmp/a"), Some("/tmp/a/b"));
        assert_eq!(mount_below(text, "/tmp/a/b"), Some("/tmp/a/b"));
        assert_eq!(mount_below(text, "/tmp/c"), None);
    }
}
