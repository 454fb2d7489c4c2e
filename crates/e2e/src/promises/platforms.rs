//! Images for other machines: given for an import, chosen at a load.

use super::stored::archive;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("platforms::of_several_one_is_loaded", &[], platforms),
    test("platforms::what_is_here_is_asked_for", &[], asked),
    test("platforms::one_for_another_machine_is_as_good_as_none", &[], run),
    test("platforms::a_tree_of_images", &[], tree),
];

fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out())
}

/// Makes an OCI layout whose index has an image for this machine and one for another.
fn two_platforms(cx: &Context, own_architecture: &str) -> Result<PathBuf> {
    let (own, other) = (cx.path("own")?, cx.path("other")?);
    for (image, layout) in [("own:1", &own), ("other:1", &other)] {
        says(cx, &["save", "--format", "oci-dir", "-o", layout, image])?;
    }
    let (own, other) = (Path::new(&own), Path::new(&other));
    let mut entries = Vec::new();
    for (layout, architecture) in [(own, own_architecture), (other, "riscv64")] {
        let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
        let mut entry = index["manifests"][0].clone();
        entry["platform"] = json!({"os": "linux", "architecture": architecture});
        if let Some(fields) = entry.as_object_mut() {
            fields.remove("annotations");
        }
        entries.push(entry);
    }
    let index = json!({"schemaVersion": 2, "manifests": entries}).to_string();
    let digest = tote_testkit::digest(index.as_bytes());
    let blobs = own.join("blobs/sha256");
    for blob in fs::read_dir(other.join("blobs/sha256"))? {
        let blob = blob?;
        fs::copy(blob.path(), blobs.join(blob.file_name()))?;
    }
    fs::write(blobs.join(digest.trim_start_matches("sha256:")), &index)?;
    let top = json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "digest": digest,
        "size": index.len(),
        "annotations": {"io.containerd.image.name": "example.org/both:1"},
    }]});
    fs::write(own.join("index.json"), top.to_string())?;
    Ok(own.to_owned())
}

fn platforms(cx: &Context) -> Result<()> {
    let rootfs = archive(cx, "tree")?;
    says(cx, &["import", &rootfs, "own:1"])?;
    says(cx, &["import", "--platform", "linux/riscv64", &rootfs, "other:1"])?;
    let architecture = |image: &str| says(cx, &["image", "inspect", "-f", "{{.Architecture}}", image]);
    ensure!(architecture("other:1")? == "riscv64\n", "what was said of it");
    let archive = cx.path("other.tar")?;
    says(cx, &["save", "-o", &archive, "other:1"])?;
    let own = architecture("own:1")?;
    let layout = two_platforms(cx, own.trim_end())?.display().to_string();
    says(cx, &["rmi", "own:1", "other:1"])?;
    for (options, expected) in [
        (&[][..], own.as_str()),
        (&["--platform", "linux/riscv64"], "riscv64\n"),
    ] {
        says(cx, &[&["load", "-i", &layout], options].concat())?;
        ensure!(architecture("example.org/both:1")? == expected, "{options:?}");
    }
    for archive in [&archive, &layout] {
        cx.tote(&["load", "-i", archive, "--platform", "linux/s390x"])
            .output()?
            .refuses(1, &["there is no image for linux/s390x", "linux/riscv64"])?;
    }
    says(cx, &["load", "-i", &archive, "--platform", "linux/riscv64"]).map(drop)
}

