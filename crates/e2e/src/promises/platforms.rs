//! Images for other machines: said of what is imported, chosen of what is loaded.

use super::stored::archive;
use super::test;
use crate::context::Context;
use crate::suite::Test;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[test("platforms::of_several_one_is_loaded", &[], platforms)];

fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out())
}

/// An OCI layout whose index has the image for this machine and one for another.
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
            .refuses(125, &["there is no image for linux/s390x", "linux/riscv64"])?;
    }
    says(cx, &["load", "-i", &archive, "--platform", "linux/riscv64"]).map(drop)
}
