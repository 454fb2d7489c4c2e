//! A container's files have the link counts from their image, and keep their inode numbers, though the store has
//! every file once.

use super::on_disk::IMAGE;
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
    test(
        "inodes::an_image_is_read_without_a_second_tree",
        &[KERNEL],
        without_links,
    ),
    test(
        "inodes::a_tree_of_links_is_made_for_whoever_needs_one",
        &[KERNEL],
        with_links,
    ),
    test(
        "inodes::a_tree_that_an_older_build_made_is_used",
        &[KERNEL],
        of_older_builds,
    ),
    test(
        "inodes::a_container_keeps_the_contents_of_its_lost_image",
        &[KERNEL],
        without_image,
    ),
    test("inodes::images_in_one_file_have_their_links", ONE_FILE, |cx| {
        in_one_file(cx, links)
    }),
    test("inodes::images_in_one_file_keep_numbers", ONE_FILE, |cx| {
        in_one_file(cx, numbers)
    }),
    test(
        "inodes::steps_of_builds_have_images_in_one_file",
        ONE_FILE,
        |cx| in_one_file(cx, steps),
    ),
    test("inodes::images_in_one_file_are_kept_apart", ONE_FILE, |cx| {
        in_one_file(cx, apart)
    }),
    test("inodes::privileges_of_images_in_one_file_hold", ONE_FILE, |cx| {
        in_one_file(cx, privileges)
    }),
    test(
        "inodes::damage_of_an_image_in_one_file_is_mended",
        ONE_FILE,
        |cx| in_one_file(cx, damage),
    ),
    test("inodes::an_image_in_one_file_is_read", ONE_FILE, |cx| {
        in_one_file(cx, without_links)
    }),
    test("inodes::drivers_copy_an_image_in_one_file", ONE_FILE, |cx| {
        ask_for_one_file(cx)?;
        with_links(cx)
    }),
    test("inodes::the_contents_of_a_lost_file_are_kept", ONE_FILE, |cx| {
        ask_for_one_file(cx)?;
        without_image(cx)
    }),
];

/// Needs of images whose metadata are one file: only root mounts it.
pub(super) const ONE_FILE: &[Need] = &[KERNEL, Need::Root];

