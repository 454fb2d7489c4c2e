//! A container cannot reach the runtime that starts it: neither its binary nor its descriptors.

use crate::context::Context;
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) const TESTS: &[Test] = &[
    test(
        "runtime_binary::cve_2019_5736_proc_self_exe_as_the_command",
        &[],
        exe_as_command,
    ),
    test(
        "runtime_binary::cve_2019_5736_no_process_shows_the_binary",
        &[],
        exe_of_others,
    ),
    test(
        "runtime_binary::cve_2019_5736_init_cannot_be_overwritten",
        &[],
        exe_of_init,
    ),
    test(
        "runtime_binary::cve_2019_5736_a_neighbour_cannot_catch_it_before_exec",
        &[],
        exe_before_exec,
    ),
    test(
        "runtime_binary::cve_2019_5736_a_program_that_becomes_a_link_for_exec",
        &[GCC],
        exchanged_for_exec,
    )
    .slow(3),
    test(
        "runtime_binary::cve_2019_5736_a_program_that_becomes_a_link_for_health_checks",
        &[GCC],
        exchanged_for_checks,
    )
    .slow(3),
    test(
        "runtime_binary::cve_2019_5736_a_script_that_nobody_may_read",
        &[GCC, Need::ManyIds],
        unreadable_script,
    ),
    test(
        "runtime_binary::cve_2019_5736_somebody_who_may_trace_what_comes",
        &[GCC],
        traced,
    ),
    test(
        "runtime_binary::cve_2024_21626_workdir_in_a_leaked_descriptor",
        &[],
        workdir_in_descriptor,
    ),
    test(
        "runtime_binary::cve_2024_21626_a_link_in_the_image_as_workdir",
        &[],
        workdir_link,
    ),
];

const GCC: Need = Need::Program("gcc");

/// Copies the binary as a victim: a successful attack does not hit the binary under test.
fn victim(cx: &Context) -> Result<PathBuf> {
    let copy = cx.scratch().join("tote");
    if !copy.exists() {
        fs::copy(cx.binary(), &copy).context("copy the binary")?;
    }
    Ok(copy)
}

/// Returns the target of the attack: the copy's owner and mode. Its bytes are safe while it is executed.
fn state_of(victim: &Path) -> Result<(u32, u32)> {
    let found = fs::metadata(victim)?;
    Ok((found.uid(), found.mode()))
}

/// Container with a process that waits for the engine's processes, to change the mode of their program's file.
struct Hunted<'a> {
    cx: &'a Context,
    hunter: crate::exchange::Running,
    victim: PathBuf,
    before: (u32, u32),
}

impl<'a> Hunted<'a> {
    fn start(cx: &'a Context, options: &[&str], image: &str, program: &[&str]) -> Result<Self> {
        let victim = victim(cx)?;
        let hunt = [image, "probe", "hunt", "1000000"];
        let words = [&["run", "--rm", "--name", "hunted"], options, &hunt, program].concat();
        let mut hunter = cx.other_tote(&victim, &words).spawn()?;
        hunter.expect("ready\n")?;
        let before = state_of(&victim)?;
        Ok(Self {
            cx,
            hunter,
            victim,
            before,
        })
    }

    /// Runs the victim with these words the given number of times, and ignores the results.
    fn lure(&self, times: u32, words: &[&str]) -> Result<()> {
        for round in 0..times {
            self.cx.other_tote(&self.victim, words).output()?;
            ensure!(
                state_of(&self.victim)? == self.before,
                "the binary was changed in round {round}"
            );
        }
        Ok(())
    }

    fn over(self) -> Result<()> {
        processes::kill(processes::container_init(self.hunter.pid())?, Signal::KILL);
        self.hunter.finish()?.exits(137)?;
        Ok(())
    }
}

/// A file may be exchanged between the check and its execution: the engine then executes itself.
fn exchanged_for_exec(cx: &Context) -> Result<()> {
    let hunted = Hunted::start(cx, &[], &cx.image(), &["/prog"])?;
    hunted.lure(60, &["exec", "hunted", "/prog", "true"])?;
    hunted.over()
}

