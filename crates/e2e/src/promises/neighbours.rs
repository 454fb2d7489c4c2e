//! Another user of the machine cannot reach tote's state, by any name, and whatever the umask was at its creation.

use super::build::{build, nothing_left, write};
use super::life::done;
use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::need::{self, Need};
use crate::neighbour::{NEIGHBOUR, neighbour, reached};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test("neighbours::what_roots_containers_write", &[Need::Root], written),
    test(
        "neighbours::disks_and_templates",
        &[
            Need::Root,
            Need::Program("mkfs.ext4"),
            Need::Program("mkfs.erofs"),
            Need::Kernel(6, 12),
        ],
        disks,
    ),
    test("neighbours::caches_of_builds", &[Need::ManyIds], caches),
    test("neighbours::what_users_containers_write", &[Need::Root], users),
    test("neighbours::modes_under_any_umask", &[Need::ManyIds], umasks),
    test("neighbours::an_older_state_root_is_closed", &[], older),
    test("neighbours::nothing_else_becomes_a_state_root", &[], taken),
    test(
        "neighbours::secrets_of_builds_have_no_name",
        &[Need::ManyIds],
        secrets,
    ),
    test(
        "neighbours::links_that_another_user_planted",
        &[Need::Root],
        links,
    ),
];

/// Permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

