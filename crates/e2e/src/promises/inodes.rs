//! A container's files have the link counts from their image, and keep their inode numbers, though the store has
//! every file once.

use crate::context::Context;
use crate::need::{Need, is_root};
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// First kernel on which users see the contents of data-only layers.
const KERNEL: Need = Need::Kernel(6, 16);

pub(super) const TESTS: &[Test] = &[
    test("inodes::links_are_the_images", &[KERNEL], links),
    test("inodes::numbers_stay", &[KERNEL], numbers),
    test("inodes::steps_of_builds_have_them", &[KERNEL], steps),
    test(
        "inodes::nested_containers_have_them",
        &[KERNEL, Need::ManyIds],
        nested,
    ),
    test("inodes::what_is_written_is_kept_apart", &[KERNEL], apart),
    test(
        "inodes::privileges_of_files_hold",
        &[KERNEL, Need::ManyIds],
        privileges,
    ),
    test("inodes::damage_is_found_and_mended", &[KERNEL], damage),
];

/// Lists options of containers whose image is below an overlayfs.
fn overlays() -> Vec<&'static [&'static str]> {
    let mut options: Vec<&[&str]> = vec![&["--rm"], &["--rm", "--read-only"], &["--name", "kept"]];
    if is_root() {
        options.push(&["--rm", "--driver", "loop", "--disk-size", "64m"]);
    }
    options
}

/// Makes two images with equal files, one of which has two names.
fn images(cx: &Context) -> Result<()> {
    for name in ["one", "two"] {
        let (dir, _) = cx.own_rootfs(name)?;
        fs::create_dir_all(dir.join("etc"))?;
        fs::write(dir.join("etc/crontab"), "* * * * * root true\n")?;
        fs::write(dir.join("etc/second"), "twice\n")?;
        fs::hard_link(dir.join("etc/second"), dir.join("etc/second-again"))?;
        fs::write(dir.join("etc/nothing"), "")?;
        fs::create_dir_all(dir.join("etc/below/further"))?;
        fs::write(dir.join("etc/below/further/old"), "old\n")?;
        let archive = super::stored::pack(cx, &dir, name)?;
        cx.tote(&["import", &archive, name]).output()?.exits(0)?;
    }
    Ok(())
}

