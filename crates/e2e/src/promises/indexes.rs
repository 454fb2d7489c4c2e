//! Images for several platforms under one name: built, kept, saved, pushed and removed.

use super::build::write;
use crate::context::Context;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use tote_testkit::{FakeRegistry, digest};

pub(super) const TESTS: &[Test] = &[
    test("indexes::a_build_for_several_platforms_is_one_image", &[], built),
    test("indexes::each_platform_has_its_own_base", &[], bases),
    test("indexes::what_is_saved_is_loaded_again", &[], saved),
    test("indexes::a_push_sends_every_platform", &[], pushed),
    test("indexes::removal_takes_what_only_the_index_has", &[], removed),
];

/// Architectures: one other than this machine's, and this machine's.
pub(super) const OTHER: &str = "riscv64";

pub(super) fn own() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(super) fn both() -> String {
    format!("linux/{},linux/{OTHER}", own())
}

pub(super) const FILE: &str = "FROM scratch
ARG TARGETPLATFORM TARGETOS TARGETARCH BUILDPLATFORM
COPY busybox /bin/
COPY of-$TARGETARCH /of
ENV FOR=$TARGETOS/$TARGETARCH
LABEL for=$TARGETPLATFORM from=$BUILDPLATFORM
CMD [\"/bin/busybox\", \"sh\", \"-c\", \"echo $FOR\"]
";

pub(super) fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out())
}

/// Builds [`FILE`], or another one, for both platforms. The programs of both images are this machine's.
pub(super) fn build(cx: &Context, file: &str, options: &[&str]) -> Result<Output> {
    write(cx, "Dockerfile", file)?;
    for architecture in [own(), OTHER] {
        write(cx, &format!("of-{architecture}"), architecture)?;
    }
    let program = cx.shared_rootfs().join("bin/busybox");
    fs::copy(program, cx.scratch().join("context/busybox"))?;
    let (context, platforms) = (cx.path("context")?, both());
    cx.tote(&[&["build", "--platform", &platforms], options, &[&context]].concat())
        .output()
}

pub(super) fn label(cx: &Context, image: &str, platform: &str) -> Result<String> {
    let words = ["image", "inspect", "--platform", platform, "-f"];
    says(
        cx,
        &[
            &words[..],
            &["{{.Architecture}} {{index .Config.Labels \"for\"}}", image],
        ]
        .concat(),
    )
}

/// Removes all images with tote, because the user cannot remove files of other ids.
pub(super) fn forget(cx: &Context) -> Result<()> {
    says(cx, &["rmi", "--all", "--force"])?;
    says(cx, &["image", "prune", "--force"])?;
    ensure!(says(cx, &["images", "-aq"])?.is_empty(), "an image is left");
    Ok(())
}

fn built(cx: &Context) -> Result<()> {
    let (out, metadata) = (cx.path("out")?, cx.path("metadata")?);
    let archive = format!("type=tar,dest={}", cx.path("out.tar")?);
    let options = [
        "-t",
        "it:1",
        "-o",
        &out,
        "-o",
        &archive,
        "--metadata-file",
        &metadata,
    ];
    build(cx, FILE, &options)?
        .exits(0)?
        .has_out("Platform linux/riscv64\n")?;
    for architecture in [own(), OTHER] {
        let file = cx.scratch().join(format!("out/linux_{architecture}/of"));
        ensure!(fs::read_to_string(file)? == architecture, "{architecture}");
        let platform = format!("linux/{architecture}");
        ensure!(
            label(cx, "it:1", &platform)? == format!("{architecture} {platform}\n"),
            "{platform}"
        );
        cx.run(&["--platform", &platform, "it:1"])?
            .prints(&format!("{platform}\n"))?;
        says(cx, &["history", "--platform", &platform, "it:1"])?;
    }
    let listed = std::process::Command::new("tar")
        .arg("tf")
        .arg(cx.path("out.tar")?)
        .output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(listed.contains("linux_riscv64/of\n"), "{listed}");
    cx.run(&["it:1"])?.prints(&format!("linux/{}\n", own()))?;
    let from = says(
        cx,
        &[
            "image",
            "inspect",
            "-f",
            "{{index .Config.Labels \"from\"}}",
            "it:1",
        ],
    )?;
    ensure!(from == format!("linux/{}\n", own()), "{from}");
    cx.tote(&["image", "inspect", "--platform", "linux/s390x", "it:1"])
        .output()?
        .exits(1)?
        .has_err("does not provide the specified platform (linux/s390x)")?;
    ensure!(says(cx, &["images", "-q"])?.lines().count() == 1, "one row");
    let tree = says(cx, &["images", "--tree"])?;
    ensure!(
        tree.contains("├─ linux/") && tree.contains("└─ linux/riscv64"),
        "{tree}"
    );
    let metadata: Value = serde_json::from_slice(&fs::read(metadata)?)?;
    ensure!(
        metadata["containerimage.descriptor"]["digest"] == metadata["containerimage.digest"]
            && metadata["containerimage.descriptor"]["mediaType"]
                == "application/vnd.oci.image.index.v1+json"
            && metadata["image.name"] == "docker.io/library/it:1",
        "{metadata}"
    );
    // The same build again makes the same index.
    let id = says(cx, &["images", "-q", "--no-trunc"])?;
    build(cx, FILE, &["-t", "it:1"])?
        .exits(0)?
        .has_out("Using cache")?;
    ensure!(says(cx, &["images", "-q", "--no-trunc"])? == id, "another index");
    // A platform that is requested twice is built once.
    build(cx, FILE, &["-t", "it:1", "--platform", &both()])?.exits(0)?;
    ensure!(
        says(cx, &["images", "-q", "--no-trunc"])? == id,
        "a platform twice"
    );
    says(cx, &["store", "verify", "--full"])?;
    forget(cx)
}

