//! Device nodes: their owners, the permitted operations on them, and nodes from other sources.
//!
//! Tests that could change the host's nodes if the engine were broken have a private `/dev`.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

pub(super) const TESTS: &[Test] = &[
    test(
        "devices::nodes_and_masks_are_the_containers_own",
        &[Need::Root, Need::Program("flock"), Need::Program("gcc")],
        own,
    ),
    test(
        "devices::masks_of_a_bundle_are_the_containers_own",
        &[Need::Root, Need::Program("flock"), Need::Program("gcc")],
        bundle,
    ),
    test(
        "devices::nodes_that_are_the_hosts_cannot_be_changed",
        &[Need::Unprivileged, Need::Userns],
        of_host,
    ),
    test("devices::a_device_given_to_root_is_a_copy", &[Need::Root], given),
    test("devices::access_is_what_was_asked_for", &[Need::Root], access),
    test(
        "devices::a_user_is_told_that_access_is_not_limited",
        &[Need::Unprivileged, Need::Userns],
        unlimited,
    ),
    test("devices::a_device_has_another_path_inside", &[], renamed),
    test(
        "devices::nodes_on_mounts_that_come_later_are_dead",
        &[Need::Root, Need::Program("unshare")],
        later,
    ),
    test("devices::a_node_that_is_bound_can_be_opened", &[], bound),
    test(
        "devices::what_is_bound_keeps_to_the_rules",
        &[Need::Root, Need::CgroupV1("devices")],
        ruled,
    ),
    test("devices::rules_need_a_cgroup", &[Need::Root], without_cgroup),
];

/// Runs a command with a private `/dev`, while another process holds a lock on two of its nodes; prints the state of
/// the nodes afterwards.
const OWN_DEV: &str = r#"set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 own "$0"
n=0; for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$0/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 "$0/tty" c 5 0
mkdir "$0/pts" "$0/shm"
mount --rbind /dev/pts "$0/pts"
mount --move "$0" /dev
touch -d @1 /dev/null /dev/full
exec 8</dev/null 9</dev/full
flock -n 8; flock -n 9
"$@" 8<&- 9<&- || echo "ended with $?"
stat -c '%n %a %u:%g %Y' /dev/null /dev/full"#;

const UNCHANGED: &str = "/dev/null 666 0:0 1\n/dev/full 666 0:0 1\n";

/// Operations of a container's root on a node of its own, and on a file that hides another.
const SPOIL: &str = "for f in /dev/full /proc/keys; do
chmod 641 $f && chown 7:7 $f && touch -d @9 $f && probe lock $f || echo failed at $f; done; cat /proc/keys";

fn beside(cx: &Context, command: Invocation) -> Result<Invocation> {
    let dev = cx.directory("dev")?;
    let words = ["unshare", "--mount", "sh", "-c", OWN_DEV, &dev];
    Ok(command.under(&words))
}

fn own(cx: &Context) -> Result<()> {
    let image = cx.image();
    for options in [&[][..], &["--cap-add", "SYS_ADMIN"], &["--cgroups", "disabled"]] {
        let words = [options, &[&image, "sh", "-c", SPOIL]].concat();
        beside(cx, cx.run_command(&words))?
            .output()?
            .prints(&format!("locked\nlocked\n{UNCHANGED}"))
            .with_context(|| format!("{options:?}"))?;
    }
    Ok(())
}

fn bundle(cx: &Context) -> Result<()> {
    // The usual bundle has no right to change owners.
    let script = SPOIL.replace("chown 7:7 $f && ", "");
    let bundle = Bundle::new(cx, &["sh", "-c", &script])?;
    beside(cx, bundle.oci(&["run", "r"]))?
        .output()?
        .prints(&format!("locked\nlocked\n{UNCHANGED}"))?;
    bundle.nothing_left()
}

/// A user's containers have the host's nodes, on mounts on which their inodes cannot change.
fn of_host(cx: &Context) -> Result<()> {
    for file in ["/dev/null", "/dev/full", "/proc/keys"] {
        cx.shell(&[], &format!("touch {file}"))?
            .fails()?
            .has_err("read-only file system")
            .with_context(|| file.to_owned())?;
    }
    let script = "echo x > /dev/null && cat /proc/keys && head -c 2 /dev/zero | wc -c";
    cx.shell(&[], script)?.prints("2\n")?;
    let bundle = Bundle::new(cx, &["touch", "/dev/null"])?;
    let touched = bundle.oci(&["run", "r"]).output()?;
    touched.fails()?.has_err("read-only file system")?;
    bundle.nothing_left()
}

/// Makes a node of fuse's device, which every user may open. The test does nothing to the device.
fn node(cx: &Context) -> Result<String> {
    let path = cx.path("node")?;
    let made = Command::new("mknod")
        .args(["-m", "666", &path, "c", "10", "229"])
        .status()?;
    ensure!(made.success(), "mknod {path}");
    Ok(path)
}

fn state(path: &str) -> Result<String> {
    Invocation::new(["stat", "-c", "%a %u:%g %X %Y", path])
        .output()
        .map(|seen| seen.out())
}

