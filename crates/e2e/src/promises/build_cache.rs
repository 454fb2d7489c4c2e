//! `tote build --cache-from`, `--cache-to`: one machine uses the results of another.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tote_testkit::{FakeRegistry, digest};

pub(super) const TESTS: &[Test] = &[
    test("build_cache::a_directory", &[Need::ManyIds], directory),
    test("build_cache::other_stages_if_wanted", &[Need::ManyIds], stages),
    test(
        "build_cache::what_is_damaged_is_not_used",
        &[Need::ManyIds],
        damaged,
    ),
    test(
        "build_cache::what_is_forged_is_not_used",
        &[Need::ManyIds],
        forged,
    ),
    test("build_cache::a_registry", &[Need::ManyIds], at_registry),
    test("build_cache::an_image_brings_its_own", &[Need::ManyIds], inline),
    test(
        "build_cache::what_cannot_be_done_is_said",
        &[Need::ManyIds],
        refused,
    ),
];

const REST: &str = "COPY one /\nRUN cat /one > /copy\nCOPY two /\nRUN echo ran >> /copy\n";

/// Builds. Returns the output, the number of steps from the cache, and the id.
fn built(cx: &Context, options: &[&str], rest: &str) -> Result<(Output, usize, String)> {
    let file = cx.path("id")?;
    let output = build(cx, &[options, &["--iidfile", &file]].concat(), rest)?;
    output.exits(0)?;
    let found = output.out().matches("Using cache").count();
    Ok((output, found, fs::read_to_string(file)?))
}

/// Removes all images and the build cache, as on another machine.
fn forget(cx: &Context) -> Result<()> {
    for what in ["image", "builder"] {
        cx.tote(&[what, "prune", "-a", "-f"]).output()?.exits(0)?;
    }
    let left = fs::read_dir(cx.root().join("build/cache"))?.count();
    ensure!(left == 0, "{left} records are left");
    Ok(())
}

fn finds(cx: &Context, options: &[&str], rest: &str, expected: usize) -> Result<(Output, String)> {
    forget(cx)?;
    let (output, found, id) = built(cx, options, rest)?;
    ensure!(
        found == expected,
        "{options:?}: {found} steps were found, not {expected}:\n{}{}",
        output.out(),
        output.err()
    );
    Ok((output, id))
}

fn files(cx: &Context) -> Result<()> {
    write(cx, "one", "1")?;
    write(cx, "two", "2")
}

fn directory(cx: &Context) -> Result<()> {
    files(cx)?;
    let dir = cx.path("cache")?;
    let (to, from) = (format!("type=local,dest={dir}"), format!("type=local,src={dir}"));
    let (_, found, id) = built(cx, &["--cache-to", &to], REST)?;
    ensure!(found == 0, "{found} steps were found by the first build");
    let (output, again) = finds(cx, &["--cache-from", &from], REST, 6)?;
    ensure!(again == id, "{again} is not {id}");
    ensure!(output.err().is_empty(), "{}", output.err());
    in_it(cx, "cat /copy /two")?.has_out("1ran\n2")?;
    finds(cx, &[], REST, 0)?;
    finds(cx, &["--no-cache", "--cache-from", &from], REST, 0)?;
    write(cx, "two", "changed")?;
    // A second cache has both, by different tags in one directory.
    let second = format!("{to},tag=second");
    finds(cx, &["--cache-from", &from, "--cache-to", &second], REST, 4)?;
    in_it(cx, "cat /copy /two")?.has_out("1ran\nchanged")?;
    finds(cx, &["--cache-from", &from], REST, 4)?;
    let second = format!("{from},tag=second");
    let (_, changed) = finds(cx, &["--cache-from", &second, "--cache-from", &from], REST, 6)?;
    write(cx, "two", "2")?;
    let (_, again) = finds(cx, &["--cache-from", &second, "--cache-from", &from], REST, 6)?;
    ensure!(again == id && changed != id, "{again} {changed} {id}");
    built(cx, &["--squash", "--cache-to", &to], REST)?;
    finds(cx, &["--squash", "--cache-from", &from], REST, 7)?;
    forget(cx)?;
    nothing_left(cx)
}

fn stages(cx: &Context) -> Result<()> {
    let rest = "FROM base AS builder\nRUN echo made > /made\nFROM base\nCOPY --from=builder /made /\n\
        RUN --mount=from=builder,source=/made,target=/m cat /m > /copy\n";
    let dir = cx.path("cache")?;
    let (to, from) = (format!("type=local,dest={dir}"), format!("type=local,src={dir}"));
    built(cx, &["--cache-to", &to], rest)?;
    // The stage that is only copied from is built again, with the same result.
    finds(cx, &["--cache-from", &from], rest, 4)?;
    finds(cx, &["--cache-to", &format!("{to},mode=max")], rest, 0)?;
    finds(cx, &["--cache-from", &from], rest, 5)?;
    in_it(cx, "cat /made /copy")?.prints("made\nmade\n")?;
    forget(cx)?;
    nothing_left(cx)
}

