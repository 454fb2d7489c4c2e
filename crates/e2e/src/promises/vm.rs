//! `--isolation vm`: the same container in a small virtual machine, everything executed by QEMU's translator.

use super::{stored, vm_ready};
use crate::context::Context;
use crate::need::{self, Need};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

pub(super) const QEMU: Need = Need::Program("qemu-system-x86_64");

pub(super) const TESTS: &[Test] = &[
    test("vm::setup_says_what_it_did", &[Need::GuestKernel], setup),
    test(
        "vm::a_package_gives_the_same_kernel",
        &[Need::GuestKernel, Need::Program("dpkg-deb")],
        package,
    ),
    test("vm::what_cannot_be_is_refused", &[Need::GuestKernel], refusals),
    test(
        "vm::a_container_has_a_kernel_of_its_own",
        &[QEMU, Need::GuestKernel],
        own_kernel,
    )
    .slow(3),
    test(
        "vm::a_guest_reads_of_tote_what_it_executes",
        &[QEMU, Need::GuestKernel],
        first_stage,
    )
    .slow(3),
    test(
        "vm::a_mebibyte_passes_unchanged_both_ways",
        &[QEMU, Need::GuestKernel],
        binary_clean,
    )
    .slow(3),
    test(
        "vm::a_missing_program_ends_with_127",
        &[QEMU, Need::GuestKernel],
        missing,
    )
    .slow(3),
    test(
        "vm::a_detached_one_is_watched_and_stopped",
        &[QEMU, Need::GuestKernel],
        detached,
    )
    .slow(3),
    test(
        "vm::a_killed_machine_is_reported",
        &[QEMU, Need::GuestKernel],
        killed_machine,
    )
    .slow(3),
    test(
        "vm::a_killed_command_leaves_no_machine",
        &[QEMU, Need::GuestKernel],
        killed_command,
    )
    .slow(3),
];

/// Path of the unpacked package that the tests take their kernel from.
pub(super) fn kernel() -> Result<String> {
    let path = need::guest_kernel().context("this program has a path")?;
    Ok(path.to_str().context("its path is text")?.to_owned())
}

/// Makes a kernel ready for machines that boot, and an image `app`.
pub(super) fn prepare(cx: &Context) -> Result<()> {
    vm_ready::boots(cx)?;
    stored::image(cx, "app", &[]).map(drop)
}

/// Makes a template for machines ready, and an image `app`.
pub(super) fn prepare_template(cx: &Context) -> Result<()> {
    vm_ready::resumes(cx)?;
    stored::image(cx, "app", &[]).map(drop)
}

fn setup(cx: &Context) -> Result<()> {
    stored::image(cx, "app", &[])?;
    cx.run(&["--isolation", "vm", "app", "true"])?
        .refuses(125, &["there is no kernel for it yet"])?
        .has_err("hint: tote vm setup")?;
    let output = cx.tote(&["vm", "setup", &kernel()?]).output()?;
    output.exits(0)?;
    for part in [
        "kernel:  ",
        "cloud",
        "erofs, ",
        "overlay, ",
        "virtio_mmio, ",
        "kept as: ",
    ] {
        output.has_out(part)?;
    }
    // Nothing that a guest does not need.
    ensure!(!output.out().contains("ext4"), "{}", output.out());
    cx.tote(&["vm", "setup", "/dev/null"])
        .output()?
        .refuses(1, &["it is not a package of Debian"])?;
    let empty = cx.directory("empty")?;
    cx.tote(&["vm", "setup", &empty])
        .output()?
        .refuses(1, &["cannot find a kernel in"])?
        .has_err("hint: apt-get install linux-image-cloud-amd64")?;
    cx.nothing_left()
}

fn package(cx: &Context) -> Result<()> {
    let direct = cx.tote(&["vm", "setup", "-q", &kernel()?]).output()?;
    direct.exits(0)?;
    let (dir, file) = (cx.directory("package")?, cx.path("kernel.deb")?);
    crate::invocation::Invocation::new(["cp", "-r", &format!("{}/.", kernel()?), &dir])
        .output()?
        .exits(0)?;
    cx.directory("package/DEBIAN")?;
    cx.file(
        "package/DEBIAN/control",
        "Package: kernel\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b.example>\nDescription: kernel\n",
    )?;
    crate::invocation::Invocation::new(["dpkg-deb", "-Zgzip", "-z1", "--build", &dir, &file])
        .output()?
        .exits(0)?;
    let packed = cx.tote(&["vm", "setup", "-q", &file]).output()?;
    packed.exits(0)?.prints(&direct.out())?;
    // What was unpacked is gone.
    let left = std::fs::read_dir(cx.root().join("vm"))?.count();
    ensure!(
        left == 3,
        "{left} names in vm/: a lock, kernels, and the one in use"
    );
    Ok(())
}

