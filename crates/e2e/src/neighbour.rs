//! Access of another user of the machine to state roots.

use crate::invocation::Invocation;
use crate::need;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Id that owns nothing and is in no range of ids.
pub(crate) const NEIGHBOUR: u32 = 65534;

/// Depth of the search for state roots below a run's directory: `TEST/state`, and one that a test has put deeper.
const DEPTH: usize = 3;

/// Options of setpriv(1) for [`NEIGHBOUR`].
const IDENTITY: [&str; 4] = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// Builds a command that root runs as the other user.
pub(crate) fn neighbour(words: &[&str]) -> Invocation {
    Invocation::new(words).under(&[&["setpriv"], &IDENTITY[..]].concat())
}

/// Lists those of these paths that another user may open, search or merely see.
pub(crate) fn reached(paths: &[PathBuf]) -> Result<Vec<String>> {
    let script = r#"while IFS= read -r path; do
        if [ -e "$path" ] || [ -r "$path" ] || [ -x "$path" ]; then echo "$path"; fi
    done"#;
    // The list is a file, because a pipe might fill up while the other one is not read.
    let mut list = tempfile::tempfile()?;
    for path in paths {
        ensure!(path.symlink_metadata().is_ok(), "{} is not there", path.display());
        writeln!(list, "{}", path.to_str().context("a path that is not text")?)?;
    }
    list.rewind()?;
    let found = Command::new("setpriv")
        .args(IDENTITY)
        .args(["sh", "-c", script])
        .stdin(list)
        .output()
        .context("run setpriv")?;
    let errors = String::from_utf8_lossy(&found.stderr);
    ensure!(
        found.status.success() && errors.is_empty(),
        "setpriv: {}: {errors}",
        found.status
    );
    let found = String::from_utf8(found.stdout).context("a path that is not text")?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// Lists the entries of these state roots that are open to other users. A user who reaches an entry deep below
/// a state root also reaches one directly in it, so only these are checked.
pub(crate) fn open_state_roots(roots: &[PathBuf]) -> Result<Vec<String>> {
    if !need::is_root() {
        let is_open = |root: &&PathBuf| {
            root.metadata()
                .is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
        };
        return Ok(roots
            .iter()
            .filter(is_open)
            .map(|root| root.display().to_string())
            .collect());
    }
    let mut paths = Vec::new();
    for root in roots {
        let entries = fs::read_dir(root).with_context(|| format!("list {}", root.display()))?;
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    reached(&paths)
}

/// Finds the state roots of a run.
pub(crate) fn state_roots(run: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    find(run, DEPTH, &mut roots);
    roots
}

fn find(dir: &Path, depth: usize, roots: &mut Vec<PathBuf>) {
    if ["live", "names", "containers"]
        .iter()
        .all(|name| dir.join(name).is_dir())
    {
        roots.push(dir.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&entry.path(), depth - 1, roots);
        }
    }
}
