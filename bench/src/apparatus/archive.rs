//! Images made for a run: the same bytes each time, on every machine.
//!
//! The sizes of files are roughly those of a distribution: half of them below 2 KiB, a few large ones with most of
//! the bytes. Their contents compress like text and programs.

use super::succeed;
use crate::chance::Chance;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An image.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Name of the image in the archive.
    tag: String,
    /// Tree that is added to the first layer.
    tree: String,
    layers: usize,
    /// Number of files in all layers together.
    files: usize,
    /// Files of the first layer with exactly this number of bytes.
    #[serde(default)]
    exact: BTreeMap<PathBuf, usize>,
}

/// Cumulative shares of files per thousand, and the sizes up to which they are drawn.
const SIZES: [(usize, usize); 6] = [
    (150, 256),
    (500, 2 << 10),
    (850, 8 << 10),
    (970, 32 << 10),
    (996, 128 << 10),
    (1000, 512 << 10),
];

const DIRECTORIES: usize = 60;

impl Archive {
    /// Describes an image of one layer: the tree and nothing else.
    #[must_use]
    pub fn of_tree(tag: &str, tree: &str) -> Self {
        Archive {
            tag: tag.to_owned(),
            tree: tree.to_owned(),
            layers: 1,
            files: 0,
            exact: BTreeMap::new(),
        }
    }

    /// Names the tree that is added to the first layer.
    pub(super) fn tree(&self) -> &str {
        &self.tree
    }

    /// Writes the archive to a file in `place`; returns its path.
    pub(super) fn make(
        &self,
        place: &Path,
        name: &str,
        places: &BTreeMap<String, String>,
    ) -> Result<PathBuf> {
        let tree = places
            .get(&format!("tree:{}", self.tree))
            .with_context(|| format!("unknown tree {:?}", self.tree))?;
        let work = place.join(format!("archive-{name}"));
        let mut chance = Chance::new(1);
        let mut layers = Vec::new();
        for layer in 0..self.layers {
            let root = work.join(format!("root-{layer}"));
            fs::create_dir_all(&root).with_context(|| format!("make {}", root.display()))?;
            if layer == 0 {
                succeed(Command::new("cp").arg("-a").arg(format!("{tree}/.")).arg(&root))?;
                for (path, size) in &self.exact {
                    write(&root.join(path), *size, &mut chance)?;
                }
            }
            let files = self.files * (layer + 1) / self.layers - self.files * layer / self.layers;
            fill(&root, layer, files, &mut chance)?;
            let tar = work.join(format!("{layer}.tar"));
            pack(&root, &tar)?;
            fs::remove_dir_all(&root).with_context(|| format!("remove {}", root.display()))?;
            layers.push(tar);
        }
        let output = place.join(format!("{name}.tar"));
        seal(&layers, &self.tag, &work, &output)?;
        fs::remove_dir_all(&work).with_context(|| format!("remove {}", work.display()))?;
        Ok(output)
    }
}

fn fill(root: &Path, layer: usize, files: usize, chance: &mut Chance) -> Result<()> {
    for n in 0..files {
        let draw = chance.below(1000);
        let place = SIZES.iter().position(|(share, _)| draw < *share).unwrap_or(0);
        let least = place.checked_sub(1).map_or(0, |before| SIZES[before].1);
        let size = least + chance.below(SIZES[place].1 - least);
        let directory = root.join(format!("usr/share/layer-{layer}/{}", n % DIRECTORIES));
        if n < DIRECTORIES {
            fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
        }
        write(&directory.join(format!("file-{n}")), size, chance)?;
    }
    Ok(())
}

/// Writes words of a small vocabulary, with some unique ones.
fn write(path: &Path, size: usize, chance: &mut Chance) -> Result<()> {
    let mut written = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        let mut left = size;
        while left > 0 {
            let range = if chance.below(4) == 0 { usize::MAX } else { 2000 };
            let word = format!("{:x} ", chance.below(range).wrapping_mul(0x9E37_79B9));
            let length = word.len().min(left);
            file.write_all(&word.as_bytes()[..length])?;
            left -= length;
        }
        file.flush()
    };
    written().with_context(|| format!("write {}", path.display()))
}

/// Packs a directory as a tar archive that does not depend on time or user.
fn pack(root: &Path, tar: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args([
        "--create",
        "--sort=name",
        "--mtime=@1700000000",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--file",
    ]);
    succeed(command.arg(tar).arg("--directory").arg(root).arg("."))
}

/// Makes an image of `layers`, tar archives that this consumes, in a new directory of `work`, and writes it to
/// `output` as `docker save` would, but with compressed layers.
pub fn seal(layers: &[PathBuf], tag: &str, work: &Path, output: &Path) -> Result<()> {
    let image = work.join("image");
    fs::create_dir_all(&image).with_context(|| format!("make {}", image.display()))?;
    let (mut diff_ids, mut names) = (Vec::new(), Vec::new());
    for layer in layers {
        diff_ids.push(format!("sha256:{}", sum(layer)?));
        succeed(Command::new("gzip").args(["--no-name", "--force"]).arg(layer))?;
        let name = format!("layer-{}.tar", names.len());
        let target = image.join(&name);
        fs::rename(layer.with_extension("tar.gz"), &target)
            .with_context(|| format!("make {}", target.display()))?;
        names.push(name);
    }
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture, "os": "linux", "created": "2023-11-14T22:13:20Z",
        "config": {"Cmd": ["/bin/true"], "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [tag], "Layers": names}]);
    for (name, value) in [("config.json", config), ("manifest.json", manifest)] {
        let path = image.join(name);
        fs::write(&path, value.to_string()).with_context(|| format!("write {}", path.display()))?;
    }
    let partial = output.with_extension("partial");
    pack(&image, &partial)?;
    fs::rename(&partial, output).with_context(|| format!("make {}", output.display()))?;
    fs::remove_dir_all(&image).with_context(|| format!("remove {}", image.display()))
}

fn sum(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum")
        .arg("--binary")
        .arg(file)
        .stderr(Stdio::inherit())
        .output()
        .context("run sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let digest = text.split(' ').next().unwrap_or_default();
    ensure!(digest.len() == 64, "sha256sum says {text:?}");
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_each_time() {
        let scratch = std::env::temp_dir().join(format!("tote-bench-archive-{}", std::process::id()));
        let sums: Vec<String> = ["a", "b"]
            .iter()
            .map(|side| {
                let root = scratch.join(side);
                fs::create_dir_all(&root).unwrap();
                fill(&root, 3, 100, &mut Chance::new(1)).unwrap();
                write(&root.join("exact"), 150_000, &mut Chance::new(2)).unwrap();
                assert_eq!(fs::metadata(root.join("exact")).unwrap().len(), 150_000);
                let tar = scratch.join(format!("{side}.tar"));
                pack(&root, &tar).unwrap();
                sum(&tar).unwrap()
            })
            .collect();
        fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(sums[0], sums[1]);
    }
}
