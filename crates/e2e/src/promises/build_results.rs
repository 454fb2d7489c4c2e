//! `tote build`: further sources beside the context, and the forms of the result.

use super::build::{build, in_it, nothing_left, write};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test(
        "build::other_contexts_are_copied_from_and_built_on",
        &[Need::ManyIds],
        contexts,
    ),
    test("build::squash_makes_one_layer", &[Need::ManyIds], squash),
    test(
        "build::annotations_go_where_the_image_goes",
        &[Need::ManyIds],
        annotations,
    ),
    test("build::the_image_as_an_archive", &[Need::ManyIds], archives),
    test("build::labels_ids_and_silence", &[Need::ManyIds], labels),
    test(
        "build::files_of_the_result_have_no_rights",
        &[Need::ManyIds, Need::Program("tar")],
        harmless,
    ),
    test(
        "build::archives_in_place_of_directories",
        &[Need::ManyIds],
        from_archives,
    ),
    test(
        "build::an_image_says_how_much_is_written",
        &[Need::ManyIds],
        disk_size,
    ),
];

/// Script that lists all of an image's files. The root directory is left out, because a start
/// creates mount points in it.
const LOOK: &str = "find / -xdev -mindepth 1 ! -path '/proc*' ! -path '/sys*' ! -path '/dev*' ! -path '/etc*' ! -path '/run*' | \
    sort | while read -r path; do stat -c '%n %a %u:%g %Y %h %s' \"$path\"; done";

