//! Changes of a container are listed, packed and committed to an image, with the same result under every driver.

use super::drivers::remove_kept;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tote_testkit::{FakeRegistry, Reply};

pub(super) const TESTS: &[Test] = &[
    test("changes::of_an_overlay", NEEDS, |cx| round(cx, "overlay")),
    test("changes::of_a_copy", NEEDS, |cx| round(cx, "copy")),
    test("changes::of_split_directories", NEEDS, |cx| round(cx, "split")),
    test(
        "changes::owners_stay",
        &[Need::Program("tar"), Need::ManyIds],
        owners,
    ),
    test(
        "changes::an_archive_at_an_address_becomes_an_image",
        &[Need::Program("tar")],
        address,
    ),
    test("changes::nothing_is_no_layer", &[Need::Program("tar")], nothing),
    test(
        "changes::of_a_directory_become_a_whole_image",
        &[Need::Program("tar")],
        directory,
    ),
    test(
        "changes::of_a_running_container",
        &[Need::Program("tar")],
        running,
    ),
    test(
        "changes::of_one_commit_that_ends_before_another",
        &[Need::Root, Need::Controller("freezer")],
        together,
    ),
    test("changes::an_export_that_nobody_reads_is_quiet", &[], unread),
    test(
        "changes::commit_has_dockers_options",
        &[Need::Program("tar")],
        options,
    ),
    test("changes::containers_have_names_and_prefixes", &[], names),
    test("changes::some_cannot_be_had", &[], refusals),
];

const NEEDS: &[Need] = &[Need::Program("tar")];

/// Makes an image of the store with files to change in its home directory.
pub(super) fn image(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("image")?;
    let home = dir.join("home");
    for sub in ["dir/sub", "opaque", "untouched"] {
        fs::create_dir_all(home.join(sub))?;
    }
    for name in [
        "gone",
        "linked",
        "mode",
        "dir/below",
        "opaque/old",
        "untouched/file",
    ] {
        fs::write(home.join(name), "12345\n")?;
    }
    fs::hard_link(home.join("linked"), home.join("linked-again"))?;
    fs::hard_link(home.join("untouched/file"), home.join("untouched/same"))?;
    fs::set_permissions(home.join("untouched/file"), fs::Permissions::from_mode(0o4751))?;
    rustix::fs::setxattr(
        home.join("untouched/file"),
        "user.note",
        b"kept",
        XattrFlags::empty(),
    )?;
    symlink("linked", home.join("link"))?;
    let archive = cx.path("image.tar")?;
    let from = cx.path("image")?;
    Invocation::new([
        "tar",
        "--xattrs",
        "--format=pax",
        "--owner=0",
        "--group=0",
        "-C",
        &from,
        "-cf",
        &archive,
        ".",
    ])
    .output()?
    .exits(0)?;
    cx.tote(&["import", &archive, "base:1"]).output()?.exits(0)?;
    cx.tote(&["history", "--format", "{{.Comment}}", "base:1"])
        .output()?
        .prints("Imported from -\n")?;
    Ok(())
}

fn address(cx: &Context) -> Result<()> {
    let (dir, archive) = (cx.path("files")?, cx.path("files.tar.gz")?);
    fs::create_dir(&dir)?;
    fs::write(format!("{dir}/word"), "carried")?;
    Invocation::new(["tar", "-C", &dir, "-czf", &archive, "."])
        .output()?
        .exits(0)?;
    let sent = fs::read(&archive)?;
    let server = FakeRegistry::start();
    server.hook(move |request| match &*request.path {
        "/whole.tgz" => Some(Reply::status(200).body(sent.clone())),
        "/half.tgz" => Some(Reply::status(200).body(sent[..sent.len() / 2].to_vec())),
        _ => Some(Reply::status(404)),
    });
    let url = |file: &str| format!("http://{}/{file}", server.host());
    cx.tote(&["import", &url("whole.tgz"), "fetched:1"])
        .output()?
        .exits(0)?;
    cx.tote(&["history", "--format", "{{.Comment}}", "fetched:1"])
        .output()?
        .prints(&format!("Imported from {}\n", url("whole.tgz")))?;
    let copy = cx.path("copy")?;
    cx.tote(&["create", "--name", "holder", "fetched:1", "/word"])
        .output()?
        .exits(0)?;
    cx.tote(&["cp", "holder:/word", &copy]).output()?.exits(0)?;
    ensure!(fs::read_to_string(&copy)? == "carried");
    cx.tote(&["rm", "holder"]).output()?.exits(0)?;
    for (file, says) in [("half.tgz", "cannot"), ("none.tgz", "none.tgz")] {
        cx.tote(&["import", &url(file), "broken:1"])
            .output()?
            .exits(1)?
            .has_err(says)?;
    }
    cx.tote(&["images", "-q", "broken"]).output()?.prints("")?;
    Ok(())
}

