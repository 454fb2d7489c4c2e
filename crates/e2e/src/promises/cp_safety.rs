//! Copies into or out of a container do not escape their destination, and carry no rights that they must not have.

use super::cp::{copies, cp, inside, over, run, sources};
use super::life::{done, dying, empty};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

pub(super) const TESTS: &[Test] = &[
    test("cp_safety::links_do_not_lead_out", &[], links),
    test("cp_safety::a_directory_that_becomes_a_link", &[], exchanged),
    test(
        "cp_safety::hostile_archives_stay_inside",
        &[Need::Program("tar")],
        hostile,
    ),
    test("cp_safety::owners", &[Need::ManyIds], owners),
    test("cp_safety::nothing_that_comes_out_has_rights", &[], harmless),
    test("cp_safety::what_is_read_only", &[], read_only),
    test("cp_safety::a_copy_out_writes_nothing", &[], unchanged),
    test("cp_safety::split_writes_to_its_copies_only", &[], split),
    test("cp_safety::a_file_is_whole_or_not_there", &[], whole),
    test(
        "cp_safety::killed_it_leaves_nothing",
        &[Need::FaultPoints],
        killed,
    ),
];

fn links(cx: &Context) -> Result<()> {
    let secret = cx.directory("secret")?;
    cx.file("secret/data", "of the host\n")?;
    cx.file("file", "a file\n")?;
    run(cx, &[])?;
    let dots = format!("{}{secret}", "../".repeat(30));
    inside(
        cx,
        &format!(
            "cd /home && ln -s {secret} absolute && ln -s {dots} dots && ln -s {secret}/data one && ln -s /proc/1/root root"
        ),
    )?;
    for from in [
        "web:/home/absolute/",
        "web:/home/dots/data",
        "web:/home/absolute/data",
    ] {
        cp(cx, &[from, "taken"])?.refuses(1, &["Could not find"])?;
    }
    cp(cx, &["-L", "web:/home/one", "taken"])?.refuses(1, &["Could not find"])?;
    cp(cx, &[&format!("web:/home/root{secret}/data"), "taken"])?.fails()?;
    for to in [
        "web:/home/absolute",
        "web:/home/dots",
        "web:/home/absolute/new",
        "web:/home/one",
    ] {
        cp(cx, &["file", to])?.refuses(1, &["Could not find"])?;
    }
    ensure!(
        !cx.scratch().join("taken").exists(),
        "something of the host was read"
    );
    ensure!(
        fs::read_dir(&secret)?.count() == 1,
        "something of the host was written"
    );
    // A path that also exists in the container refers to the container's file.
    inside(cx, &format!("mkdir -p {secret}"))?;
    copies(cx, &["file", "web:/home/absolute"])?;
    copies(cx, &["file", "web:/home/one"])?;
    ensure!(inside(cx, &format!("cat {secret}/file {secret}/data"))? == "a file\na file");
    ensure!(fs::read_to_string(cx.scratch().join("secret/data"))? == "of the host\n");
    // Links of a copied tree are not followed.
    inside(cx, &format!("mkdir /home/tree && ln -s {secret} /home/tree/sub"))?;
    copies(cx, &["web:/home/tree", "tree"])?;
    ensure!(fs::read_link(cx.scratch().join("tree/sub"))?.as_os_str() == secret.as_str());
    inside(
        cx,
        "rm /home/tree/sub && mkdir /home/tree/sub && echo evil > /home/tree/sub/data",
    )?;
    cp(cx, &["web:/home/tree/.", "tree"])?.refuses(1, &["cannot overwrite non-directory"])?;
    ensure!(fs::read_to_string(cx.scratch().join("secret/data"))? == "of the host\n");
    over(cx)
}

fn exchanged(cx: &Context) -> Result<()> {
    let secret = cx.directory("secret")?;
    cx.file("secret/data", "of the host\n")?;
    cx.file("file", "a file\n")?;
    run(cx, &[])?;
    inside(cx, "mkdir -p /home/dir/data.d && echo inside > /home/dir/data")?;
    let script = format!(
        "cd /home; echo ready; while :; do mv dir aside; ln -s {secret} dir; rm dir; ln -s ../../../../../../../../..{secret} dir; \
         rm dir; mv aside dir; done"
    );
    let mut racing = cx.tote(&["exec", "web", "sh", "-c", &script]).spawn()?;
    racing.expect("ready")?;
    let mut copied = 0;
    for _ in 0..60 {
        let out = cp(cx, &["web:/home/dir/data", "taken"])?;
        if out.code == 0 {
            copied += 1;
            ensure!(fs::read_to_string(cx.scratch().join("taken"))? == "inside\n");
        }
        cp(cx, &["file", "web:/home/dir/new"])?;
        cp(cx, &["-L", "web:/home/dir", "tree"])?;
        let data = cx.scratch().join("tree/data");
        ensure!(!data.exists() || fs::read_to_string(data)? == "inside\n");
        ensure!(
            fs::read_dir(&secret)?.count() == 1,
            "something of the host was written"
        );
    }
    ensure!(copied > 0, "it was never a directory");
    done(cx, &["rm", "-f", "web"])?;
    racing.finish()?;
    empty(cx)
}

