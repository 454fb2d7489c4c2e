//! Disk space of the same archives in docker's store, which keeps the layers apart.

use anyhow::{Context, Result, bail, ensure};
use bench::apparatus::{Daemon, succeed};
use bench::stage::find_program;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Loads all archives into a dockerd of its own, below `place`, and sums up the storage driver's directory. `None`
/// without docker.
pub(super) fn docker(archives: &[PathBuf], place: &Path) -> Result<Option<u64>> {
    if ["dockerd", "containerd", "docker"]
        .into_iter()
        .any(|program| find_program(program).is_none())
    {
        return Ok(None);
    }
    fs::create_dir(place).with_context(|| format!("make {}", place.display()))?;
    let host = format!("unix://{}", place.join("socket").display());
    let data = place.join("data");
    // Without this setting dockerd writes its key to /etc.
    let settings = serde_json::json!({
        "data-root": data, "exec-root": place.join("exec"), "pidfile": place.join("pid"), "hosts": [host],
        "deprecated-key-path": place.join("key.json"), "storage-driver": DRIVER,
        "bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false,
    });
    let file = place.join("daemon.json");
    fs::write(&file, settings.to_string()).with_context(|| format!("write {}", file.display()))?;
    let mut command = Command::new("dockerd");
    command.arg("--config-file").arg(&file);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let daemon = Daemon::start(command, &place.join("log"))?;
    let ask = |words: &[&str]| {
        let mut docker = Command::new("docker");
        docker.args(["-H", &host]).args(words);
        docker
    };
    let loaded = daemon.await_answer(|| Ok(ask(&["version"]))).and_then(|()| {
        archives.iter().try_for_each(|archive| {
            let archive = archive.to_str().context("an archive's path is no text")?;
            succeed(&mut ask(&["load", "--quiet", "--input", archive]))
        })
    });
    daemon.stop()?;
    loaded?;
    let taken = on_disk(&data.join(DRIVER))?;
    ensure!(taken > 0, "docker keeps its layers elsewhere than in {DRIVER}");
    Ok(Some(taken))
}

/// Docker's default on every file system that supports it.
const DRIVER: &str = "overlay2";

/// Sums up whole blocks; a file with several names counts once.
fn on_disk(dir: &Path) -> Result<u64> {
    let mut seen = std::collections::HashSet::new();
    let (mut todo, mut blocks) = (vec![dir.to_owned()], 0);
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).with_context(|| format!("look at {}", path.display()))?;
        if meta.nlink() > 1 && !meta.is_dir() && !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        blocks += meta.blocks();
        if meta.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("list {}", path.display()))? {
                match entry {
                    Ok(entry) => todo.push(entry.path()),
                    Err(error) => bail!("list {}: {error}", path.display()),
                }
            }
        }
    }
    Ok(blocks * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_two_names_counts_once() {
        let dir = std::env::temp_dir().join(format!("bench-peer-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), vec![1; 10_000]).unwrap();
        let one = on_disk(&dir).unwrap();
        fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
        let two = on_disk(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(two, one);
        assert!(one >= 10_000, "{one}");
    }
}
