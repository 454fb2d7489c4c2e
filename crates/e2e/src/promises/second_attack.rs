//! What an outside attack on the engine has found: commands, devices, generated files, streams, state roots and keyrings
//! that lead out of a container or to another user.
//!
//! Whatever a broken engine would change here is a file of the test's own.

use super::build;
use super::test;
use crate::bundle::Bundle;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::{Need, is_root};
use crate::output::Output;
use crate::suite::Test;
use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const TESTS: &[Test] = &[
    test(
        "second_attack::a_command_through_a_descriptor_finds_nothing",
        &[],
        command_of_run,
    ),
    test(
        "second_attack::a_kept_containers_command_through_a_descriptor_finds_nothing",
        &[],
        command_of_kept,
    ),
    test(
        "second_attack::a_linked_command_through_a_descriptor_finds_nothing",
        &[],
        command_of_link,
    ),
    test(
        "second_attack::a_command_of_exec_through_a_descriptor_finds_nothing",
        &[],
        command_of_exec,
    ),
    test(
        "second_attack::a_shell_of_a_build_through_a_descriptor_finds_nothing",
        &[Need::ManyIds],
        command_of_build,
    ),
    test(
        "second_attack::a_bundles_command_through_a_descriptor_finds_nothing",
        &[],
        command_of_bundle,
    ),
    test(
        "second_attack::the_null_device_of_an_image_is_not_followed",
        &[Need::Program("tar")],
        null_of_image,
    ),
    test(
        "second_attack::the_null_device_of_a_volume_is_not_followed",
        &[],
        null_of_volume,
    ),
    test(
        "second_attack::a_named_pipe_as_the_null_device_holds_nobody_up",
        &[Need::Program("timeout")],
        null_that_blocks,
    ),
    test(
        "second_attack::generated_files_are_not_written_to_the_kernel",
        &[],
        generated,
    ),
    test(
        "second_attack::generated_files_of_a_build_are_not_written_to_the_kernel",
        &[Need::ManyIds],
        generated_in_build,
    ),
    test(
        "second_attack::a_device_node_is_set_by_what_was_made",
        &[Need::Root, Need::Program("gcc")],
        node,
    ),
    test("second_attack::sockets_are_relayed", &[], sockets),
    test("second_attack::named_pipes_are_relayed", &[], named_pipes),
    test(
        "second_attack::a_state_root_of_another_user_is_refused",
        &[Need::Root],
        root_of_another,
    ),
    test(
        "second_attack::a_keyring_made_beforehand_is_not_joined",
        &[Need::Root, Need::Program("gcc")],
        keyring,
    ),
];

/// The descriptors that the engine may have open where a container's program is executed.
const DESCRIPTORS: std::ops::RangeInclusive<u32> = 3..=40;

/// A program of the host that needs nothing of the container's root, and how a descriptor of a directory leads to it.
fn outside(cx: &Context) -> Result<impl Fn(u32) -> String> {
    let program = cx.path("busybox")?;
    fs::copy(cx.shared_rootfs().join("bin/busybox"), &program)?;
    Ok(move |number| format!("/proc/self/fd/{number}{}{program}", "/..".repeat(24)))
}

/// The command was refused, and nothing of the host was executed.
fn not_reached(output: &Output, number: u32) -> Result<()> {
    ensure!(
        !output.out().contains("REACHED") && [125, 126, 127].contains(&output.code),
        "descriptor {number} leads out, or the command ended in another way: {}",
        output.transcript()
    );
    Ok(())
}

fn command_of_run(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    for number in DESCRIPTORS {
        let output = cx.run(&[&cx.image(), &path(number), "echo", "REACHED"])?;
        not_reached(&output, number)?;
    }
    Ok(())
}

fn command_of_kept(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    for number in DESCRIPTORS {
        let name = format!("c{number}");
        let command = path(number);
        let words = ["run", "--name", &name, &cx.image(), &command, "echo", "REACHED"];
        not_reached(&cx.tote(&words).output()?, number)?;
    }
    let names: Vec<_> = DESCRIPTORS.map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    cx.tote(&[&["rm", "-f", "--ignore"], &names[..]].concat())
        .output()?;
    Ok(())
}