fn hostile(cx: &Context) -> Result<()> {
    let secret = cx.directory("secret")?;
    run(cx, &[])?;
    // A link that leads out, and a file behind it.
    cx.directory("one")?;
    symlink(&secret, cx.scratch().join("one/way"))?;
    cx.directory("two/way")?;
    cx.file("two/way/evil", "evil\n")?;
    let script = "tar -C one -cf evil.tar way && tar -C two -rf evil.tar way/evil && \
                  tar -C two -rf evil.tar --transform 's,^,../../,' -P way/evil";
    Invocation::new(["sh", "-c", script])
        .within(cx.scratch())
        .output()?
        .exits(0)?;
    let archive = fs::read(cx.scratch().join("evil.tar"))?;
    let words = ["cp", "-", "web:/home"];
    cx.tote(&words)
        .input(&archive)
        .output()?
        .refuses(1, &["extract the archive"])?;
    ensure!(
        fs::read_dir(&secret)?.count() == 0,
        "something of the host was written"
    );
    over(cx)
}

fn owners(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &["-u", "1234:1234", "--tmpfs", "/t:mode=1777"])?;
    let look = |path: &str| inside(cx, &format!("stat -c %u:%g {path}"));
    copies(cx, &["file", "web:/t/plain"])?;
    copies(cx, &["dir", "web:/t/dir"])?;
    ensure!(
        look("/t/plain /t/dir /t/dir/sub/two")? == "0:0\n0:0\n0:0",
        "root of the container"
    );
    inside(cx, "echo > /t/own")?;
    copies(cx, &["web:/t/own", "own"])?;
    let found = fs::metadata(cx.scratch().join("own"))?;
    let caller = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    ensure!((found.uid(), found.gid()) == caller, "the caller's");
    // `-a` keeps the owner in both directions.
    copies(cx, &["-a", "web:/t/own", "kept"])?;
    ensure!(
        fs::metadata(cx.scratch().join("kept"))?.uid() != caller.0,
        "it belongs to the caller"
    );
    copies(cx, &["-a", "kept", "web:/t/again"])?;
    ensure!(look("/t/again")? == "1234:1234");
    // The headers of an archive name the owner.
    let archive = cp(cx, &["web:/t/own", "-"])?.stdout;
    inside(cx, "mkdir /t/archive")?;
    cx.tote(&["cp", "-", "web:/t/archive"])
        .input(&archive)
        .output()?
        .exits(0)?;
    ensure!(look("/t/archive/own")? == "1234:1234");
    copies(cx, &["web:/t/own", "web:/t/other"])?;
    copies(cx, &["-a", "web:/t/own", "web:/t/same"])?;
    ensure!(look("/t/other /t/same")? == "0:0\n1234:1234");
    if caller.0 != 0 {
        let kept = cx.path("kept")?;
        let remove = [
            "unshare",
            "--user",
            "--map-root-user",
            "--map-auto",
            "rm",
            "-f",
            &kept,
        ];
        Invocation::new(remove).output()?.exits(0)?;
    }
    over(cx)
}

fn harmless(cx: &Context) -> Result<()> {
    run(cx, &[])?;
    inside(
        cx,
        "cd /home && mkdir d && cp /bin/busybox d/tool && chmod 6755 d/tool && mknod d/pipe p && chmod 7777 d",
    )?;
    copies(cx, &["web:/home/d", "d"])?;
    copies(cx, &["web:/home/d/tool", "tool"])?;
    for name in ["d/tool", "tool"] {
        let mode = fs::metadata(cx.scratch().join(name))?.permissions().mode();
        ensure!(mode & 0o7777 == 0o755, "{name} has the mode {mode:o}");
    }
    let mode = fs::metadata(cx.scratch().join("d"))?.mode();
    ensure!(mode & 0o7777 == 0o1777, "the directory has the mode {mode:o}");
    copies(cx, &["-a", "web:/home/d/tool", "kept"])?;
    ensure!(fs::metadata(cx.scratch().join("kept"))?.mode() & 0o7777 == 0o6755);
    // A copy into a container keeps the mode.
    copies(cx, &["kept", "web:/home/back"])?;
    ensure!(inside(cx, "stat -c %a /home/back")? == "6755");
    over(cx)
}

