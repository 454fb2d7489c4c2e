//! `bench images --set DIR`: disk space of eight images of one distribution, in layers and in a store that keeps
//! every file once.
//!
//! The archives are made once and kept in DIR, because nothing is timed. The numbers are those of `tote system df`,
//! for a store on its own and for one on the same XFS as a copy of the host's `/usr`, where files can share their
//! blocks.

mod peer;
mod tree;

use crate::arguments::Options;
use anyhow::{Context, Result, ensure};
use bench::apparatus::{Plan, mount_disk, succeed, unmount_below};
use bench::{clock, world};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each image with the package that it has besides the base; the base has none.
const IMAGES: [(&str, Option<&str>); 8] = [
    ("base", None),
    ("nginx", Some("nginx")),
    ("redis", Some("redis-server")),
    ("mariadb", Some("mariadb-server")),
    ("python", Some("python3")),
    ("node", Some("nodejs")),
    ("jre", Some("openjdk-17-jre-headless")),
    ("gcc", Some("gcc")),
];

/// Size of the XFS in MiB; unwritten parts take no space.
const DISK: u64 = 16 << 10;

/// Numbers of `tote system df` about the store, in bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "PascalCase"))]
struct Space {
    stored: u64,
    layered: u64,
    copied: u64,
    host: u64,
}

/// A line of `tote system df --format json`.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "Bytes")]
    bytes: Space,
}

#[derive(Debug, Serialize)]
struct Report {
    /// Start in seconds since 1970.
    started: u64,
    images: Vec<&'static str>,
    alone: Space,
    with_host: Space,
    /// Bytes on disk of the same archives in docker's overlay2; `None` without docker.
    docker: Option<u64>,
}

/// Makes missing archives, fills both stores, and writes `images-set.md` and `.json`.
pub(crate) fn run(directory: &Path, options: &Options) -> Result<()> {
    let tote = options.tote.as_deref().context("--set needs --tote")?;
    ensure!(rustix::process::geteuid().is_root(), "--set needs root");
    world::enter(&[], &Plan::default())?;
    let started = clock::now_nanos() / 1_000_000_000;
    let archives = tree::archives(directory, &IMAGES)?;
    let scratch = std::env::temp_dir().join(format!("tote-bench-set-{}", std::process::id()));
    fs::create_dir(&scratch).with_context(|| format!("make {}", scratch.display()))?;
    let found = peer::docker(&archives, &scratch.join("docker"))
        .and_then(|docker| Ok((docker, fill_both(tote, &archives, &scratch)?)));
    unmount_below(&scratch)?;
    fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    let (docker, ((alone, told_alone), (with_host, told_with_host))) = found?;
    let report = Report {
        started,
        images: IMAGES.iter().map(|(name, _)| *name).collect(),
        alone,
        with_host,
        docker,
    };
    fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let text = markdown(&report, &told_alone, &told_with_host);
    let json = serde_json::to_string_pretty(&report).context("write the report as JSON")? + "\n";
    for (name, text) in [("images-set.md", &text), ("images-set.json", &json)] {
        let path = options.out.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    print!("{text}");
    Ok(())
}

type Told = (Space, String);

fn fill_both(tote: &Path, archives: &[PathBuf], scratch: &Path) -> Result<(Told, Told)> {
    let alone = fill(tote, archives, &scratch.join("alone"))?;
    fs::remove_dir_all(scratch.join("alone")).context("remove the first store")?;
    let disk = mount_disk(scratch, "xfs", &["mkfs.xfs", "-q"], DISK)?;
    let copy = disk.join("usr");
    succeed(
        Command::new("cp")
            .args(["-a", "--one-file-system", "/usr"])
            .arg(&copy),
    )?;
    mount_bind(&copy, "/usr").context("cover /usr by its copy")?;
    let with_host = fill(tote, archives, &disk.join("tote"));
    unmount("/usr", UnmountFlags::DETACH).context("uncover /usr")?;
    Ok((alone, with_host?))
}

/// Loads all archives into a new store and measures it.
fn fill(tote: &Path, archives: &[PathBuf], root: &Path) -> Result<Told> {
    for archive in archives {
        let mut load = Command::new(tote);
        load.arg("--root")
            .arg(root)
            .args(["load", "--quiet", "--input"])
            .arg(archive);
        succeed(&mut load)?;
    }
    let text = space_of(tote, root, &["--verbose"])?;
    let line = space_of(tote, root, &["--format", "json"])?;
    let row = images_of(&line).with_context(|| format!("understand tote system df: {line:?}"))?;
    Ok((row.bytes, text))
}

/// Parses the first line, which is that of images.
fn images_of(lines: &str) -> Result<Row> {
    let line = lines.lines().next().context("it says nothing")?;
    serde_json::from_str(line).context("no row of images")
}

fn space_of(tote: &Path, root: &Path, options: &[&str]) -> Result<String> {
    let output = Command::new(tote)
        .arg("--root")
        .arg(root)
        .args(["system", "df"])
        .args(options)
        .output()
        .context("run tote system df")?;
    ensure!(
        output.status.success(),
        "tote system df: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn markdown(report: &Report, alone: &str, with_host: &str) -> String {
    let row = |what: &str, found: f64, target: f64| {
        let verdict = if found <= target { "met" } else { "**missed**" };
        format!("| {what} | {found:.3} | ≤ {target:.1} | {verdict} |\n")
    };
    let Space { stored, layered, .. } = report.alone;
    let shared = report.with_host;
    let mut out = format!(
        "# Benchmark: the space of eight images\n\n{}, of one distribution: each but the first is the first and one \
         layer more. Counted is what files take on disk, in whole blocks, as `tote system df` prints it. Layers apart \
         are counted as engines write them that unpack each: every file as long as it is. tote leaves out long runs of \
         zeros.\n\nMade by `bench images --set` \
         on {}; how it measures: [benchmarks](../benchmarks.md).\n\n| what | found | target | verdict |\n|---|--:|--:|---|\n",
        report.images.join(", "),
        clock::utc(report.started)
    );
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    out += &row("every file once / layers apart", ratio(stored, layered), 0.9);
    out += &row(
        "the same without what the host has / layers apart",
        ratio(shared.stored.saturating_sub(shared.host), shared.layered),
        0.6,
    );
    let peer = match report.docker {
        None => {
            "Whether another engine takes as much for layers apart was not measured: no docker was there."
                .to_owned()
        }
        Some(bytes) => format!(
            "docker's overlay2 takes {bytes} bytes on disk for the same archives, {:.3} of the layers apart that tote counts.",
            ratio(bytes, layered)
        ),
    };
    out + &format!(
        "\n{peer}\n\n## On its own\n\n```text\n{alone}```\n\n## On one XFS with a copy of the host's `/usr`\n\n```text\n{with_host}```\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_df_says() {
        let lines = [
            r#"{"Active":"0","Bytes":{"Copied":2500,"Host":0,"Layered":1200,"Stored":900},"Type":"Images"}"#,
            r#"{"Active":"0","Size":"0B","Type":"Build Cache"}"#,
        ];
        let space = Space {
            stored: 900,
            layered: 1200,
            copied: 2500,
            host: 0,
        };
        assert_eq!(images_of(&lines.join("\n")).unwrap().bytes, space);
    }
}
