//! `tote build --provenance --sbom`: the statements of a build about its image, and their places.

use super::build::{BASE, build, nothing_left, write};
use super::build_git::{Daemon, commit, git};
use super::indexes::{own, publish};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use tote_testkit::{FakeRegistry, Reply, digest};

const NEEDS: &[Need] = &[Need::ManyIds, Need::Program("tar")];

pub(super) const TESTS: &[Test] = &[
    test("build::attestations_lie_beside_files", NEEDS, beside),
    test("build::attestations_stay_with_their_image", NEEDS, with_image),
    test(
        "build::attestations_are_made_only_when_asked_for",
        &[Need::ManyIds],
        unasked,
    ),
    test(
        "build::attestations_name_what_an_image_is_made_of",
        &[Need::ManyIds, Need::Program("git")],
        materials,
    ),
];

const APK: &str = "P:musl\nV:1.2.5-r8\nA:x86_64\nL:MIT\n\n";
const LINES: &str = "ARG HUSH=1\nCOPY installed /lib/apk/db/installed\nCOPY os-release /etc/os-release\n";

fn files(cx: &Context) -> Result<()> {
    write(cx, "installed", APK)?;
    write(cx, "os-release", "ID=alpine\nVERSION_ID=3.21.0\n")
}

/// Returns the statement of that kind, after checking that it is about this image.
fn check(statements: &[Value], kind: &str, image: &str) -> Result<Value> {
    let found = statements
        .iter()
        .find(|statement| statement["predicateType"] == kind);
    let found = found.with_context(|| format!("no {kind} in {statements:?}"))?;
    let subject = &found["subject"][0];
    ensure!(subject["digest"]["sha256"] == image, "{subject} is not {image}");
    ensure!(found["_type"] == "https://in-toto.io/Statement/v1", "{found}");
    Ok(found["predicate"].clone())
}

fn check_sbom(statements: &[Value], image: &str) -> Result<()> {
    let document = check(statements, "https://spdx.dev/Document", image)?;
    ensure!(document["spdxVersion"] == "SPDX-2.3", "{document}");
    let packages = document["packages"].as_array().context("packages")?;
    let musl = packages.iter().find(|package| package["name"] == "musl");
    let address = &musl.context("musl is not listed")?["externalRefs"][0]["referenceLocator"];
    ensure!(
        address == "pkg:apk/alpine/musl@1.2.5-r8?arch=x86_64&distro=alpine-3.21.0",
        "{address}"
    );
    Ok(())
}

fn beside(cx: &Context) -> Result<()> {
    files(cx)?;
    let (dir, archive) = (cx.path("files")?, cx.path("files.tar")?);
    let metadata = cx.path("metadata")?;
    let to = format!("type=tar,dest={archive}");
    build(
        cx,
        &[
            "--provenance=mode=max",
            "--sbom=true",
            "--build-arg",
            "HUSH=secret",
            "-o",
            &dir,
            "-o",
            &to,
            "--metadata-file",
            &metadata,
        ],
        LINES,
    )?
    .exits(0)?;
    let text = fs::read(&metadata)?;
    let image = serde_json::from_slice::<Value>(&text)?["containerimage.config.digest"].clone();
    let image = image
        .as_str()
        .and_then(|id| id.strip_prefix("sha256:"))
        .context("no id")?
        .to_owned();
    let read = |name: &str| -> Result<Value> {
        let from_archive = Invocation::new(["tar", "-xOf", &archive, name]).output()?;
        let text = fs::read_to_string(std::path::Path::new(&dir).join(name))?;
        from_archive.prints(&text)?;
        Ok(serde_json::from_str(&text)?)
    };
    let statements = [read("provenance.json")?, read("sbom.spdx.json")?];
    check_sbom(&statements, &image)?;
    let made = check(&statements, "https://slsa.dev/provenance/v1", &image)?;
    let definition = &made["buildDefinition"];
    let request = &definition["externalParameters"]["request"];
    ensure!(request["args"]["build-arg:HUSH"] == "secret", "{request}");
    ensure!(request["locals"][0]["name"] == "context", "{request}");
    let instructions = &definition["internalParameters"]["buildConfig"]["instructions"];
    ensure!(
        instructions[0]["instruction"] == BASE.lines().next().unwrap_or_default(),
        "{instructions}"
    );
    nothing_left(cx)
}