/// Finds the document with this media type in a layout, and the manifest.
fn document(dir: &Path) -> Result<(Value, Value)> {
    let read = |path: String| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(dir.join(path))?)?) };
    let of = |descriptor: &Value| -> Result<String> {
        let digest = descriptor["digest"].as_str().context("there is no digest")?;
        Ok(format!("blobs/{}", digest.replace(':', "/")))
    };
    let index = read("index.json".to_owned())?;
    let manifest = read(of(&index["manifests"][0])?)?;
    let document = read(of(&manifest["config"])?)?;
    Ok((manifest, document))
}

/// Puts a manifest and a document into a layout, with right digests.
fn forge(dir: &Path, mut manifest: Value, document: &Value) -> Result<()> {
    let put = |value: &Value| -> Result<(String, usize)> {
        let bytes = serde_json::to_vec(value)?;
        let digest = digest(&bytes);
        fs::write(dir.join("blobs").join(digest.replace(':', "/")), &bytes)?;
        Ok((digest, bytes.len()))
    };
    let (name, size) = put(document)?;
    manifest["config"]["digest"] = json!(name);
    manifest["config"]["size"] = json!(size);
    let (name, size) = put(&manifest)?;
    let entry = json!({ "mediaType": manifest["mediaType"], "digest": name, "size": size });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    Ok(fs::write(dir.join("index.json"), serde_json::to_vec(&index)?)?)
}

/// Checks that the image matches the Dockerfile, and that the store is sound.
fn whole(cx: &Context) -> Result<()> {
    in_it(cx, "cat /copy /two")?.prints("1ran\n2")?;
    let verified = cx.tote(&["store", "verify", "--full"]).output()?;
    verified.exits(0).map(drop)
}

fn forged(cx: &Context) -> Result<()> {
    files(cx)?;
    let path = cx.path("cache")?;
    let dir = Path::new(&path);
    let from = format!("type=local,src={path}");
    let to = format!("type=local,dest={path}");
    built(cx, &["--cache-to", &to], REST)?;
    let (manifest, document) = document(dir)?;
    // Forged records: another image's layers under every key, in a document that is as valid as the true one.
    let mut forged = document.clone();
    let records = forged["records"]
        .as_object_mut()
        .context("there are no records")?;
    let configs: Vec<Value> = records.values().cloned().collect();
    for (at, record) in records.values_mut().enumerate() {
        *record = configs[(at + 1) % configs.len()].clone();
    }
    forge(dir, manifest.clone(), &forged)?;
    finds(cx, &["--cache-from", &from], REST, 0)?;
    whole(cx)?;
    // Layers in another order than in their images.
    let mut swapped = manifest.clone();
    let layers = swapped["layers"].as_array_mut().context("there are no layers")?;
    layers.rotate_left(1);
    forge(dir, swapped, &document)?;
    let (output, _) = finds(cx, &["--cache-from", &from], REST, 0)?;
    output.has_err("is not used")?;
    whole(cx)?;
    let mut short = manifest.clone();
    short["layers"] = json!([]);
    forge(dir, short, &document)?;
    finds(cx, &["--cache-from", &from], REST, 0)?
        .0
        .has_err("is not used")?;
    for nonsense in [json!({}), json!({ "layers": document["layers"], "records": [1] })] {
        forge(dir, manifest.clone(), &nonsense)?;
        finds(cx, &["--cache-from", &from], REST, 0)?
            .0
            .has_err("is not used")?;
    }
    forge(dir, manifest, &document)?;
    finds(cx, &["--cache-from", &from], REST, 6)?;
    forget(cx)?;
    nothing_left(cx)
}

fn damaged(cx: &Context) -> Result<()> {
    files(cx)?;
    let path = cx.path("cache")?;
    let dir = Path::new(&path);
    let from = format!("type=local,src={path}");
    let to = format!("type=local,dest={path}");
    built(cx, &["--cache-to", &to], REST)?;
    let (manifest, _) = document(dir)?;
    let layers = manifest["layers"].as_array().context("there are no layers")?;
    for layer in layers {
        let digest = layer["digest"].as_str().context("there is no digest")?;
        fs::write(dir.join("blobs").join(digest.replace(':', "/")), "damaged")?;
    }
    finds(cx, &["--cache-from", &from], REST, 0)?
        .0
        .has_err("is not used")?;
    whole(cx)?;
    // The next export repairs the cache.
    finds(cx, &["--cache-to", &to], REST, 0)?;
    finds(cx, &["--cache-from", &from], REST, 6)?;
    whole(cx)?;
    fs::write(dir.join("index.json"), "no index")?;
    finds(cx, &["--cache-from", &from], REST, 0)?
        .0
        .has_err("is not used")?;
    fs::remove_file(dir.join("index.json"))?;
    finds(cx, &["--cache-from", &from], REST, 0)?
        .0
        .has_err("index.json")?;
    forget(cx)?;
    nothing_left(cx)
}

