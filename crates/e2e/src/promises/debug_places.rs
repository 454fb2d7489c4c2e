//! `tote debug`: sessions in containers of containers, from inside of a container, and with tools of every layout.

use super::debug::debug;
use super::exec::{over, running};
use super::life::done;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::{ManyIds, PackageMirror, Program, Root};
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_places::a_container_in_a_container",
        &[Program("unshare")],
        nested,
    ),
    test(
        "debug_places::from_a_container_to_the_machine",
        &[Root],
        to_the_machine,
    ),
    test("debug_places::from_a_container_to_another", &[Root], to_another),
    test("debug_places::a_split_usr_on_either_side", &[], split_usr),
    test(
        "debug_places::a_debian_image_for_a_scratch_container",
        &[ManyIds, Program("mmdebstrap"), PackageMirror],
        debian,
    )
    .slow(8),
];

fn nested(cx: &Context) -> Result<()> {
    let image = cx.image();
    let inner = "unshare -m -p -f -u sh -c 'mount -t proc proc /proc; mount -t tmpfs inner /mnt; hostname inner; echo mark > /mnt/mark; \
        exec sleep 4321'";
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "outer",
            "--privileged",
            "host",
            "sh",
            "-c",
            inner,
        ],
    )?;
    let outer: i32 = done(cx, &["inspect", "-f", "{{.State.Pid}}", "outer"])?.parse()?;
    let pid = first_below(outer)?;
    let target = format!("pid:{pid}");
    let script =
        "cat /target/mnt/mark; hostname; tr '\\0' ' ' < /proc/1/cmdline; test ! -e /mnt/mark && echo apart";
    debug(cx, &["--tools", &image, &target, "sh", "-c", script])?
        .prints("mark\ninner\nsleep 4321 apart\n")?;
    // The outer one is as it was, and has another name.
    debug(
        cx,
        &[
            "--tools",
            &image,
            "outer",
            "sh",
            "-c",
            "test \"$(hostname)\" != inner && echo other",
        ],
    )?
    .prints("other\n")?;
    done(cx, &["rm", "-f", "outer"])?;
    Ok(())
}

/// Waits for the process `sleep` below a process, and returns it.
fn first_below(outer: i32) -> Result<i32> {
    let deadline = Instant::now() + patience();
    loop {
        let found = processes::descendants(outer).into_iter().find(|process| {
            let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            command.starts_with(b"sleep\0")
        });
        if let Some(found) = found {
            return Ok(found.pid);
        }
        ensure!(Instant::now() < deadline, "the inner container does not run");
    }
}

/// Runs tote with these words in a container that may do everything.
fn inside(cx: &Context, options: &[&str], words: &str) -> Result<Output> {
    let binary = format!("{}:/tote:ro", cx.binary().display());
    let options = [&["--privileged", "-v", &binary], options].concat();
    cx.shell(
        &options,
        &format!("/tote --root /tmp/state debug --tools rootfs:/ {words}"),
    )
}

fn to_the_machine(cx: &Context) -> Result<()> {
    let mark = cx.file("mark", "of the machine\n")?;
    let own = std::process::id();
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let script =
        format!("cat /target{mark}; hostname; echo written >> /target{mark}; test ! -e {mark} && echo apart");
    inside(cx, &["--pid", "host"], &format!("pid:{own} sh -c '{script}'"))?
        .has_out(&format!("of the machine\n{name}apart\n"))?;
    ensure!(fs::read_to_string(&mark)? == "of the machine\nwritten\n");
    Ok(())
}

fn to_another(cx: &Context) -> Result<()> {
    let container = running(cx, &["--hostname", "other"])?;
    cx.tote(&["exec", "c", "sh", "-c", "echo own > /own"])
        .output()?
        .exits(0)?;
    let script = "cat /target/own; hostname; test ! -e /own && echo apart";
    inside(cx, &["--pid", "container:c"], &format!("pid:1 sh -c '{script}'"))?
        .has_out("own\nother\napart\n")?;
    over(container)
}

/// `/bin` and `/usr/bin` are two directories with other programs, and `/lib` is a directory as well.
fn split_usr(cx: &Context) -> Result<()> {
    let (dir, split) = cx.own_rootfs("split")?;
    fs::create_dir_all(dir.join("lib"))?;
    fs::write(dir.join("lib/only-here"), "lib\n")?;
    fs::copy(dir.join("bin/busybox"), dir.join("usr/bin/busybox"))?;
    for name in ["tac", "wc"] {
        symlink("busybox", dir.join("usr/bin").join(name))?;
    }
    let layout = |at: &str| {
        format!(
            "test -L {at}/bin || echo bin; test -L {at}/lib || echo lib; cat {at}/lib/only-here; \
             echo x | {at}/bin/cat; echo y | {at}/usr/bin/tac"
        )
    };
    let expected = "bin\nlib\nlib\nx\ny\n";
    // As the tools, beside a container of the usual image.
    let container = running(cx, &[])?;
    debug(cx, &["--tools", &split, "c", "sh", "-c", &layout("")])?.prints(expected)?;
    let script = "test -L /bin || echo bin; echo z | tac";
    debug(
        cx,
        &["--tools", &split, "--view", "target", "c", "sh", "-c", script],
    )?
    .prints("bin\nz\n")?;
    over(container)?;
    // As the container, with the tools of this machine.
    done(cx, &["run", "-d", "--name", "s", &split, "sleep", "1000"])?;
    debug(cx, &["s", "sh", "-c", &layout("/target")])?.prints(expected)?;
    debug(cx, &["--view", "target", "s", "sh", "-c", &layout("")])?.prints(expected)?;
    done(cx, &["rm", "-f", "s"])?;
    Ok(())
}

/// The container has one static program and nothing else, the tools are a Debian with its dynamic ones.
fn debian(cx: &Context) -> Result<()> {
    // Debian's programs need no configuration to run, which would take most of a minute.
    let packages = "base-files,bash,coreutils,dpkg,grep,perl-base,procps,strace";
    let words = format!("image bootstrap --variant extract --packages {packages} -t tools:1 debian:bookworm");
    let words: Vec<&str> = words.split(' ').collect();
    done(cx, &words)?;
    let empty = cx.directory("scratch")?;
    fs::copy(cx.shared_rootfs().join("bin/busybox"), format!("{empty}/sleep")).context("copy the program")?;
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "s",
            &format!("rootfs:{empty}"),
            "/sleep",
            "1000",
        ],
    )?;
    let script = "ps -o comm= -p 1; ls /target | tr '\\n' ' '; echo; . /etc/os-release; echo $ID; \
        timeout 3 strace -p 1 2>&1 | head -n 1; perl -e 'print 6 * 7, qq(\\n)'; dpkg --print-architecture | wc -l";
    let expected = "sleep\ndev etc proc sleep sys \ndebian\nstrace: Process 1 attached\n42\n1\n";
    debug(cx, &["--tools", "tools:1", "s", "bash", "-c", script])?.prints(expected)?;
    let script = "test -x /sleep && ps -o comm= -p 1; perl -e 'print 6 * 7, qq(\\n)'";
    debug(
        cx,
        &[
            "--tools", "tools:1", "--view", "target", "s", "bash", "-c", script,
        ],
    )?
    .prints("sleep\n42\n")?;
    // An image is opened with them as well.
    let name = format!("rootfs:{empty}");
    debug(
        cx,
        &[
            "--tools",
            "tools:1",
            &name,
            "bash",
            "-c",
            "ls /target | grep sleep",
        ],
    )?
    .prints("sleep\n")?;
    done(cx, &["rm", "-f", "s"])?;
    Ok(())
}