/// Lists a container's tree with GNU tar: modes, owners, sizes, times, links and attributes.
pub(super) fn listing(cx: &Context, container: &str) -> Result<String> {
    let archive = cx.path(&format!("{container}.tar"))?;
    cx.tote(&["export", "-o", &archive, container])
        .output()?
        .prints("")?
        .quietly()?;
    let listed = Invocation::new([
        "tar",
        "--numeric-owner",
        "--full-time",
        "--xattrs",
        "-tvvf",
        &archive,
    ])
    .output()?;
    listed.exits(0)?;
    Ok(listed.out())
}

/// Changes of all kinds in the home directory of [`image`].
pub(super) const SCRIPT: &str = "cd /home && echo new > new && ln new new-again && rm gone && rm -r opaque && mkdir opaque && \
echo other > opaque/fresh && chmod 600 mode && rm linked && mkdir added && echo 54321 > dir/below && rm link && \
ln -s nowhere link && touch untouched/passing && rm untouched/passing";

/// Lines of `diff` about them.
pub(super) const DIFF: &str = "\
C /home
A /home/added
C /home/dir
C /home/dir/below
D /home/gone
C /home/link
D /home/linked
C /home/mode
A /home/new
A /home/new-again
C /home/opaque
A /home/opaque/fresh
D /home/opaque/old
";

fn round(cx: &Context, driver: &str) -> Result<()> {
    image(cx)?;
    cx.tote(&[
        "run", "--driver", driver, "--name", "one", "base:1", "sh", "-c", SCRIPT,
    ])
    .output()?
    .prints("")?;
    cx.tote(&["diff", "one"]).output()?.prints(DIFF)?.quietly()?;
    let lists = cx.tote(&["diff", "--format", "json", "one"]).output()?;
    let lists: serde_json::Value = serde_json::from_str(&lists.exits(0)?.out())?;
    for (list, letter) in [("added", "A "), ("changed", "C "), ("deleted", "D ")] {
        let paths = Vec::from_iter(DIFF.lines().filter_map(|line| line.strip_prefix(letter)));
        ensure!(lists[list] == serde_json::json!(paths), "{list}: {lists}");
    }
    let other = cx.tote(&["diff", "--format", "yaml", "one"]).output()?;
    other.refuses(1, &["the only supported format is json"])?;
    let id = cx.tote(&["commit", "one", "committed"]).output()?;
    id.exits(0)?.quietly()?;
    ensure!(
        id.out().starts_with("sha256:") && id.out().len() == 72,
        "no id: {}",
        id.out()
    );
    let before = listing(cx, "one")?;
    ensure!(
        before.contains("user.note"),
        "no attribute in the archive:\n{before}"
    );
    ensure!(
        before.contains("home/untouched/same link to home/untouched/file"),
        "the image's hard link is none any more:\n{before}"
    );
    ensure!(
        !before.contains("link to home/linked"),
        "a link to what is gone:\n{before}"
    );
    cx.tote(&[
        "run",
        "--name",
        "two",
        "committed:latest",
        "sh",
        "-c",
        "cat /home/new-again /home/opaque/*",
    ])
    .output()?
    .prints("new\nother\n")?;
    cx.tote(&["diff", "two"]).output()?.prints("")?;
    let after = listing(cx, "two")?;
    ensure!(
        before == after,
        "the image is not what the container was:\n{before}\n{after}"
    );
    remove_kept(cx)
}

