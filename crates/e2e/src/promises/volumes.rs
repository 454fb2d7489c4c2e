//! A new volume gets the content of the image at its place.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

pub(super) const TESTS: &[Test] = &[
    test("volumes::a_named_one_begins_with_the_images_files", &[], named),
    test(
        "volumes::an_anonymous_one_begins_with_the_images_files",
        &[],
        anonymous,
    ),
    test(
        "volumes::owners_and_modes_are_the_images",
        &[Need::ManyIds],
        owners,
    ),
    test("volumes::what_has_something_in_it_stays", &[], stays),
    test("volumes::what_a_program_has_removed_stays_removed", &[], emptied),
    test("volumes::options_put_a_device_in_their_place", &[], devices),
    test(
        "volumes::a_file_system_of_a_disk",
        &[Need::Root, Need::Program("mkfs.ext4"), Need::Program("losetup")],
        disk,
    ),
    test("volumes::a_part_of_one_is_mounted_and_not_left", &[], part),
    test("volumes::an_image_is_mounted_beside_another", &[], beside),
];

/// Makes an image with files at `/data`.
fn image(cx: &Context, owner: &str, changes: &[&str]) -> Result<()> {
    let (dir, _) = cx.own_rootfs("data")?;
    fs::create_dir_all(dir.join("data/sub"))?;
    fs::write(dir.join("data/file"), "the image's\n")?;
    fs::write(dir.join("data/sub/below"), "below\n")?;
    let archive = cx.path("data.tar")?;
    let owner = [format!("--owner={owner}"), format!("--group={owner}")];
    let made = Command::new("tar")
        .args(owner)
        .args(["--numeric-owner", "-cf", &archive, "-C"])
        .arg(&dir)
        .arg(".")
        .output()?;
    ensure!(
        made.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let mut words = vec!["import"];
    for change in changes {
        words.extend(["-c", change]);
    }
    words.extend([archive.as_str(), "data"]);
    cx.tote(&words).output()?.exits(0).map(drop)
}

/// podman's `--mount type=image`.
fn beside(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    let look = "cat /i/data/file; touch /i/new 2>/dev/null || echo refused";
    cx.shell(&["--mount", "type=image,source=data,target=/i"], look)?
        .prints("the image's\nrefused\n")?;
    let writable = "type=image,src=data,dst=/i,rw=true";
    let change = "rm -r /i/data && touch /i/new && ls /i/data 2>/dev/null || ls -d /i/new";
    cx.shell(&["--mount", writable], change)?.prints("/i/new\n")?;
    cx.shell(&["--mount", writable], look)?.prints("the image's\n")?;
    cx.shell(&["--mount", "type=image,source=nosuch,target=/i"], "true")?
        .exits(125)?
        .has_err("nosuch")?;
    cx.nothing_left()?;
    // The image stays for as long as the container is there, whatever it is called by then.
    let made = [
        "create",
        "--name",
        "c",
        "--mount",
        writable,
        &cx.image(),
        "sh",
        "-c",
        look,
    ];
    cx.tote(&made).output()?.exits(0)?;
    cx.tote(&["rmi", "data"])
        .output()?
        .exits(1)?
        .has_err("container c")?;
    cx.tote(&["start", "-a", "c"]).output()?.prints("the image's\n")?;
    cx.tote(&["inspect", "-f", "{{range .Mounts}}{{.Type}} {{.RW}}{{end}}", "c"])
        .output()?
        .prints("image true\n")?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.tote(&["rmi", "data"]).output()?.exits(0)?;
    Ok(())
}

const LOOK: &str = "cat /data/file /data/sub/below";

fn named(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.run(&[
        "-v",
        "vol:/data",
        "data",
        "sh",
        "-c",
        "echo mine > /data/file; rm -r /data/sub",
    ])?
    .exits(0)?;
    // Removed files do not come back.
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "cat /data/file; ls /data"])?
        .prints("mine\nfile\n")?;
    cx.run(&["-v", "other:/data:ro", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.run(&["-v", "third:/data:nocopy", "data", "ls", "-A", "/data"])?
        .prints("")?;
    cx.run(&[
        "--mount",
        "source=fourth,target=/data,volume-nocopy",
        "data",
        "ls",
        "-A",
        "/data",
    ])?
    .prints("")?;
    cx.run(&["data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    Ok(())
}

fn anonymous(cx: &Context) -> Result<()> {
    image(cx, "0", &["VOLUME /data"])?;
    let script = format!("{LOOK} && echo changed > /data/file && grep -c ' /data ' /proc/self/mountinfo");
    for driver in ["overlay", "split", "copy"] {
        for _ in 0..2 {
            cx.run(&["--driver", driver, "data", "sh", "-c", &script])?
                .prints("the image's\nbelow\n1\n")?;
        }
    }
    cx.run(&["-v", "/data", "data", "sh", "-c", LOOK])?
        .prints("the image's\nbelow\n")?;
    cx.nothing_left()
}

fn devices(cx: &Context) -> Result<()> {
    let options = [
        "-o",
        "type=tmpfs",
        "-o",
        "device=tmpfs",
        "-o",
        "o=size=100m,mode=750",
    ];
    cx.tote(&[&["volume", "create"], &options[..], &["memory"]].concat())
        .output()?
        .prints("memory\n")?;
    let script = "grep -c ' /v tmpfs .*size=102400k' /proc/mounts; stat -c %a /v; touch /v/x";
    cx.shell(&["-v", "memory:/v"], script)?.prints("1\n750\n")?;
    // Each container has a tmpfs of its own.
    cx.shell(&["-v", "memory:/v"], "ls -A /v")?.prints("")?;
    cx.shell(&["-v", "memory:/v:ro"], "touch /v/x || echo refused")?
        .has_out("refused\n")?;
    let source = cx.directory("device")?;
    let device = format!("device={source}");
    for (name, flags, expected) in [
        ("bound", "o=bind", "written\n"),
        ("read", "o=bind,ro", "refused\n"),
    ] {
        cx.tote(&[
            "volume",
            "create",
            "-o",
            "type=none",
            "-o",
            &device,
            "-o",
            flags,
            name,
        ])
        .output()?
        .exits(0)?;
        let mount = format!("{name}:/v");
        cx.shell(&["-v", &mount], "touch /v/x && echo written || echo refused")?
            .has_out(expected)?;
    }
    ensure!(fs::read_dir(&source)?.count() == 1, "the directory got one file");
    let options = "{{.Options.o}} {{.Options.type}}";
    cx.tote(&["volume", "inspect", "-f", options, "read"])
        .output()?
        .prints("bind,ro none\n")?;
    // A volume that a container requests with options is made with them.
    let mount = "src=mo,dst=/v,volume-opt=type=tmpfs,volume-opt=device=tmpfs,volume-label=a=b";
    cx.shell(&["--mount", mount], "grep -c ' /v tmpfs' /proc/mounts")?
        .prints("1\n")?;
    cx.tote(&["volume", "inspect", "-f", "{{.Labels.a}}", "mo"])
        .output()?
        .prints("b\n")?;
    // A missing directory is not made, and removing a volume leaves the host's directory.
    cx.tote(&["volume", "rm", "read"]).output()?.exits(0)?;
    ensure!(
        fs::read_dir(&source)?.count() == 1,
        "the volume's device was emptied"
    );
    fs::remove_dir_all(&source)?;
    cx.shell(&["-v", "bound:/v"], "true")?
        .refuses(125, &[source.as_str()])?;
    let nfs = ["volume", "create", "-o", "type=nfs", "-o", "device=:/x", "net"];
    let nfs = cx.tote(&nfs).output()?;
    if !rustix::process::geteuid().is_root() {
        return nfs.refuses(1, &["nfs", "o=bind"]).map(drop);
    }
    // As with docker, it is mounted when a container starts, and no earlier.
    nfs.prints("net\n")?;
    Ok(())
}

/// Two containers mount one disk: each sees what the other one has written.
const DISK: &str = r#"set -eu
loop=$(losetup --find --show "$FILE")
trap 'losetup -d "$loop"' EXIT
tote() { "$TOTE" --root "$STATE" "$@"; }
tote volume create -o type=ext4 -o device="$loop" -o o=noatime disk
tote run -d --name one -v disk:/v "$IMAGE" sh -c 'echo kept > /v/file; grep -c " /v ext4 .*nodev.*noatime" /proc/mounts; exec sleep 1000' >/dev/null
until [ -n "$(tote logs one)" ]; do :; done
tote logs one
tote run --rm -v disk:/v "$IMAGE" sh -c 'cat /v/file'
tote cp one:/v/file - | tar -xO
tote rm -f one
tote run --rm -v disk:/v:ro "$IMAGE" sh -c 'cat /v/file; touch /v/other 2>/dev/null || echo refused'
tote volume rm disk
"#;

fn disk(cx: &Context) -> Result<()> {
    let file = cx.path("disk")?;
    fs::File::create_new(&file)?.set_len(16 << 20)?;
    crate::invocation::Invocation::new(["mkfs.ext4", "-q", &file])
        .output()?
        .exits(0)?;
    crate::invocation::Invocation::new(["sh", "-c", DISK])
        .env("TOTE", cx.binary())
        .env("STATE", cx.root())
        .env("IMAGE", cx.image())
        .env("FILE", &file)
        .output()?
        .prints("disk\n1\nkept\nkept\none\nkept\nrefused\ndisk\n")?;
    cx.nothing_left()
}

fn owners(cx: &Context) -> Result<()> {
    image(cx, "33", &[])?;
    let script = "chmod 2751 /data";
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", script])?
        .exits(0)?;
    cx.run(&[
        "-v",
        "vol:/data",
        "data",
        "stat",
        "-c",
        "%u:%g %a",
        "/data",
        "/data/file",
    ])?
    .prints("33:33 2751\n33:33 644\n")?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "rm -r /data/*"])?
        .exits(0)?;
    cx.tote(&["rmi", "-f", "data"]).output()?.exits(0).map(drop)
}

fn stays(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    cx.run(&[
        "-v",
        "vol:/elsewhere",
        "data",
        "sh",
        "-c",
        "echo first > /elsewhere/mine",
    ])?
    .exits(0)?;
    cx.run(&["-v", "vol:/data", "data", "sh", "-c", "ls /data; cat /data/mine"])?
        .prints("mine\nfirst\n")?;
    // A directory of the host gets no content from the image.
    let source = cx.directory("source")?;
    cx.run(&["-v", &format!("{source}:/data"), "data", "ls", "-A", "/data"])?
        .prints("")
        .map(drop)
}

/// The first start alone fills a volume; another container fills it again, as docker does.
fn emptied(cx: &Context) -> Result<()> {
    image(cx, "0", &[])?;
    let done = |words: &[&str]| cx.tote(words).output()?.exits(0).map(drop);
    let script = "ls /data; rm -rf /data/*; chmod 701 /data";
    done(&[
        "create",
        "--name",
        "c",
        "-v",
        "vol:/data",
        "data",
        "sh",
        "-c",
        script,
    ])?;
    for found in ["file\nsub\n", "", ""] {
        cx.tote(&["start", "-a", "c"]).output()?.prints(found)?;
    }
    // Neither does a visit.
    let copied = cx.path("copied")?;
    done(&["cp", "c:/data", &copied])?;
    ensure!(
        fs::read_dir(&copied)?.next().is_none(),
        "a copy out of the container filled its volume"
    );
    cx.run(&["-v", "vol:/look:ro", "data", "stat", "-c", "%a", "/look"])?
        .prints("701\n")?;
    cx.run(&["-v", "vol:/data", "data", "ls", "/data"])?
        .prints("file\nsub\n")?;
    done(&["rm", "c"])
}

fn part(cx: &Context) -> Result<()> {
    let mount = |subpath: &str| format!("source=vol,target=/part,volume-subpath={subpath}");
    let script =
        "mkdir -p /v/a/b && echo inside > /v/a/b/file && ln -s /a/b /v/absolute && ln -s ../../../etc /v/up";
    cx.shell(&["-v", "vol:/v"], script)?.exits(0)?;
    for (subpath, script, out) in [
        ("a/b", "cat /part/file", "inside\n"),
        ("a/../a/b/file", "cat /part", "inside\n"),
        (
            "absolute",
            "echo more >> /part/file; cat /part/../part/file",
            "inside\nmore\n",
        ),
    ] {
        cx.shell(&["--mount", &mount(subpath)], script)?.prints(out)?;
    }
    // The link leads to the /etc of the volume, which has no such directory.
    for subpath in ["up", "a/nothing"] {
        cx.shell(&["--mount", &mount(subpath)], "true")?.refuses(
            1,
            &["vol", subpath, "No such file", "before the container starts"],
        )?;
    }
    cx.shell(&["--mount", &mount("../a")], "true")?
        .refuses(125, &["volume-subpath", "relative path inside"])?;
    cx.shell(&["--mount", "target=/v,volume-subpath=a"], "true")?
        .refuses(125, &["source", "volume-subpath"])?;
    // A restart resolves the path again, and other containers take it over.
    let kept = [
        "create",
        "--name",
        "kept",
        "--mount",
        &mount("absolute"),
        &cx.image(),
    ];
    cx.tote(&[&kept[..], &["sh", "-c", "cat /part/file"]].concat())
        .output()?
        .exits(0)?;
    for _ in 0..2 {
        cx.tote(&["start", "-a", "kept"])
            .output()?
            .prints("inside\nmore\n")?;
    }
    cx.shell(&["--volumes-from", "kept"], "cat /part/file")?
        .prints("inside\nmore\n")?;
    cx.shell(
        &["-v", "vol:/v"],
        "rm /v/absolute; ln -s ../../../../etc /v/absolute",
    )?
    .exits(0)?;
    cx.tote(&["start", "-a", "kept"])
        .output()?
        .refuses(1, &["absolute", "No such file"])?;
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    for (kind, advice) in [("npipe", "type=bind"), ("cluster", "type=volume")] {
        let mount = format!("type={kind},source=x,target=/y");
        cx.shell(&["--mount", &mount], "true")?
            .refuses(125, &[kind, advice])?;
    }
    Ok(())
}
