//! The image of all cases: busybox-static under all its names, as a tar archive and as an OCI archive.

use super::place::{make as make_directory, write};
use crate::program::{program, read, succeed};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Name of the image in containerd.
pub(super) const NAME: &str = "docker.io/library/busybox:dropin";

const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
const GROUP: &str = "root:x:0:\nguest:x:1000:\nextra:x:2000:\nnogroup:x:65534:\n";

/// Makes `rootfs.tar` and `oci.tar` in this directory.
pub(super) fn make(work: &Path) -> Result<()> {
    let root = work.join("rootfs");
    for directory in ["bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "var"] {
        make_directory(&root.join(directory))?;
    }
    let busybox = super::engine::find("busybox").context("the image: needs busybox-static")?;
    std::fs::copy(&busybox, root.join("bin/busybox"))
        .with_context(|| format!("copy {}", busybox.display()))?;
    for name in read(program(&busybox).arg("--list"))?.lines() {
        if name != "busybox" {
            let link = root.join("bin").join(name);
            symlink("busybox", &link).with_context(|| format!("link {}", link.display()))?;
        }
    }
    write(&root.join("etc/passwd"), PASSWD)?;
    write(&root.join("etc/group"), GROUP)?;
    succeed(program("chmod").arg("1777").arg(root.join("tmp")))?;
    let tar = work.join("rootfs.tar");
    archive(&root, &tar)?;

    let layout = work.join("layout");
    make_directory(&layout.join("blobs/sha256"))?;
    write(
        &layout.join("oci-layout"),
        &json!({"imageLayoutVersion": "1.0.0"}).to_string(),
    )?;
    let layer = blob(&layout, &tar, "application/vnd.oci.image.layer.v1.tar")?;
    let config = json!({
        "architecture": architecture(), "os": "linux",
        "config": {"Cmd": ["sh"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = document(&layout, &config, "application/vnd.oci.image.config.v1+json")?;
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer],
        "mediaType": "application/vnd.oci.image.manifest.v1+json"});
    let mut manifest = document(&layout, &manifest, "application/vnd.oci.image.manifest.v1+json")?;
    manifest["annotations"] = json!({"io.containerd.image.name": NAME});
    manifest["platform"] = json!({"architecture": architecture(), "os": "linux"});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    write(&layout.join("index.json"), &index.to_string())?;
    archive(&layout, &work.join("oci.tar"))
}

fn archive(directory: &Path, tar: &Path) -> Result<()> {
    let mut command = program("tar");
    command
        .args(["--create", "--owner=0", "--group=0", "--file"])
        .arg(tar);
    succeed(command.arg("--directory").arg(directory).arg("."))
}

fn document(layout: &Path, value: &Value, media: &str) -> Result<Value> {
    let file = layout.with_extension("json");
    write(&file, &value.to_string())?;
    blob(layout, &file, media)
}

/// Copies a file to the blobs; returns its descriptor.
fn blob(layout: &Path, file: &Path, media: &str) -> Result<Value> {
    let sum = read(program("sha256sum").arg("--binary").arg(file))?;
    let digest = sum.split(' ').next().unwrap_or_default();
    ensure!(digest.len() == 64, "sha256sum says {sum:?}");
    let size = std::fs::copy(file, layout.join("blobs/sha256").join(digest))
        .with_context(|| format!("copy {}", file.display()))?;
    Ok(json!({"mediaType": media, "digest": format!("sha256:{digest}"), "size": size}))
}

/// Returns the architecture in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