fn links(cx: &Context) -> Result<()> {
    images(cx)?;
    let names = "/etc/crontab /etc/nothing /bin/sh /etc/second /etc/second-again";
    for options in [overlays(), vec![&["--rm", "--driver", "split"]]].concat() {
        let script = format!("stat -c %h {names} && cat /etc/crontab /etc/second-again");
        let words = [&["run"], options, &["one", "sh", "-c", &script]].concat();
        cx.tote(&words)
            .output()?
            .prints("1\n1\n1\n2\n2\n* * * * * root true\ntwice\n")?;
    }
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

fn numbers(cx: &Context) -> Result<()> {
    images(cx)?;
    let script = "n() { stat -c %i /etc/crontab /etc/nothing; }; before=$(n); \
                  echo more >>/etc/crontab && chmod 600 /etc/nothing && \
                  test \"$before\" = \"$(n)\" && stat -c %h /etc/crontab && cat /etc/crontab";
    for options in overlays() {
        if options.contains(&"--read-only") {
            continue;
        }
        let words = [&["run"], options, &["one", "sh", "-c", script]].concat();
        cx.tote(&words)
            .output()?
            .prints("1\n* * * * * root true\nmore\n")?;
    }
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

fn steps(cx: &Context) -> Result<()> {
    images(cx)?;
    let dockerfile = "FROM one\n\
        RUN test \"$(stat -c %h /etc/crontab /etc/second | tr '\\n' ' ')\" = '1 2 '\n\
        RUN before=$(stat -c %i /etc/crontab); echo more >>/etc/crontab; \
            test $before = $(stat -c %i /etc/crontab)\n\
        RUN rm -rf /etc/below && mkdir /etc/below && echo new >/etc/below/new\n\
        RUN test \"$(ls /etc/below)\" = new && test \"$(stat -c %h /etc/crontab /etc/nothing | tr '\\n' ' ')\" = '1 1 ' && cat /etc/crontab >/etc/copy\n";
    let context = cx.directory("context")?;
    fs::write(PathBuf::from(&context).join("Dockerfile"), dockerfile)?;
    cx.tote(&["build", "-q", "-t", "built", &context])
        .output()?
        .exits(0)?;
    let look = "cat /etc/crontab /etc/copy /etc/second-again; stat -c %h /etc/copy /etc/second";
    cx.tote(&["run", "--rm", "built", "sh", "-c", look])
        .output()?
        .prints("* * * * * root true\nmore\n* * * * * root true\nmore\ntwice\n1\n2\n")?;
    Ok(())
}

fn nested(cx: &Context) -> Result<()> {
    images(cx)?;
    let (tote, archive) = (cx.binary().display(), cx.path("one.tar")?);
    let binds = [format!("{tote}:/tote:ro"), format!("{archive}:/one.tar:ro")];
    let inner = "before=$(stat -c %i /etc/crontab); echo more >>/etc/crontab; rm -r /etc/below && mkdir /etc/below; \
                 test $before = $(stat -c %i /etc/crontab) && stat -c %h /etc/crontab /etc/second && ls /etc/below";
    let tote = "/tote --root /inner/state";
    let outer = format!(
        "{tote} import /one.tar one >/dev/null && {tote} run --rm --network none one sh -c '{inner}'"
    );
    let mut words = vec!["run", "--rm", "--privileged", "--tmpfs", "/inner"];
    words.extend(binds.iter().flat_map(|bind| ["-v", bind.as_str()]));
    words.extend(["one", "sh", "-c", &outer]);
    cx.tote(&words).output()?.exits(0)?.has_out("1\n2\n")?;
    Ok(())
}

fn apart(cx: &Context) -> Result<()> {
    images(cx)?;
    let script = "echo own >>/etc/crontab; echo own >/etc/second; rm /etc/nothing";
    cx.tote(&["run", "--name", "c", "one", "sh", "-c", script])
        .output()?
        .exits(0)?;
    cx.tote(&["diff", "c"])
        .output()?
        .prints("C /etc\nC /etc/crontab\nD /etc/nothing\nC /etc/second\n")?;
    cx.tote(&["commit", "c", "three"]).output()?.exits(0)?;
    let look = "cat /etc/crontab /etc/second /etc/second-again; stat -c %h /etc/crontab; ls /etc/nothing";
    for (image, text) in [
        ("one", "* * * * * root true\ntwice\ntwice\n1\n/etc/nothing\n"),
        ("two", "* * * * * root true\ntwice\ntwice\n1\n/etc/nothing\n"),
    ] {
        cx.tote(&["run", "--rm", image, "sh", "-c", look])
            .output()?
            .prints(text)?;
    }
    let committed = cx.tote(&["run", "--rm", "three", "sh", "-c", look]).output()?;
    committed.has_out("* * * * * root true\nown\nown\ntwice\n1\n")?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    Ok(())
}

fn privileges(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("set-id")?;
    fs::create_dir_all(dir.join("etc"))?;
    fs::write(dir.join("etc/closed"), "secret\n")?;
    let archive = super::stored::pack(cx, &dir, "set-id")?;
    cx.tote(&["import", &archive, "base"]).output()?.exits(0)?;
    let dockerfile = "FROM base\nRUN chown 7:8 /etc/closed && chmod 4640 /etc/closed\n";
    let context = cx.directory("context")?;
    fs::write(PathBuf::from(&context).join("Dockerfile"), dockerfile)?;
    cx.tote(&["build", "-q", "-t", "owned", &context])
        .output()?
        .exits(0)?;
    let look = "stat -c '%a %u %g %h' /etc/closed; cat /etc/closed";
    let run = |user: &str| {
        cx.tote(&["run", "--rm", "-u", user, "owned", "sh", "-c", look])
            .output()
    };
    run("7")?.prints("4640 7 8 1\nsecret\n")?;
    let other = run("9")?;
    ensure!(!other.out().contains("secret"), "{}", other.transcript());
    Ok(())
}

/// Finds the directory with the contents of an image's files, below the only tree.
fn contents(cx: &Context) -> Result<PathBuf> {
    let trees = cx.root().join("store/trees");
    let found: Vec<PathBuf> = fs::read_dir(&trees)?
        .filter_map(|entry| Some(entry.ok()?.path().join("contents")))
        .filter(|path| path.is_dir())
        .collect();
    ensure!(found.len() == 1, "one tree with contents: {found:?}");
    Ok(found[0].clone())
}

fn damage(cx: &Context) -> Result<()> {
    super::stored::image(cx, "i", &[])?;
    let first = contents(cx)?.join("0");
    ensure!(first.metadata()?.nlink() > 1, "a content is a link to an object");
    fs::remove_file(&first)?;
    let found = cx.tote(&["store", "verify"]).output()?;
    found.fails()?.has_out("is not as it was made")?;
    cx.tote(&["store", "verify", "--repair"]).output()?;
    cx.tote(&["store", "verify"]).output()?.exits(0)?;
    cx.tote(&["run", "--rm", "i", "cat", "/own"]).output()?.exits(0)?;
    ensure!(contents(cx)?.join("0").exists(), "made anew");
    Ok(())
}