fn command_of_link(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    let (dir, image) = cx.own_rootfs("linked")?;
    for number in DESCRIPTORS {
        replace(&dir.join("bin/echo"), &path(number))?;
        not_reached(&cx.run(&[&image, "/bin/echo", "REACHED"])?, number)?;
    }
    Ok(())
}

fn command_of_exec(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    cx.tote(&["run", "-d", "--name", "c", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    for number in DESCRIPTORS {
        let words = ["exec", "c", &path(number), "echo", "REACHED"];
        not_reached(&cx.tote(&words).output()?, number)?;
    }
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}

fn command_of_build(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    for number in 3..=20 {
        let link = format!(
            "RUN [\"/bin/busybox\", \"ln\", \"-sf\", \"{}\", \"/bin/sh\"]\n",
            path(number)
        );
        let output = build::build(cx, &[], &format!("{link}RUN echo REA''CHED\n"))?;
        ensure!(
            output.code != 0 && !output.out().contains("REACHED") && !output.err().contains("REACHED"),
            "descriptor {number} leads out of the build: {}",
            output.transcript()
        );
    }
    build::nothing_left(cx)
}

fn command_of_bundle(cx: &Context) -> Result<()> {
    let path = outside(cx)?;
    let bundle = Bundle::new(cx, &["true"])?;
    for number in DESCRIPTORS {
        bundle
            .change(|spec| spec["process"]["args"] = serde_json::json!([path(number), "echo", "REACHED"]))?;
        let output = bundle.oci(&["run", "r"]).output()?;
        ensure!(
            output.code != 0 && !output.out().contains("REACHED"),
            "descriptor {number} leads out of the bundle: {}",
            output.transcript()
        );
    }
    bundle.nothing_left()
}

/// Puts a link in a file's place.
fn replace(path: &Path, to: &str) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    symlink(to, path).with_context(|| format!("link {}", path.display()))
}

/// Says in a container what its input is; reads of it only what a null device or an ended pipe would give.
const INPUT: &str = "echo up; readlink /proc/$$/fd/0; \
    if test -d /proc/$$/fd/0; then echo DIRECTORY; fi; \
    if test -p /proc/$$/fd/0 || test \"$(stat -L -c %t:%T /proc/$$/fd/0)\" = 1:3; then echo harmless; cat; fi";

/// The input was a null device or an empty pipe, or nothing was started.
fn harmless(output: &Output) -> Result<()> {
    if output.code == 125 {
        output.refuses(125, &[])?;
        return Ok(());
    }
    output.exits(0)?.has_out("up\n")?;
    let text = output.out();
    ensure!(
        text.ends_with("\nharmless\n") && !text.contains("DIRECTORY") && text.lines().count() == 3,
        "the input is neither a null device nor an empty pipe: {}",
        output.transcript()
    );
    Ok(())
}

/// Where a null device may be a link to; nothing is read of what is there.
fn lures() -> impl Iterator<Item = String> {
    let numbers = (3..=20).map(|number| format!("/proc/self/fd/{number}"));
    numbers.chain(["/proc/kmsg", "/proc/kallsyms", "/proc/self"].map(String::from))
}

fn null_of_image(cx: &Context) -> Result<()> {
    let (dir, _) = cx.own_rootfs("evil")?;
    let (archive, dir_path) = (cx.path("evil.tar")?, cx.path("evil")?);
    for (number, lure) in lures().enumerate().step_by(2) {
        replace(&dir.join("dev/null"), &lure)?;
        Invocation::new(["tar", "-C", &dir_path, "-cf", &archive, "."])
            .output()?
            .exits(0)?;
        let image = format!("evil:{number}");
        cx.tote(&["import", "-c", "VOLUME /dev", &archive, &image])
            .output()?
            .exits(0)?;
        harmless(&cx.run(&[&image, "sh", "-c", INPUT])?).with_context(|| lure.clone())?;
        let kept = cx
            .tote(&["run", "--name", "c", &image, "sh", "-c", INPUT])
            .output()?;
        harmless(&kept).with_context(|| format!("{lure}, kept"))?;
        cx.tote(&["rm", "-f", "-v", "c"]).output()?;
    }
    Ok(())
}

fn null_of_volume(cx: &Context) -> Result<()> {
    let dev = cx.directory("evil-dev")?;
    let volume = format!("{dev}:/dev");
    for lure in lures() {
        replace(&Path::new(&dev).join("null"), &lure)?;
        let output = cx.run(&["-v", &volume, &cx.image(), "sh", "-c", INPUT])?;
        harmless(&output).with_context(|| lure.clone())?;
    }
    Ok(())
}

/// Makes a named pipe that others may not use.
fn named_pipe(path: &Path) -> Result<()> {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .with_context(|| format!("make {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

/// Opens both ends, which never waits.
fn both_ends(path: &Path) -> Result<File> {
    let opened = rustix::fs::open(
        path,
        OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    );
    Ok(File::from(
        opened.with_context(|| format!("open {}", path.display()))?,
    ))
}

fn null_that_blocks(cx: &Context) -> Result<()> {
    let limited = |command: Invocation| command.under(&["timeout", "-k", "1", "4"]).output();
    let dev = PathBuf::from(cx.directory("slow-dev")?);
    named_pipe(&dev.join("null"))?;
    let volume = format!("{}:/dev", dev.display());
    let output = limited(cx.run_command(&["-v", &volume, &cx.image(), "echo", "up"]))?;
    // Whoever waits for the other end goes on.
    drop(both_ends(&dev.join("null"))?);
    if output.code != 125 {
        output.exits(0)?.has_out("up\n")?;
    }
    let script = "rm /dev/null && mknod /dev/null p && echo ready && exec sleep 1000";
    cx.tote(&["run", "-d", "--name", "c", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    let made = cx
        .tote(&[
            "exec",
            "c",
            "sh",
            "-c",
            script.trim_end_matches(" && exec sleep 1000"),
        ])
        .output()?;
    // A user's container has nodes that are mounts, which nothing can take away.
    let output = (made.code == 0)
        .then(|| limited(cx.tote(&["exec", "c", "echo", "up"])))
        .transpose()?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    match output {
        Some(output) if ![125, 126].contains(&output.code) => {
            output.exits(0)?.has_out("up\n")?;
        }
        Some(_) => (),
        None => ensure!(
            !is_root(),
            "expected root's node to go away: {}",
            made.transcript()
        ),
    }
    Ok(())
}

/// A file of the kernel's that is of the container's own UTS namespace, so that a broken engine harms nobody.
const DOMAIN: &str = "/proc/sys/kernel/domainname";

/// The domain's name is as it was, or the container was refused.
fn unwritten(output: &Output, domain: &str) -> Result<()> {
    if output.code == 125 {
        output.refuses(125, &["/etc/host"])?;
        return Ok(());
    }
    output.exits(0)?;
    ensure!(
        output.out() == domain,
        "expected the domain {domain:?}: {}",
        output.transcript()
    );
    Ok(())
}

fn generated(cx: &Context) -> Result<()> {
    let clean_image = cx.image();
    let clean = cx.shell(&[], &format!("cat {DOMAIN}"))?;
    let domain = clean.exits(0)?.out();
    for file in ["hosts", "hostname"] {
        let (dir, image) = cx.own_rootfs(file)?;
        replace(&dir.join("etc").join(file), DOMAIN)?;
        let options = ["--hostname", "written-by-the-engine"];
        let kept = [&["run", "--name", "x"], &options[..], &[&image, "cat", DOMAIN]].concat();
        let output = cx.tote(&kept).output()?;
        cx.tote(&["rm", "-f", "--ignore", "x"]).output()?;
        unwritten(&output, &domain).with_context(|| format!("/etc/{file}, kept"))?;
        let output = cx.run(&[&options[..], &[&image, "cat", DOMAIN]].concat())?;
        unwritten(&output, &domain).with_context(|| format!("/etc/{file}"))?;
        let script = format!("cat {DOMAIN}; rm -f /etc/{file}; ln -s {DOMAIN} /etc/{file}");
        let first = [
            &["run", "--name", "x"],
            &options[..],
            &[&clean_image, "sh", "-c", &script],
        ]
        .concat();
        let first = cx.tote(&first).output()?;
        let again = cx.tote(&["start", "-a", "x"]).output()?;
        cx.tote(&["rm", "-f", "x"]).output()?;
        // A bound file cannot be taken away: then the link was not made, and the second run fails as the first.
        ensure!(first.out() == domain, "{}", first.transcript());
        if first.code == 0 {
            unwritten(&again, &domain).with_context(|| format!("/etc/{file}, started again"))?;
        }
    }
    Ok(())
}

fn generated_in_build(cx: &Context) -> Result<()> {
    for file in ["hosts", "hostname"] {
        build::write(cx, "links/README", "")?;
        let link = cx.scratch().join("context/links").join(file);
        replace(&link, DOMAIN)?;
        let rest = format!("COPY links /etc/\nRUN cat {DOMAIN}\n");
        let output = build::build(cx, &["--no-cache"], &rest)?;
        fs::remove_file(link)?;
        let text = format!("{}{}", output.out(), output.err());
        ensure!(
            !text.contains("127.0.0.1") && !text.contains("ip6-"),
            "the engine has written to the kernel: {}",
            output.transcript()
        );
        if output.code == 0 {
            output.has_out("(none)")?;
        } else {
            output.has_err("/etc/host")?;
        }
    }
    build::nothing_left(cx)
}

fn node(cx: &Context) -> Result<()> {
    let dir = PathBuf::from(cx.directory("shared")?);
    let private = dir.join("private");
    fs::write(&private, "the host's own")?;
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600))?;
    let before = fs::metadata(&private)?;
    let probe = cx.shared_rootfs().join("bin/probe");
    let mut racer = Invocation::new([probe.as_os_str(), "swap".as_ref(), dir.as_os_str()]).spawn()?;
    racer.expect("ready\n")?;
    let (volume, image) = (format!("{}:/v", dir.display()), cx.image());
    let end = Instant::now() + Duration::from_secs(3);
    let mut outcome = Ok(());
    while outcome.is_ok() && Instant::now() < end {
        cx.run(&["-v", &volume, "--device", "/dev/null:/v/node", &image, "true"])?;
        let after = fs::metadata(&private)?;
        if (after.mode(), after.uid(), after.gid()) != (before.mode(), before.uid(), before.gid()) {
            outcome = Err(anyhow::anyhow!(
                "the private file's mode is {:o} now",
                after.mode()
            ));
        }
    }
    racer.signal(rustix::process::Signal::KILL)?;
    racer.finish()?;
    outcome
}

/// One command whose input and output are one socket: what is sent comes back, and no socket is inside.
fn echoed(command: Invocation) -> Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let running = command
        .under(&["sh", "-c", "exec \"$@\" >&0", "sh"])
        .spawn_with(theirs)?;
    ours.write_all(b"there and back\n")?;
    ours.shutdown(Shutdown::Write)?;
    ours.set_read_timeout(Some(crate::exchange::patience()))?;
    let mut seen = String::new();
    ours.read_to_string(&mut seen)?;
    let output = running.finish()?;
    output.exits(0)?;
    ensure!(
        seen == "there and back\n",
        "saw {seen:?}: {}",
        output.transcript()
    );
    ensure!(
        output.err().matches("pipe:[").count() == 2,
        "the container has the socket itself: {}",
        output.transcript()
    );
    Ok(())
}

const ECHO: &str = "readlink /proc/$$/fd/0 >&2; readlink /proc/$$/fd/1 >&2; cat";

fn sockets(cx: &Context) -> Result<()> {
    let image = cx.image();
    echoed(cx.run_command(&["-i", &image, "sh", "-c", ECHO]))?;
    echoed(cx.tote(&["run", "-i", "--name", "kept", &image, "sh", "-c", ECHO]))?;
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    let exec = echoed(cx.tote(&["exec", "-i", "c", "sh", "-c", ECHO]));
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    exec.context("exec")
}

/// One command whose output is a named pipe that is none of the container's business.
fn into_named_pipe(cx: &Context, command: Invocation) -> Result<()> {
    let path = cx.scratch().join("named");
    named_pipe(&path)?;
    let mut ends = both_ends(&path)?;
    let output = command
        .under(&["sh", "-c", "exec \"$@\" > \"$0\"", &cx.path("named")?])
        .output()?;
    output.exits(0)?;
    let found = fs::metadata(&path)?;
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        found.mode() & 0o7777 == 0o600 && found.uid() == own,
        "the named pipe has mode {:o} and belongs to {} now",
        found.mode(),
        found.uid()
    );
    let mut text = [0; 512];
    let length = ends.read(&mut text).context("read the named pipe")?;
    let text = String::from_utf8_lossy(&text[..length]);
    ensure!(
        text.starts_with("pipe:[") && text.ends_with("through\n"),
        "saw {text:?}: {}",
        output.transcript()
    );
    Ok(fs::remove_file(&path)?)
}

fn named_pipes(cx: &Context) -> Result<()> {
    let script = "readlink /proc/$$/fd/1; chmod 666 /proc/$$/fd/1; chown 1:1 /proc/$$/fd/1; echo through";
    let image = cx.image();
    into_named_pipe(cx, cx.run_command(&[&image, "sh", "-c", script]))?;
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    let exec = into_named_pipe(cx, cx.tote(&["exec", "c", "sh", "-c", script]));
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    exec.context("exec")?;
    let path = cx.scratch().join("input");
    named_pipe(&path)?;
    let mut ends = both_ends(&path)?;
    ends.write_all(b"typed\n")?;
    let input = OwnedFd::from(File::open(&path)?);
    let script = "readlink /proc/$$/fd/0; chmod 666 /proc/$$/fd/0; head -n 1";
    let running = cx
        .run_command(&["-i", &image, "sh", "-c", script])
        .spawn_with(input)?;
    running
        .finish()?
        .exits(0)?
        .has_out("pipe:[")?
        .has_out("typed\n")?;
    let mode = fs::metadata(&path)?.mode() & 0o7777;
    ensure!(mode == 0o600, "the named pipe's mode is {mode:o} now");
    Ok(())
}

/// Gives a tree to another user, links themselves.
fn give(path: &Path, user: u32) -> Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(user), Some(user))
        .with_context(|| format!("give {} away", path.display()))
}

