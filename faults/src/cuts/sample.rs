//! Images to load, and their content.

use super::commands::Commands;
use super::{program, word};
use crate::chance::Chance;
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Image and its archive.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Name of the image.
    pub(super) image: String,
    pub(super) archive: PathBuf,
    /// True if `import` takes the archive, false for `load`.
    pub(super) imported: bool,
    /// Output of [`LIST`] in the image; empty for an image without a shell.
    pub(super) list: String,
}

/// Script that lists every file of an image with a hash of its bytes. Files that the engine mounts over are left out.
pub(super) const LIST: &str = "cd / && find . -xdev -type f ! -path './etc/host*' ! -path ./etc/resolv.conf | sort | \
    xargs sha256sum && find . -xdev '(' -type l -o -type d ')' | sort | xargs stat -c '%N %F %a'";

/// Programs of busybox in the images.
const APPLETS: [&str; 9] = [
    "sh",
    "find",
    "sort",
    "xargs",
    "sha256sum",
    "stat",
    "cat",
    "echo",
    "sleep",
];

/// Size of the largest file of our own images, in bytes.
const LARGE: usize = 2 << 20;

impl Sample {
    /// Returns the command that loads the image into the store.
    pub(super) fn words(&self) -> Vec<&str> {
        let archive = word(&self.archive);
        if self.imported {
            vec!["import", archive, &self.image]
        } else {
            vec!["load", "-qi", archive]
        }
    }

    /// Returns the command that lists the image's content; its output must be right if it succeeds.
    pub(super) fn listing(&self) -> Vec<&str> {
        ran(&self.image, LIST).to_vec()
    }
}

/// Returns the command that runs a script in a present image.
pub(super) fn ran<'a>(image: &'a str, script: &'a str) -> [&'a str; 10] {
    [
        "run",
        "--rm",
        "--pull",
        "never",
        "--network",
        "none",
        image,
        "sh",
        "-c",
        script,
    ]
}

/// Makes the images to try: two of our own that share files, one as an archive of files and one as an archive of an
/// image, then the images of the given archives.
///
/// # Errors
/// Fails if a program is missing, for example busybox-static.
pub(super) fn make(dir: &Path, tote: &Path, archives: &[PathBuf]) -> Result<Vec<Sample>> {
    fs::create_dir(dir)?;
    let root = dir.join("root");
    fill(&root)?;
    let tar = |name: &str| -> Result<PathBuf> {
        let archive = dir.join(name);
        program(["tar", "-C", word(&root), "-cf", word(&archive), "."])?;
        Ok(archive)
    };
    let commands = Commands::new(tote, &dir.join("state"));
    let mut samples = vec![Sample {
        image: "sample:imported".to_owned(),
        archive: tar("imported.tar")?,
        imported: true,
        list: String::new(),
    }];
    // The second image has the same files, and one more.
    fs::write(root.join("other"), "one more")?;
    commands.done(&["import", word(&tar("other.tar")?), "sample:loaded"])?;
    let saved = dir.join("saved.tar");
    commands.done(&["save", "-o", word(&saved), "sample:loaded"])?;
    samples.push(Sample {
        image: "sample:loaded".to_owned(),
        archive: saved,
        imported: false,
        list: String::new(),
    });
    for archive in archives {
        let said = commands.done(&["load", "-i", word(archive)])?;
        let image = said.lines().find_map(|line| line.strip_prefix("Loaded image: "));
        samples.push(Sample {
            image: image.context("the archive's image has no name")?.to_owned(),
            archive: archive.clone(),
            imported: false,
            list: String::new(),
        });
    }
    for sample in &mut samples {
        commands.done(&sample.words())?;
        let listed = commands.give(&sample.listing())?;
        // An image without a shell is checked by `store verify` alone.
        sample.list = if listed.code == 0 {
            listed.out
        } else {
            String::new()
        };
    }
    commands.done(&["system", "prune", "-af", "--volumes"])?;
    Ok(samples)
}

fn fill(root: &Path) -> Result<()> {
    for below in ["bin", "etc", "tmp", "empty/below", "usr/share/many", "data"] {
        fs::create_dir_all(root.join(below))?;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"];
    let busybox = busybox.iter().find(|path| Path::new(path).exists());
    fs::copy(
        busybox.context("busybox-static is not here")?,
        root.join("bin/busybox"),
    )?;
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    let mut chance = Chance::new(7);
    for number in 0..150 {
        let mut content = vec![0; usize::try_from(chance.below(20_000))?];
        chance.fill(&mut content);
        fs::write(root.join(format!("usr/share/many/{number}")), content)?;
    }
    let mut large = vec![0; LARGE];
    chance.fill(&mut large);
    fs::write(root.join("data/large"), &large)?;
    for number in 1..=4_u8 {
        // Each file ends in more zeros than the one before; the last one has nothing else.
        let mut file = File::create_new(root.join(format!("data/zeros{number}")))?;
        large[LARGE - usize::from(number) * LARGE / 4..].fill(0);
        large[0] = if number == 4 { 0 } else { number };
        file.write_all(&large)?;
    }
    Ok(())
}
