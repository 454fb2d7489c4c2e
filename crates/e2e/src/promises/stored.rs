//! Images of the store: they go in and out unchanged, every file is stored once, and containers cannot change them.

use super::on_disk::content_of;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const TESTS: &[Test] = &[
    test("stored::import_and_run", &[], import_and_run),
    test("stored::the_configuration_is_honoured", &[], configuration),
    test("stored::save_and_load_give_the_same_image", &[], save_and_load),
    test("stored::a_repository_is_saved_with_all_its_tags", &[], all_tags),
    test("stored::layers_come_out_byte_for_byte", &[], byte_for_byte),
    test("stored::writes_do_not_reach_the_image", &[], unchanged),
    test("stored::equal_files_are_on_disk_once", &[], once),
    test("stored::names", &[], names),
    test("stored::lists_as_templates_say", &[], templates),
    test("stored::an_image_in_use_is_kept", &[Need::Root], in_use),
    test("stored::what_is_removed_is_gone", &[], removed),
    test("stored::damage_is_found_and_mended", &[], damage),
    test("stored::owners_are_the_images", &[Need::ManyIds], owners),
    test("stored::what_is_no_archive", &[], no_archive),
    test(
        "stored::what_has_no_room_leaves_none_taken",
        &[Need::Root, Need::Program("unshare")],
        no_room,
    ),
];

/// Packs the tests' root file system with a file of its own.
pub(super) fn archive(cx: &Context, name: &str) -> Result<String> {
    let (dir, _) = cx.own_rootfs(name)?;
    fs::write(dir.join("own"), name)?;
    pack(cx, &dir, name)
}

/// Packs a directory with root as the owner of its files.
pub(super) fn pack(cx: &Context, dir: &Path, name: &str) -> Result<String> {
    let archive = cx.path(&format!("{name}.tar"))?;
    let made = Command::new("tar")
        .args(["--owner=:0", "--group=:0", "-cf", &archive, "-C"])
        .arg(dir)
        .arg(".")
        .output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    Ok(archive)
}

/// Imports an image made of [`archive`]. Returns its id.
pub(super) fn image(cx: &Context, name: &str, changes: &[&str]) -> Result<String> {
    let archive = archive(cx, name)?;
    let mut words = vec!["import"];
    for change in changes {
        words.extend(["-c", change]);
    }
    words.extend([archive.as_str(), name]);
    let output = cx.tote(&words).output()?;
    output.exits(0)?;
    Ok(output.out().trim().to_owned())
}

fn says(cx: &Context, words: &[&str]) -> Result<String> {
    let output = cx.tote(words).output()?;
    output.exits(0)?;
    Ok(output.out())
}

fn store(cx: &Context) -> PathBuf {
    cx.root().join("store")
}

/// Returns the directory of the only image's tree, which has the directories that containers see.
fn only_tree(cx: &Context) -> Result<PathBuf> {
    let mut trees = fs::read_dir(store(cx).join("trees"))?;
    let tree = trees.next().context("there is a tree")??.path();
    ensure!(trees.next().is_none(), "there is one tree");
    Ok(tree)
}

fn import_and_run(cx: &Context) -> Result<()> {
    let id = image(cx, "mine", &["CMD [\"cat\", \"/own\"]"])?;
    cx.run(&["mine"])?.prints("mine")?;
    cx.run(&["mine:latest", "echo", "x"])?.prints("x\n")?;
    let short = id.trim_start_matches("sha256:").get(..12).unwrap_or_default();
    cx.run(&[short])?.prints("mine")?;
    cx.run(&[&id])?.prints("mine")?;
    cx.nothing_left()
}

fn configuration(cx: &Context) -> Result<()> {
    let changes = [
        "ENTRYPOINT [\"sh\", \"-c\"]",
        "CMD [\"echo $A; pwd; id -u; test -d /data && echo volume\"]",
        "ENV A=from-the-image",
        "WORKDIR /tmp",
        "VOLUME /data",
        "LABEL a=b",
        "EXPOSE 80",
    ];
    image(cx, "configured", &changes)?;
    cx.run(&["configured"])?
        .prints("from-the-image\n/tmp\n0\nvolume\n")?;
    cx.run(&["-e", "A=mine", "-w", "/", "configured", "echo $A; pwd"])?
        .prints("mine\n/\n")?;
    let shown: serde_json::Value = serde_json::from_str(&says(cx, &["image", "inspect", "configured"])?)?;
    let config = shown.pointer("/0/Config").context("there is a configuration")?;
    ensure!(
        config.pointer("/Labels/a").is_some_and(|value| value == "b"),
        "labels: {config}"
    );
    ensure!(
        config
            .get("ExposedPorts")
            .is_some_and(|ports| ports.get("80/tcp").is_some()),
        "ports: {config}"
    );
    Ok(())
}

