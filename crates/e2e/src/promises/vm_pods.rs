//! Pods in virtual machines: one machine, several containers.

use super::life::done;
use super::networks::prints;
use super::pods::{nothing, status};
use super::ports::WORDS;
use super::vm::prepare;
use super::vm_networks::{OF_ROOT, OF_USERS, user_says};
use crate::context::Context;
use crate::need::{Need, is_root};
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

const NEEDS: &[Need] = &[super::vm::QEMU, Need::GuestKernel, Need::Program("mkfs.ext4")];

pub(super) const TESTS: &[Test] = &[
    test("vm_pods::containers_share_a_machine", NEEDS, shared).slow(3),
    test("vm_pods::each_has_a_life_of_its_own", NEEDS, lives).slow(5),
    test("vm_pods::started_stopped_and_removed_together", NEEDS, together).slow(6),
    test("vm_pods::debug_brings_tools_to_a_member", NEEDS, debugged).slow(3),
    test("vm_pods::a_machine_with_pci_has_the_same", NEEDS, pci).slow(4),
    test(
        "vm_pods::what_cannot_be_is_refused",
        &[Need::GuestKernel],
        refusals,
    ),
    test("vm_pods::published_ports_are_the_pods", OF_ROOT, root).slow(6),
    test("vm_pods::published_ports_are_the_pods_of_users", OF_USERS, user).slow(6),
];

/// Makes a pod `p` in a machine without a network.
fn pod(cx: &Context, options: &[&str]) -> Result<()> {
    prepare(cx)?;
    let words = ["pod", "create", "--isolation", "vm", "--network", "none"];
    done(cx, &[&words, options, &["p"]].concat()).map(drop)
}

/// Starts a member that prints `ready` and waits.
fn member(cx: &Context, name: &str, options: &[&str]) -> Result<()> {
    let words = ["run", "-d", "--pod", "p", "--name", name];
    let script = "cat /kept 2>/dev/null; echo ready; trap 'exit 5' TERM; while :; do sleep 1; done";
    done(cx, &[&words, options, &["app", "sh", "-c", script]].concat())?;
    ready(cx, name)
}

/// Waits for the line of a member.
fn ready(cx: &Context, name: &str) -> Result<()> {
    let mut follow = cx.tote(&["logs", "-f", name]).spawn()?;
    follow.expect("ready\n")?;
    follow.signal(rustix::process::Signal::KILL)?;
    follow.wait().map(drop)
}

/// Prints what members of one machine have in common, and what not.
const LOOK: &str = "cat /proc/sys/kernel/random/boot_id; hostname; cd /proc/self/ns; readlink net; readlink ipc; \
                    readlink uts; readlink pid";

