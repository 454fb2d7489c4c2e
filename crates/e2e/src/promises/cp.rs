//! Files are copied into containers and out of them as docker does it, and no path of a container leads out of it.

use super::life::{done, empty};
use crate::context::Context;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};

/// Makes a row for each driver.
macro_rules! drivers {
    ($($driver:literal: $($need:expr),*;)*) => {
        &[$(test(concat!("cp::", $driver, "::whether_it_runs_or_not"), &[$($need),*], |cx| driver(cx, $driver)),)*]
    };
}

pub(super) const DRIVERS: &[Test] = each_driver!(drivers);

pub(super) const TESTS: &[Test] = &[
    test("cp::dockers_table_into_a_container", &[], into),
    test("cp::dockers_table_out_of_a_container", &[], out_of),
    test("cp::what_goes_wrong_is_said_in_dockers_words", &[], refusals),
    test("cp::archives_in_and_out_are_the_same", &[], archives),
    test("cp::volumes_and_binds", &[], mounts),
    test("cp::holes_stay_holes", &[], sparse),
    test("cp::from_one_container_to_another", &[], between),
    test("cp::of_a_container_in_the_foreground", &[], foreground),
    test(
        "cp::of_a_paused_container",
        &[Need::Controller("freezer")],
        paused,
    ),
    test("cp::of_the_host_image", &[], host),
    test("cp::of_a_whole_container", &[], all),
    test("cp::a_terminal_is_told", &[], terminal),
];

/// Runs `tote cp WORDS…` in the scratch directory.
pub(super) fn cp(cx: &Context, words: &[&str]) -> Result<Output> {
    let words = [&["cp"], words].concat();
    cx.tote(&words).within(cx.scratch()).output()
}

pub(super) fn copies(cx: &Context, words: &[&str]) -> Result<()> {
    cp(cx, words)?.prints("")?.quietly().map(drop)
}

pub(super) fn run(cx: &Context, options: &[&str]) -> Result<()> {
    let (image, words) = (cx.image(), ["run", "-d", "--name", "web"]);
    done(
        cx,
        &[&words, options, &[image.as_str(), "sleep", "1000"]].concat(),
    )
    .map(drop)
}

pub(super) fn inside(cx: &Context, script: &str) -> Result<String> {
    done(cx, &["exec", "web", "sh", "-c", script])
}

pub(super) fn over(cx: &Context) -> Result<()> {
    done(cx, &["rm", "-f", "web"])?;
    empty(cx)
}

/// Makes `file`, `dir` with entries, and a file whose name has a colon.
pub(super) fn sources(cx: &Context) -> Result<()> {
    cx.file("file", "a file\n")?;
    cx.file("a:b", "a colon\n")?;
    cx.directory("dir/sub")?;
    cx.file("dir/one", "one\n")?;
    cx.file("dir/sub/two", "two\n")?;
    symlink("one", cx.scratch().join("dir/link"))?;
    fs::hard_link(cx.scratch().join("dir/one"), cx.scratch().join("dir/sub/again"))?;
    symlink("dir/one", cx.scratch().join("to-one"))?;
    Ok(())
}

const TREE: &str = "link -> one; one; sub; sub/again; sub/two";

/// Lists a directory of the container in one line.
fn list(cx: &Context, dir: &str) -> Result<String> {
    let script = format!(
        "cd {dir} && for f in * */*; do test -e $f -o -L $f || continue; \
         if test -L $f; then echo \"$f -> $(readlink $f)\"; else echo $f; fi; done | sort"
    );
    Ok(inside(cx, &script)?.replace('\n', "; "))
}