/// Reads the image of that name from an OCI layout. Returns the manifest's digest, and the statements.
fn of_index(index: &[u8], blob: &dyn Fn(&str) -> Result<Vec<u8>>) -> Result<(String, Vec<Value>)> {
    let index: Value = serde_json::from_slice(index)?;
    let entries = index["manifests"].as_array().context("an index has manifests")?;
    let [image, remark] = entries.as_slice() else {
        anyhow::bail!("{index}");
    };
    ensure!(remark["platform"]["os"] == "unknown", "{remark}");
    let annotations = &remark["annotations"];
    ensure!(
        annotations["vnd.docker.reference.type"] == "attestation-manifest",
        "{remark}"
    );
    ensure!(
        annotations["vnd.docker.reference.digest"] == image["digest"],
        "{index}"
    );
    let manifest: Value = serde_json::from_slice(&blob(remark["digest"].as_str().context("digest")?)?)?;
    ensure!(
        manifest["artifactType"] == "application/vnd.docker.attestation.manifest.v1+json",
        "{manifest}"
    );
    let subject = ["mediaType", "digest", "size"].map(|key| &manifest["subject"][key]);
    let named = ["mediaType", "digest", "size"].map(|key| &image[key]);
    ensure!(subject == named, "{subject:?} is not {named:?}");
    let mut statements = Vec::new();
    for layer in manifest["layers"].as_array().context("layers")? {
        ensure!(layer["mediaType"] == "application/vnd.in-toto+json", "{layer}");
        let bytes = blob(layer["digest"].as_str().context("digest")?)?;
        ensure!(layer["size"] == bytes.len(), "{layer}");
        let statement: Value = serde_json::from_slice(&bytes)?;
        ensure!(
            layer["annotations"]["in-toto.io/predicate-type"] == statement["predicateType"],
            "{layer}"
        );
        statements.push(statement);
    }
    let digest = image["digest"]
        .as_str()
        .and_then(|digest| digest.strip_prefix("sha256:"));
    Ok((digest.context("digest")?.to_owned(), statements))
}

/// The statements refer to the image by its manifest, which differs from place to place.
fn with_image(cx: &Context) -> Result<()> {
    files(cx)?;
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app:1", registry.host());
    let out = cx.path("out.tar")?;
    let words = [
        "-t",
        &name,
        "--attest",
        "type=provenance",
        "--attest",
        "type=sbom",
        "-o",
        &format!("type=oci,dest={out}"),
    ];
    build(cx, &words, LINES)?.exits(0)?;
    cx.run(&[&name, "cat", "/etc/os-release"])?
        .exits(0)?
        .has_out("alpine")?;
    let layout = |archive: &str| -> Result<()> {
        let of = |name: &str| -> Result<Vec<u8>> {
            let text = Invocation::new(["tar", "-xOf", archive, name]).output()?;
            text.exits(0)?;
            Ok(text.out().into_bytes())
        };
        let blob = |digest: &str| of(&digest.replace("sha256:", "blobs/sha256/"));
        let top: Value = serde_json::from_slice(&of("index.json")?)?;
        let index = blob(top["manifests"][0]["digest"].as_str().context("digest")?)?;
        let (image, statements) = of_index(&index, &blob)?;
        check_sbom(&statements, &image)?;
        check(&statements, "https://slsa.dev/provenance/v1", &image).map(drop)
    };
    layout(&out)?;
    cx.tote(&["push", &name]).output()?.exits(0)?;
    let pushed = |reference: &str| registry.stored("team/app", reference).context("it is not there");
    let (image, statements) = of_index(&pushed("1")?, &|digest| pushed(digest))?;
    check_sbom(&statements, &image)?;
    let made = check(&statements, "https://slsa.dev/provenance/v1", &image)?;
    ensure!(!made.to_string().contains("buildConfig"), "{made}");
    // A loaded image has the same statements.
    let saved = cx.path("saved.tar")?;
    cx.tote(&["save", "--format", "oci-archive", "-o", &saved, &name])
        .output()?
        .exits(0)?;
    cx.tote(&["rmi", "-f", &name]).output()?.exits(0)?;
    cx.tote(&["load", "-i", &saved]).output()?.exits(0)?;
    let again = cx.path("again.tar")?;
    cx.tote(&["save", "--format", "oci-archive", "-o", &again, &name])
        .output()?
        .exits(0)?;
    layout(&again)?;
    nothing_left(cx)
}