/// A program has written in the files that are the container's own; copies out of the stopped container leave that.
fn unchanged(cx: &Context) -> Result<()> {
    let script = "for name in hosts hostname resolv.conf; do echo '# mine' >> /etc/$name; done";
    cx.tote(&[
        "run",
        "--name",
        "web",
        "--network",
        "none",
        &cx.image(),
        "sh",
        "-c",
        script,
    ])
    .output()?
    .exits(0)?;
    for name in ["hosts", "hostname", "hosts"] {
        copies(cx, &[&format!("web:/etc/{name}"), name])?;
        let text = fs::read_to_string(cx.scratch().join(name))?;
        ensure!(text.ends_with("# mine\n"), "{name} was written anew: {text}");
    }
    done(cx, &["rm", "web"])?;
    empty(cx)
}

fn read_only(cx: &Context) -> Result<()> {
    sources(cx)?;
    let bound = cx.directory("bound")?;
    let options = [
        "--read-only",
        "-v",
        &format!("{bound}:/ro:ro"),
        "-v",
        &format!("{bound}:/rw"),
    ];
    run(cx, &options)?;
    for _ in 0..2 {
        for from in ["file", "dir"] {
            cp(cx, &[from, "web:/home"])?.refuses(1, &["container rootfs is marked read-only"])?;
            cp(cx, &[from, "web:/ro"])?.refuses(1, &["mounted volume is marked read-only"])?;
        }
        let words = ["cp", "-", "web:/home"];
        cx.tote(&words)
            .output()?
            .refuses(1, &["container rootfs is marked read-only"])?;
        copies(cx, &["file", "web:/rw"])?;
        copies(cx, &["web:/ro/file", "back"])?;
        copies(cx, &["web:/etc/passwd", "passwd"])?;
        // A stopped container behaves alike.
        done(cx, &["stop", "-t", "0", "web"])?;
    }
    over(cx)
}

fn split(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &["--driver", "split", "--writable", "/var/own"])?;
    for _ in 0..2 {
        copies(cx, &["file", "web:/home/file"])?;
        copies(cx, &["dir", "web:/var/own/"])?;
        cp(cx, &["file", "web:/etc/file"])?
            .refuses(1, &["web:/etc/file", "part of the image", "--writable"])?;
        copies(cx, &["web:/etc/passwd", "passwd"])?;
        done(cx, &["stop", "-t", "0", "web"])?;
    }
    done(cx, &["start", "web"])?;
    ensure!(inside(cx, "cat /home/file /var/own/dir/one")? == "a file\none");
    over(cx)
}

fn whole(cx: &Context) -> Result<()> {
    cx.file("large", &"x".repeat(3 << 20))?;
    cx.file("small", "small\n")?;
    run(cx, &["--tmpfs", "/t:size=1m"])?;
    copies(cx, &["small", "web:/t/file"])?;
    cp(cx, &["large", "web:/t/file"])?.refuses(1, &["copy to web:/t/file", "no space left"])?;
    ensure!(
        inside(cx, "ls -A /t; cat /t/file")? == "file\nsmall",
        "half a file is left"
    );
    over(cx)
}

/// A killed copy keeps the file that it would have replaced, in the container and outside.
fn killed(cx: &Context) -> Result<()> {
    cx.file("file", "new\n")?;
    cx.file("large", &"x".repeat(3 << 20))?;
    let out = cx.directory("out")?;
    cx.file("out/there", "old\n")?;
    run(cx, &["--tmpfs", "/t"])?;
    inside(
        cx,
        "echo old > /home/there; echo old > /t/there; echo new > /home/source",
    )?;
    let before = inside(cx, "ls -A /home")?;
    for name in ["there", "fresh"] {
        for (from, to) in [
            ("file", format!("web:/home/{name}")),
            ("large", format!("web:/t/{name}")),
            ("web:/home/source", format!("{out}/{name}")),
        ] {
            let from = match from.contains(':') {
                true => from.to_owned(),
                false => cx.path(from)?,
            };
            let died = dying(cx, "cp-whole", &["cp", &from, &to])?;
            ensure!(died.exits(0).is_err(), "it did not die on the way to {to}");
        }
    }
    ensure!(inside(cx, "ls -A /home")? == before);
    ensure!(inside(cx, "ls -A /t; cat /home/there /t/there")? == "there\nold\nold");
    ensure!(fs::read_dir(&out)?.count() == 1, "something is left");
    ensure!(fs::read_to_string(cx.scratch().join("out/there"))? == "old\n");
    over(cx)
}