fn into(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    inside(
        cx,
        "mkdir /home/there && echo old > /home/old && ln -s /home/there /home/way && ln -s made /home/new",
    )?;
    for (from, to, file, text) in [
        ("file", "web:/home/x", "/home/x", "a file"),
        ("file", "web:home/y", "/home/y", "a file"),
        ("file", "web:/home/old", "/home/old", "a file"),
        ("file", "web:/home/there", "/home/there/file", "a file"),
        ("./file", "web:/home/there/", "/home/there/file", "a file"),
        ("dir/one", "web:/home/way", "/home/there/one", "one"),
        ("dir/one", "web:/home/new", "/home/made", "one"),
        ("./a:b", "web:/home", "/home/a:b", "a colon"),
        ("./dir/../a:b/../file", "web:/home/../home/z", "/home/z", "a file"),
    ] {
        copies(cx, &[from, to])?;
        ensure!(inside(cx, &format!("cat {file}"))? == text, "{from} {to}");
    }
    ensure!(inside(cx, "readlink /home/way; readlink /home/new")? == "/home/there\nmade");
    // A directory is copied to a new name, into a directory, and by its entries only.
    copies(cx, &["dir", "web:/home/d1"])?;
    copies(cx, &["dir/", "web:/home/d2/"])?;
    inside(cx, "mkdir /home/d3 /home/d4")?;
    copies(cx, &["dir", "web:/home/d3"])?;
    copies(cx, &["dir/.", "web:/home/d4"])?;
    copies(cx, &["dir/.", "web:/home/d5"])?;
    for dir in ["/home/d1", "/home/d2", "/home/d3/dir", "/home/d4", "/home/d5"] {
        ensure!(list(cx, dir)? == TREE, "{dir}: {}", list(cx, dir)?);
    }
    let same = "stat -c %h /home/d1/one && stat -c %a /home/d4";
    ensure!(
        inside(cx, same)? == "2\n755",
        "hard links are kept, and the directory"
    );
    // A link is copied as a link, or with -L as its target under the link's name.
    copies(cx, &["to-one", "web:/home/l1"])?;
    copies(cx, &["-L", "to-one", "web:/home"])?;
    ensure!(inside(cx, "readlink /home/l1 && cat /home/to-one")? == "dir/one\none");
    // Present files stay, except those of the same name, which are replaced.
    inside(cx, "echo mine > /home/d1/mine && echo changed > /home/d1/one")?;
    copies(cx, &["dir/.", "web:/home/d1"])?;
    ensure!(inside(cx, "cat /home/d1/mine /home/d1/one")? == "mine\none");
    let event = done(cx, &["events", "--since", "10m", "--until", "0s"])?;
    ensure!(event.contains("extract-to-dir"), "no event: {event}");
    over(cx)
}

fn out_of(cx: &Context) -> Result<()> {
    run(cx, &[])?;
    inside(
        cx,
        "cd /home && mkdir -p dir/sub && echo one > dir/one && echo two > dir/sub/two && ln -s one dir/link && \
         ln -s /home/dir/one link && chmod 640 dir/one && touch -d @1000000 dir/one dir/sub",
    )?;
    cx.directory("there")?;
    let read = |name: &str| fs::read_to_string(cx.scratch().join(name)).with_context(|| name.to_owned());
    for (from, to, file) in [
        ("web:/home/dir/one", "x", "x"),
        ("web:home/dir/one", "./y:z", "y:z"),
        ("web:/home/dir/one", "there", "there/one"),
        ("web:/home/dir/one", "there/two", "there/two"),
        ("web:/home/dir", "new", "new/one"),
        ("web:/home/dir", "there", "there/dir/one"),
        ("web:/home/dir/.", "there", "there/one"),
        ("web:/home/dir/.", "other", "other/one"),
    ] {
        copies(cx, &[from, to])?;
        ensure!(read(file)? == "one\n", "{from} {to}");
    }
    copies(cx, &["-L", "web:/home/link", "."])?;
    copies(cx, &["web:/home/link", "as-link"])?;
    ensure!(
        read("link")? == "one\n",
        "what the link leads to, by the link's name"
    );
    ensure!(fs::read_link(cx.scratch().join("as-link"))?.as_os_str() == "/home/dir/one");
    let found = fs::metadata(cx.scratch().join("new/one"))?;
    ensure!((found.mode() & 0o7777, found.mtime()) == (0o640, 1_000_000));
    ensure!(
        found.uid() == rustix::process::getuid().as_raw(),
        "it is the caller's"
    );
    ensure!(fs::metadata(cx.scratch().join("new/sub"))?.mtime() == 1_000_000);
    let event = done(cx, &["events", "--since", "10m", "--until", "0s"])?;
    ensure!(event.contains("archive-path"), "no event: {event}");
    over(cx)
}