fn refusals(cx: &Context) -> Result<()> {
    prepare(cx)?;
    for (option, value, reason) in [
        (
            "--volume",
            "/dev/null:/x",
            "cannot share /dev/null with a virtual machine",
        ),
        (
            "--network",
            "host",
            "cannot use --network host with --isolation vm",
        ),
        ("--device", "/dev/null", "a device of the host"),
        ("--pid", "host", "another kernel"),
        ("--volume", "/tmp:/x:U", "this option of a volume"),
        ("--volume", "/tmp:/x:rshared", "propagation of mounts"),
        ("--volume", "/x", "volumes without a name"),
        ("--memory", "64m", "it needs 128 at least"),
        ("--driver", "split", "the image is a disk of the machine"),
    ] {
        cx.run(&["--isolation", "vm", option, value, "app", "true"])?
            .refuses(125, &[reason])?;
    }
    cx.run(&["--isolation", "vm", &cx.image(), "true"])?
        .refuses(125, &["only images of the store can be a disk"])?;
    cx.run(&["--isolation", "vm=xen", "app", "true"])?
        .refuses(125, &["cannot use \"xen\""])?;
    cx.run(&["--isolation", "hyperv", "app", "true"])?
        .refuses(125, &["only default and vm are supported"])?;
    cx.nothing_left()
}

fn own_kernel(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let script = "uname -r; id -u; pwd; hostname; echo $A; nproc; touch /x 2>/dev/null || echo read-only; \
                  ls /dev/vda /dev/ttyS0 2>/dev/null; echo error >&2; exit 7";
    let words = [
        "--isolation",
        "vm=qemu,accel=tcg",
        "--cpus",
        "2",
        "--memory",
        "300m",
        "--env",
        "A=b",
        "--workdir",
        "/tmp",
        "--user",
        "alice",
        "--hostname",
        "box",
        "--read-only",
        "app",
        "sh",
        "-c",
        script,
    ];
    let output = cx.run(&words)?;
    output.exits(7)?.has_err("error")?;
    let (release, rest) = output
        .out()
        .split_once('\n')
        .map_or_else(Default::default, |(first, rest)| {
            (first.to_owned(), rest.to_owned())
        });
    let own = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    ensure!(
        release.contains("cloud") && release != own.trim(),
        "kernel {release}"
    );
    ensure!(rest == "1234\n/tmp\nbox\nb\n2\nread-only\n", "{rest}");
    cx.nothing_left()
}

/// The directory of what machines begin with.
pub(super) fn programs(cx: &Context) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(cx.root().join("vm/programs"))?;
    let entry = entries.next().context("no machine has begun")??;
    ensure!(entries.next().is_none(), "there is one program");
    Ok(entry.path())
}

fn first_stage(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let run = || {
        cx.run(&[
            "--isolation",
            "vm=template=no",
            "--network",
            "none",
            "app",
            "cat",
            "/proc/meminfo",
        ])
    };
    let output = run()?;
    let text = output.exits(0)?.out();
    let dir = programs(cx)?;
    let size = |name: &str| Ok::<_, anyhow::Error>(dir.join(name).metadata()?.len());
    // Modules and the first stage alone; tote itself is as large as before.
    ensure!(size("initramfs")? < 2_000_000, "{}", size("initramfs")?);
    ensure!(
        size("system")? > size("tote")?,
        "{} {}",
        size("system")?,
        size("tote")?
    );
    // All files that the guest has in memory: pages of tote and of the container.
    let cached = text.lines().find_map(|line| line.strip_prefix("Cached:"));
    let cached = cached.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let cached = cached.context("the kernel tells the size of its cache")? << 10;
    ensure!(cached < size("tote")?, "{cached} bytes in memory");
    // Other state roots have links to the file.
    let (path, whole) = (dir.join("system"), std::fs::read(dir.join("system"))?);
    std::fs::remove_file(&path)?;
    std::fs::write(&path, vec![0; whole.len()])?;
    run()?
        .exits(125)?
        .has_err("tote: the guest cannot begin: cannot mount the disk with tote: error 22")?;
    std::fs::remove_file(&path)?;
    std::fs::write(&path, whole)?;
    run()?.exits(0)?;
    cx.nothing_left()
}

fn binary_clean(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let mut random = vec![0; 1024 * 1024];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    random[..6].copy_from_slice(b"\r\n\0\x04\x1a\xff");
    let output = cx
        .run_command(&["-i", "--isolation", "vm", "app", "cat"])
        .input(&random)
        .output()?;
    output.exits(0)?.quietly()?;
    ensure!(output.stdout == random, "{} bytes came back", output.stdout.len());
    Ok(())
}

fn missing(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let output = cx.run(&["--isolation", "vm", "app", "absent"])?;
    output
        .exits(127)?
        .has_err("exec: \"absent\": executable file not found in $PATH")?;
    cx.nothing_left()
}