/// Publishes an image with one small layer at a registry. Returns its manifest.
pub(super) fn publish(registry: &FakeRegistry, repository: &str, architecture: &str) -> Vec<u8> {
    let layer = vec![0; 1024];
    let config = json!({
        "os": "linux",
        "architecture": architecture,
        "config": { "Labels": { "for": format!("linux/{architecture}") } },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    })
    .to_string();
    registry.blob(repository, config.as_bytes());
    registry.blob(repository, &layer);
    let manifest = tote_testkit::manifest(
        config.as_bytes(),
        &[("application/vnd.oci.image.layer.v1.tar", &layer)],
    );
    registry.manifest(repository, architecture, &manifest);
    manifest
}

fn bases(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let manifests = [own(), OTHER].map(|architecture| publish(&registry, "team/base", architecture));
    let entries: Vec<Value> = [own(), OTHER]
        .iter()
        .zip(&manifests)
        .map(|(architecture, manifest)| {
            json!({
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": digest(manifest),
                "size": manifest.len(),
                "platform": { "os": "linux", "architecture": architecture },
            })
        })
        .collect();
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": entries }).to_string();
    registry.manifest("team/base", "1", index.as_bytes());
    let base = format!("{}/team/base:1", registry.host());
    build(
        cx,
        &format!("FROM {base}\nARG TARGETARCH\nCOPY of-$TARGETARCH /of\n"),
        &["-t", "it"],
    )?
    .exits(0)?;
    for image in ["it", &base] {
        for architecture in [own(), OTHER] {
            let platform = format!("linux/{architecture}");
            ensure!(
                label(cx, image, &platform)? == format!("{architecture} {platform}\n"),
                "{image} {platform}"
            );
        }
    }
    // The base's name still refers to this machine's image.
    let architecture = says(cx, &["image", "inspect", "-f", "{{.Architecture}}", &base])?;
    ensure!(architecture.trim() == own(), "{architecture}");
    // Both images are here now: the registry is not asked.
    let asked = registry.log().len();
    build(cx, &format!("FROM {base}\nCOPY of-{OTHER} /of\n"), &["-t", "it"])?.exits(0)?;
    ensure!(registry.log().len() == asked, "the registry was asked again");
    forget(cx)
}

fn saved(cx: &Context) -> Result<()> {
    build(cx, FILE, &["-t", "it:1"])?.exits(0)?;
    let id = says(cx, &["images", "-q", "--no-trunc"])?;
    let (docker, oci, one) = (cx.path("docker.tar")?, cx.path("oci.tar")?, cx.path("one.tar")?);
    let layout = cx.path("layout")?;
    says(cx, &["save", "-o", &docker, "it:1"])?;
    says(cx, &["save", "--format", "oci-archive", "-o", &oci, "it:1"])?;
    says(cx, &["save", "--format", "oci-dir", "-o", &layout, "it:1"])?;
    says(cx, &["save", "--platform", "linux/riscv64", "-o", &one, "it:1"])?;
    for archive in [&docker, &oci, &layout] {
        forget(cx)?;
        says(cx, &["load", "-i", archive])?;
        ensure!(says(cx, &["images", "-q", "--no-trunc"])? == id, "{archive}");
        cx.run(&["--platform", "linux/riscv64", "it:1"])?
            .prints("linux/riscv64\n")?;
    }
    forget(cx)?;
    says(cx, &["load", "-i", &docker, "--platform", "linux/riscv64"])?;
    cx.run(&["it:1"])?.prints("linux/riscv64\n")?;
    forget(cx)?;
    says(cx, &["load", "-i", &one])?;
    cx.run(&["it:1"])?.prints("linux/riscv64\n")?;
    forget(cx)
}