fn refusals(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    inside(
        cx,
        "mkdir -p /home/there/file && echo > /home/old && ln -s loop /home/loop",
    )?;
    cx.directory("there")?;
    for (words, naming) in [
        (&["file", "no:/x"][..], &["No such container: no"][..]),
        (&["no:/x", "."], &["No such container: no"]),
        (
            &["file", "there"],
            &["must specify at least one container source"],
        ),
        (&["-", "-"], &["must specify at least one container source"]),
        (&["", "web:/"], &["source can not be empty"]),
        (&["web:/etc", ""], &["destination can not be empty"]),
        (
            &["web:/home/none", "."],
            &["Could not find the file /home/none in container web"],
        ),
        (&["web:/home/old/", "."], &["web:/home/old"]),
        (&["web:/home/old/x", "."], &["web:/home/old/x"]),
        (&["-L", "web:/home/loop", "."], &["web:/home/loop"]),
        (&["none", "web:/"], &["lstat none: no such file or directory"]),
        (
            &["file", "web:/none/x"],
            &["Could not find the file /none in container web"],
        ),
        (&["file", "web:/home/none/"], &["no such directory"]),
        (&["file", "web:/home/old/"], &["not a directory"]),
        (&["dir", "web:/home/old"], &["cannot copy directory"]),
        (&["dir/.", "web:/home/old"], &["cannot copy directory"]),
        (
            &["file", "web:/home/there"],
            &["cannot overwrite directory", "with non-directory"],
        ),
        (
            &["web:/etc", "none/x"],
            &["invalid output path: directory", "none", "does not exist"],
        ),
        (&["web:/etc", "file"], &["cannot copy directory"]),
        (&["-", "web:/home/old"], &["destination", "must be a directory"]),
        (
            &["-", "web:/home/none"],
            &["Could not find the file /home/none in container web"],
        ),
    ] {
        cp(cx, words)?.refuses(1, naming)?;
    }
    cp(cx, &["file"])?.refuses(1, &[])?;
    // A stream that is not an archive changes nothing, and --overwrite does what is refused above.
    let words = ["cp", "-", "web:/home"];
    cx.tote(&words)
        .input(b"no archive at all")
        .output()?
        .refuses(1, &["extract the archive"])?;
    copies(cx, &["--overwrite", "file", "web:/home/there"])?;
    copies(cx, &["--overwrite", "dir", "web:/home/old"])?;
    ensure!(inside(cx, "cat /home/there/file /home/old/one")? == "a file\none");
    over(cx)
}

/// A process of the container exchanges a directory for a link to a path of the host during the copy.
fn archives(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    copies(cx, &["dir", "web:/home/first"])?;
    inside(
        cx,
        "mkdir /home/second && chmod 4711 /home/first/one && touch -d @1000000 /home/first",
    )?;
    let archive = |path: &str| -> Result<Vec<u8>> {
        let out = cp(cx, &[path, "-"])?;
        out.exits(0)?.quietly()?;
        Ok(out.stdout)
    };
    let first = archive("web:/home/first")?;
    let words = ["cp", "-", "web:/home/second"];
    cx.tote(&words).input(&first).output()?.prints("")?.quietly()?;
    let second = archive("web:/home/second/first")?;
    ensure!(first == second, "the archive of the archive is another one");
    ensure!(list(cx, "/home/second/first")? == TREE);
    ensure!(inside(cx, "stat -c '%a %Y' /home/second/first/one | head -c 4")? == "4711");
    // A single file, and the entries of a directory.
    let one = archive("web:/home/first/one")?;
    ensure!(one.starts_with(b"one\0") || one.windows(4).any(|part| part == b"one\0"));
    let words = ["cp", "-", "web:/root"];
    cx.tote(&words)
        .input(&archive("web:/home/first/.")?)
        .output()?
        .exits(0)?;
    ensure!(list(cx, "/root")? == TREE);
    over(cx)
}