/// Starts a container `vm` in a virtual machine, detached and with these further options.
pub(super) fn detach(cx: &Context, options: &[&str], command: &[&str]) -> Result<()> {
    let run = ["run", "-d", "--name", "vm", "--isolation", "vm"];
    cx.tote(&[&run, options, &["app"], command].concat())
        .output()?
        .exits(0)?;
    Ok(())
}

/// Starts a container `vm` that says `ready`, says so of a SIGUSR1 and a SIGTERM, and ends with 5 then.
fn start(cx: &Context) -> Result<()> {
    let script =
        "trap 'echo asked; exit 5' TERM; trap 'echo heard' USR1; echo ready; while :; do sleep 0.1; done";
    detach(cx, &[], &["sh", "-c", script])?;
    ready(cx, "ready")
}

/// Waits until the container `vm` has said this word.
pub(super) fn ready(cx: &Context, word: &str) -> Result<()> {
    let mut follow = cx.tote(&["logs", "-f", "vm"]).spawn()?;
    follow.expect(word)?;
    follow.signal(Signal::KILL)?;
    follow.wait().map(drop)
}

/// Handles a machine as a whole.
fn handled(cx: &Context) -> Result<()> {
    let says = |words: &[&str]| -> Result<String> {
        let output = cx.tote(words).output()?;
        output.exits(0)?;
        Ok(output.out().trim().to_owned())
    };
    // A user's containers may have no cgroup, without which none of them can be paused.
    if Need::Root.met() {
        cx.tote(&["pause", "vm"]).output()?.exits(0)?;
        ensure!(says(&["inspect", "--format", "{{.State.Status}}", "vm"])? == "paused");
        cx.tote(&["exec", "vm", "true"])
            .output()?
            .refuses(1, &["is paused"])?;
        cx.tote(&["unpause", "vm"]).output()?.exits(0)?;
    }
    cx.tote(&["kill", "-s", "USR1", "vm"]).output()?.exits(0)?;
    ready(cx, "heard")?;
    let memory = says(&["stats", "--no-stream", "--format", "{{.MemUsage}}", "vm"])?;
    ensure!(memory.contains("iB / ") && !memory.starts_with("0B"), "{memory}");
    Ok(())
}

fn detached(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    start(cx)?;
    let shown = cx
        .tote(&[
            "inspect",
            "--format",
            "{{.VirtualMachine.Kernel}} {{.HostConfig.Isolation}}",
            "vm",
        ])
        .output()?;
    shown.exits(0)?.has_out("cloud")?.has_out(" vm")?;
    handled(cx)?;
    cx.tote(&["stop", "vm"]).output()?.exits(0)?;
    cx.tote(&["wait", "vm"]).output()?.exits(0)?.prints("5\n")?;
    cx.tote(&["logs", "vm"])
        .output()?
        .prints("ready\nheard\nasked\n")?;
    // Another machine begins.
    cx.tote(&["start", "vm"]).output()?.exits(0)?;
    cx.tote(&["exec", "vm", "true"]).output()?.exits(0)?;
    cx.tote(&["stop", "-t", "0", "vm"]).output()?.exits(0)?;
    cx.tote(&["rm", "vm"]).output()?.exits(0).map(drop)
}

fn killed_machine(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    start(cx)?;
    let output = cx
        .tote(&["inspect", "--format", "{{.State.Pid}}", "vm"])
        .output()?;
    let attendant: i32 = output.out().trim().parse()?;
    let machines = processes::descendants(attendant);
    ensure!(machines.len() == 1, "{} processes", machines.len());
    processes::kill(machines[0].pid, Signal::KILL);
    cx.tote(&["wait", "vm"]).output()?.exits(0)?.prints("137\n")?;
    cx.tote(&["logs", "vm"])
        .output()?
        .has_err("tote: the virtual machine ended before the container did")?;
    cx.tote(&["rm", "vm"]).output()?.exits(0).map(drop)
}

fn killed_command(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let mut running = cx
        .run_command(&["--isolation", "vm", "app", "sh", "-c", "echo ready; sleep 1000"])
        .spawn()?;
    running.expect("ready")?;
    let all = processes::descendants(running.pid());
    ensure!(all.len() >= 2, "an attendant and its machine: {}", all.len());
    let all = all.iter().map(|process| processes::pidfd(process.pid));
    let all = all.collect::<Result<Vec<_>>>()?;
    running.signal(Signal::KILL)?;
    running.wait()?;
    for process in &all {
        processes::wait_end(
            process,
            "the attendant and its machine",
            crate::exchange::patience(),
        )?;
    }
    // The next container finds what is left.
    cx.run(&["app", "true"])?.exits(0)?;
    cx.nothing_left()
}