fn root_of_another(cx: &Context) -> Result<()> {
    let theirs = cx.directory("theirs")?;
    let tote = |words: &[&str]| {
        let start = [cx.binary().as_os_str(), "--root".as_ref(), theirs.as_ref()];
        Invocation::new(start.into_iter().chain(words.iter().map(AsRef::as_ref))).output()
    };
    let image = cx.image();
    tote(&["create", "--name", "c", &image, "true"])?.exits(0)?;
    tote(&["rm", "c"])?.exits(0)?;
    give(Path::new(&theirs), 65534)?;
    for words in [
        &["ps", "-a"][..],
        &["rm", "nobody"],
        &["create", "--name", "d", &image, "true"],
        &["run", "--rm", &image, "true"],
    ] {
        let seen = tote(words)?;
        seen.refuses(125, &["belongs to"])
            .with_context(|| words.join(" "))?;
    }
    // What lies below decides as well: its owner can put something else there.
    give(Path::new(&theirs), 0)?;
    tote(&["ps", "-a"])?.exits(0)?;
    chown(&theirs, Some(65534), None)?;
    tote(&["ps", "-a"])?.refuses(125, &["belongs to"])?;
    chown(&theirs, Some(0), None)?;
    Ok(())
}

fn keyring(cx: &Context) -> Result<()> {
    let words = ["create", "--name", "c", "--security-opt", "seccomp=unconfined"];
    let command = [&cx.image(), "probe", "key"];
    let created = cx.tote(&[&words[..], &command].concat()).output()?;
    let id = created.exits(0)?.out().trim().to_owned();
    let probe = cx.shared_rootfs().join("bin/probe");
    let name = format!("_ses.{id}");
    let mut squatter = Invocation::new([probe.as_os_str(), "squat".as_ref(), name.as_ref()]).spawn()?;
    squatter.expect("ready\n")?;
    let started = cx.tote(&["start", "-a", "c"]).output();
    squatter.close_input();
    squatter.finish()?.exits(0)?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    let started = started?;
    if started.code == 125 {
        started.refuses(125, &["keyring"])?;
    } else {
        started.exits(0)?.has_out("no key")?;
    }
    Ok(())
}
