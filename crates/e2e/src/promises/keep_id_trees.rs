//! The trees of images for `--userns keep-id`: made once, whole or not at all, counted and removed; volumes that are filled from them, and
//! containers that were there before them.

use super::keep_id::{LOOK, NEEDS, SEEN, ids, image, parts, run};
use super::life::{done, empty};
use super::pool::eventually;
use crate::context::Context;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("keep_id::many_starts_at_once_make_one_tree", NEEDS, many),
    test("keep_id::a_killed_maker_leaves_no_part_of_a_tree", NEEDS, killed),
    test(
        "keep_id::copies_are_counted_and_go_with_the_image",
        NEEDS,
        counted,
    ),
    test("keep_id::volumes_have_the_images_owners", NEEDS, volumes),
    test("keep_id::an_image_leads_no_file_elsewhere", NEEDS, hostile),
    test("keep_id::an_older_container_keeps_its_owners", NEEDS, older),
    test(
        "keep_id::what_a_failed_start_leaves_has_its_owners",
        NEEDS,
        failed,
    ),
];

/// Starts at once, in rounds: while a container's process becomes root of its namespace, other work of its start goes on.
fn many(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    for round in 0..10 {
        let ended: Vec<Result<()>> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| run(cx, &[], LOOK)?.prints(SEEN).map(drop)))
                .collect();
            let ends = starts.into_iter().map(std::thread::ScopedJoinHandle::join);
            ends.map(|end| end.map_err(|_| anyhow!("a start has panicked"))?)
                .collect()
        });
        for end in ended {
            end.with_context(|| format!("round {round}"))?;
        }
        let made = [parts(cx, "inodes-")?, parts(cx, "root-")?].concat();
        ensure!(made.len() == 1, "round {round}: {made:?}");
    }
    done(cx, &["store", "verify", "--full"])?;
    empty(cx)
}

/// Names in all trees of the store.
fn names(cx: &Context) -> Result<Vec<String>> {
    let found = parts(cx, "")?;
    let name = |path: &std::path::PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(found.iter().filter_map(name).collect())
}

fn killed(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("large")?;
    fs::create_dir(dir.join("many"))?;
    for number in 0..1500 {
        fs::write(dir.join(format!("many/{number}")), format!("{number}\n"))?;
    }
    done(cx, &["import", &super::stored::pack(cx, &dir, "large")?, "i"])?;
    let begun = cx
        .tote(&["run", "--rm", "--userns", "keep-id", "i", "true"])
        .spawn()?;
    let has = |beginning: &str| Ok(names(cx)?.iter().any(|name| name.starts_with(beginning)));
    eventually("a tree is being made", || has("."))?;
    for process in processes::descendants(begun.pid()) {
        processes::kill(process.pid, Signal::KILL);
    }
    begun.signal(Signal::KILL)?;
    begun.finish()?;
    ensure!(
        !has("inodes-")? && !has("root-")?,
        "it was killed too late: {:?}",
        names(cx)?
    );
    let look = "stat -c %u:%g / /many /many/7; cat /many/1499; ls /many | wc -l";
    run(cx, &[], look)?.prints("0:0\n0:0\n0:0\n1499\n1500\n")?;
    done(cx, &["store", "verify"])?;
    // The next command that clears the store takes the remains away.
    done(cx, &["image", "prune", "-f"])?;
    ensure!(!has(".")?, "remains: {:?}", names(cx)?);
    done(cx, &["rmi", "i"])?;
    ensure!(names(cx)?.is_empty(), "{:?}", names(cx)?);
    empty(cx)
}

/// Bytes of the store as `system df` has them.
fn stored(cx: &Context) -> Result<u64> {
    let lines = done(cx, &["system", "df", "--format", "{{json .}}"])?;
    let images = lines.lines().next().context("no line")?;
    let row: serde_json::Value = serde_json::from_str(images)?;
    row["Bytes"]["Stored"].as_u64().context("no number")
}