fn mounts(cx: &Context) -> Result<()> {
    sources(cx)?;
    let bound = cx.directory("bound")?;
    run(
        cx,
        &[
            "-v",
            "vol:/vol",
            "-v",
            &format!("{bound}:/bound"),
            "--tmpfs",
            "/t",
        ],
    )?;
    for dir in ["vol", "bound", "t"] {
        copies(cx, &["file", &format!("web:/{dir}/file")])?;
        ensure!(inside(cx, &format!("cat /{dir}/file"))? == "a file");
    }
    ensure!(fs::read_to_string(cx.scratch().join("bound/file"))? == "a file\n");
    done(cx, &["stop", "-t", "0", "web"])?;
    for dir in ["vol", "bound"] {
        copies(cx, &[&format!("web:/{dir}/file"), "back"])?;
        copies(cx, &["dir", &format!("web:/{dir}")])?;
    }
    ensure!(fs::read_to_string(cx.scratch().join("back"))? == "a file\n");
    ensure!(fs::read_to_string(cx.scratch().join("bound/dir/sub/two"))? == "two\n");
    done(cx, &["start", "web"])?;
    ensure!(inside(cx, "cat /vol/dir/one /bound/dir/one")? == "one\none");
    over(cx)?;
    done(cx, &["volume", "rm", "vol"]).map(drop)
}

fn sparse(cx: &Context) -> Result<()> {
    let path = cx.file("sparse", "")?;
    let file = fs::File::options().write(true).open(&path)?;
    file.set_len(4 << 30)?;
    file.write_all_at(b"in the middle", 2 << 30)?;
    run(cx, &[])?;
    copies(cx, &["sparse", "web:/home/sparse"])?;
    let look =
        "stat -c '%s %b' /home/sparse; dd if=/home/sparse bs=1M skip=2048 count=1 2> /dev/null | head -c 13";
    let seen = inside(cx, look)?;
    let (numbers, text) = seen.split_once('\n').context("no two lines")?;
    let (size, blocks) = numbers.split_once(' ').context("no two numbers")?;
    ensure!((size, text) == ("4294967296", "in the middle"), "{seen}");
    ensure!(blocks.parse::<u64>()? < 1024, "{blocks} blocks");
    copies(cx, &["web:/home/sparse", "back"])?;
    let found = fs::metadata(cx.scratch().join("back"))?;
    ensure!(
        found.len() == 4 << 30 && found.blocks() < 1024,
        "{} blocks",
        found.blocks()
    );
    over(cx)
}

fn between(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    let image = cx.image();
    done(
        cx,
        &[
            "create",
            "--name",
            "other",
            &image,
            "sh",
            "-c",
            "cat /home/new/one",
        ],
    )?;
    copies(cx, &["dir", "web:/home/dir"])?;
    copies(cx, &["web:/home/dir", "other:/home/new"])?;
    copies(cx, &["other:/home/new/sub", "other:/home/again"])?;
    copies(cx, &["other:/home/again/two", "two-again"])?;
    cx.tote(&["start", "-a", "other"]).output()?.prints("one\n")?;
    copies(cx, &["other:/home/new/sub/two", "web:/home"])?;
    copies(cx, &["web:/home/two", "web:/home/three"])?;
    ensure!(inside(cx, "cat /home/two /home/three")? == "two\ntwo");
    cp(cx, &["web:/home", "web:/home/dir"])?.refuses(1, &["into itself"])?;
    done(cx, &["rm", "other"])?;
    over(cx)
}

fn foreground(cx: &Context) -> Result<()> {
    sources(cx)?;
    let words = [
        "-i",
        "--name",
        "fg",
        &cx.image(),
        "sh",
        "-c",
        "echo ready; read x; cat /home/file",
    ];
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready")?;
    copies(cx, &["file", "fg:/home"])?;
    copies(cx, &["fg:/home/file", "back"])?;
    running.send(b"\n");
    running.close_input();
    running.finish()?.exits(0)?.has_out("a file")?;
    // A container that was created with --rm has no place to keep a file before its start.
    done(cx, &["create", "--rm", "--name", "web", &cx.image(), "true"])?;
    cp(cx, &["file", "web:/home"])?.refuses(1, &["--rm"])?;
    copies(cx, &["web:/etc/passwd", "passwd"])?;
    over(cx)
}