fn given(cx: &Context) -> Result<()> {
    let node = node(cx)?;
    let (before, image) = (state(&node)?, cx.image());
    let script = "chmod 600 $0 && chown 7:7 $0 && touch -d @9 $0 && stat -c '%a %u:%g' $0";
    for inside in ["/dev/given", "/dev/below/given", "/elsewhere/given"] {
        for options in [&[][..], &["--cap-add", "SYS_ADMIN"]] {
            let device = format!("{node}:{inside}");
            let device = ["--device", &device];
            let words = [options, &device, &[&image, "sh", "-c", script, inside]].concat();
            cx.run(&words)?
                .prints("600 7:7\n")
                .with_context(|| format!("{inside} {options:?}"))?;
            let after = state(&node)?;
            ensure!(after == before, "{inside}: {before:?} has become {after:?}");
        }
    }
    Ok(())
}

fn access(cx: &Context) -> Result<()> {
    let node = node(cx)?;
    let script =
        "(exec 3</dev/d) 2>/dev/null && echo reads; (exec 3>/dev/d) 2>/dev/null && echo writes; true";
    for (access, able) in [
        ("r", "reads\n"),
        ("rm", "reads\n"),
        ("w", "writes\n"),
        ("rw", "reads\nwrites\n"),
        ("rwm", "reads\nwrites\n"),
    ] {
        let device = format!("{node}:/dev/d:{access}");
        cx.shell(&["--device", &device], script)?
            .prints(able)
            .with_context(|| access.to_owned())?;
    }
    Ok(())
}

fn unlimited(cx: &Context) -> Result<()> {
    cx.shell(&["--device", "/dev/zero:/dev/d:r"], "true")?
        .warns_once("--device /dev/zero:r does not keep to \"r\"")?;
    cx.shell(&["--device", "/dev/zero:/dev/d"], "true")?.quietly()?;
    Ok(())
}

fn renamed(cx: &Context) -> Result<()> {
    for inside in ["/dev/mine", "/dev/below/mine", "/elsewhere/mine"] {
        let device = format!("/dev/zero:{inside}");
        cx.shell(
            &["--device", &device],
            &format!("echo x > {inside} && head -c 3 {inside} | wc -c"),
        )?
        .prints("3\n")
        .with_context(|| inside.to_owned())?;
    }
    // The device is also there at the next start.
    let words = ["run", "--name", "kept", "--device", "/dev/zero:/elsewhere/mine"];
    let command = [cx.image(), "head".into(), "-c3".into(), "/elsewhere/mine".into()];
    let words: Vec<&str> = words
        .into_iter()
        .chain(command.iter().map(String::as_str))
        .collect();
    cx.tote(&words).output()?.prints("\0\0\0")?;
    cx.tote(&["start", "-a", "kept"]).output()?.prints("\0\0\0")?;
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

/// Mounts on the host while a container runs, and makes the container create a node there and open it.
const LATER: &str = r#"set -e
mount --make-rprivate /
mount -t tmpfs base "$0"
mount "--make-$PROPAGATION" "$0"
"$@" run -d --name late -v "$0:/p:$MODE" "$IMAGE" sleep 1000 > "$0.id"
mkdir "$0/usb"
mount -t tmpfs usb "$0/usb"
"$@" exec late sh -c 'grep -c " /p/usb " /proc/self/mountinfo; mknod /p/usb/d c 10 229 && exec 3</p/usb/d' || echo dead
"$@" rm -f late > "$0.id""#;

fn later(cx: &Context) -> Result<()> {
    for (propagation, mode) in [
        ("shared", "rslave"),
        ("shared", "slave"),
        ("rshared", "rshared"),
        ("shared", "shared"),
    ] {
        let dir = cx.directory("p")?;
        cx.tote(&[])
            .under(&["unshare", "--mount", "sh", "-c", LATER, &dir])
            .env("IMAGE", cx.image())
            .env("PROPAGATION", propagation)
            .env("MODE", mode)
            .output()?
            .exits(0)?
            .has_out("1\ndead\n")?
            .has_err("operation not permitted")
            .with_context(|| mode.to_owned())?;
    }
    Ok(())
}

fn without_cgroup(cx: &Context) -> Result<()> {
    let disabled = |options: &[&str]| cx.shell(&[&["--cgroups", "disabled"], options].concat(), "true");
    disabled(&["--device", "/dev/zero:/dev/d:r"])?.refuses(125, &["--cgroups=disabled", "device rules"])?;
    disabled(&["--device", "/dev/zero:/dev/d"])?.exits(0)?;
    Ok(())
}

/// `-v /dev/null:FILE` is a common way to hide a file.
fn bound(cx: &Context) -> Result<()> {
    let script =
        "cat $0; echo more > $0; cat $0; test -c $0 && echo node; grep -c \" $0 ro,\" /proc/self/mountinfo";
    for place in ["/new", "/etc/passwd"] {
        let volume = format!("/dev/null:{place}");
        cx.run(&["-v", &volume, &cx.image(), "sh", "-c", script, place])?
            .prints("node\n1\n")?
            .quietly()?;
    }
    cx.shell(
        &["-v", "/dev:/dev"],
        "echo more > /dev/null; cat /dev/null; head -c1 /dev/zero | wc -c",
    )?
    .prints("1\n")?
    .quietly()?;
    Ok(())
}

/// Device rules decide which devices may be opened, and they hold for every container.
fn ruled(cx: &Context) -> Result<()> {
    for (volume, path) in [("/dev/loop-control:/x", "/x"), ("/dev:/dev", "/dev/loop-control")] {
        if !Path::new("/dev/loop-control").exists() {
            continue;
        }
        let script = format!("test -c {path} && head -c0 {path}");
        cx.shell(&["-v", volume], &script)?
            .exits(1)?
            .has_err("Operation not permitted")?;
    }
    Ok(())
}