fn save_and_load(cx: &Context) -> Result<()> {
    let id = image(cx, "mine", &["CMD [\"cat\", \"/own\"]"])?;
    let saved = [
        ("docker-archive", "a.tar"),
        ("oci-archive", "o.tar"),
        ("oci-dir", "layout"),
    ];
    for (format, name) in saved {
        says(cx, &["save", "--format", format, "-o", &cx.path(name)?, "mine"])?;
    }
    for (_, name) in saved {
        says(cx, &["rmi", "mine"])?;
        ensure!(says(cx, &["images", "-q"])?.is_empty(), "the image is gone");
        cx.tote(&["load", "-i", &cx.path(name)?])
            .output()?
            .prints("Loaded image: mine:latest\n")?;
        ensure!(
            says(cx, &["images", "-q", "--no-trunc"])?.trim() == id,
            "{name}: it is the same image"
        );
        cx.run(&["mine"])?.prints("mine")?;
    }
    let compressed = Command::new("gzip").args(["-c", &cx.path("a.tar")?]).output()?;
    cx.tote(&["load"])
        .input(&compressed.stdout)
        .output()?
        .prints("Loaded image: mine:latest\n")?;
    Ok(())
}

/// docker's rule: a repository without a tag is all its tags.
fn all_tags(cx: &Context) -> Result<()> {
    image(cx, "mine:one", &["CMD [\"cat\", \"/own\"]"])?;
    image(cx, "mine:two", &["LABEL a=b"])?;
    says(cx, &["tag", "mine:one", "mine-own:one"])?;
    for (wanted, loaded) in [
        ("mine", "Loaded image: mine:one\nLoaded image: mine:two\n"),
        ("mine:two", "Loaded image: mine:two\n"),
    ] {
        let saved = cx.path("saved.tar")?;
        says(cx, &["save", "-o", &saved, wanted])?;
        cx.tote(&["load", "-i", &saved]).output()?.prints(loaded)?;
        fs::remove_file(saved)?;
    }
    cx.tote(&["save", "-o", &cx.path("none.tar")?, "min"])
        .output()?
        .refuses(1, &["min"])?;
    Ok(())
}

fn byte_for_byte(cx: &Context) -> Result<()> {
    let before = fs::read(archive(cx, "mine")?)?;
    says(cx, &["import", &cx.path("mine.tar")?, "mine"])?;
    let saved = cx.path("saved")?;
    says(cx, &["save", "--format", "oci-dir", "-o", &saved, "mine"])?;
    let blobs = fs::read_dir(Path::new(&saved).join("blobs/sha256"))?;
    for blob in blobs {
        if fs::read(blob?.path())? == before {
            return Ok(());
        }
    }
    anyhow::bail!("no blob is the archive that was imported")
}

fn unchanged(cx: &Context) -> Result<()> {
    image(cx, "mine", &[])?;
    let tree = only_tree(cx)?;
    let before = tree::listing(&tree)?;
    let changes =
        "echo more >> /etc/passwd; rm /etc/group; chmod 700 /home; ln /own /hard; echo x > /own; cat /hard";
    for options in [&["mine"][..], &["--read-only", "--tmpfs", "/tmp", "mine"]] {
        let mut words = options.to_vec();
        words.extend(["sh", "-c", changes]);
        cx.run(&words)?;
        tree::unchanged(&tree, &before)?;
    }
    cx.run(&["mine", "cat", "/own"])?.prints("mine")?;
    ensure!(
        says(cx, &["store", "verify", "--full"])?.contains(" files, "),
        "it is whole"
    );
    Ok(())
}

fn once(cx: &Context) -> Result<()> {
    image(cx, "one", &[])?;
    image(cx, "two", &[])?;
    let mut inodes = Vec::new();
    for entry in fs::read_dir(store(cx).join("trees"))? {
        let busybox = content_of(&entry?.path(), "bin/busybox")?;
        inodes.push(fs::metadata(busybox)?.ino());
    }
    ensure!(
        inodes.len() == 2 && inodes[0] == inodes[1],
        "busybox is one file: {inodes:?}"
    );
    let shown = says(cx, &["system", "df"])?;
    ensure!(shown.contains("Every file once: "), "{shown}");
    Ok(())
}

