//! Directories of this machine in containers that are in virtual machines.

use super::vm::{QEMU, detach, prepare};
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need;
use crate::processes::{self, Process};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel, Need::Virtiofsd];

pub(super) const TESTS: &[Test] = &[
    test(
        "vm::shared_files_have_the_owners_that_they_have_without",
        OWNERS,
        owners,
    )
    .slow(3),
    test("vm::shared_read_only_it_is_so_on_this_machine", NEEDS, read_only).slow(3),
    test("vm::shared_links_lead_nowhere_else", NEEDS, links).slow(3),
    test("vm::shared_volumes_and_single_files", NEEDS, volumes).slow(6),
    test(
        "vm::shared_files_have_a_server_that_alone_has_rights",
        NEEDS,
        rights,
    )
    .slow(3),
    test(
        "vm::shared_files_without_their_server_end_the_machine",
        NEEDS,
        killed,
    )
    .slow(3),
];

const OWNERS: &[Need] = &[QEMU, Need::GuestKernel, Need::Virtiofsd, Need::ManyIds];

/// Runs a script in a virtual machine that has these volumes.
fn vm(cx: &Context, volumes: &[&str], script: &str) -> Result<crate::output::Output> {
    let mut words = vec!["--isolation", "vm", "--network", "none"];
    for volume in volumes {
        words.extend(["-v", volume]);
    }
    words.extend(["app", "sh", "-c", script]);
    cx.run(&words)
}

/// Writes down owners and modes of all files below a directory, as this machine has them.
fn listing(dir: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let found = path.symlink_metadata()?;
        lines.push(format!(
            "{} {:o} {}:{} {}",
            path.file_name().unwrap_or_default().display(),
            found.mode(),
            found.uid(),
            found.gid(),
            found.nlink(),
        ));
        if found.is_dir() {
            lines.extend(listing(&path)?);
        }
    }
    lines.sort();
    Ok(lines)
}

fn owners(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let script = "cd /data && cat in && echo out >out && chmod 640 out && mkdir -m 2750 sub && echo x >sub/x && \
                  ln sub/x hard && ln -s in soft && mkfifo fifo && echo y >y && chown 1234:4321 y && \
                  mkdir -m 777 open && chown 1234 open && mv y sub/y && chmod 4755 sub/x && rm in && ls -ln sub";
    let mut seen = Vec::new();
    for (name, isolation) in [("here", "default"), ("guest", "vm")] {
        let dir = cx.directory(name)?;
        fs::write(Path::new(&dir).join("in"), "from this machine\n")?;
        let volume = format!("{dir}:/data");
        let run = |user: &str, script: &str| {
            let words = [
                "--isolation",
                isolation,
                "--network",
                "none",
                "-v",
                &volume,
                "--user",
                user,
            ];
            cx.run(&[&words[..], &["app", "sh", "-c", script]].concat())
        };
        run("0", script)?
            .exits(0)?
            .has_out("from this machine\n")?
            .has_out("-rwsr-xr-x")?;
        run(
            "1234:4321",
            "umask 027; echo mine >/data/open/mine; echo no >/data/in || echo refused",
        )?
        .exits(0)?
        .has_out("refused")?;
        seen.push(listing(Path::new(&dir))?);
        ensure!(fs::read_to_string(Path::new(&dir).join("out"))? == "out\n");
    }
    ensure!(seen[0] == seen[1], "{seen:#?}");
    ensure!(seen[0].len() == 9, "{:#?}", seen[0]);
    cx.nothing_left()
}

fn read_only(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let dir = cx.directory("shared")?;
    fs::write(Path::new(&dir).join("in"), "kept\n")?;
    // Root of the guest's kernel writes past the container's own mount: to the file system below it.
    let script = "cat /data/in; touch /data/x 2>/dev/null || echo read-only; mkdir /all; \
                  mount -t virtiofs tote /all && cat /all/in /all/0/in 2>/dev/null; \
                  for dir in /all /all/0; do touch $dir/x; echo >$dir/in; rm $dir/in; chmod 0 $dir/in; done; exit 0";
    let volume = format!("{dir}:/data:ro");
    let words = [
        "--isolation",
        "vm",
        "--cap-add",
        "ALL",
        "--security-opt",
        "seccomp=unconfined",
        "-v",
        &volume,
    ];
    let output = cx.run(&[&words[..], &["app", "sh", "-c", script]].concat())?;
    output.exits(0)?.prints("kept\nread-only\nkept\n")?;
    ensure!(fs::read_to_string(Path::new(&dir).join("in"))? == "kept\n");
    ensure!(fs::read_dir(&dir)?.count() == 1);
    cx.nothing_left()
}