fn contexts(cx: &Context) -> Result<()> {
    write(cx, "file", "of the context")?;
    write(cx, "../other/file", "of the other")?;
    write(cx, "../other/left.out", "x")?;
    write(cx, "../other/.dockerignore", "*.out\n")?;
    write(cx, "../tree/etc/one", "1")?;
    build(cx, &[], "COPY file /base\n")?.exits(0)?;
    cx.tote(&["tag", "it", "own:1"]).output()?.exits(0)?;
    let (other, tree) = (
        format!("other={}", cx.path("other")?),
        format!("tree={}", cx.path("tree")?),
    );
    let given = ["--build-context", &other, "--build-context", &tree];
    let image = ["--build-context", "nowhere.example/missing=docker-image://own:1"];
    let options = [&given[..], &image].concat();
    let rest = "FROM tree AS plain\nFROM base AS other\nRUN exit 9\nFROM nowhere.example/missing:latest\n\
        COPY file /context\nCOPY --from=other . /other/\nCOPY --from=tree /etc/one /one\n\
        COPY --from=plain / /plain/\nRUN --mount=type=bind,from=other,target=/o cat /o/file > /bound; ls /o > /ls\n";
    build(cx, &options, rest)?.exits(0)?;
    in_it(
        cx,
        "cat /base /context /other/file /one /plain/etc/one /bound /ls; stat -c '%u:%g' /other/file; ls /other",
    )?
    .prints("of the contextof the contextof the other11of the otherfile\n0:0\nfile\n")?;
    // Copied files are part of the cache key.
    ensure!(
        build(cx, &options, rest)?.exits(0)?.out().contains("Using cache"),
        "nothing was found again"
    );
    write(cx, "../tree/etc/one", "2")?;
    build(cx, &options, rest)?.exits(0)?;
    in_it(cx, "cat /one /plain/etc/one")?.prints("22")?;
    let absent = format!("a={}", cx.path("absent")?);
    for (value, says) in [
        (&*absent, "No such file"),
        ("a=ftp://x.example/y", "--build-context"),
        ("a", "--build-context"),
    ] {
        build(cx, &["--build-context", value], "")?
            .exits(1)?
            .has_err(says)?;
    }
    cx.tote(&["rmi", "-f", "own:1", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}

/// Builds programs that are setuid and setgid, has their files written to a directory twice, and looks at their modes: the second time they replace others.
fn harmless(cx: &Context) -> Result<()> {
    write(cx, "tool", "#!/bin/sh\n")?;
    write(cx, "dir/below/file", "")?;
    let out = cx.path("out")?;
    let rest = "FROM scratch\nCOPY --chmod=4755 tool /setuid\nCOPY --chmod=2755 tool /below/setgid\nCOPY --chmod=6711 tool /both\nCOPY --chmod=6755 dir /dir\n";
    for _ in 0..2 {
        build(cx, &["-o", &out], rest)?.exits(0)?;
        for (name, expected) in [
            ("setuid", 0o755),
            ("below/setgid", 0o755),
            ("both", 0o711),
            ("dir/below", 0o755),
        ] {
            let mode = fs::metadata(cx.scratch().join("out").join(name))?.mode();
            ensure!(mode & 0o7777 == expected, "{name} has the mode {mode:o}");
        }
    }
    // An archive keeps them, as that of `export` does: the user who extracts it decides.
    let archive = cx.path("out.tar")?;
    build(cx, &["-o", &format!("type=tar,dest={archive}")], rest)?.exits(0)?;
    let listed = Invocation::new(["tar", "-tvf", &archive]).output()?;
    listed.exits(0)?.has_out("-rwsr-xr-x")?;
    nothing_left(cx)
}

fn inspected(cx: &Context, image: &str) -> Result<Value> {
    let inspected = cx.tote(&["image", "inspect", image]).output()?;
    let all: Value = serde_json::from_str(&inspected.exits(0)?.out())?;
    Ok(all[0].clone())
}

fn squash(cx: &Context) -> Result<()> {
    let rest = "FROM base AS under\nRUN mkdir -p /gone/deep /kept; echo 1 > /gone/deep/a; echo 1 > /kept/b; echo 1 > /c\n\
        FROM under\nRUN echo secret > /secret; echo 2 > /c; ln /c /linked; echo same > /x; echo same > /y\n\
        RUN rm -r /secret /gone; mkdir /gone; touch /gone/new; chown 3:4 /x; chmod 1777 /kept\nCMD [\"true\"]\n";
    build(cx, &["-t", "plain"], rest)?.exits(0)?;
    build(cx, &["--squash"], rest)?.exits(0)?.has_out("SQUASH")?;
    let (plain, squashed) = (inspected(cx, "plain")?, inspected(cx, "it")?);
    let layers = |image: &Value| image["RootFS"]["Layers"].as_array().cloned().unwrap_or_default();
    let (of_plain, of_squashed) = (layers(&plain), layers(&squashed));
    let below = of_plain.len() - 2;
    ensure!(
        of_squashed.len() == below + 1 && of_squashed[..below] == of_plain[..below],
        "{of_plain:?} became {of_squashed:?}"
    );
    let look = format!("{LOOK}; cat /c /linked; ls -A /gone");
    let (one, other) = (
        cx.run(&["plain", "sh", "-c", &look])?,
        cx.run(&["it", "sh", "-c", &look])?,
    );
    ensure!(
        one.exits(0)?.out() == other.exits(0)?.out(),
        "{}\n---\n{}",
        one.out(),
        other.out()
    );
    // Removed files are in no layer.
    let archive = cx.path("squashed.tar")?;
    cx.tote(&["save", "-o", &archive, "it"]).output()?.exits(0)?;
    let bytes = fs::read(&archive)?;
    ensure!(
        !bytes.windows(7).any(|window| window == b"secret\n"),
        "a layer holds what was removed"
    );
    build(cx, &["--squash"], rest)?.exits(0)?.has_out("Using cache")?;
    ensure!(
        inspected(cx, "it")? == squashed,
        "the same build made another image"
    );
    cx.tote(&["rmi", "-f", "it", "plain"]).output()?.exits(0)?;
    nothing_left(cx)
}

fn annotations(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let name = format!("{}/team/it:1", registry.host());
    let options = [
        "-t",
        &name,
        "--annotation",
        "org.example.one=1",
        "--annotation",
        "manifest:two=a=b",
    ];
    build(cx, &options, "CMD [\"annotated\"]\n")?.exits(0)?;
    let wanted = serde_json::json!({ "org.example.one": "1", "two": "a=b" });
    ensure!(inspected(cx, "it")?["Annotations"] == wanted, "inspect");
    cx.tote(&["push", &name]).output()?.exits(0)?;
    let pushed = registry.stored("team/it", "1").context("nothing was pushed")?;
    let pushed: Value = serde_json::from_slice(&pushed)?;
    ensure!(pushed["annotations"] == wanted, "{pushed:#}");
    let dir = cx.path("layout")?;
    cx.tote(&["save", "--format", "oci-dir", "-o", &dir, "it"])
        .output()?
        .exits(0)?;
    cx.tote(&["rmi", "-f", "it", &name]).output()?.exits(0)?;
    cx.tote(&["load", "-i", &dir]).output()?.exits(0)?;
    ensure!(inspected(cx, "it")?["Annotations"] == wanted, "load");
    for bad in ["index:a=b", "a", "=b"] {
        build(cx, &["--annotation", bad], "")?
            .exits(1)?
            .has_err("--annotation")?;
    }
    cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}

fn archives(cx: &Context) -> Result<()> {
    for kind in ["docker", "oci"] {
        let archive = cx.path(&format!("{kind}.tar"))?;
        let option = format!("type={kind},dest={archive}");
        let id = cx.path("id")?;
        build(
            cx,
            &["-o", &option, "--iidfile", &id],
            "CMD [\"cat\", \"/etc/hostname\"]\n",
        )?
        .exits(0)?;
        cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
        cx.tote(&["load", "-i", &archive])
            .output()?
            .exits(0)?
            .has_out("it:latest")?;
        let id = fs::read_to_string(id)?;
        ensure!(
            inspected(cx, "it")?["Id"] == *id,
            "{kind}: another image came back"
        );
    }
    build(cx, &["-o", "type=docker", "-o", "type=image"], "")?.exits(0)?;
    cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}

fn labels(cx: &Context) -> Result<()> {
    let id = cx.path("id")?;
    let options = [
        "--label",
        "a=1",
        "--label",
        "b=x=y",
        "--progress",
        "quiet",
        "--isolation",
        "default",
        "--disable-content-trust",
        "--iidfile",
        &id,
    ];
    build(cx, &["--isolation", "hyperv"], "LABEL a=0\n")?.refuses(1, &["hyperv"])?;
    let built = build(cx, &options, "LABEL a=0 c=2\n")?;
    let id = fs::read_to_string(&id)?;
    built.quietly()?.prints(&format!("{id}\n"))?;
    let labels = &inspected(cx, &id)?["Config"]["Labels"];
    ensure!(
        *labels == serde_json::json!({ "a": "1", "b": "x=y", "c": "2" }),
        "{labels}"
    );
    build(cx, &["--progress", "plain"], "LABEL a=0 c=2\n")?
        .exits(0)?
        .has_out("Step 4/4 : LABEL a=0 c=2")?;
    cx.tote(&["rmi", "-f", "it"]).output()?.exits(0)?;
    nothing_left(cx)
}

/// Writes an archive of all files of the image `it` to `name`.
fn root_archive(cx: &Context, name: &str) -> Result<String> {
    let archive = cx.path(name)?;
    cx.tote(&["create", "--name", "x", "it"]).output()?.exits(0)?;
    cx.tote(&["export", "-o", &archive, "x"]).output()?.exits(0)?;
    cx.tote(&["rm", "x"]).output()?.exits(0)?;
    Ok(archive)
}

fn from_archives(cx: &Context) -> Result<()> {
    build(
        cx,
        &[],
        "RUN mkdir /d; echo 1 > /d/f; chown 3:4 /d/f; chmod 4711 /d/f; ln /d/f /hard; ln -s d /soft\nCMD [\"true\"]\n",
    )?
    .exits(0)?;
    // A name with a pattern and a variable's syntax in it.
    let odd = root_archive(cx, "odd $HOME [1]*.tar")?;
    cx.file("odd $HOME 1.tar", "another")?;
    cx.tote(&["build", "-t", "copy", &odd]).output()?.exits(0)?;
    let seen = cx.run(&["it", "sh", "-c", LOOK])?;
    ensure!(seen.exits(0)?.out().contains("/d/f 4711 3:4"), "{}", seen.out());
    cx.run(&["copy", "sh", "-c", LOOK])?.prints(&seen.out())?;
    ensure!(
        inspected(cx, "copy")?["RootFS"]["Layers"]
            .as_array()
            .map(Vec::len)
            == Some(1),
        "it has more than a layer"
    );
    // An archive with a Dockerfile is a build context.
    write(cx, "sub/Other", "FROM it\nCOPY file /other\n")?;
    write(cx, "file", "in the archive")?;
    build(cx, &[], "COPY file /file\n")?.exits(0)?;
    let archive = cx.path("context.tar.gz")?;
    let context = cx.path("context")?;
    Invocation::new(["tar", "-czf", &archive, "-C", &context, "."])
        .output()?
        .exits(0)?;
    cx.tote(&["build", "-t", "it", &archive]).output()?.exits(0)?;
    in_it(cx, "cat /file")?.prints("in the archive")?;
    cx.tote(&["build", "-t", "copy", "-f", "sub/Other", &archive])
        .output()?
        .exits(0)?;
    cx.run(&["copy", "cat", "/other"])?.prints("in the archive")?;
    let cut = cx.path("cut.tar")?;
    fs::write(&cut, &fs::read(&odd)?[..5000])?;
    for path in [cut, cx.file("plain", "no archive")?] {
        cx.tote(&["build", &path]).output()?.exits(1)?.has_err(&path)?;
    }
    cx.tote(&["build", &cx.path("absent")?])
        .output()?
        .exits(1)?
        .has_err("hint: ")?;
    cx.tote(&["rmi", "-f", "it", "copy"]).output()?.exits(0)?;
    nothing_left(cx)
}

/// Script that writes until the disk is full.
const FILL: &str = "dd if=/dev/zero of=/big bs=1M count=60 2>/dev/null; stat -c %s /big";

fn disk_size(cx: &Context) -> Result<()> {
    build(cx, &[], "CMD [\"true\"]\n")?.exits(0)?;
    let archive = root_archive(cx, "rootfs.tar")?;
    cx.tote(&["build", "-t", "sized", "--disk-size", "40m", &archive])
        .output()?
        .exits(0)?;
    cx.tote(&["import", "--disk-size", "40m", &archive, "imported"])
        .output()?
        .exits(0)?;
    build(cx, &[], "FROM sized\n")?.exits(0)?;
    let written = |output: Output| -> Result<u64> { Ok(output.exits(0)?.out().trim().parse()?) };
    for image in ["sized", "imported", "it"] {
        let label = &inspected(cx, image)?["Config"]["Labels"]["tote.disk-size"];
        ensure!(label == "40m", "{image}: {label}");
        let count = written(cx.run(&[image, "sh", "-c", FILL])?)?;
        ensure!((1 << 20..=40 << 20).contains(&count), "{image}: {count} bytes");
    }
    // Options of `run` override the image.
    let count = written(cx.run(&["--disk-size", "50m", "it", "sh", "-c", FILL])?)?;
    ensure!(count > 40 << 20, "{count} bytes of 50m");
    let count = written(cx.run(&["--driver", "copy", "it", "sh", "-c", FILL])?)?;
    ensure!(count == 60 << 20, "{count} bytes without an end");
    let kept = cx
        .tote(&["run", "--name", "kept", "it", "sh", "-c", FILL])
        .output()?;
    if !Need::Root.met() {
        kept.has_err("the image asks for a disk of 40m")?;
        ensure!(written(kept)? == 60 << 20, "a size, and a warning");
    } else if Need::Program("mkfs.ext4").met() {
        let count = written(kept)?;
        ensure!((1 << 20..=40 << 20).contains(&count), "{count} bytes on a disk");
        // A second start uses the same disk.
        cx.tote(&["start", "-a", "kept"]).output()?.exits(0)?;
        cx.tote(&["inspect", "-f", "{{.Driver}} {{.HostConfig.StorageOpt}}", "kept"])
            .output()?
            .prints("loop map[size:41943040]\n")?;
    }
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    build(cx, &["--label", "tote.disk-size=much"], "CMD [\"true\"]\n")?.exits(0)?;
    cx.run(&["it"])?
        .refuses(125, &["tote.disk-size", "much", "--disk-size SIZE"])?;
    build(cx, &["--disk-size", "1"], "")?.refuses(125, &["--disk-size", "1m"])?;
    cx.tote(&["rmi", "-f", "it", "sized", "imported"])
        .output()?
        .exits(0)?;
    nothing_left(cx)
}