fn names(cx: &Context) -> Result<()> {
    image(cx, "mine:1", &[])?;
    says(cx, &["tag", "mine:1", "example.org/other/name:2"])?;
    let shown = says(cx, &["images"])?;
    for words in [
        "REPOSITORY",
        "mine ",
        "example.org/other/name",
        "About a minute ago",
    ] {
        // The time in the output varies.
        ensure!(
            shown.contains(words) || words.contains("ago"),
            "{words} in {shown}"
        );
    }
    cx.tote(&["rmi", "mine:1"])
        .output()?
        .prints("Untagged: mine:1\n")?;
    let filtered = says(cx, &["images", "-q", "-f", "reference=*/*/name"])?;
    ensure!(filtered.lines().count() == 1, "{filtered}");
    ensure!(
        says(cx, &["images", "-q", "--filter", "dangling=true"])?.is_empty(),
        "all have names"
    );
    cx.tote(&["rmi", "mine:1"])
        .output()?
        .refuses(1, &["no such image: mine:1"])?;
    cx.tote(&["image", "exists", "mine:1"]).output()?.exits(1)?;
    let other = "example.org/other/name:2";
    cx.tote(&["image", "exists", other]).output()?.prints("")?;
    cx.tote(&["rmi", "--ignore", "--no-prune", "mine:1", other])
        .output()?
        .exits(0)?
        .has_out(&format!("Untagged: {other}"))?;
    cx.tote(&["image", "exists", other]).output()?.exits(1).map(drop)
}

fn templates(cx: &Context) -> Result<()> {
    let id = image(cx, "mine:1", &["LABEL a=b", "ENV X=1", "CMD [\"cat\", \"/own\"]"])?;
    for (words, expected) in [
        (
            &["images", "--format", "{{.Repository}}:{{.Tag}}"][..],
            "mine:1\n",
        ),
        (
            &["images", "--format", "table {{.Tag}}\\t{{upper .Repository}}"],
            "TAG       REPOSITORY\n1         MINE\n",
        ),
        (
            &[
                "image",
                "inspect",
                "-f",
                "{{index .Config.Labels \"a\"}} {{join .Config.Cmd \",\"}}",
                "mine:1",
            ],
            "b cat,/own\n",
        ),
        (
            &[
                "image",
                "inspect",
                "--format",
                "{{range .Config.Env}}<{{.}}>{{end}}{{with .Nothing}}x{{end}}",
                "mine:1",
            ],
            "<X=1>\n",
        ),
        (
            &["system", "df", "--format", "{{.Type}} {{.TotalCount}}"],
            "Images 1\n",
        ),
        (
            &["history", "--format", "{{.ID}}", "--no-trunc", "mine:1"],
            &format!("{id}\n"),
        ),
    ] {
        let shown = says(cx, words)?;
        ensure!(shown.starts_with(expected), "{words:?}: {shown}");
    }
    cx.tote(&["images", "--format", "{{.Nothing}}"])
        .output()?
        .refuses(1, &["--format", "Nothing"])?;
    cx.tote(&["images", "--format", "{{.ID"])
        .output()?
        .refuses(1, &["--format", "{{ without }}"])?;
    Ok(())
}

fn in_use(cx: &Context) -> Result<()> {
    image(cx, "mine", &[])?;
    let run = ["run", "--name", "kept", "mine", "sh", "-c", "echo >>/written"];
    says(cx, &run)?;
    cx.tote(&["rmi", "mine"])
        .output()?
        .refuses(1, &["conflict", "kept", "must force"])?;
    // Force takes the name alone: the container's files are nothing without the image.
    let untagged = says(cx, &["rmi", "-f", "mine"])?;
    ensure!(
        untagged.starts_with("Untagged: ") && !untagged.contains("Deleted"),
        "{untagged}"
    );
    let id = says(cx, &["images", "-q"])?;
    cx.tote(&["rmi", "-f", id.trim()])
        .output()?
        .refuses(1, &["cannot be forced", "kept"])?;
    says(cx, &["image", "prune", "-af"])?;
    says(cx, &["start", "-a", "kept"])?;
    ensure!(
        says(cx, &["diff", "kept"])?.contains("/written"),
        "the container keeps what it wrote"
    );
    says(cx, &["rm", "kept"])?;
    says(cx, &["rmi", id.trim()])?;
    ensure!(
        says(cx, &["images", "-aq"])?.is_empty(),
        "without a container it goes"
    );
    Ok(())
}

fn removed(cx: &Context) -> Result<()> {
    image(cx, "one", &[])?;
    image(cx, "two", &[])?;
    says(cx, &["rmi", "one"])?;
    says(cx, &["image", "prune", "-f"])?;
    cx.run(&["two", "cat", "/own"])?.prints("two")?;
    says(cx, &["image", "prune", "-af"])?;
    for entry in fs::read_dir(store(cx).join("objects"))? {
        let shard = entry?.path();
        ensure!(
            fs::read_dir(&shard)?.next().is_none(),
            "something is left in {}",
            shard.display()
        );
    }
    for name in ["layers", "images", "names", "trees", "trash"] {
        ensure!(
            fs::read_dir(store(cx).join(name))?.next().is_none(),
            "something is left in {name}"
        );
    }
    Ok(())
}

