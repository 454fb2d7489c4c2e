//! `tote debug`: a session has nothing that its container could write to, and one with more rights is closed to the container's processes.

use super::debug::debug;
use super::life::done;
use crate::context::Context;
use crate::exchange::Running;
use crate::invocation::Invocation;
use crate::need::Need::{ManyIds, Program};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_closed::the_descriptors_of_the_tools_are_their_own",
        &[],
        descriptors,
    ),
    test(
        "debug_closed::no_mount_of_a_session_is_open_to_the_container",
        &[],
        mounts,
    ),
    test(
        "debug_closed::more_rights_of_any_kind_close_a_session",
        &[ManyIds],
        closed,
    ),
    test(
        "debug_closed::a_procfs_with_another_self_is_refused",
        &[Program("gcc")],
        covered,
    ),
];

/// Options of sessions with all kinds of rights.
const RIGHTS: [&[&str]; 7] = [
    &[],
    &["--privileged"],
    &["--cap-add", "KILL"],
    &["--no-cgroup"],
    &["--keep"],
    &["--keep", "--privileged"],
    &["--privileged", "--no-cgroup"],
];

/// Starts a container `k`.
fn start(cx: &Context, options: &[&str]) -> Result<()> {
    let image = cx.image();
    let run = [&["run", "-d", "--name", "k"], options, &[&image, "sleep", "1000"]];
    done(cx, &run.concat()).map(drop)
}

fn over(cx: &Context) -> Result<()> {
    done(cx, &["rm", "-f", "k"]).map(drop)
}

/// From a program of the container: has its own files where tools open their descriptors by name.
const THEIRS: &str = "cd /dev && rm -f fd stdin stdout stderr ptmx && mkdir fd && i=0 && \
    while [ $i -lt 70 ]; do echo 'echo theirs' >fd/$i; i=$((i + 1)); done && cp fd/0 stdin && \
    ln -s /theirs stdout && ln -s /theirs stderr && rm -rf shm/* && echo 'echo theirs' >shm/script";

fn descriptors(cx: &Context) -> Result<()> {
    start(cx, &[])?;
    done(cx, &["exec", "k", "sh", "-c", THEIRS])?;
    let script = ". <(echo echo own); echo 'echo piped' | sh /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr; \
        ls /theirs /dev/shm/script 2>/dev/null; cat /target/dev/fd/0";
    for rights in RIGHTS {
        debug(cx, &[rights, &["k", "bash", "-c", script]].concat())?
            .exits(0)?
            .prints("own\npiped\nout\necho theirs\n")?
            .has_err("err\n")?;
    }
    // A terminal is the session's own as well: the container has none by which it could read along.
    let (mut session, _window) = cx
        .tote(&["debug", "--privileged", "--shell", "bash", "k"])
        .spawn_in_terminal(20, 80)?;
    session.send(b"ls -l $(tty) >/dev/null && echo te\"\"rminal $(tty); read line; exit 4\n");
    session.expect("terminal /dev/pts/0")?;
    done(cx, &["exec", "k", "sh", "-c", "[ ! -e /dev/pts/0 ]"])?;
    session.send(b"\n");
    ensure!(session.wait()? == 4);
    over(cx)
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug)]
struct Mount<'t> {
    device: &'t str,
    root: &'t str,
    place: &'t str,
    is_read_only: bool,
    kind: &'t str,
}

impl<'t> Mount<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let (own, rest) = line.split_once(" - ")?;
        let fields: Vec<&str> = own.split(' ').collect();
        Some(Self {
            device: fields.get(2)?,
            root: fields.get(3)?,
            place: fields.get(4)?,
            is_read_only: fields.get(5)?.split(',').any(|option| option == "ro"),
            kind: rest.split(' ').next()?,
        })
    }

    /// True if both show a part of the same file system that the other one has, too.
    fn overlaps(&self, other: &Self) -> bool {
        let is_below = |one: &str, other: &str| {
            let other = other.trim_end_matches('/');
            one.strip_prefix(other)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let related = is_below(self.root, other.root) || is_below(other.root, self.root);
        self.device == other.device && related
    }
}

/// File systems whose files are the kernel's.
const OF_KERNEL: [&str; 6] = ["proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"];

/// Files of the container that are shown in every session, for the names in them.
const NAMES: [&str; 3] = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];