fn unasked(cx: &Context) -> Result<()> {
    files(cx)?;
    let id = |options: &[&str]| -> Result<String> {
        let built = build(cx, &[&["-q"], options].concat(), LINES)?;
        built.exits(0)?;
        Ok(built.out().trim().to_owned())
    };
    let plain = id(&[])?;
    for options in [
        &["--provenance=false", "--sbom=false"][..],
        &["--attest", "type=provenance,mode=max,disabled=true"],
        &["--attest", "type=sbom", "--sbom=0"],
    ] {
        ensure!(id(options)? == plain, "{options:?} makes another image");
    }
    ensure!(id(&["--sbom=1"])? != plain, "--sbom makes nothing");
    for (option, value) in [
        ("--provenance", "mode=all"),
        ("--sbom", "generator=x.example/scanner"),
        ("--attest", "type=vulnerabilities"),
    ] {
        build(cx, &[option, value], LINES)?.exits(1)?.has_err(value)?;
    }
    nothing_left(cx)
}

/// Returns the provenance of a build, as the build writes it beside the image's files.
fn provenance(cx: &Context, words: &[&str]) -> Result<Value> {
    let dir = cx.path("made")?;
    let options = ["build", "--provenance=true", "-o", &dir];
    cx.tote(&[&options, words].concat()).output()?.exits(0)?;
    let text = fs::read(std::path::Path::new(&dir).join("provenance.json"))?;
    let statement: Value = serde_json::from_slice(&text)?;
    Ok(statement["predicate"]["buildDefinition"].clone())
}

/// Materials are images and downloads by their SHA-256, and repositories by their commits; a context from a
/// repository is the source, too.
fn materials(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    registry.hook(|request| (request.path == "/file").then(|| Reply::status(200).body("content")));
    let base = digest(&publish(&registry, "team/base", own()));
    let dir = commit(cx, "app", &[("Dockerfile", "FROM scratch\nCOPY Dockerfile /\n")])?;
    let at = git(&dir, &["rev-parse", "HEAD"])?;
    let server = Daemon::of(&cx.scratch().join("served"))?;
    let (url, repository) = (format!("http://{}/file", registry.host()), server.url("app"));
    let file = format!(
        "FROM {}/team/base:{}\nADD {url} /file\nADD {repository} /app\n",
        registry.host(),
        own()
    );
    write(cx, "Dockerfile", &file)?;
    let made = provenance(cx, &[&cx.path("context")?])?;
    let named = made["resolvedDependencies"].as_array().context("none")?;
    let sum = digest(b"content");
    for (address, hash, value) in [
        ("/team/base@", "sha256", base.trim_start_matches("sha256:")),
        (url.as_str(), "sha256", sum.trim_start_matches("sha256:")),
        (repository.as_str(), "sha1", &at),
    ] {
        let found = named
            .iter()
            .find(|material| material["uri"].as_str().is_some_and(|uri| uri.contains(address)));
        let found = found.with_context(|| format!("{address} is not in {named:?}"))?;
        ensure!(found["digest"][hash] == value, "{found}");
    }
    let made = provenance(cx, &[&repository])?;
    let source = &made["externalParameters"]["configSource"];
    for material in [source, &made["resolvedDependencies"][0]] {
        ensure!(
            material["uri"] == repository && material["digest"]["sha1"] == at.as_str(),
            "{made}"
        );
    }
    let request = &made["externalParameters"]["request"];
    ensure!(
        request["locals"].is_null(),
        "no directory is the caller's: {request}"
    );
    nothing_left(cx)
}