/// Writes a configuration by which every image is one file, as large images are.
fn ask_for_one_file(cx: &Context) -> Result<()> {
    let config = PathBuf::from(cx.directory(".config/tote")?);
    fs::write(config.join("storage.json"), r#"{ "erofs-from": 0 }"#)?;
    Ok(())
}

/// Runs a test with that configuration, and looks whether an image is one file.
fn in_one_file(cx: &Context, test: fn(&Context) -> Result<()>) -> Result<()> {
    ask_for_one_file(cx)?;
    test(cx)?;
    let trees = fs::read_dir(cx.root().join("store/trees"))?;
    let trees = trees
        .map(|tree| Ok(tree?.path().join(IMAGE)))
        .collect::<Result<Vec<_>>>()?;
    ensure!(trees.iter().any(|image| image.is_file()), "{trees:?}");
    Ok(())
}

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

pub(super) fn links(cx: &Context) -> Result<()> {
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

pub(super) fn numbers(cx: &Context) -> Result<()> {
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

pub(super) fn steps(cx: &Context) -> Result<()> {
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

/// Finds the only tree of the store.
pub(super) fn tree(cx: &Context) -> Result<PathBuf> {
    let trees = cx.root().join("store/trees");
    let found: Vec<PathBuf> = fs::read_dir(&trees)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    ensure!(found.len() == 1, "one tree: {found:?}");
    Ok(found[0].clone())
}

/// The parts of a tree that overlayfs shows: one file, where the kernel can mount that.
fn parts(tree: &std::path::Path) -> &'static [&'static str] {
    if tree.join(IMAGE).exists() {
        &[IMAGE]
    } else if tree.join("contents").exists() {
        &["inodes", "contents"]
    } else {
        &["inodes"]
    }
}

pub(super) fn damage(cx: &Context) -> Result<()> {
    super::stored::image(cx, "i", &[])?;
    let tree = tree(cx)?;
    let part = match parts(&tree) {
        [IMAGE] => tree.join(IMAGE),
        ["inodes"] => tree.join("inodes/own"),
        _ => tree.join("contents/0"),
    };
    if part.ends_with("own") {
        fs::remove_file(&part)?;
    } else if part.ends_with(IMAGE) {
        // One bit of the last name of the root directory.
        let mut bytes = fs::read(&part)?;
        let name = bytes.windows(3).rposition(|name| name == b"own");
        bytes[name.unwrap_or_default()] ^= 1;
        fs::write(&part, bytes)?;
    } else {
        ensure!(part.metadata()?.nlink() > 1, "a content is a link to an object");
        fs::remove_file(&part)?;
    }
    let found = cx.tote(&["store", "verify"]).output()?;
    found.fails()?.has_out("is not as it was made")?;
    cx.tote(&["store", "verify", "--repair"]).output()?;
    cx.tote(&["store", "verify"]).output()?.exits(0)?;
    cx.tote(&["run", "--rm", "i", "cat", "/own"]).output()?.exits(0)?;
    ensure!(part.exists(), "made anew");
    Ok(())
}

/// The directories that a store may have beside `inodes/`: trees of links to objects.
fn trees_of_links(cx: &Context) -> Result<Vec<PathBuf>> {
    let trees = fs::read_dir(cx.root().join("store/trees"))?;
    let links = trees.map(|tree| Ok(tree?.path().join("root")));
    let links = links.collect::<Result<Vec<_>>>()?.into_iter();
    Ok(links.filter(|path| path.exists()).collect())
}

/// A group file of 0600 that only an image's owner reads, and a user whose name is looked up in the image.
fn image_with_users(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("users")?;
    fs::create_dir_all(dir.join("etc"))?;
    fs::write(
        dir.join("etc/passwd"),
        "root:x:0:0::/:/bin/sh\nsomebody:x:0:5::/:/bin/sh\n",
    )?;
    fs::write(dir.join("etc/group"), "five:x:5:\n")?;
    fs::write(dir.join("etc/stays"), "stays\n")?;
    let archive = super::stored::pack(cx, &dir, "users")?;
    cx.tote(&["import", &archive, "i"]).output()?.exits(0)?;
    Ok(())
}

fn without_links(cx: &Context) -> Result<()> {
    image_with_users(cx)?;
    cx.run(&["-u", "somebody", "i", "id", "-u"])?.prints("0\n")?;
    let write = "echo new > /etc/new; echo x >> /etc/stays";
    cx.tote(&["run", "--name", "c", "i", "sh", "-c", write])
        .output()?
        .exits(0)?;
    cx.tote(&["diff", "c"])
        .output()?
        .prints("C /etc\nA /etc/new\nC /etc/stays\n")?;
    let exported = cx.path("exported.tar")?;
    cx.tote(&["export", "-o", &exported, "c"]).output()?.exits(0)?;
    let seen = |name: &str| {
        let words = ["tar", "-xOf", &exported, name];
        crate::invocation::Invocation::new(words).output()
    };
    seen("etc/group")?.prints("five:x:5:\n")?;
    seen("etc/stays")?.prints("stays\nx\n")?;
    cx.tote(&["cp", "c:/etc/passwd", &cx.path("copied")?])
        .output()?
        .exits(0)?;
    ensure!(fs::read_to_string(cx.path("copied")?)?.contains("somebody"));
    cx.tote(&["commit", "c", "more"]).output()?.exits(0)?;
    cx.run(&["more", "cat", "/etc/stays", "/etc/group"])?
        .prints("stays\nx\nfive:x:5:\n")?;
    let context = cx.directory("context")?;
    let dockerfile = "FROM i AS one\nRUN echo y >> /etc/stays\nFROM i\nCOPY --from=one --chown=somebody:five /etc/stays \
                      /etc/copy\nCOPY --from=one /etc/group /etc/of-the-base\nWORKDIR /made\n";
    fs::write(PathBuf::from(&context).join("Dockerfile"), dockerfile)?;
    cx.tote(&["build", "-q", "-t", "built", &context])
        .output()?
        .exits(0)?;
    let look = "cat /etc/copy /etc/of-the-base; stat -c %g /etc/copy";
    cx.run(&["built", "sh", "-c", look])?
        .prints("stays\ny\nfive:x:5:\n5\n")?;
    let out = cx.path("files.tar")?;
    let output = format!("type=tar,dest={out}");
    cx.tote(&["build", "-q", "--squash", "-o", &output, &context])
        .output()?
        .exits(0)?;
    let words = ["tar", "-xOf", &out, "etc/copy"];
    crate::invocation::Invocation::new(words)
        .output()?
        .prints("stays\ny\n")?;
    let made = trees_of_links(cx)?;
    ensure!(made.is_empty(), "somebody has made {made:?}");
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    Ok(())
}

pub(super) fn with_links(cx: &Context) -> Result<()> {
    image_with_users(cx)?;
    let drivers: &[&str] = &["split", "copy", "reflink"];
    for driver in drivers {
        // Twice: it is made, and it is found.
        for _ in 0..2 {
            let words = ["--driver", driver, "i", "cat", "/etc/stays"];
            cx.run(&words)?.exits(0)?.prints("stays\n")?;
        }
        cx.tote(&[
            "run",
            "--driver",
            driver,
            "--name",
            "c",
            "i",
            "sh",
            "-c",
            "echo x >> /tmp/f",
        ])
        .output()?
        .exits(0)?;
        cx.tote(&["diff", "c"]).output()?.has_out("A /tmp/f\n")?;
        cx.tote(&["rm", "c"]).output()?.exits(0)?;
        ensure!(trees_of_links(cx)?.len() == 1, "{driver} needs one");
        cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    }
    let context = cx.directory("context")?;
    let dockerfile = "FROM i\nRUN --mount=type=bind,from=i,source=/etc,target=/mnt cat /mnt/stays > /seen\n";
    fs::write(PathBuf::from(&context).join("Dockerfile"), dockerfile)?;
    cx.tote(&["build", "-q", "-t", "built", &context])
        .output()?
        .exits(0)?;
    cx.run(&["built", "cat", "/seen"])?.prints("stays\n")?;
    cx.tote(&["rmi", "built", "i"]).output()?.exits(0)?;
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    ensure!(fs::read_dir(cx.root().join("store/trees"))?.next().is_none());
    Ok(())
}

/// Until November 2026 every tree had links to objects beside the rest.
fn of_older_builds(cx: &Context) -> Result<()> {
    image_with_users(cx)?;
    cx.run(&["--driver", "copy", "i", "true"])?.exits(0)?;
    let links = trees_of_links(cx)?;
    ensure!(links.len() == 1, "one tree: {links:?}");
    cx.run(&["i", "stat", "-c", "%h", "/etc/stays"])?.prints("1\n")?;
    // As after another boot: both are looked through, and stay.
    let lease = links[0].with_file_name("lease");
    fs::write(&lease, "another boot+")?;
    cx.run(&["i", "cat", "/etc/stays"])?.prints("stays\n")?;
    ensure!(trees_of_links(cx)? == links);
    // A tree of a build without inodes, on a kernel that shows them: it gets them.
    let parts = parts(&tree(cx)?);
    let aside = |part: &str, name: &str| -> Result<()> {
        Ok(fs::rename(lease.with_file_name(part), cx.path(name)?)?)
    };
    for part in parts {
        aside(part, part)?;
    }
    fs::write(&lease, "another boot")?;
    cx.run(&["i", "stat", "-c", "%h", "/etc/stays"])?.prints("1\n")?;
    ensure!(trees_of_links(cx)? == links);
    cx.tote(&["store", "verify", "--full"]).output()?.exits(0)?;
    // And what has neither is made anew.
    aside("root", "links")?;
    aside(parts[0], "again")?;
    fs::write(&lease, "another boot+")?;
    cx.run(&["i", "cat", "/etc/stays"])?.prints("stays\n")?;
    ensure!(trees_of_links(cx)?.is_empty());
    for name in parts.iter().chain(&["links", "again"]) {
        let path = cx.path(name)?;
        match fs::symlink_metadata(&path)?.is_dir() {
            true => fs::remove_dir_all(path)?,
            false => fs::remove_file(path)?,
        }
    }
    Ok(())
}

/// A container whose image is lost finds what it has not opened yet, whatever sweeps, and leaves nothing.
pub(super) fn without_image(cx: &Context) -> Result<()> {
    image_with_users(cx)?;
    let program = "echo ready; read word; cat /etc/stays /etc/group";
    let mut running = cx
        .tote(&["run", "--rm", "-i", "i", "sh", "-c", program])
        .spawn()?;
    running.expect("ready")?;
    // `rmi` keeps an image that a running container has, so this one is lost.
    for image in fs::read_dir(cx.root().join("store/images"))? {
        fs::remove_dir_all(image?.path())?;
    }
    // Another image is in use neither now nor later, and its files go.
    super::stored::image(cx, "other", &[])?;
    cx.tote(&["rmi", "other"]).output()?.exits(0)?;
    for _ in 0..2 {
        cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    }
    running.send(b"go\n");
    running.expect("stays\nfive:x:5:\n")?;
    running.finish()?.exits(0)?;
    cx.tote(&["image", "prune", "-af"]).output()?.exits(0)?;
    for shard in fs::read_dir(cx.root().join("store/objects"))? {
        let shard = shard?.path();
        let is_empty = fs::read_dir(&shard)?.next().is_none();
        ensure!(is_empty, "something is left in {}", shard.display());
    }
    ensure!(fs::read_dir(cx.root().join("store/trees"))?.next().is_none());
    cx.nothing_left()
}
