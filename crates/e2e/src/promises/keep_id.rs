//! `--userns keep-id` of a user with ranges of ids: root's files are root's, the user's are the user's.

use super::life::{done, empty};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub(super) const NEEDS: &[Need] = &[Need::Unprivileged, Need::SubIds, Need::Program("tar")];

/// The kernel shows empty files with their contents to users.
const SHARED: &[Need] = &[
    Need::Unprivileged,
    Need::SubIds,
    Need::Program("tar"),
    Need::Kernel(6, 16),
];

pub(super) const TESTS: &[Test] = &[
    test("keep_id::roots_files_are_roots", NEEDS, owners),
    test(
        "keep_id::a_dev_container_has_sudo_and_a_workspace",
        NEEDS,
        dev_container,
    ),
    test("keep_id::set_user_id_takes_no_rights_away", NEEDS, root_stays),
    test(
        "keep_id::other_numbers_have_their_own_owners",
        NEEDS,
        other_numbers,
    ),
    test("keep_id::each_driver_shows_the_same_owners", NEEDS, drivers),
    test("keep_id::what_is_copied_has_its_owner", NEEDS, copied),
    test("keep_id::what_is_committed_is_roots", NEEDS, committed),
    test("keep_id::contents_are_shared", SHARED, shared),
    test("keep_id::damage_is_found_and_mended", SHARED, damage),
    test("keep_id::a_directory_stays_the_callers", NEEDS, directory),
];

const KEEP: [&str; 2] = ["--userns", "keep-id"];

/// Imports an image with a user besides root, and a program that makes root of each user who executes it.
pub(super) fn image(cx: &Context, name: &str) -> Result<()> {
    let (dir, _) = cx.own_rootfs(name)?;
    fs::copy(dir.join("bin/probe"), dir.join("bin/sudo"))?;
    fs::set_permissions(dir.join("bin/sudo"), fs::Permissions::from_mode(0o4755))?;
    fs::write(dir.join("etc/sudoers"), "ALL\n")?;
    let large = vec![b'x'; 3 << 20];
    fs::write(dir.join("etc/large"), large)?;
    let archive = super::stored::pack(cx, &dir, name)?;
    done(cx, &["import", &archive, "base"])?;
    // Owners that a user's tar cannot give.
    let dockerfile = "FROM base\nRUN mkdir -p /home/u && chown 1234:2345 /home/u && echo u >/home/u/f && chown 1:2 /home/u/f\n";
    let context = cx.directory("context")?;
    fs::write(Path::new(&context).join("Dockerfile"), dockerfile)?;
    done(cx, &["build", "-q", "-t", name, &context])?;
    Ok(())
}

pub(super) fn ids() -> (u32, u32) {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    (uid.as_raw(), gid.as_raw())
}

pub(super) fn run(cx: &Context, options: &[&str], script: &str) -> Result<crate::output::Output> {
    cx.run(&[&KEEP[..], options, &["i", "sh", "-c", script]].concat())
}

/// Prints the owners of root's files, then those of the image's users.
pub(super) const LOOK: &str =
    "stat -c %u:%g / /etc /etc/passwd /bin/sudo /home/u /home/u/f | tr '\\n' ' '; stat -c '%a %h' /bin/sudo";
pub(super) const SEEN: &str = "0:0 0:0 0:0 0:0 1234:2345 1:2 4755 1\n";

fn owners(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    for options in [&[][..], &["-u", "0"], &["--read-only"], &["-u", "1234:2345"]] {
        run(cx, options, LOOK)?
            .prints(SEEN)
            .with_context(|| format!("{options:?}"))?;
    }
    // What the caller may not change, it may not.
    let write = "for f in /etc/x /x /bin/sudo; do touch $f 2>/dev/null && echo $f; done; wc -c </etc/large";
    run(cx, &[], write)?.prints("3145728\n")?;
    let kept = ["create", "--name", "c", "--userns", "keep-id", "i", "sh", "-c"];
    let script = format!("{LOOK}; stat -c %u:%g /etc/hosts; touch /etc/x 2>/dev/null || echo refused");
    done(cx, &[&kept[..], &[&script]].concat())?;
    for _ in 0..2 {
        let out = cx.tote(&["start", "-a", "c"]).output()?;
        out.prints(&format!("{SEEN}0:0\nrefused\n"))?;
    }
    done(cx, &["rename", "c", "d"])?;
    done(cx, &["rm", "d"])?;
    // Without the option nothing has changed.
    cx.run(&["i", "sh", "-c", LOOK])?.prints(SEEN)?;
    empty(cx)
}

