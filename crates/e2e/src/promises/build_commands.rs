//! `tote build`: command lines from scripts that were written for docker's builder.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("build::an_image_is_pushed", &[], pushes),
    test("build::scripts_for_buildx_go_on", &[], buildx),
    test("build::a_check_builds_nothing", &[], checks),
    test(
        "build::an_image_of_a_layout_is_built_on",
        &[Need::ManyIds, Need::Program("tar")],
        layouts,
    ),
];

const FILE: &str = "FROM scratch\nCOPY file /file\n";

fn run(cx: &Context, command: &[&str], options: &[&str]) -> Result<Output> {
    let context = cx.path("context")?;
    cx.tote(&[command, options, &[&context]].concat()).output()
}

fn metadata(cx: &Context) -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(
        cx.scratch().join("metadata.json"),
    )?)?)
}

fn pushes(cx: &Context) -> Result<()> {
    write(cx, "Dockerfile", FILE)?;
    write(cx, "file", "content")?;
    let registry = FakeRegistry::start();
    let file = cx.path("metadata.json")?;
    let (one, other) = (
        format!("{}/team/one:1", registry.host()),
        format!("{}/team/other:2", registry.host()),
    );
    let pushed = run(cx, &["build"], &["--push", "-t", &one, "--metadata-file", &file])?;
    pushed.exits(0)?.has_out("Successfully pushed")?;
    let written = metadata(cx)?;
    let manifest = registry.stored("team/one", "1").unwrap_or_default();
    ensure!(
        written["containerimage.digest"] == tote_testkit::digest(&manifest),
        "{written} is not of {}",
        String::from_utf8_lossy(&manifest)
    );
    let manifest: Value = serde_json::from_slice(&manifest)?;
    ensure!(
        written["containerimage.config.digest"] == manifest["config"]["digest"]
            && written["image.name"] == *one,
        "{written} {manifest}"
    );
    for output in [
        format!("type=image,name={other},push=true"),
        format!("type=registry,name={}/team/third:3", registry.host()),
    ] {
        run(cx, &["build"], &["-o", &output])?.exits(0)?;
    }
    for (repository, tag) in [("team/other", "2"), ("team/third", "3")] {
        ensure!(
            registry.stored(repository, tag).is_some(),
            "{repository} was not pushed"
        );
    }
    // The refusal comes before the build.
    for options in [&["--push"][..], &["-o", "type=registry"]] {
        let refused = run(cx, &["build", "--no-cache"], options)?;
        refused.exits(1)?.has_err("it has no name")?.has_err("-t ")?;
        ensure!(refused.out().is_empty(), "{}", refused.out());
    }
    nothing_left(cx)
}

fn buildx(cx: &Context) -> Result<()> {
    write(cx, "Dockerfile", FILE)?;
    write(cx, "file", "content")?;
    let file = cx.path("metadata.json")?;
    let options = [
        "--builder",
        "default",
        "--allow=network.host",
        "--provenance=false",
        "--sbom=false",
        "--attest=type=provenance,disabled=true",
        "--load",
        "--call=build",
        "--metadata-file",
        &file,
        "-t",
        "it",
        "-t",
        "own:2",
    ];
    run(cx, &["buildx", "build"], &options)?
        .exits(0)?
        .has_out("Successfully tagged own:2")?;
    let id = cx.tote(&["image", "inspect", "-f", "{{.Id}}", "it"]).output()?;
    let (id, written) = (id.out(), metadata(cx)?);
    ensure!(
        written["containerimage.config.digest"] == *id.trim()
            && written["containerimage.digest"] == *id.trim()
            && written["image.name"] == "docker.io/library/it:latest,docker.io/library/own:2",
        "{id} {written}"
    );
    run(cx, &["build"], &["--call=outline"])?
        .exits(1)?
        .has_err("build or check")?;
    cx.tote(&["buildx", "bake"])
        .output()?
        .exits(1)?
        .has_err("tote builder --help")?;
    cx.tote(&["builder", "--help"])
        .output()?
        .exits(0)?
        .has_out("bake")?;
    cx.tote(&["rmi", "-f", "it", "own:2"]).output()?.exits(0)?;
    nothing_left(cx)
}

fn checks(cx: &Context) -> Result<()> {
    let check = |file: &str, options: &[&str]| -> Result<Output> {
        write(cx, "Dockerfile", file)?;
        run(cx, &["build"], options)
    };
    check("FROM nowhere.example/x\nCMD [\"a\"]\n", &["--check"])?
        .exits(0)?
        .prints("Check complete, no warnings found.\n")?;
    check("FROM nowhere.example/x as A\nCMD a\n", &["--call=check"])?
        .exits(1)?
        .has_out("3 warnings have been found!")?
        .has_out("WARNING: JSONArgsRecommended\n")?
        .has_out("Dockerfile:2\n")?
        .has_out(">>> CMD a\n")?;
    for (file, options, says) in [
        ("FROM scratch\nRUNN x\n", &["--check"][..], "did you mean RUN?"),
        (
            "FROM scratch\nCOPY --from=b x y\nFROM scratch AS b\n",
            &["--check"],
            "earlier stages",
        ),
        (
            "FROM scratch\n",
            &["--check", "--target", "x"],
            "target stage \"x\"",
        ),
    ] {
        check(file, options)?.exits(1)?.has_err(says)?;
    }
    cx.tote(&["images", "-aq"]).output()?.prints("")?;
    nothing_left(cx)
}

fn layouts(cx: &Context) -> Result<()> {
    let archive = cx.path("image.tar")?;
    let output = format!("type=oci,dest={archive}");
    build(cx, &["-t", "kept:1", "-o", &output], "RUN echo layout > /made\n")?.exits(0)?;
    let layout = cx.directory("layout")?;
    crate::invocation::Invocation::new(["tar", "-xf", &archive, "-C", &layout])
        .output()?
        .exits(0)?;
    cx.tote(&["rmi", "-f", "it", "kept:1"]).output()?.exits(0)?;
    let rest = "FROM packed\nCOPY --from=packed /made /copied\n";
    for name in [":latest", ":1"] {
        let context = format!("packed=oci-layout://{layout}{name}");
        build(cx, &["--build-context", &context], rest)?.exits(0)?;
        in_it(cx, "cat /made /copied")?.prints("layout\nlayout\n")?;
    }
    for (name, says) in [
        (":none", "an image :none"),
        ("/none", "No such file"),
        ("", "one image only"),
    ] {
        let context = format!("packed=oci-layout://{layout}{name}");
        build(cx, &["--build-context", &context], rest)?
            .exits(1)?
            .has_err(says)?;
    }
    nothing_left(cx)
}