fn counted(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let before = stored(cx)?;
    run(cx, &["--driver", "copy"], LOOK)?.prints(SEEN)?;
    ensure!(parts(cx, "root-")?.len() == 1, "{:?}", names(cx)?);
    let grown = stored(cx)? - before;
    let kind = u64::try_from(rustix::fs::statfs(cx.root())?.f_type)?;
    let (btrfs, xfs) = (0x9123_683e, 0x5846_5342);
    match kind == btrfs || kind == xfs {
        true => ensure!(grown == 0, "{grown} bytes"),
        false => ensure!(grown > 3 << 20, "{grown} bytes"),
    }
    // In use, the image stays, and so does the tree.
    done(cx, &["create", "--name", "c", "--userns", "keep-id", "i", "true"])?;
    done(cx, &["image", "prune", "-af"])?;
    ensure!(parts(cx, "root-")?.len() == 1, "{:?}", names(cx)?);
    done(cx, &["rm", "c"])?;
    done(cx, &["rmi", "i"])?;
    done(cx, &["system", "prune", "-af"])?;
    ensure!(names(cx)?.is_empty(), "{:?}", names(cx)?);
    ensure!(stored(cx)? == 0, "{} bytes", stored(cx)?);
    empty(cx)
}

fn volumes(cx: &Context) -> Result<()> {
    image(cx, "base-of-volumes")?;
    let context = cx.directory("more")?;
    let dockerfile = "FROM base-of-volumes\nRUN mkdir -p /opt/x && chown 1001:0 /opt/x && echo f >/opt/x/f && chown 33:34 /opt/x/f\n";
    fs::write(Path::new(&context).join("Dockerfile"), dockerfile)?;
    done(cx, &["build", "-q", "-t", "i", &context])?;
    let look = ["i", "sh", "-c", "stat -c %u:%g /opt/x /opt/x/f; cat /opt/x/f"];
    let seen = "1001:0\n33:34\nf\n";
    for (userns, volume) in [
        ("keep-id:uid=1001,gid=1001", "/opt/x"),
        ("keep-id:uid=1001,gid=1001", "named:/opt/x"),
        ("keep-id", "/opt/x"),
        ("keep-id", "other:/opt/x"),
        // Filled by another start with these ids.
        ("keep-id", "other:/opt/x"),
    ] {
        let words = [&["--userns", userns, "-v", volume][..], &look].concat();
        cx.run(&words)?
            .prints(seen)
            .with_context(|| format!("{userns} {volume}"))?;
    }
    // A volume that was filled before, with the numbers of an ordinary container, stays as it is.
    cx.run(&[&["-v", "old:/opt/x"][..], &look].concat())?
        .prints(seen)?;
    let outside = || {
        let place = cx.root().join("volumes/old/_data");
        let (dir, file) = (place.display().to_string(), place.join("f").display().to_string());
        done(cx, &["unshare", "stat", "-c", "%u:%g", &dir, &file])
    };
    let before = outside()?;
    let mount = ["--userns", "keep-id", "-v", "old:/opt/x", "i", "true"];
    cx.run(&mount)?.exits(0)?;
    ensure!(outside()? == before, "{before} became {}", outside()?);
    cx.run(&[&["-v", "old:/opt/x"][..], &look].concat())?
        .prints(seen)?;
    done(cx, &["volume", "rm", "named", "other", "old"])?;
    empty(cx)
}