fn links(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let (dir, secret) = (cx.directory("shared")?, cx.file("secret", "of this machine\n")?);
    std::os::unix::fs::symlink(&secret, Path::new(&dir).join("absolute"))?;
    std::os::unix::fs::symlink("../secret", Path::new(&dir).join("relative"))?;
    let script = format!(
        "cat /data/absolute /data/relative 2>/dev/null || echo nothing; ls /data/..|grep -c secret; \
         ln -s {secret} /data/own; cat /data/own 2>/dev/null || echo nothing; ln -sf / /data/root; \
         cat /data/root/own; echo; echo over >/data/own 2>/dev/null || echo nothing"
    );
    let output = vm(cx, &[&format!("{dir}:/data")], &script)?;
    output.prints("nothing\n0\nnothing\napp\nnothing\n")?;
    ensure!(fs::read_to_string(&secret)? == "of this machine\n");
    cx.nothing_left()
}

fn volumes(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let (file, other) = (cx.file("app.conf", "a = b\n")?, cx.directory("other")?);
    let shares = [
        format!("{file}:/etc/app.conf"),
        "data:/usr/share/data".to_owned(),
        format!("{other}:/srv/other"),
    ];
    let shares: Vec<&str> = shares.iter().map(String::as_str).collect();
    let script = "cat /etc/app.conf; echo 'c = d' >>/etc/app.conf; ls /usr/share/data; \
                  echo kept >/usr/share/data/kept; echo other >/srv/other/file";
    vm(cx, &shares, script)?.prints("a = b\n")?;
    ensure!(fs::read_to_string(&file)? == "a = b\nc = d\n");
    ensure!(fs::read_to_string(Path::new(&other).join("file"))? == "other\n");
    // The volume is that of containers without a machine, which starts with the image's files.
    cx.run(&["-v", "data:/data:ro", "app", "cat", "/data/kept"])?
        .prints("kept\n")?;
    vm(cx, &["filled:/etc"], "cat /etc/passwd | grep -c alice")?.prints("1\n")?;
    let path = cx.root().join("volumes/filled/_data/passwd");
    ensure!(fs::read_to_string(path)?.contains("alice"));
    let mount = format!("type=bind,source={other},target=/data,readonly");
    let words = ["--isolation", "vm", "--mount", &mount, "app", "sh", "-c"];
    cx.run(&[&words[..], &["cat /data/file; touch /data/x || exit 3"]].concat())?
        .exits(3)?
        .has_out("other\n")?;
    cx.tote(&["volume", "rm", "data", "filled"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// Starts a container `vm` that has a directory; returns that and the processes of its machine.
fn start(cx: &Context) -> Result<(i32, Vec<Process>)> {
    let dir = cx.directory("shared")?;
    detach(
        cx,
        &["-v", &format!("{dir}:/data")],
        &["sh", "-c", "sleep 100000"],
    )?;
    // This waits until the guest is up.
    cx.tote(&["exec", "vm", "ls", "/data"]).output()?.exits(0)?;
    let shown = [
        "inspect",
        "--format",
        "{{.State.Pid}} {{.VirtualMachine.Shares}}",
        "vm",
    ];
    let shown = cx.tote(&shown).output()?.out();
    let attendant = shown
        .trim()
        .strip_suffix(" virtiofs")
        .context("it says how it shares")?;
    let attendant = attendant.parse()?;
    Ok((attendant, processes::descendants(attendant)))
}

fn find<'a>(processes: &'a [Process], name: &str) -> Result<&'a Process> {
    let found = processes.iter().find(|process| process.name.starts_with(name));
    found.with_context(|| format!("a process {name}: {processes:?}"))
}

/// Returns a line of `/proc/PID/status`.
fn status(pid: i32, field: &str) -> Result<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    Ok(line.context("the field is there")?.trim().to_owned())
}

fn rights(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let (attendant, processes) = start(cx)?;
    let server = find(&processes, "virtiofsd")?.pid;
    for pid in [attendant, find(&processes, "qemu")?.pid] {
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            let has = status(pid, set)?;
            ensure!(has == "0000000000000000", "{pid} has {set} {has}");
        }
        if Need::Root.met() {
            let user = status(pid, "Uid:")?;
            let user: u32 = user.split_whitespace().next().unwrap_or_default().parse()?;
            ensure!(
                user >= 0x7800_0000,
                "{pid} is of user {user}, and only the server is root"
            );
        }
    }
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID.
    ensure!(status(server, "CapEff:")? == "00000000000000db");
    if Need::Root.met() {
        let root = fs::read_dir(format!("/proc/{server}/root"))?;
        let names: Vec<_> = root.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
        ensure!(names == ["0"], "the server sees {names:?}");
    }
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn killed(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let (_, processes) = start(cx)?;
    let server = find(&processes, "virtiofsd")?.pid;
    let held = processes.iter().filter_map(|one| processes::pidfd(one.pid).ok());
    let held: Vec<_> = held.collect();
    processes::kill(server, Signal::KILL);
    cx.tote(&["wait", "vm"]).output()?.exits(0)?.prints("137\n")?;
    cx.tote(&["logs", "vm"]).output()?.has_err(
        "tote: the server of the directories that the guest shares ended before the container did",
    )?;
    for process in &held {
        processes::wait_end(process, "a process of a machine", patience())?;
    }
    cx.tote(&["rm", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}