fn owners(cx: &Context) -> Result<()> {
    image(cx)?;
    let script = "chown 1234:2000 /home/mode && mknod /home/pipe p";
    cx.tote(&["run", "--name", "one", "base:1", "sh", "-c", script])
        .output()?
        .prints("")?;
    cx.tote(&["commit", "one", "committed"]).output()?.exits(0)?;
    cx.run(&["committed", "stat", "-c", "%u:%g %F", "/home/mode", "/home/pipe"])?
        .prints("1234:2000 regular file\n0:0 fifo\n")?;
    remove_kept(cx)
}

fn nothing(cx: &Context) -> Result<()> {
    image(cx)?;
    cx.tote(&["run", "--name", "one", "base:1", "true"])
        .output()?
        .prints("")?;
    cx.tote(&["diff", "one"]).output()?.prints("")?;
    cx.tote(&["commit", "-m", "no layer", "one", "committed"])
        .output()?
        .exits(0)?;
    let layers = |image: &str| -> Result<usize> {
        let told = cx.tote(&["image", "inspect", image]).output()?;
        told.exits(0)?;
        let json: serde_json::Value = serde_json::from_slice(told.out().as_bytes())?;
        let layers = json[0]["RootFS"]["Layers"].as_array().context("no layers")?;
        Ok(layers.len())
    };
    ensure!(layers("base:1")? == layers("committed")?, "a layer for nothing");
    remove_kept(cx)
}

fn directory(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.tote(&[
        "run",
        "--name",
        "one",
        &image,
        "sh",
        "-c",
        "echo new > /new; rm /bin/df",
    ])
    .output()?
    .prints("")?;
    cx.tote(&["diff", "one"])
        .output()?
        .prints("C /bin\nD /bin/df\nA /new\n")?;
    cx.tote(&["commit", "one", "whole"]).output()?.exits(0)?;
    cx.run(&[
        "whole",
        "sh",
        "-c",
        "cat /new; ls /bin/df /bin/du; ls -d /home/alice",
    ])?
    .has_out("new\n/home/alice")?;
    remove_kept(cx)
}

fn running(cx: &Context) -> Result<()> {
    let script = "echo first > /written; echo ready; cat; echo second > /written";
    let words = ["run", "-i", "--name", "one", &cx.image(), "sh", "-c", script];
    let mut running = cx.tote(&words).spawn()?;
    running.expect("ready")?;
    cx.tote(&["diff", "one"]).output()?.prints("A /written\n")?;
    cx.tote(&["commit", "one", "early"]).output()?.exits(0)?;
    running.close_input();
    running.finish()?.exits(0)?;
    cx.run(&["early", "cat", "/written"])?.prints("first\n")?;
    remove_kept(cx)
}