/// An image whose files have overlayfs's attributes: they would show the contents of others.
fn hostile(cx: &Context) -> Result<()> {
    use rustix::fs::{XattrFlags, setxattr};
    let (dir, _) = cx.own_rootfs("hostile")?;
    fs::create_dir_all(dir.join("etc"))?;
    fs::write(dir.join("etc/secret"), "secret\n")?;
    fs::set_permissions(dir.join("etc/secret"), fs::Permissions::from_mode(0o600))?;
    let redirects = ["/0", "/1", "/2", "/etc/secret", "../secret", "secret"];
    for (number, redirect) in redirects.iter().enumerate() {
        let file = dir.join(format!("etc/lead{number}"));
        fs::write(&file, format!("own {number}\n"))?;
        for (name, value) in [
            ("redirect", *redirect),
            ("metacopy", ""),
            ("opaque", "y"),
            ("origin", "x"),
        ] {
            let name = format!("user.overlay.{name}");
            setxattr(&file, &*name, value.as_bytes(), XattrFlags::empty())?;
        }
    }
    let archive = cx.path("hostile.tar")?;
    let packed = std::process::Command::new("tar")
        .args([
            "--xattrs",
            "--xattrs-include=user.*",
            "--owner=:0",
            "--group=:0",
            "-cf",
            &archive,
            "-C",
        ])
        .arg(&dir)
        .arg(".")
        .output()?;
    ensure!(packed.status.success(), "tar: {packed:?}");
    let bytes = fs::read(&archive)?;
    let names = bytes
        .windows(21)
        .filter(|window| window == b"user.overlay.redirect");
    ensure!(names.count() == redirects.len(), "the archive has them");
    done(cx, &["import", &archive, "i"])?;
    let own: String = (0..redirects.len())
        .map(|number| format!("own {number}\n"))
        .collect();
    for options in [&[][..], &["--driver", "copy"], &["-u", "0"]] {
        run(cx, options, "cat /etc/lead*")?
            .prints(&own)
            .with_context(|| format!("{options:?}"))?;
    }
    let closed = run(cx, &[], "cat /etc/secret")?;
    ensure!(!closed.out().contains("secret"), "{}", closed.transcript());
    empty(cx)
}

/// Changes a record of the only container as JSON.
fn rewrite(cx: &Context, file: &str, change: impl Fn(&mut serde_json::Value)) -> Result<()> {
    let dir = fs::read_dir(cx.root().join("containers"))?
        .next()
        .context("no container")??;
    let path = dir.path().join(file);
    let mut record = serde_json::from_slice(&fs::read(&path)?)?;
    change(&mut record);
    Ok(fs::write(&path, serde_json::to_vec(&record)?)?)
}

/// A record without the key is one of an older tote, whose containers have files of root's that belong to the caller.
fn older(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, gid) = ids();
    let script = "stat -c %u:%g / /etc/passwd; echo mine >/etc/mine && stat -c %u:%g /etc/mine";
    let words = [
        "create", "--name", "c", "--userns", "keep-id", "i", "sh", "-c", script,
    ];
    done(cx, &words)?;
    rewrite(cx, "container.json", |record| {
        record.as_object_mut().map(|record| record.remove("roots_files"));
    })?;
    let file = cx.file("copied", "copied\n")?;
    done(cx, &["cp", &file, "c:/etc/copied"])?;
    for _ in 0..2 {
        let started = cx.tote(&["start", "-a", "c"]).output()?;
        started.prints(&format!("{0}:{1}\n{0}:{1}\n{0}:{1}\n", uid, gid))?;
    }
    let changed = done(cx, &["diff", "c"])?;
    ensure!(
        changed.contains("A /etc/mine") && !changed.contains("sudo"),
        "{changed}"
    );
    done(cx, &["commit", "c", "made"])?;
    cx.run(&["made", "stat", "-c", "%u:%g", "/etc/mine", "/etc/passwd"])?
        .prints("0:0\n0:0\n")?;
    done(cx, &["rm", "c"])?;
    empty(cx)
}

/// A start that fails says nothing about the owners of the files that earlier starts have left.
fn failed(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let dir = cx.directory("mounted")?;
    let mount = format!("{dir}:/mounted");
    let script = "sudo as-root sh -c 'echo more >/etc/more'";
    let words = [
        "run", "--name", "c", "--userns", "keep-id", "-v", &mount, "i", "sh", "-c", script,
    ];
    done(cx, &words)?;
    // What is mounted becomes a file, on which the directory cannot be mounted.
    fs::remove_dir(&dir)?;
    cx.file("mounted", "")?;
    cx.tote(&["start", "c"]).output()?.fails()?;
    done(cx, &["commit", "c", "made"])?;
    cx.run(&["made", "stat", "-c", "%u:%g", "/etc/more"])?
        .prints("0:0\n")?;
    done(cx, &["rm", "c"])?;
    empty(cx)
}