fn damage(cx: &Context) -> Result<()> {
    image(cx, "mine", &[])?;
    let saved = cx.path("saved.tar")?;
    says(cx, &["save", "-o", &saved, "mine"])?;
    let busybox = content_of(&only_tree(cx)?, "bin/busybox")?;
    let content = fs::read(&busybox)?;
    let time = busybox.metadata()?.modified()?;
    fs::write(&busybox, vec![0; content.len()])?;
    fs::File::open(&busybox)?.set_modified(time)?;
    says(cx, &["store", "verify"])?;
    let found = cx.tote(&["store", "verify", "--full"]).output()?;
    found
        .exits(1)?
        .has_out("damaged: ")?
        .has_err("1 files, 0 layers and 0 records or trees are lost or damaged")?;
    cx.tote(&["store", "verify", "--repair"])
        .output()?
        .exits(1)?
        .has_err("1 layers are lost")?;
    says(cx, &["load", "-i", &saved])?;
    says(cx, &["store", "verify", "--full"])?;
    cx.run(&["mine", "cat", "/own"])?.prints("mine")?;
    Ok(())
}

fn owners(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("mine")?;
    let archive = cx.path("mine.tar")?;
    let owners = ["--owner=:7", "--group=:42", "-cf", &archive, "-C"];
    let made = Command::new("tar").args(owners).arg(&dir).arg(".").output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    says(cx, &["import", &archive, "mine"])?;
    let shown = cx.run(&[
        "mine",
        "stat",
        "-c",
        "%u:%g",
        "/etc/passwd",
        "/bin/busybox",
        "/bin/sh",
        "/home",
    ])?;
    shown.prints("7:42\n7:42\n7:42\n7:42\n")?;
    says(cx, &["image", "prune", "-af"]).map(drop)
}

fn no_archive(cx: &Context) -> Result<()> {
    let text = cx.file("text", "no archive")?;
    cx.tote(&["load", "-i", &text]).output()?.fails()?;
    let archive = archive(cx, "mine")?;
    cx.tote(&["load", "-i", &archive])
        .output()?
        .refuses(1, &["not an archive of images", "manifest.json"])?;
    cx.tote(&["load", "-i", "/nowhere"])
        .output()?
        .refuses(1, &["--input", "/nowhere"])?;
    // The layer has no digest yet, so the error does not name one.
    cx.file("up", "out of the root")?;
    let (below, bad) = (cx.directory("below")?, cx.path("bad.tar")?);
    let made = Command::new("tar")
        .args(["-C", &below, "-cPf", &bad, "../up"])
        .output()?;
    ensure!(made.status.success(), "tar");
    cx.tote(&["import", &bad])
        .output()?
        .refuses(1, &["read the layer: ", "\"../up\" contains `..`"])?;
    ensure!(says(cx, &["images", "-q"])?.is_empty(), "nothing was loaded");
    Ok(())
}

/// Script with a small file system, a large archive, and then a small one.
const NO_ROOM: &str = "mount -t tmpfs -o size=24m small \"$1\" && \
tote=\"$2 --root $1/state\" && ! $tote load -i \"$3\" && ! $tote import \"$4\" && $tote load -q -i \"$5\" && \
$tote run --rm small cat /own && ! $tote load -i \"$3\" && $tote run --rm small cat /own && umount \"$1\"";

fn no_room(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("large")?;
    // The content is random, so that no two files are equal.
    let noise = fs::File::open("/dev/urandom")?;
    for number in 0..40 {
        let mut file = fs::File::create(dir.join(format!("noise-{number}")))?;
        std::io::copy(&mut std::io::Read::take(&noise, 1 << 20), &mut file)?;
    }
    let rootfs = pack(cx, &dir, "rootfs")?;
    says(cx, &["import", &rootfs, "large"])?;
    let (large, small) = (cx.path("large.tar")?, cx.path("small.tar")?);
    says(cx, &["save", "-o", &large, "large"])?;
    image(cx, "small", &[])?;
    says(cx, &["save", "-o", &small, "small"])?;
    let place = cx.directory("small-disk")?;
    let tote = cx.binary().display().to_string();
    let words = [
        "unshare", "-m", "sh", "-c", NO_ROOM, "sh", &place, &tote, &large, &rootfs, &small,
    ];
    let output = crate::invocation::Invocation::new(words).output()?;
    output
        .exits(0)?
        .prints("Loaded image: small:latest\nsmallsmall")?;
    output.has_err("No space left on device")?;
    Ok(())
}