fn exchanged_for_checks(cx: &Context) -> Result<()> {
    let victim = victim(cx)?;
    let before = state_of(&victim)?;
    let image = cx.image();
    let words = [
        "run",
        "-d",
        "--name",
        "hunted",
        "--health-cmd",
        "true",
        "--health-interval",
        "1ms",
        &image,
        "probe",
        "hunt",
        "200",
        "/bin/sh",
    ];
    cx.other_tote(&victim, &words).output()?.exits(0)?;
    cx.tote(&["wait", "hunted"]).output()?.exits(0)?.prints("0\n")?;
    cx.tote(&["rm", "hunted"]).output()?.exits(0)?;
    ensure!(state_of(&victim)? == before, "the binary was changed");
    Ok(())
}

/// The kernel can execute a script that is not readable, while a check of its interpreter must read it.
fn unreadable_script(cx: &Context) -> Result<()> {
    let (dir, image) = cx.own_rootfs("unreadable")?;
    fs::write(dir.join("p"), "#!/proc/self/exe\n")?;
    fs::set_permissions(dir.join("p"), fs::Permissions::from_mode(0o111))?;
    // Another user's process is visible only with this capability.
    let hunted = Hunted::start(cx, &["--cap-add", "SYS_PTRACE"], &image, &[])?;
    hunted.lure(20, &["exec", "--user", "1000", "hunted", "/p"])?;
    hunted.over()
}

/// CAP_SYS_PTRACE sees even hidden processes, from their first moment.
fn traced(cx: &Context) -> Result<()> {
    let image = cx.image();
    let hunted = Hunted::start(cx, &["--cap-add", "SYS_PTRACE"], &image, &[])?;
    hunted.lure(10, &["exec", "hunted", "true"])?;
    let neighbour = ["run", "--rm", "--pid", "container:hunted", &image, "true"];
    hunted.lure(10, &neighbour)?;
    hunted.over()
}

/// Makes an image whose `/evil` is a link to the program that opens it, and `/evil.sh` a script run by that program.
fn evil_image(cx: &Context) -> Result<String> {
    let (dir, image) = cx.own_rootfs("evil")?;
    symlink("/proc/self/exe", dir.join("evil"))?;
    fs::write(dir.join("evil.sh"), "#!/proc/self/exe\n")?;
    fs::set_permissions(dir.join("evil.sh"), fs::Permissions::from_mode(0o755))?;
    Ok(image)
}

fn exe_as_command(cx: &Context) -> Result<()> {
    let victim = victim(cx)?;
    let before = tree::digest(&victim)?;
    let image = evil_image(cx)?;
    for command in [
        "/proc/self/exe",
        "/evil",
        "/evil.sh",
        "/proc/1/exe",
        "/proc/thread-self/exe",
    ] {
        for options in [&[][..], &["--init"], &["--privileged"]] {
            let words = [&["run", "--rm"], options, &[&image, command]].concat();
            let out = cx.other_tote(&victim, &words).output()?;
            out.fails().with_context(|| format!("{options:?} {command}"))?;
        }
    }
    ensure!(tree::digest(&victim)? == before, "the binary was changed");
    Ok(())
}

fn exe_of_others(cx: &Context) -> Result<()> {
    let victim = victim(cx)?;
    let size = fs::metadata(&victim)?.len();
    let script = "for p in /proc/[0-9]*; do readlink $p/exe; stat -L -c %s $p/exe; done";
    let out = cx
        .other_tote(&victim, &["run", "--rm", &cx.image(), "sh", "-c", script])
        .output()?;
    out.exits(0)?;
    let text = out.out();
    let shown = text
        .lines()
        .any(|line| line == size.to_string() || line.contains("tote"));
    ensure!(
        !shown,
        "the binary ({size} bytes) is the program of a process inside:\n{text}"
    );
    Ok(())
}