fn mode(path: &Path) -> Result<u32> {
    let found = path
        .symlink_metadata()
        .with_context(|| format!("look at {}", path.display()))?;
    Ok(found.permissions().mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Checks that another user cannot reach these paths, all of which exist, and could without the state root's mode.
fn closed(cx: &Context, paths: &[PathBuf]) -> Result<()> {
    if need::is_root() {
        let control = PathBuf::from(cx.file("control", "everybody's")?);
        ensure!(
            reached(std::slice::from_ref(&control))?.len() == 1,
            "the neighbour sees nothing"
        );
        let found = reached(paths)?;
        ensure!(found.is_empty(), "another user reaches {}", found.join(", "));
    }
    let root = mode(&cx.root())?;
    ensure!(root == 0o700, "the state root has mode {root:o}");
    Ok(())
}

/// Builds `sh -c 'umask MASK; exec tote …'`.
fn with_umask(cx: &Context, mask: &str, words: &[&str]) -> Invocation {
    let script = format!("umask {mask}; exec \"$@\"");
    cx.tote(words).under(&["sh", "-c", &script, "sh"])
}

fn written(cx: &Context) -> Result<()> {
    let run = [
        "run",
        "-d",
        "--name",
        "c",
        "-e",
        "SECRET=hunter2",
        "-v",
        "data:/data",
        &cx.image(),
        "sleep",
        "1000",
    ];
    let id = with_umask(cx, "000", &run).output()?;
    id.exits(0)?;
    let script = "cp /bin/busybox /bin/pwn; chmod 4755 /bin/pwn; cp -p /bin/pwn /data/pwn; chmod 4755 /data/pwn; \
        mknod /null c 1 3; chmod 666 /null";
    done(cx, &["exec", "c", "sh", "-c", script])?;
    let container = cx.root().join("containers").join(id.out().trim());
    let volume = cx.root().join("volumes/data/_data/pwn");
    let mut paths = vec![volume.clone(), cx.root().join("events")];
    for name in [
        "container.json",
        "config.json",
        "state.json",
        "log.json",
        "upper/bin/pwn",
        "upper/null",
    ] {
        paths.push(container.join(name));
    }
    ensure!(mode(&volume)? == 0o4755, "no setuid program to try");
    closed(cx, &paths)?;
    let program = volume.to_str().context("a path that is not text")?;
    neighbour(&[program, "id", "-u"]).output()?.fails()?;
    done(cx, &["rm", "-f", "c"])?;
    cx.tote(&["volume", "rm", "data"]).output()?.exits(0)?;
    Ok(())
}

fn disks(cx: &Context) -> Result<()> {
    for driver in ["loop", "erofs"] {
        let run = [
            "run",
            "-d",
            "--name",
            driver,
            "--driver",
            driver,
            &cx.image(),
            "sleep",
            "1000",
        ];
        with_umask(cx, "000", &run).output()?.exits(0)?;
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(cx.root().join("templates"))?.chain(fs::read_dir(cx.root().join("containers"))?)
    {
        let path = entry?.path();
        for name in ["disk", "image.erofs"] {
            if path.join(name).exists() {
                paths.push(path.join(name));
            }
        }
        paths.push(path);
    }
    // The paths are the template, two containers and their content.
    ensure!(paths.len() == 5, "{paths:?}");
    for path in &paths {
        ensure!(mode(path)? & OTHERS == 0, "{} is open", path.display());
    }
    closed(cx, &paths)?;
    done(cx, &["rm", "-f", "loop", "erofs"]).map(drop)
}

fn caches(cx: &Context) -> Result<()> {
    let rest = "RUN --mount=type=cache,target=/root/.cache cp /bin/busybox /root/.cache/p && chmod 4755 /root/.cache/p\n";
    build(cx, &[], rest)?.exits(0)?;
    let mut paths = Vec::new();
    for entry in fs::read_dir(cx.root().join("build/mounts"))? {
        paths.push(entry?.path().join("it/p"));
    }
    ensure!(paths.len() == 1, "{paths:?}");
    closed(cx, &paths)?;
    for dir in ["build", "build/mounts", "build/work"] {
        ensure!(mode(&cx.root().join(dir))? == 0o700, "{dir} is open");
    }
    nothing_left(cx)
}

/// State roots of one user are closed for another user.
fn users(cx: &Context) -> Result<()> {
    const USER: u32 = 65533;
    let root = PathBuf::from(cx.directory("users")?);
    lchown(&root, Some(USER), Some(USER))?;
    let (uid, gid) = (format!("--reuid={USER}"), format!("--regid={USER}"));
    let root_text = root.to_str().context("a path that is not text")?;
    let tote = cx.binary().to_str().context("a path that is not text")?;
    let as_user = |words: &[&str]| {
        let words = [&[tote, "--root", root_text], words].concat();
        Invocation::new(words).under(&["setpriv", &uid, &gid, "--clear-groups", "--"])
    };
    let script = "cp /bin/true /p; chmod 6755 /p";
    let run = [
        "run",
        "--name",
        "c",
        "-e",
        "SECRET=hunter2",
        "host",
        "sh",
        "-c",
        script,
    ];
    as_user(&run).output()?.exits(0)?;
    let container = fs::read_dir(root.join("containers"))?
        .next()
        .context("there is no container")??
        .path();
    let program = container.join("upper/p");
    ensure!(mode(&program)? == 0o6755, "no setuid program to try");
    let paths = [
        root.join("events"),
        root.join("containers"),
        container.join("config.json"),
        program,
    ];
    ensure!(reached(&paths)?.is_empty(), "another user reaches {paths:?}");
    as_user(&["rm", "c"]).output()?.exits(0)?;
    Ok(())
}

/// A container's view is as open as necessary, and all other files are closed.
fn umasks(cx: &Context) -> Result<()> {
    for mask in ["000", "077"] {
        let script = "stat -c %a / /data; echo written > /tmp/file";
        let run = [
            "run",
            "--name",
            "c",
            "-u",
            "alice",
            "-v",
            "data:/data",
            &cx.image(),
            "sh",
            "-c",
            script,
        ];
        with_umask(cx, mask, &run).output()?.prints("755\n755\n")?;
        with_umask(cx, mask, &["rename", "c", "d"]).output()?.exits(0)?;
        with_umask(cx, mask, &["pod", "create", "--name", "p"])
            .output()?
            .exits(0)?;
        look_through(&cx.root())?;
        done(cx, &["start", "-a", "d"])?;
        done(cx, &["rm", "d"])?;
        done(cx, &["pod", "rm", "p"])?;
        done(cx, &["volume", "rm", "data"])?;
    }
    Ok(())
}

/// Checks that files and directories outside a container's view are closed to other users.
fn look_through(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_symlink()
            || ["upper", "_data", "store", "host"]
                .iter()
                .any(|seen| name == *seen)
        {
            continue;
        }
        let mode = mode(&path)?;
        ensure!(mode & OTHERS == 0, "{} has mode {mode:o}", path.display());
        // overlayfs's own work directory cannot be listed.
        if path.is_dir() && name != "work" {
            look_through(&path)?;
        }
    }
    Ok(())
}

fn older(cx: &Context) -> Result<()> {
    let run = [
        "run",
        "--name",
        "c",
        "-e",
        "SECRET=hunter2",
        &cx.image(),
        "sh",
        "-c",
        "cp /bin/busybox /p; chmod 4755 /p",
    ];
    cx.tote(&run).output()?.exits(0)?;
    let container = fs::read_dir(cx.root().join("containers"))?
        .next()
        .context("there is no container")??
        .path();
    // Modes that former versions used.
    for (path, mode) in [
        (cx.root(), 0o711),
        (cx.root().join("containers"), 0o711),
        (cx.root().join("volumes"), 0o711),
        (container.clone(), 0o755),
        (container.join("config.json"), 0o644),
    ] {
        set_mode(&path, mode)?;
    }
    let paths = [container.join("config.json"), container.join("upper/p")];
    if need::is_root() {
        ensure!(
            reached(&paths)?.len() == 2,
            "the older state root was closed already"
        );
    }
    // Any command closes the state root, also one that only reads.
    done(cx, &["ps", "-a"])?;
    closed(cx, &paths)?;
    // A start continues with the present state.
    done(cx, &["start", "-a", "c"])?;
    done(cx, &["rm", "c"]).map(drop)
}

fn taken(cx: &Context) -> Result<()> {
    let directory = cx.directory("something")?;
    cx.file("something/else", "")?;
    let tote = cx.binary().to_str().context("a path that is not text")?;
    let try_it = || Invocation::new([tote, "--root", &directory, "ps"]).output();
    try_it()?
        .fails()?
        .has_err("cannot keep state in")?
        .has_err("not tote's (else)")?;
    ensure!(mode(Path::new(&directory))? & 0o055 == 0o055, "it was closed");
    fs::remove_file(cx.scratch().join("something/else"))?;
    if need::is_root() {
        lchown(&directory, Some(NEIGHBOUR), None)?;
        try_it()?
            .fails()?
            .has_err(&format!("the directory belongs to user {NEIGHBOUR}"))?;
    }
    Ok(())
}

fn secrets(cx: &Context) -> Result<()> {
    let shared = cx.directory("shared")?;
    let secret = cx.file("secret", "the secret of a build")?;
    let rest = "FROM base\nRUN --mount=type=secret,id=s,mode=0444 stat -c %a /run/secrets/s > /shared/mode; \
        touch /shared/begun; while [ ! -e /shared/go ]; do sleep 0.02; done; cat /run/secrets/s > /shared/read\n";
    // This build makes the base image of the next one.
    build(cx, &[], "")?.exits(0)?;
    write(cx, "Dockerfile", &rest.replace("base", "it"))?;
    let context = cx.path("context")?;
    let volume = format!("{shared}:/shared");
    let given = format!("id=s,src={secret}");
    let words = ["build", "-v", &volume, "--secret", &given, &context];
    let building = with_umask(cx, "000", &words).spawn()?;
    let since = Instant::now();
    // The secret loses its name as soon as the step has it, which another process does concurrently.
    while !cx.scratch().join("shared/begun").exists() || is_in(&cx.root().join("build"), "the secret")? {
        ensure!(since.elapsed() < patience(), "the secret is a file below build/");
        std::thread::yield_now();
    }
    fs::write(cx.scratch().join("shared/go"), "")?;
    building.finish()?.exits(0)?;
    let read = |name: &str| fs::read_to_string(cx.scratch().join("shared").join(name));
    ensure!(read("mode")? == "444\n" && read("read")? == "the secret of a build");
    nothing_left(cx)
}

/// True if a file below the directory begins with that text.
fn is_in(dir: &Path, text: &str) -> Result<bool> {
    // An entry that disappears meanwhile holds no secret either.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type()?;
        let found = match kind.is_dir() {
            true => is_in(&entry.path(), text)?,
            false => fs::read(entry.path()).is_ok_and(|content| content.starts_with(text.as_bytes())),
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn links(cx: &Context) -> Result<()> {
    let theirs = PathBuf::from(cx.directory("theirs")?);
    lchown(&theirs, Some(NEIGHBOUR), Some(NEIGHBOUR))?;
    let target = PathBuf::from(cx.file("target", "of root")?);
    let plant = |owner: u32| -> Result<String> {
        let link = theirs.join("link");
        fs::remove_file(&link).ok();
        symlink(&target, &link)?;
        lchown(&link, Some(owner), Some(owner))?;
        Ok(link.to_str().context("a path that is not text")?.to_owned())
    };
    let link = plant(NEIGHBOUR)?;
    let create = ["create", "--name", "c", &cx.image(), "sleep", "1000"];
    done(cx, &create)?;
    done(cx, &["commit", "c", "it"])?;
    let refused = "it is a link of user 65534";
    cx.tote(&["save", "-o", &link, "it"])
        .output()?
        .fails()?
        .has_err(refused)?;
    cx.tote(&["export", "-o", &link, "c"])
        .output()?
        .fails()?
        .has_err(refused)?;
    let run = [
        "run",
        "-d",
        "--name",
        "d",
        "--pidfile",
        &link,
        &cx.image(),
        "sleep",
        "1000",
    ];
    cx.tote(&run).output()?.fails()?.has_err(refused)?;
    let kept = fs::read_to_string(&target)?;
    ensure!(
        kept == "of root",
        "it was written through the link of another user"
    );
    // The mode of another user's file is not taken over.
    let file = theirs.join("file");
    fs::write(&file, "")?;
    lchown(&file, Some(NEIGHBOUR), None)?;
    set_mode(&file, 0o4777)?;
    let path = file.to_str().context("a path that is not text")?;
    done(cx, &["save", "-o", path, "it"])?;
    ensure!(
        mode(&file)? == 0o600,
        "the saved image has mode {:o}",
        mode(&file)?
    );
    // Links of root are followed.
    let link = plant(0)?;
    done(cx, &["save", "-o", &link, "it"])?;
    ensure!(Path::new(&link).is_symlink() && fs::metadata(&target)?.len() > 1000);
    done(cx, &["rm", "-f", "c", "d"])?;
    done(cx, &["rmi", "it"]).map(drop)
}