/// Checks that a build finds `steps` steps in a cache and fetches `blobs` blobs for them. Returns the image's id.
fn fetches(cx: &Context, registry: &FakeRegistry, from: &str, steps: usize, blobs: usize) -> Result<String> {
    let count = || registry.count("GET", "/blobs/");
    let before = count();
    let (_, id) = finds(cx, &["--cache-from", from], REST, steps)?;
    let fetched = count() - before;
    ensure!(fetched == blobs, "{fetched} blobs were fetched");
    Ok(id)
}

fn at_registry(cx: &Context) -> Result<()> {
    files(cx)?;
    let registry = FakeRegistry::start();
    let name = format!("{}/team/cache:1", registry.host());
    let place = format!("type=registry,ref={name}");
    let (_, _, id) = built(cx, &["--cache-to", &place], REST)?;
    // Fetched blobs: the document, and one layer for each step.
    let again = fetches(cx, &registry, &place, 6, 7)?;
    ensure!(again == id, "{again} is not {id}");
    in_it(cx, "cat /copy /two")?.prints("1ran\n2")?;
    // Unused layers are not fetched; and if all layers are present, the registry is not asked.
    write(cx, "one", "changed")?;
    fetches(cx, &registry, &name, 2, 3)?;
    let before = registry.log().len();
    let (_, found, _) = built(cx, &["--cache-from", &name], REST)?;
    ensure!(
        found == 6 && registry.log().len() == before,
        "the registry was asked"
    );
    // A repository, as podman names caches; its images stay unchanged.
    let repository = format!("{}/team/app", registry.host());
    let both = ["--cache-to", &repository, "--cache-from", &repository];
    finds(cx, &both, REST, 0)?.0.has_err("is not used")?;
    ensure!(
        registry.stored("team/app", "latest").is_none(),
        "it took an image's name"
    );
    finds(cx, &both, REST, 6)?;
    let gone = "type=registry,ref=127.0.0.1:1/team/cache";
    finds(cx, &["--cache-from", gone, "--cache-from", &repository], REST, 6)?
        .0
        .has_err("the cache of 127.0.0.1:1/team/cache is not used")?;
    build(cx, &["--cache-to", gone], REST)?
        .exits(1)?
        .has_err("write the build cache to 127.0.0.1:1/team/cache")?;
    build(cx, &["--cache-to", &format!("{gone},ignore-error=true")], REST)?
        .exits(0)?
        .has_err("write the build cache to 127.0.0.1:1/team/cache")?;
    forget(cx)?;
    nothing_left(cx)
}

fn inline(cx: &Context) -> Result<()> {
    files(cx)?;
    let registry = FakeRegistry::start();
    let name = format!("{}/team/app", registry.host());
    let (_, _, plain) = built(cx, &[], REST)?;
    let (_, _, id) = built(cx, &["-t", &name, "--cache-to", "type=inline"], REST)?;
    ensure!(plain == id, "the cache is part of the image");
    cx.tote(&["push", "-q", &name]).output()?.exits(0)?;
    let (_, again) = finds(cx, &["--cache-from", &name], REST, 6)?;
    ensure!(again == id, "{again} is not {id}");
    in_it(cx, "cat /copy /two")?.prints("1ran\n2")?;
    write(cx, "two", "changed")?;
    finds(cx, &["--cache-from", &name], REST, 4)?;
    // The cache's image is usable like any other; and a pulled or loaded image serves as a cache without a registry.
    forget(cx)?;
    cx.tote(&["pull", "-q", &name]).output()?.exits(0)?;
    cx.run(&[&name, "cat", "/two"])?.prints("2")?;
    let archive = cx.path("image.tar")?;
    let words = ["save", "--format", "oci-archive", "-o", &archive, &name];
    cx.tote(&words).output()?.exits(0)?;
    write(cx, "two", "2")?;
    drop(registry);
    forget(cx)?;
    cx.tote(&["load", "-i", &archive]).output()?.exits(0)?;
    let (output, found, again) = built(cx, &["--cache-from", &name], REST)?;
    ensure!(found == 6 && again == id, "{}{}", output.out(), output.err());
    forget(cx)?;
    nothing_left(cx)
}

fn refused(cx: &Context) -> Result<()> {
    for (option, value, said) in [
        ("--cache-from", "type=gha", "unknown cache importer: gha"),
        ("--cache-to", "type=s3,bucket=b", "unknown cache exporter: \"s3\""),
        ("--cache-from", "type=local", "local cache importer requires src"),
        ("--cache-to", "type=local", "local cache exporter requires dest"),
        ("--cache-to", "type=local,dest=/proc/none", "/proc/none"),
        ("--cache-to", "type=registry,ref=UPPER/x y", "--cache-to"),
        ("--cache-from", "UPPER", "--cache-from UPPER: invalid reference"),
    ] {
        build(cx, &[option, value], "")?.exits(1)?.has_err(said)?;
    }
    forget(cx)?;
    nothing_left(cx)
}