fn dev_container(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, gid) = ids();
    let work = cx.directory("work")?;
    fs::write(Path::new(&work).join("source"), "text\n")?;
    let mount = format!("{work}:/work");
    let begin = [
        "run", "-d", "--name", "c", "--userns", "keep-id", "-v", &mount, "-w", "/work", "i", "sleep", "1000",
    ];
    done(cx, &begin)?;
    let exec = |script: &str| cx.tote(&["exec", "c", "sh", "-c", script]).output();
    exec("id -u; id -g; stat -c %u:%g . source; echo made >made")?
        .prints(&format!("{uid}\n{gid}\n{uid}:{gid}\n{uid}:{gid}\n"))?;
    let made = fs::metadata(Path::new(&work).join("made"))?;
    ensure!((made.uid(), made.gid()) == (uid, gid), "{made:?}");
    exec("sudo ids")?.prints(&format!("{uid} 0\n"))?;
    let install = "sudo as-root sh -c 'id -u; echo installed >/etc/package; chown 7:8 /etc/package; rm /home/u/f; mkdir -p /opt/p'";
    exec(install)?.prints("0\n")?;
    exec("stat -c %u:%g /etc/package /opt/p; cat /etc/package; ls /home/u")?
        .prints("7:8\n0:0\ninstalled\n")?;
    done(cx, &["restart", "-t", "0", "c"])?;
    exec("stat -c %u:%g / /etc/package /opt/p && sudo ids")?.prints(&format!("0:0\n7:8\n0:0\n{uid} 0\n"))?;
    let debug = cx
        .tote(&[
            "debug",
            "-u",
            "0",
            "c",
            "sh",
            "-c",
            "stat -c %u:%g /target/etc/package",
        ])
        .output()?;
    debug.prints("7:8\n")?;
    done(cx, &["rm", "-f", "c"])?;
    empty(cx)
}

/// A program with the set-user-ID bit of root's keeps root's rights, and gives them to others.
fn root_stays(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let root = ["-u", "0", "--privileged"];
    run(
        cx,
        &root,
        "sudo ids; mkdir -p /mnt; sudo as-root mount -t tmpfs none /mnt && grep -c ' /mnt ' /proc/mounts",
    )?
    .prints("0 0\n1\n")?;
    let (uid, _) = ids();
    run(
        cx,
        &[],
        "sudo ids; sudo as-root chown 3:4 /etc/passwd; stat -c %u:%g /etc/passwd",
    )?
    .prints(&format!("{uid} 0\n3:4\n"))?;
    let refused = run(cx, &["--security-opt", "no-new-privileges"], "sudo ids")?;
    refused.prints(&format!("{uid} {uid}\n"))?;
    empty(cx)
}

fn other_numbers(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, gid) = ids();
    for (given, kept) in [
        ("keep-id:uid=1234,gid=1", (1234, 1)),
        ("keep-id:uid=1,gid=2345", (1, 2345)),
        ("keep-id:uid=0,gid=5", (0, 5)),
        ("keep-id:uid=0,gid=0", (0, 0)),
        // More than the ranges of most users have.
        ("keep-id:uid=1000000,gid=2000000", (1_000_000, 2_000_000)),
    ] {
        let work = cx.directory("work")?;
        let (mount, userns) = (format!("{work}:/work"), ["--userns", given]);
        let script = format!("{LOOK}; id -u; id -g; touch /work/x; stat -c %u:%g /work/x");
        let words = [&userns[..], &["-v", &mount, "i", "sh", "-c", &script]].concat();
        let expected = format!("{SEEN}{0}\n{1}\n{0}:{1}\n", kept.0, kept.1);
        cx.run(&words)?
            .prints(&expected)
            .with_context(|| given.to_owned())?;
        let made = fs::metadata(Path::new(&work).join("x"))?;
        ensure!((made.uid(), made.gid()) == (uid, gid), "{given}: {made:?}");
        fs::remove_file(Path::new(&work).join("x"))?;
    }
    empty(cx)
}

