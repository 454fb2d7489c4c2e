//! Findings of an outside attack on the engine: commands, devices, generated files, state roots and keyrings that
//! lead out of a container or to another user.
//!
//! A broken engine would change only files of the test's own here.

use super::build;
use super::second_attack_streams::{both_ends, named_pipe};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::exchange::scaled;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::output::Output;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
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
        &[],
        null_that_blocks,
    ),
    // A user's container has nodes that are mounts, which no process inside can remove.
    test(
        "second_attack::a_named_pipe_as_the_null_device_does_not_hold_exec_up",
        &[Need::Root],
        null_that_blocks_exec,
    ),
    test(
        "second_attack::generated_files_are_not_written_to_the_kernel",
        &[],
        generated,
    ),
    test(
        "second_attack::generated_files_are_not_written_by_the_next_start",
        &[],
        generated_again,
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

/// Descriptors that the engine may have open when a container's program is executed.
const DESCRIPTORS: std::ops::RangeInclusive<u32> = 3..=40;

/// Copies a static program to the host, and returns the path to it by way of a descriptor of a directory.
fn outside(cx: &Context) -> Result<impl Fn(u32) -> String> {
    let program = cx.path("busybox")?;
    fs::copy(cx.shared_rootfs().join("bin/busybox"), &program)?;
    Ok(move |number| format!("/proc/self/fd/{number}{}{program}", "/..".repeat(24)))
}

/// Checks that the command was refused, and that no program of the host was executed.
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
    let outcome = DESCRIPTORS.into_iter().try_for_each(|number| {
        let words = ["exec", "c", &path(number), "echo", "REACHED"];
        not_reached(&cx.tote(&words).output()?, number)
    });
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    outcome
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

/// Script that shows the container's standard input; it reads only from a null device or an ended pipe.
const INPUT: &str = "echo up; readlink /proc/$$/fd/0; \
    if test -d /proc/$$/fd/0; then echo DIRECTORY; fi; \
    if test -p /proc/$$/fd/0 || test \"$(stat -L -c %t:%T /proc/$$/fd/0)\" = 1:3; then echo harmless; cat; fi";

/// Checks that the input was a null device or an empty pipe, or that no container started.
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

/// Lists targets for a link in the place of a null device; the test reads nothing from them.
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

/// Runs a command that should not block; if it does, `release` unblocks it, and the test fails.
fn at_once(command: Invocation, release: impl FnOnce() -> Result<()>) -> Result<Output> {
    let running = command.spawn()?;
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || sender.send(running.finish()));
    let outcome = receiver.recv_timeout(scaled(Duration::from_secs(3)));
    if outcome.is_err() {
        release()?;
        drop(waiting.join());
    }
    outcome.context("the command waits for the other end of a named pipe")?
}

fn null_that_blocks(cx: &Context) -> Result<()> {
    let dev = PathBuf::from(cx.directory("slow-dev")?);
    named_pipe(&dev.join("null"))?;
    let volume = format!("{}:/dev", dev.display());
    let command = cx.run_command(&["-v", &volume, &cx.image(), "echo", "up"]);
    let command = command.under(&["sh", "-c", "exec \"$@\" < /dev/null", "sh"]);
    let output = at_once(command, || both_ends(&dev.join("null")).map(drop))?;
    if output.code != 125 {
        output.exits(0)?.has_out("up\n")?;
    }
    Ok(())
}

fn null_that_blocks_exec(cx: &Context) -> Result<()> {
    // With device rules of its own a container may make nodes, and its null device can be unmounted.
    let rule = ["--device-cgroup-rule", "c 188:* rwm"];
    let words = [
        &["run", "-d", "--name", "c"],
        &rule[..],
        &[&cx.image(), "sleep", "1000"],
    ];
    cx.tote(&words.concat()).output()?.exits(0)?;
    let remove = || cx.tote(&["rm", "-f", "c"]).output()?.exits(0).map(drop);
    let script = "rm /dev/null && mknod /dev/null p";
    let made = cx.tote(&["exec", "c", "sh", "-c", script]).output()?;
    if made.code != 0 {
        return remove().and(made.exits(0).map(drop));
    }
    let command = cx.tote(&["exec", "c", "echo", "up"]);
    let command = command.under(&["sh", "-c", "exec \"$@\" < /dev/null", "sh"]);
    let output = at_once(command, || {
        // A process that opens both ends unblocks the others.
        let open = ["exec", "-i", "c", "sh", "-c", "exec 3<>/dev/null"];
        cx.tote(&open).input(b"").output()?.exits(0).map(drop)
    });
    remove()?;
    let output = output?;
    if ![125, 126].contains(&output.code) {
        output.exits(0)?.has_out("up\n")?;
    }
    Ok(())
}

/// Kernel file that belongs to the container's own UTS namespace, so that a broken engine does no harm.
const DOMAIN: &str = "/proc/sys/kernel/domainname";

/// Checks that the domain's name is unchanged, or that the container was refused.
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
    }
    Ok(())
}

fn generated_again(cx: &Context) -> Result<()> {
    let image = cx.image();
    for file in ["hosts", "hostname"] {
        let script = format!("cat {DOMAIN}; rm -f /etc/{file}; ln -s {DOMAIN} /etc/{file}");
        let options = ["--name", "x", "--hostname", "written-by-the-engine"];
        let words = [&["run"], &options[..], &[&image, "sh", "-c", &script]].concat();
        let first = cx.tote(&words).output()?;
        let again = cx.tote(&["start", "-a", "x"]).output()?;
        cx.tote(&["rm", "-f", "x"]).output()?;
        // A file that is a mount cannot be replaced: no link is made then, and the second run ends like the first.
        if first.code == 0 {
            unwritten(&again, &first.out()).with_context(|| format!("/etc/{file}"))?;
        } else {
            ensure!(again.out() == first.out(), "{}", again.transcript());
        }
    }
    Ok(())
}

fn generated_in_build(cx: &Context) -> Result<()> {
    let clean = cx.shell(&[], &format!("cat {DOMAIN}"))?;
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
            output.has_out(clean.exits(0)?.out().trim_end())?;
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

/// Gives a tree to another user, without following links.
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
    let refused = |words: &[&str]| -> Result<()> {
        let seen = tote(words)?;
        seen.refuses(125, &["belongs to"])
            .with_context(|| words.join(" "))?;
        Ok(())
    };
    give(Path::new(&theirs), 65534)?;
    let whole = refused(&["ps", "-a"])
        .and_then(|()| refused(&["rm", "nobody"]))
        .and_then(|()| refused(&["create", "--name", "d", &image, "true"]))
        .and_then(|()| refused(&["run", "--rm", &image, "true"]));
    // The next test checks whether a state root is open to others.
    give(Path::new(&theirs), 0)?;
    whole?;
    tote(&["ps", "-a"])?.exits(0)?;
    // Entries of root below the directory do not make the directory itself root's.
    chown(&theirs, Some(65534), None)?;
    let top = refused(&["ps", "-a"]);
    chown(&theirs, Some(0), None)?;
    top
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