fn asked(cx: &Context) -> Result<()> {
    let rootfs = archive(cx, "tree")?;
    let registry = FakeRegistry::start();
    let pushed = format!("{}/team/other:1", registry.host());
    says(cx, &["import", "--platform", "linux/arm64", &rootfs, "other:1"])?;
    says(cx, &["tag", "other:1", &pushed])?;
    let saved = cx.path("other.tar")?;
    let layout = cx.path("other")?;
    for words in [
        &["save", "-o", &saved, "other:1"][..],
        &["save", "--format", "oci-dir", "-o", &layout, "other:1"],
        &["history", "other:1"],
        &["image", "inspect", "other:1"],
        &["push", &pushed],
        &["rmi", "--force", "other:1"],
    ] {
        let with = |platform| [words, &["--platform", platform]].concat();
        let image = if words[0] == "push" { &pushed } else { "other:1" };
        let refused = format!(
            "image with reference {image} was found but does not provide the specified platform (linux/riscv64)"
        );
        cx.tote(&with("linux/riscv64"))
            .output()?
            .exits(1)?
            .has_err(&refused)?;
        ensure!(
            words[0] != "save" || !Path::new(words[words.len() - 2]).exists(),
            "half of an archive is there"
        );
        let wrong = cx.tote(&with("linux/")).output()?;
        wrong.fails()?.has_err("linux/")?;
        let done = says(cx, &with("linux/arm64/v8"))?;
        ensure!(words[0] != "rmi" || done == "Untagged: other:1\n", "{done}");
    }
    // The last name can be removed, because its image covers all requested platforms.
    let both = ["--platform", "linux/arm64", "--platform", "linux/amd64", &pushed];
    cx.tote(&[&["rmi"], &both[..]].concat())
        .output()?
        .refuses(1, &["does not provide the specified platform (linux/amd64)"])?;
    cx.tote(&["rmi", "--platform", "linux/arm64,linux/amd64", &pushed])
        .output()?
        .refuses(1, &["does not provide the specified platform (linux/amd64)"])?;
    let removed = says(cx, &["rmi", "--platform", "linux/arm64", &pushed])?;
    ensure!(removed.contains("\nDeleted: sha256:"), "{removed}");
    ensure!(says(cx, &["images", "-aq"])?.is_empty(), "it has gone");
    Ok(())
}

/// The programs of both images are this machine's.
fn run(cx: &Context) -> Result<()> {
    let rootfs = archive(cx, "tree")?;
    let registry = FakeRegistry::start();
    let image = format!("{}/team/both:1", registry.host());
    says(cx, &["import", "--platform", "linux/riscv64", &rootfs, &image])?;
    says(cx, &["push", &image])?;
    says(cx, &["rmi", &image])?;
    says(cx, &["import", &rootfs, &image])?;
    let with = |platform, more: &[&str]| {
        let words = [&["--platform", platform], more, &[&image, "echo", "ran"]].concat();
        cx.run(&words)
    };
    let refused = format!(
        "image with reference {image} was found but does not provide the specified platform (linux/riscv64)"
    );
    with("linux/riscv64", &["--pull", "never"])?.refuses(125, &[&refused])?;
    let architecture = || says(cx, &["image", "inspect", "-f", "{{.Architecture}}", &image]);
    let own = format!("linux/{}", architecture()?.trim_end());
    with(&own, &[])?.prints("ran\n")?.quietly()?;
    with("linux/riscv64", &[])?
        .prints("ran\n")?
        .has_err("Unable to find image")?;
    ensure!(architecture()? == "riscv64\n", "it was not pulled");
    says(cx, &["rmi", &image]).map(drop)
}

fn tree(cx: &Context) -> Result<()> {
    let rootfs = archive(cx, "tree")?;
    says(cx, &["import", "--platform", "linux/arm64", &rootfs, "other:1"])?;
    says(cx, &["import", "-c", "LABEL x=y", &rootfs, "own:1"])?;
    says(cx, &["tag", "own:1", "team/own:2"])?;
    says(cx, &["create", "--name", "uses", "own:1", "true"])?;
    let shown = says(cx, &["images", "--tree"])?;
    let lines: Vec<&str> = shown.lines().collect();
    let heading = lines.first().copied().unwrap_or_default();
    ensure!(
        heading
            .split("   ")
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .eq(["IMAGE", "ID", "DISK USAGE", "CONTENT SIZE", "USED"]),
        "{shown}"
    );
    let line = |begin: &str| {
        lines
            .iter()
            .find(|line| line.starts_with(begin))
            .copied()
            .unwrap_or_default()
    };
    ensure!(
        line("own:1") == "own:1",
        "its columns stand with its last name:\n{shown}"
    );
    ensure!(
        line("team/own:2").ends_with("   ✔"),
        "a container has it:\n{shown}"
    );
    ensure!(line("other:1").ends_with('B'), "no container has it:\n{shown}");
    ensure!(
        line("└─ linux/arm64").contains("MB"),
        "it has a platform:\n{shown}"
    );
    ensure!(
        lines.len() == 7 && shown.matches("└─ linux/").count() == 2,
        "{shown}"
    );
    let one = says(cx, &["images", "--tree", "--filter", "reference=team/*"])?;
    ensure!(one.lines().count() == 3 && one.contains("\nteam/own:2 "), "{one}");
    cx.tote(&["images", "--tree", "-q"])
        .output()?
        .refuses(1, &["--quiet is not yet supported with --tree"])?;
    says(cx, &["rm", "uses"])?;
    says(cx, &["image", "prune", "-af"])?;
    cx.nothing_left()
}