fn mounts(cx: &Context) -> Result<()> {
    let volume = format!("{}:/mnt", cx.directory("volume")?);
    start(cx, &["-v", &volume, "--tmpfs", "/tmp"])?;
    let shown = done(cx, &["exec", "k", "cat", "/proc/self/mountinfo"])?;
    let theirs: Vec<Mount<'_>> = shown.lines().filter_map(Mount::of).collect();
    let writable: Vec<&Mount<'_>> = theirs
        .iter()
        .filter(|mount| !OF_KERNEL.contains(&mount.kind))
        .collect();
    ensure!(writable.iter().any(|mount| mount.place == "/dev"), "{theirs:?}");
    let script = "cat /proc/self/mountinfo; echo devices; for place in $(cut -d ' ' -f 5 /proc/self/mountinfo); do \
        [ -c $place ] || [ -b $place ] && echo $place; done; true";
    let image = cx.image();
    let sessions = RIGHTS.map(|rights| (rights, "host"));
    for (rights, tools) in sessions.into_iter().chain([(&["--privileged"][..], &*image)]) {
        let session = debug(
            cx,
            &[rights, &["--tools", tools, "k", "sh", "-c", script]].concat(),
        )?;
        let out = session.exits(0)?.out();
        let (mounts, devices) = out.split_once("devices\n").context("two lists")?;
        let devices: BTreeSet<&str> = devices.lines().collect();
        let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::of).collect();
        for place in ["/", "/proc", "/dev", "/target", "/target/dev"] {
            ensure!(mounts.iter().any(|mount| mount.place == place), "{place}: {out}");
        }
        for mount in mounts {
            let is_below = |dir: &str| mount.place == dir || mount.place.starts_with(&format!("{dir}/"));
            // What covers files of the kernel's is empty.
            let is_cover = mount.is_read_only && (is_below("/proc") || is_below("/sys"));
            let is_known = is_cover
                || is_below("/target")
                || devices.contains(mount.place)
                || NAMES.contains(&mount.place);
            let open = writable.iter().find(|theirs| theirs.overlaps(&mount));
            ensure!(
                is_known || open.is_none(),
                "{rights:?}, tools of {tools}: {mount:?} is the container's {open:?}"
            );
        }
    }
    over(cx)
}

/// From a program of the container: reaches into each session.
const REACH: &str =
    "for process in /proc/[0-9]*; do [ -d $process/root/.tote ] && echo reached; done 2>/dev/null; true";

/// Starts a session that waits.
fn waiting(cx: &Context, options: &[&str]) -> Result<Running> {
    let wait = ["k", "sh", "-c", "echo up; read line"];
    let mut session = cx.tote(&[&["debug"], options, &wait].concat()).spawn()?;
    session.expect("up\n")?;
    Ok(session)
}

fn closed(cx: &Context) -> Result<()> {
    start(cx, &[])?;
    for user in ["0", "7"] {
        for rights in RIGHTS {
            let mut session = waiting(cx, &[&["-u", user], rights].concat())?;
            let reached = done(cx, &["exec", "-u", user, "k", "sh", "-c", REACH])?;
            let is_more = rights.iter().any(|right| *right != "--keep");
            // A session with the container's rights is open to it, or else this were no attack.
            ensure!(
                reached.is_empty() == is_more,
                "user {user}, {rights:?}: {reached:?}"
            );
            session.send(b"\n");
            session.finish()?.exits(0)?;
        }
    }
    over(cx)
}

/// Mounts a link on another one, as only the newer calls can.
const COVER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int link = syscall(428 /* open_tree */, AT_FDCWD, argv[1], 1 /* OPEN_TREE_CLONE */ | AT_SYMLINK_NOFOLLOW);

	if (link < 0 || syscall(429 /* move_mount */, link, "", AT_FDCWD, argv[2], 4 /* MOVE_MOUNT_F_EMPTY_PATH */) < 0)
		return perror("cover"), 1;
	return 0;
}
"#;

fn covered(cx: &Context) -> Result<()> {
    let (dir, source) = (cx.directory("hostile")?, cx.file("cover.c", COVER)?);
    let compile = ["gcc", "-static", "-o", &format!("{dir}/cover"), &source];
    Invocation::new(compile).output()?.exits(0)?;
    start(cx, &["--cap-add", "SYS_ADMIN", "-v", &format!("{dir}:/mnt:ro")])?;
    debug(cx, &["--privileged", "k", "true"])?.exits(0)?;
    let cover = "ln -s /tmp /link && /mnt/cover /link /proc/self && readlink /proc/self";
    ensure!(done(cx, &["exec", "k", "sh", "-c", cover])?.trim() == "/tmp");
    for rights in [&[][..], &["--privileged"]] {
        let out = debug(cx, &[rights, &["k", "true"]].concat())?;
        out.fails()?.has_err("only a procfs may be mounted there")?;
    }
    over(cx)
}
