//! Directory tree as text, to prove that nothing in it changed.

use anyhow::{Context as _, Result, bail};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Lists the files below `dir`, one line each: path, type and mode, owner, size, modification time, and a digest of
/// the content.
pub(crate) fn listing(dir: &Path) -> Result<String> {
    let mut lines = Vec::new();
    collect(dir, dir, &mut lines)?;
    lines.sort();
    Ok(lines.join("\n"))
}

/// Fails, with the first lines that differ, unless `dir` is as it was when `before` was taken.
pub(crate) fn unchanged(dir: &Path, before: &str) -> Result<()> {
    let after = listing(dir)?;
    if after == before {
        return Ok(());
    }
    let only_in = |text: &str, other: &str, sign: &str| {
        let other: Vec<_> = other.lines().collect();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !other.contains(line))
            .take(5)
            .collect();
        lines
            .iter()
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    bail!(
        "{} changed:\n{}{}",
        dir.display(),
        only_in(before, &after, "-"),
        only_in(&after, before, "+")
    )
}

/// Returns a digest of a file's content.
pub(crate) fn digest(path: &Path) -> Result<u64> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Ok(hasher.finish())
}

fn collect(top: &Path, path: &Path, lines: &mut Vec<String>) -> Result<()> {
    let found = fs::symlink_metadata(path).with_context(|| format!("stat {}", path.display()))?;
    let holds = if found.is_symlink() {
        fs::read_link(path)?.display().to_string()
    } else if found.is_file() {
        format!("{:x}", digest(path)?)
    } else {
        String::new()
    };
    lines.push(format!(
        "{} {:o} {}:{} {} {}.{:09} {holds}",
        path.strip_prefix(top)?.display(),
        found.mode(),
        found.uid(),
        found.gid(),
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
    ));
    if found.is_dir() {
        for entry in fs::read_dir(path).with_context(|| format!("list {}", path.display()))? {
            collect(top, &entry?.path(), lines)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{listing, unchanged};
    use std::fs;

    #[test]
    fn a_change_is_seen_and_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kept"), "a").unwrap();
        let before = listing(dir.path()).unwrap();
        unchanged(dir.path(), &before).unwrap();
        fs::write(dir.path().join("new"), "b").unwrap();
        let said = unchanged(dir.path(), &before).unwrap_err().to_string();
        assert!(said.contains("+ new"), "{said}");
    }
}