fn drivers(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, _) = ids();
    for driver in ["overlay", "split", "copy", "reflink"] {
        let script = format!("{LOOK}; sudo ids; wc -c </etc/large");
        let expected = format!("{SEEN}{uid} 0\n3145728\n");
        let context = || driver.to_owned();
        run(cx, &["--driver", driver], &script)?
            .prints(&expected)
            .with_context(context)?;
        let kept = [
            "run", "--name", "c", "--driver", driver, "--userns", "keep-id", "i", "sh", "-c",
        ];
        let script = format!("{script}; sudo as-root sh -c 'echo own >>/etc/passwd'");
        cx.tote(&[&kept[..], &[&script]].concat())
            .output()?
            .prints(&expected)
            .with_context(context)?;
        let changed = cx.tote(&["diff", "c"]).output()?;
        // Under split the program cannot write there.
        if driver != "split" {
            changed.has_out("C /etc/passwd\n").with_context(context)?;
        }
        ensure!(
            !changed.out().contains("sudo"),
            "{driver}: {}",
            changed.transcript()
        );
        done(cx, &["rm", "c"])?;
    }
    empty(cx)
}

fn copied(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, gid) = ids();
    let file = cx.file("mine", "mine\n")?;
    for runs in [true, false] {
        let words = [
            "create", "--name", "c", "--userns", "keep-id", "i", "sleep", "1000",
        ];
        done(cx, &words)?;
        if runs {
            done(cx, &["start", "c"])?;
        }
        done(cx, &["cp", &file, "c:/etc/root"])?;
        done(cx, &["cp", "-a", &file, "c:/etc/archived"])?;
        let to = cx.path("passwd")?;
        done(cx, &["cp", "c:/etc/passwd", &to])?;
        ensure!(
            fs::metadata(&to)?.uid() == uid,
            "what is copied out is the caller's"
        );
        if !runs {
            done(cx, &["start", "c"])?;
        }
        let look = [
            "exec",
            "c",
            "stat",
            "-c",
            "%u:%g",
            "/etc",
            "/etc/root",
            "/etc/archived",
            "/",
        ];
        let out = cx.tote(&look).output()?;
        out.prints(&format!("0:0\n0:0\n{uid}:{gid}\n0:0\n"))?;
        done(cx, &["rm", "-f", "c"])?;
    }
    empty(cx)
}

/// Images and archives that are made of a container have the owners that the container saw.
fn committed(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let (uid, gid) = ids();
    let script = "touch /tmp/mine; sudo as-root sh -c 'echo more >>/etc/passwd; mkdir -p /opt/p; touch /opt/p/f; chown 1234:5 /opt/p/f'";
    done(
        cx,
        &[
            "run", "--name", "c", "--userns", "keep-id", "i", "sh", "-c", script,
        ],
    )?;
    done(cx, &["commit", "c", "made"])?;
    let look = format!("{LOOK}; stat -c %u:%g /tmp/mine /opt /opt/p /opt/p/f");
    let expected = format!("{SEEN}{uid}:{gid}\n0:0\n0:0\n1234:5\n");
    for options in [&[][..], &KEEP, &["--userns", "keep-id:uid=77,gid=88"]] {
        cx.run(&[options, &["made", "sh", "-c", &look]].concat())?
            .prints(&expected)
            .with_context(|| format!("{options:?}"))?;
    }
    let context = cx.directory("context")?;
    let dockerfile = format!(
        "FROM made\nRUN test \"$(stat -c %u:%g /tmp/mine /etc/passwd | tr '\\n' ' ')\" = '{uid}:{gid} 0:0 '\n"
    );
    fs::write(Path::new(&context).join("Dockerfile"), dockerfile)?;
    done(cx, &["build", "-q", "-t", "built", &context])?;
    let archive = cx.path("c.tar")?;
    done(cx, &["export", "-o", &archive, "c"])?;
    done(cx, &["import", &archive, "again"])?;
    cx.run(&["again", "sh", "-c", &look])?.prints(&expected)?;
    done(cx, &["rm", "c"])?;
    empty(cx)
}