fn shared(cx: &Context) -> Result<()> {
    pod(cx, &[])?;
    member(cx, "one", &["-e", "A=b"])?;
    let one = done(cx, &["exec", "one", "sh", "-c", LOOK])?;
    let other = cx.run(&[
        "--pod",
        "p",
        "app",
        "sh",
        "-c",
        &format!("{LOOK}; echo error >&2; exit 7"),
    ])?;
    other.exits(7)?.has_err("error")?;
    let (one, other) = (Vec::from_iter(one.lines()), other.out());
    let other = Vec::from_iter(other.lines());
    ensure!(one.len() == 6 && one[..5] == other[..5], "{one:?} {other:?}");
    ensure!(one[1] == "p", "the pod's name is that of its members: {one:?}");
    ensure!(one[5] != other[5], "processes are not shared");
    let own = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    ensure!(one[0] != own.trim(), "the kernel is this machine's");
    // Shared memory is the pod's, files are not.
    done(
        cx,
        &[
            "exec",
            "one",
            "sh",
            "-c",
            "echo told >/dev/shm/note; echo own >/note",
        ],
    )?;
    let script =
        "cat /dev/shm/note; cat /note 2>/dev/null || echo none; ls /sys/class/net; cat /etc/hostname";
    let said = done(cx, &["run", "--rm", "--pod", "p", "app", "sh", "-c", script])?;
    ensure!(said == "told\nnone\nlo\np", "{said}");
    // One hears the other on the loopback interface.
    let serve = "exec busybox nc -l -p 8765 -e echo answer";
    done(
        cx,
        &[
            "run", "-d", "--pod", "p", "--name", "server", "app", "sh", "-c", serve,
        ],
    )?;
    let ask = "until busybox nc 127.0.0.1 8765 </dev/null 2>/dev/null; do :; done";
    let heard = done(cx, &["exec", "one", "sh", "-c", ask])?;
    ensure!(heard == "answer", "{heard}");
    done(cx, &["wait", "server"])?;
    let top = done(cx, &["top", "one", "-o", "pid,args"])?;
    ensure!(top.contains("ready") && !top.contains("nc -l"), "{top}");
    let release = done(cx, &["exec", "one", "uname", "-r"])?;
    let format = "{{.VirtualMachine.Kernel}} {{.HostConfig.Isolation}}";
    let shown = done(cx, &["inspect", "-f", format, "one"])?;
    ensure!(shown == format!("{release} vm"), "{shown}");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

/// Tools of a session come to the container that it names, by the one spare disk of the machine.
fn debugged(cx: &Context) -> Result<()> {
    pod(cx, &[])?;
    for name in ["one", "two"] {
        member(cx, name, &[])?;
        done(cx, &["exec", name, "sh", "-c", &format!("echo {name} >/kept")])?;
    }
    for name in ["one", "two", "one"] {
        let script = "cat /target/kept; hostname; touch /scratch";
        let said = done(cx, &["debug", "--tools", "app", name, "sh", "-c", script])?;
        ensure!(said == format!("{name}\np"), "{said}");
    }
    // A terminal's process goes by the attendant of the member as well.
    let (mut inside, outer) = cx
        .tote(&["debug", "--tools", "app", "--shell", "sh", "two"])
        .spawn_in_terminal(40, 100)?;
    inside.send(b"cat /target/kept; exit 5\n");
    inside.expect("two\r\n")?;
    ensure!(inside.wait()? == 5, "the shell's exit code");
    drop(outer);
    inside.finish()?;
    // The infra container has a process, whose tree has nothing but that.
    let infra = done(cx, &["pod", "inspect", "-f", "{{.InfraContainerID}}", "p"])?;
    let script = "ls /target/pause; hostname";
    let said = done(cx, &["debug", "--tools", "app", &infra, "sh", "-c", script])?;
    ensure!(said == "/target/pause\np", "{said}");
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

/// Disks that come and go, and tools, in a pod whose machine is a PC.
fn pci(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let isolation = ["--isolation", "vm=machine=q35", "--network", "none"];
    done(cx, &[&["pod", "create"], &isolation[..], &["p"]].concat())?;
    let volume = ["-v", "disk:data,size=64m:/data"];
    member(cx, "one", &volume)?;
    let script = "test -n \"$(ls /sys/bus/pci/devices)\" && echo kept >/data/file";
    done(cx, &["exec", "one", "sh", "-c", script])?;
    let words = ["debug", "--tools", "app", "one", "cat", "/target/data/file"];
    ensure!(done(cx, &words)? == "kept");
    done(cx, &["rm", "-f", "-t", "0", "one"])?;
    let again = [
        &["run", "--rm", "--pod", "p"],
        &volume[..],
        &["app", "cat", "/data/file"],
    ]
    .concat();
    ensure!(done(cx, &again)? == "kept");
    done(cx, &["pod", "rm", "-f", "p"])?;
    done(cx, &["volume", "rm", "data"])?;
    nothing(cx)
}

/// `cp`, `stop`, `start`, `kill` and `rm` of one member, while another one goes on.
fn lives(cx: &Context) -> Result<()> {
    pod(cx, &[])?;
    member(cx, "other", &["--rm"])?;
    let volume = ["-v", "disk:data,size=64m:/data"];
    member(cx, "one", &[&volume[..], &["--disk-size", "64m"]].concat())?;
    let file = cx.file("file", "copied\n")?;
    done(cx, &["cp", &file, "one:/kept"])?;
    done(cx, &["exec", "one", "sh", "-c", "cp /kept /data/kept"])?;
    done(cx, &["stop", "one"])?;
    cx.tote(&["wait", "one"]).output()?.prints("5\n")?;
    // The disks are its own again, and so is what is on them.
    done(cx, &["start", "one"])?;
    let mut follow = cx.tote(&["logs", "-f", "one"]).spawn()?;
    follow.expect("ready\ncopied\nready\n")?;
    follow.signal(rustix::process::Signal::KILL)?;
    follow.wait()?;
    let changed = || cx.tote(&["diff", "one"]).output()?.prints("A /kept\n").map(drop);
    changed()?;
    done(cx, &["kill", "one"])?;
    cx.tote(&["wait", "one"]).output()?.prints("137\n")?;
    // A machine of its own tells what it has changed.
    changed()?;
    done(cx, &["commit", "one", "kept"])?;
    cx.run(&["kept", "cat", "/kept"])?.prints("copied\n")?;
    let script = "cat /data/kept";
    let again = [
        &["run", "--rm", "--pod", "p"],
        &volume[..],
        &["app", "sh", "-c", script],
    ]
    .concat();
    ensure!(done(cx, &again)? == "copied");
    let missing = cx.run(&["--pod", "p", "app", "absent"])?;
    missing.refuses(127, &["executable file not found in $PATH"])?;
    let state = done(cx, &["inspect", "-f", "{{.State.Status}}", "other"])?;
    ensure!(state == "running", "{state}");
    done(cx, &["rm", "-f", "-t", "0", "other", "one"])?;
    ensure!(status(cx, "p")? == "Running" || status(cx, "p")? == "Degraded");
    done(cx, &["pod", "rm", "-f", "p"])?;
    done(cx, &["volume", "rm", "data"])?;
    nothing(cx)
}

fn together(cx: &Context) -> Result<()> {
    prepare(cx)?;
    // The pod and its machine come with the first member.
    let words = [
        "--pod",
        "new:p",
        "--network",
        "none",
        "--isolation",
        "vm=memory=256m",
    ];
    let script = "echo ready; grep MemTotal /proc/meminfo; exec sleep 1000000";
    done(
        cx,
        &[
            &["run", "-d", "--name", "one"],
            &words[..],
            &["app", "sh", "-c", script],
        ]
        .concat(),
    )?;
    ready(cx, "one")?;
    member(cx, "two", &[])?;
    let boot = |name: &str| done(cx, &["exec", name, "cat", "/proc/sys/kernel/random/boot_id"]);
    let first = boot("one")?;
    ensure!(first == boot("two")?, "one machine");
    let memory = done(
        cx,
        &[
            "exec",
            "two",
            "awk",
            "/MemTotal/ { print ($2 < 262144) }",
            "/proc/meminfo",
        ],
    )?;
    ensure!(memory == "1", "the machine has the memory that was asked for");
    cx.tote(&["pause", "one"])
        .output()?
        .refuses(1, &["cannot pause container one: it is in a virtual machine"])?;
    if is_root() {
        // A user's have no cgroup.
        done(cx, &["pod", "pause", "p"])?;
        done(cx, &["pod", "unpause", "p"])?;
    }
    done(cx, &["pod", "stop", "-t", "1", "p"])?;
    ensure!(status(cx, "p")? == "Exited", "{}", status(cx, "p")?);
    done(cx, &["pod", "start", "p"])?;
    let second = boot("one")?;
    ensure!(
        second != first && second == boot("two")?,
        "another machine, and again one"
    );
    // The end of the machine is that of all.
    let infra = done(cx, &["pod", "inspect", "-f", "{{.InfraContainerID}}", "p"])?;
    done(cx, &["kill", &infra])?;
    for name in ["one", "two"] {
        cx.tote(&["wait", name]).output()?.prints("137\n")?;
    }
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

fn refusals(cx: &Context) -> Result<()> {
    prepare(cx)?;
    for (words, reason) in [
        (
            &["--share", "pid,net"][..],
            "cannot create a pod with --share pid",
        ),
        (&["--share", "ipc"], "a network for each container"),
        (
            &["--infra=false"],
            "cannot set isolation without an infra container",
        ),
        (&["--memory", "1g"], "vm=memory=SIZE"),
        (&["--uts", "host"], "another kernel"),
    ] {
        let words = [&["pod", "create", "--isolation", "vm"], words, &["p"]].concat();
        cx.tote(&words).output()?.refuses(125, &[reason])?;
    }
    pod(cx, &[])?;
    for (words, reason) in [
        (&["--memory", "300m"][..], "the machine is the pod's"),
        (&["--isolation", "default"], "the pod is in a virtual machine"),
        (&["--volume", "/tmp:/x"], "the machine of a pod gets disks"),
        (&["--ipc", "host"], "another kernel"),
    ] {
        let words = [&["create", "--pod", "p"], words, &["app", "true"]].concat();
        let made = cx.tote(&words).output()?;
        if made.code == 0 {
            // Mounts are looked at when it starts.
            let started = cx.tote(&["start", made.out().trim()]).output()?;
            started.refuses(1, &[reason])?;
        } else {
            made.refuses(1, &[reason])?;
        }
    }
    done(cx, &["pod", "rm", "-f", "p"])?;
    done(cx, &["pod", "create", "--network", "none", "p"])?;
    cx.run(&["--isolation", "vm", "--pod", "p", "app", "true"])?
        .refuses(125, &["a machine has all containers of its pod"])?
        .has_err("hint: give --isolation vm to tote pod create")?;
    done(cx, &["pod", "rm", "-f", "p"])?;
    nothing(cx)
}

/// Words of a pod in a machine, and of others to it.
const SAID: &str = r#"
tote network create web >/dev/null
tote pod create --isolation vm --network web -p 8080:80 p >/dev/null
tote run -d --name server --pod p app busybox nc -ll -p 80 -e echo hello >/dev/null
until [ "$(ask 127.0.0.1 8080)" = hello ]; do sleep 0.1; done
tote run --rm --pod p app sh -c 'busybox nc -w 9 127.0.0.1 80 </dev/null; ls /sys/class/net'
tote run --rm --network web "$IMAGE" busybox nc -w 9 p 80 </dev/null || tote run --rm --network web "$IMAGE" cat /etc/resolv.conf
tote pod rm -f p >/dev/null
"#;

const HEARD: &str = "hello\neth0\nlo\nhello\n";

fn root(cx: &Context) -> Result<()> {
    prepare(cx)?;
    prints(cx, &format!("{WORDS}{SAID}"), HEARD)
}

fn user(cx: &Context) -> Result<()> {
    user_says(cx, SAID, HEARD)
}