fn unread(cx: &Context) -> Result<()> {
    cx.tote(&["create", "--name", "one", &cx.image(), "true"])
        .output()?
        .exits(0)?;
    let closed = ["sh", "-c", r#"{ "$@"; echo "it was $?" >&2; } | true"#, "sh"];
    let output = cx.tote(&["export", "one"]).under(&closed).output()?;
    ensure!(output.err() == "it was 1\n", "it said {:?}", output.err());
    remove_kept(cx)
}

/// The container stays suspended until the last reader has finished; a pause by the user outlasts both.
fn together(cx: &Context) -> Result<()> {
    cx.tote(&["run", "-d", "--name", "one", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    let inspected = cx.tote(&["inspect", "-f", "{{.State.Pid}}", "one"]).output()?;
    let group = crate::cgroup::directory(inspected.out().trim().parse()?, "freezer")?;
    let is_frozen = || -> Result<bool> {
        let text = fs::read_to_string(group.join("freezer.state"));
        let text = text.or_else(|_| fs::read_to_string(group.join("cgroup.freeze")))?;
        Ok(matches!(text.trim(), "FROZEN" | "1"))
    };
    let commit = || cx.tote(&["commit", "one"]).output()?.exits(0).map(drop);
    // The lock of another commit that is still at work.
    let id = cx.tote(&["inspect", "-f", "{{.Id}}", "one"]).output()?;
    let other = fs::File::open(cx.root().join("live").join(id.out().trim()))?;
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockShared)?;
    commit()?;
    ensure!(is_frozen()?, "the first to end let the container go on");
    drop(other);
    commit()?;
    ensure!(!is_frozen()?, "the last one left the container suspended");
    cx.tote(&["pause", "one"]).output()?.exits(0)?;
    commit()?;
    ensure!(is_frozen()?, "a commit has undone a pause");
    cx.tote(&["rm", "-f", "one"]).output()?.exits(0).map(drop)
}

fn options(cx: &Context) -> Result<()> {
    image(cx)?;
    cx.tote(&["run", "--name", "one", "base:1", "touch", "/touched"])
        .output()?
        .prints("")?;
    let file = cx.path("id")?;
    let words = [
        "commit",
        "-q",
        "--iidfile",
        &file,
        "-a",
        "Alice <a@example.org>",
        "-m",
        "why it is",
        "-c",
        r#"ENTRYPOINT ["sh", "-c"]"#,
        "--change",
        r#"CMD ["echo $A in $PWD"]"#,
        "-c",
        "ENV A=\"b c\"",
        "-c",
        "WORKDIR /home/dir",
        "-p",
        "one",
        "committed:x",
    ];
    let committed = cx.tote(&words).output()?;
    let id = fs::read_to_string(&file)?;
    committed.exits(0)?.prints(&format!("{id}\n"))?;
    cx.run(&["committed:x"])?.prints("b c in /home/dir\n")?;
    let told = cx.tote(&["image", "inspect", "committed:x"]).output()?;
    told.exits(0)?.has_out("Alice <a@example.org>")?;
    cx.tote(&["history", "committed:x"])
        .output()?
        .exits(0)?
        .has_out("why it is")?;
    for (change, naming) in [("RUN true", "RUN true"), ("nonsense", "nonsense")] {
        let out = cx.tote(&["commit", "-c", change, "one"]).output()?;
        out.fails()?.has_err(naming)?;
    }
    // A failed commit leaves no image, and the container is unchanged.
    cx.tote(&["images", "-q"]).output()?.exits(0)?;
    cx.tote(&["diff", "one"]).output()?.prints("A /touched\n")?;
    remove_kept(cx)
}

fn names(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.tote(&["run", "--name", "one", &image, "touch", "/one"])
        .output()?
        .prints("")?;
    let id = cx.containers()?.pop().context("no container is kept")?;
    for name in ["one", &id, &id[..12], &id[..5]] {
        cx.tote(&["diff", name]).output()?.prints("A /one\n")?;
    }
    for name in ["on", "", "../one", "00000000000000"] {
        cx.tote(&["diff", name])
            .output()?
            .refuses(1, &["no such container"])?;
    }
    remove_kept(cx)
}

fn refusals(cx: &Context) -> Result<()> {
    cx.tote(&["run", "--name", "one", "host", "touch", "/one"])
        .output()?
        .prints("")?;
    cx.tote(&["diff", "one"]).output()?.prints("A /one\n")?;
    cx.tote(&["commit", "one"])
        .output()?
        .refuses(1, &["host image"])?;
    cx.tote(&["export", "one"])
        .output()?
        .refuses(1, &["host image"])?;
    let mut running = cx
        .run_command(&["-i", "--name", "two", &cx.image(), "sh", "-c", "echo ready; cat"])
        .spawn()?;
    running.expect("ready")?;
    cx.tote(&["commit", "two"]).output()?.refuses(1, &["--rm"])?;
    running.close_input();
    running.finish()?.exits(0)?;
    remove_kept(cx)
}