/// Directories of the only tree of the store that has such parts, by the beginning of their names.
pub(super) fn parts(cx: &Context, beginning: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for tree in fs::read_dir(cx.root().join("store/trees"))? {
        let tree = tree?;
        // Locks, and trees that are being made.
        if tree.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        for part in fs::read_dir(tree.path())? {
            let part = part?;
            if part.file_name().to_string_lossy().starts_with(beginning) {
                found.push(part.path());
            }
        }
    }
    Ok(found)
}

/// Bytes of all files of a directory on disk, as far as this user sees them.
fn bytes(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += found.blocks() * 512;
        if found.is_dir() && fs::read_dir(entry.path()).is_ok() {
            sum += bytes(&entry.path())?;
        }
    }
    Ok(sum)
}

fn shared(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    let before = bytes(&cx.root().join("store"))?;
    for given in ["keep-id", "keep-id:uid=5,gid=6"] {
        cx.run(&["--userns", given, "i", "wc", "-c", "/etc/large"])?
            .prints("3145728 /etc/large\n")?;
    }
    let made = parts(cx, "inodes-")?;
    ensure!(made.len() == 2 && parts(cx, "root-")?.is_empty(), "{made:?}");
    let grown = bytes(&cx.root().join("store"))? - before;
    ensure!(grown < 512 << 10, "{grown} bytes for two maps");
    // A further start makes nothing.
    cx.run(&["--userns", "keep-id", "i", "true"])?.exits(0)?;
    ensure!(parts(cx, "inodes-")? == made, "made once");
    done(cx, &["store", "verify"])?;
    done(cx, &["rmi", "i", "base"])?;
    done(cx, &["system", "prune", "-f"])?;
    let left = fs::read_dir(cx.root().join("store/trees"))?.count();
    ensure!(left == 0, "{left} trees are left");
    ensure!(
        fs::read_dir(cx.root().join("store/trash"))?.count() == 0,
        "trash is left"
    );
    empty(cx)
}

fn damage(cx: &Context) -> Result<()> {
    image(cx, "i")?;
    run(cx, &[], "true")?.exits(0)?;
    let [part] = &parts(cx, "inodes-")?[..] else {
        anyhow::bail!("one part");
    };
    done(
        cx,
        &["unshare", "rm", &part.join("etc/large").display().to_string()],
    )?;
    let found = cx.tote(&["store", "verify"]).output()?;
    found.fails()?.has_out("etc/large is not as it was made")?;
    cx.tote(&["store", "verify", "--repair"]).output()?;
    done(cx, &["store", "verify"])?;
    run(cx, &[], LOOK)?.prints(SEEN)?;
    empty(cx)
}

/// The files of a directory belong to the caller, and their set-user-ID bits change no user.
fn directory(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("tree")?;
    let (uid, gid) = ids();
    fs::set_permissions(dir.join("bin/probe"), fs::Permissions::from_mode(0o6755))?;
    let look = "stat -c %u:%g /bin; probe ids";
    cx.run(&[&KEEP[..], &["-u", "0", &image, "sh", "-c", look]].concat())?
        .prints(&format!("{uid}:{gid}\n0 0\n"))?;
    cx.run(&[&KEEP[..], &[&image, "sh", "-c", look]].concat())?
        .prints(&format!("{uid}:{gid}\n{uid} {uid}\n"))?;
    empty(cx)
}