/// Checks that all images of an index are at a registry. Returns its digest and the platforms.
pub(super) fn at_registry(
    registry: &FakeRegistry,
    repository: &str,
    tag: &str,
) -> Result<(String, Vec<String>)> {
    let index = registry.stored(repository, tag).context("nothing has that tag")?;
    let value: Value = serde_json::from_slice(&index)?;
    let entries = value["manifests"].as_array().context("it is no index")?;
    let mut platforms = Vec::new();
    for entry in entries {
        let named = entry["digest"].as_str().unwrap_or_default();
        let manifest = registry
            .stored(repository, named)
            .context("a manifest is missing")?;
        ensure!(
            entry["size"] == manifest.len() && digest(&manifest) == named,
            "{entry}"
        );
        let platform = &entry["platform"];
        platforms.push(format!(
            "{}/{}",
            platform["os"].as_str().unwrap_or_default(),
            platform["architecture"].as_str().unwrap_or_default()
        ));
    }
    Ok((digest(&index), platforms))
}

fn pushed(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app:1", registry.host());
    let metadata = cx.path("metadata")?;
    let output = format!("type=image,name={name},push=true");
    build(
        cx,
        FILE,
        &["--builder", "any", "-o", &output, "--metadata-file", &metadata],
    )?
    .exits(0)?
    .has_out("Successfully pushed")?;
    let (digest, platforms) = at_registry(&registry, "team/app", "1")?;
    ensure!(
        platforms == both().split(',').collect::<Vec<_>>(),
        "{platforms:?}"
    );
    let metadata: Value = serde_json::from_slice(&fs::read(metadata)?)?;
    ensure!(metadata["containerimage.digest"] == digest.as_str(), "{metadata}");
    // A second push, and one to another place, gives the same index.
    let copy = format!("{}/team/copy:2", registry.host());
    says(cx, &["tag", &name, &copy])?;
    says(cx, &["push", &copy])?;
    ensure!(
        at_registry(&registry, "team/copy", "2")?.0 == digest,
        "another index"
    );
    let inspected = says(cx, &["manifest", "inspect", "-v", &name])?;
    ensure!(
        inspected.contains("\"OCIManifest\"") && inspected.contains("riscv64"),
        "{inspected}"
    );
    // A push of a single platform is an image, not an index.
    let alone = format!("{}/team/alone:1", registry.host());
    says(cx, &["push", "--platform", "linux/riscv64", &name, &alone])?;
    ensure!(
        at_registry(&registry, "team/alone", "1").is_err(),
        "an index of one"
    );
    forget(cx)?;
    for (platform, options) in [(own(), &[][..]), (OTHER, &["--platform", "linux/riscv64"])] {
        let pulled = cx.run(&[&["-q"], options, &[&name]].concat())?;
        pulled.exits(0)?.prints(&format!("linux/{platform}\n"))?;
    }
    forget(cx)
}

fn removed(cx: &Context) -> Result<()> {
    build(cx, FILE, &["-t", "it:1"])?.exits(0)?;
    says(cx, &["tag", "it:1", "it:2"])?;
    let other = says(
        cx,
        &[
            "image",
            "inspect",
            "--platform",
            "linux/riscv64",
            "-f",
            "{{.Id}}",
            "it:1",
        ],
    )?;
    let other = other.trim_end();
    cx.tote(&["rmi", other])
        .output()?
        .refuses(1, &["cannot remove image", "index it:1 has it"])?;
    ensure!(
        says(cx, &["rmi", "it:2"])? == "Untagged: it:2\n",
        "the other name stays"
    );
    // The index's images are not dangling.
    says(cx, &["image", "prune", "--force"])?;
    cx.run(&["--platform", "linux/riscv64", "it:1"])?
        .prints("linux/riscv64\n")?;
    says(
        cx,
        &["create", "--platform", "linux/riscv64", "--name", "user", "it:1"],
    )?;
    cx.tote(&["rmi", "it:1"])
        .output()?
        .refuses(1, &["container user"])?;
    says(cx, &["image", "prune", "--all", "--force"])?;
    says(cx, &["rm", "user"])?;
    // An image with a name of its own stays.
    says(cx, &["tag", other, "alone:1"])?;
    let gone = says(cx, &["rmi", "it:1"])?;
    ensure!(
        gone.starts_with("Untagged: it:1\nDeleted: sha256:") && !gone.contains(other),
        "{gone}"
    );
    cx.run(&["alone:1"])?.prints("linux/riscv64\n")?;
    // An index is dangling, with its images, once another one has taken its name.
    build(cx, FILE, &["-t", "it:1"])?.exits(0)?;
    build(cx, &format!("{FILE}LABEL newer=1\n"), &["-t", "it:1"])?.exits(0)?;
    ensure!(
        says(cx, &["images", "-q", "--filter", "dangling=true"])?
            .lines()
            .count()
            == 1,
        "one is"
    );
    says(cx, &["image", "prune", "--force"])?;
    says(cx, &["rmi", "--platform", "linux/riscv64", "it:1"])?;
    cx.run(&["it:1"])?.prints(&format!("linux/{}\n", own()))?;
    cx.run(&["--pull", "never", "--platform", "linux/riscv64", "it:1"])?
        .exits(125)?;
    says(cx, &["untag", "it:1"])?;
    says(cx, &["store", "verify"])?;
    forget(cx)
}