/// With tote's init inside, the bytes of PID 1 must not be writable.
fn exe_of_init(cx: &Context) -> Result<()> {
    let victim = victim(cx)?;
    let before = tree::digest(&victim)?;
    // The attack: hold the program open for reading, and open it again for writing through the descriptor.
    let script = "cat /proc/1/exe > /dev/null || exit 0; exec 9</proc/1/exe; for f in /proc/1/exe /proc/self/fd/9; do echo evil 2>/dev/null >> $f; done
chmod 777 /proc/1/exe; echo tried";
    let image = cx.image();
    // --privileged is not tested: its root is root of the host, and may write wherever the host's root may.
    for options in [
        &["--init"][..],
        &["--init", "--security-opt", "seccomp=unconfined"],
        &["--init", "--cap-add", "SYS_PTRACE"],
    ] {
        let words = [&["run", "--rm"], options, &[&image, "sh", "-c", script]].concat();
        cx.other_tote(&victim, &words).output()?.exits(0)?;
        let mode = fs::metadata(&victim)?.permissions().mode() & 0o777;
        ensure!(
            mode == fs::metadata(cx.binary())?.permissions().mode() & 0o777,
            "the binary's mode became {mode:o} with {options:?}"
        );
    }
    ensure!(tree::digest(&victim)? == before, "the binary was written to");
    Ok(())
}

/// A process in the same PID namespace sees the process that is about to execute the container's command while that
/// still runs tote: a neighbour tries to write to the program of every process that appears.
fn exe_before_exec(cx: &Context) -> Result<()> {
    let victim = victim(cx)?;
    let before = tree::digest(&victim)?;
    let script = "echo ready; while :; do for p in /proc/[0-9]*; do
case $p in */1) ;; *) echo evil 2>/dev/null >> $p/exe ;; esac
done; done 2>/dev/null";
    let image = cx.image();
    let mut neighbour = cx
        .run_command(&["--name", "neighbour", &image, "sh", "-c", script])
        .spawn()?;
    neighbour.expect("ready\n")?;
    for _ in 0..20 {
        let words = [
            "run",
            "--rm",
            "--pid",
            "container:neighbour",
            &image,
            "sh",
            "-c",
            "test $$ != 1",
        ];
        cx.other_tote(&victim, &words).output()?.exits(0)?;
    }
    ensure!(tree::digest(&victim)? == before, "the binary was written to");
    let init = processes::container_init(neighbour.pid())?;
    processes::kill(init, Signal::KILL);
    neighbour.finish()?.exits(137)?;
    Ok(())
}

/// Makes a directory with a canary, held open in this process, without close-on-exec, at many low descriptors.
fn leaked_directory(cx: &Context) -> Result<(String, Vec<std::os::fd::OwnedFd>)> {
    let path = cx.directory("host-directory")?;
    fs::write(Path::new(&path).join("canary"), "outside")?;
    let directory = fs::File::open(&path)?;
    let copies: Result<Vec<_>, _> = (0..8).map(|_| rustix::io::dup(&directory)).collect();
    Ok((path, copies?))
}

fn workdir_in_descriptor(cx: &Context) -> Result<()> {
    let (path, _leaked) = leaked_directory(cx)?;
    for number in 3..=20 {
        for start in ["/proc/self/fd", "/proc/1/fd", "/dev/fd"] {
            let workdir = format!("{start}/{number}");
            let words = [
                "-w",
                &workdir,
                &cx.image(),
                "sh",
                "-c",
                "ls -a; cat canary; ls -a ../../../../../..",
            ];
            let out = cx.run_command(&words).within(Path::new(&path)).output()?;
            out.refuses(125, &[&workdir])?;
        }
    }
    Ok(())
}

fn workdir_link(cx: &Context) -> Result<()> {
    let (path, _leaked) = leaked_directory(cx)?;
    let (dir, image) = cx.own_rootfs("linked")?;
    for number in 3..=12 {
        let name = format!("/work{number}");
        symlink(format!("/proc/self/fd/{number}"), dir.join(&name[1..]))?;
        let out = cx
            .run_command(&["-w", &name, &image, "cat", "canary"])
            .within(Path::new(&path))
            .output()?;
        out.fails()?;
        ensure!(
            !out.out().contains("outside"),
            "-w {name} reached the host:\n{}",
            out.transcript()
        );
    }
    Ok(())
}