fn paused(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    done(cx, &["pause", "web"])?;
    copies(cx, &["dir", "web:/home/dir"])?;
    copies(cx, &["web:/home/dir/one", "one"])?;
    done(cx, &["unpause", "web"])?;
    ensure!(list(cx, "/home/dir")? == TREE);
    over(cx)
}

fn all(cx: &Context) -> Result<()> {
    run(cx, &["--tmpfs", "/t"])?;
    inside(cx, "echo written > /t/file")?;
    cp(cx, &["web:/", "whole"])?.exits(0)?;
    for dir in ["proc", "sys"] {
        let inside = fs::read_dir(cx.scratch().join("whole").join(dir))?.count();
        ensure!(inside == 0, "{inside} files of the kernel's in /{dir}");
    }
    ensure!(fs::read_to_string(cx.scratch().join("whole/t/file"))? == "written\n");
    let archive = cp(cx, &["web:/", "-"])?;
    archive.exits(0)?;
    let busybox = fs::metadata(cx.shared_rootfs().join("bin/busybox"))?.len();
    ensure!(
        archive.stdout.len() as u64 > busybox,
        "there is not everything in the archive"
    );
    over(cx)
}

fn host(cx: &Context) -> Result<()> {
    sources(cx)?;
    done(cx, &["create", "--name", "web", "host", "sleep", "1000"])?;
    for _ in 0..2 {
        copies(cx, &["dir/.", "web:/root/dir"])?;
        copies(cx, &["web:/root/dir/one", "one"])?;
        cp(cx, &["file", "web:/usr/bin"])?.refuses(1, &["read-only"])?;
        done(cx, &["start", "web"])?;
        ensure!(inside(cx, "cat /root/dir/sub/two")? == "two");
    }
    over(cx)
}

fn terminal(cx: &Context) -> Result<()> {
    sources(cx)?;
    run(cx, &[])?;
    for (words, told) in [
        (
            &["cp", "file", "web:/home/x"][..],
            "Successfully copied 7B to web:/home/x",
        ),
        (&["cp", "-q", "file", "web:/home/x"], ""),
        (
            &["cp", "web:/home/x", "-"],
            "an archive is not written to a terminal",
        ),
        (
            &["cp", "-", "web:/home"],
            "an archive is not read from a terminal",
        ),
    ] {
        let (mut running, outer) = cx.tote(words).within(cx.scratch()).spawn_in_terminal(24, 80)?;
        running.wait()?;
        drop(outer);
        let said = running.finish()?.out();
        ensure!(
            said.contains(told) && said.is_empty() == told.is_empty(),
            "{words:?}: {said:?}"
        );
    }
    over(cx)
}

fn driver(cx: &Context, driver: &str) -> Result<()> {
    sources(cx)?;
    let image = cx.image();
    let words = [
        "create", "--driver", driver, "--name", "web", &image, "sleep", "1000",
    ];
    done(cx, &words)?;
    // Copies before the container's first start, while it runs, and after its end.
    copies(cx, &["dir", "web:/home/before"])?;
    copies(cx, &["web:/home/before/sub/two", "two"])?;
    ensure!(fs::read_to_string(cx.scratch().join("two"))? == "two\n");
    done(cx, &["start", "web"])?;
    ensure!(list(cx, "/home/before")? == TREE);
    copies(cx, &["dir", "web:/home/while"])?;
    inside(cx, "echo written > /home/while/one")?;
    done(cx, &["stop", "-t", "0", "web"])?;
    copies(cx, &["web:/home/while", "while"])?;
    ensure!(fs::read_to_string(cx.scratch().join("while/one"))? == "written\n");
    copies(cx, &["file", "web:/home/while/after"])?;
    let diff = done(cx, &["diff", "web"])?;
    for line in ["A /home/before/sub/two", "A /home/while/after"] {
        ensure!(diff.lines().any(|found| found == line), "no {line} in:\n{diff}");
    }
    done(cx, &["start", "web"])?;
    ensure!(inside(cx, "cat /home/while/after /home/while/one")? == "a file\nwritten");
    over(cx)
}
