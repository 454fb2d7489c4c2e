//! `tote debug --view target`: the container's tree as the root, with tools in a directory of it.

use super::debug::debug;
use super::exec::{over, running};
use super::life::done;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need::Program;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

pub(super) const TESTS: &[Test] = &[
    test("debug_view::the_root_can_be_the_containers", &[], root),
    test(
        "debug_view::behind_debug_a_root_is_not_the_directory_for_containers",
        &[],
        spelled_as_root,
    ),
    test(
        "debug_view::in_the_containers_root_nothing_of_it_changes",
        &[],
        untouched,
    ),
    test(
        "debug_view::this_machines_programs_run_where_no_linker_is",
        &[],
        dynamic,
    ),
    test(
        "debug_view::tools_have_their_own_libraries_beside_others",
        &[],
        beside,
    ),
    test(
        "debug_view::python_and_its_scripts_find_their_modules",
        &[Program("python3")],
        python,
    ),
    test(
        "debug_view::a_debugger_and_a_tracer_stop_the_first_process",
        &[Program("gdb"), Program("strace")],
        debugger,
    ),
    test(
        "debug_view::an_editor_finds_its_files_and_terminal",
        &[Program("vim")],
        editor,
    ),
    test("debug_view::names_of_this_machine_do_not_show", &[], names),
    test(
        "debug_view::sockets_are_beside_the_tools",
        &[Program("python3")],
        sockets,
    ),
];

fn in_root(cx: &Context, words: &[&str]) -> Result<Output> {
    debug(cx, &[&["--view", "target", "c"], words].concat())
}

fn root(cx: &Context) -> Result<()> {
    let (tools, image) = cx.own_rootfs("tools")?;
    fs::write(tools.join("bin/only-here"), "#!/bin/sh\necho tool $0\n")?;
    fs::set_permissions(tools.join("bin/only-here"), PermissionsExt::from_mode(0o755))?;
    let container = running(cx, &["-e", "PATH=/special:/bin"])?;
    let view = ["--view", "target", "--tools", &image, "c"];
    let script = "echo $TARGET; pwd; only-here; echo $PATH | cut -d: -f1,2; echo by session > /etc/mark; \
        test -e /.tote/bin/busybox && echo beside; test -w /.tote/bin && echo scratch > /.tote/bin/scratch; test -d /proc/1 && echo proc";
    debug(cx, &[&view[..], &["sh", "-c", script]].concat())?
        .prints("/\n/\ntool /.tote/.tools/bin/only-here\n/special:/bin\nbeside\nproc\n")?
        .quietly()?;
    cx.tote(&["exec", "c", "cat", "/etc/mark"])
        .output()?
        .prints("by session\n")?;
    ensure!(
        !tools.join("bin/scratch").exists(),
        "the session has written to the tools"
    );
    debug(cx, &[&["-c", "echo own shell"], &view[..]].concat())?.prints("own shell\n")?;
    debug(cx, &["--view", "none", "c", "true"])?.refuses(125, &["--view", "target"])?;
    over(container)?;
    // A container without any program of its own.
    let empty = cx.directory("empty")?;
    fs::write(format!("{empty}/only"), "file\n")?;
    let name = format!("rootfs:{empty}");
    debug(
        cx,
        &[
            "--view",
            "target",
            "--tools",
            &image,
            &name,
            "sh",
            "-c",
            "cat /only; ls /",
        ],
    )?
    .has_out("file\n")?
    .quietly()?;
    Ok(())
}

/// `--root target` is `--view target`, also where the directory for containers is called `target`.
fn spelled_as_root(cx: &Context) -> Result<()> {
    let image = cx.image();
    let show = [
        "--tools",
        &image,
        &image,
        "sh",
        "-c",
        "echo $TARGET; ls -d /.tote",
    ];
    for spelling in [&["--root", "target"][..], &["--root=target"]] {
        debug(cx, &[spelling, &show].concat())?.prints("/\n/.tote\n")?;
    }
    let show = ["--root", "tools", &image, "sh", "-c", "echo $TARGET"];
    debug(cx, &show)?.prints("/target\n")?;
    let own = |words: &[&str]| {
        let binary = cx.binary().to_string_lossy();
        Invocation::new([&[&*binary], words].concat())
            .env("HOME", cx.scratch())
            .within(cx.scratch())
            .output()
    };
    let words = [
        "--root", "target", "debug", "--root", "target", "--tools", &image, &image,
    ];
    own(&[&words[..], &["sh", "-c", "echo $TARGET"]].concat())?.prints("/\n")?;
    ensure!(cx.scratch().join("target").is_dir(), "the directory is not there");
    debug(cx, &["--root", "/some/where", &image, "true"])?
        .refuses(125, &["/some/where", "tote --root /some/where debug"])?;
    Ok(())
}

fn untouched(cx: &Context) -> Result<()> {
    let (image, container) = (cx.image(), running(cx, &[])?);
    let init = processes::container_init(container.pid())?;
    let mounts = || fs::read_to_string(format!("/proc/{init}/mountinfo"));
    let before = mounts()?;
    let script =
        "echo x > /new; mkdir /dir; umount /.tote; mount -t tmpfs none /.tote; ls -A / | tr '\\n' ' '";
    debug(
        cx,
        &["--view", "target", "--tools", &image, "c", "sh", "-c", script],
    )?
    .has_out("new")?;
    ensure!(mounts()? == before, "the container's mounts have changed");
    let look = "test ! -e /new && test ! -e /dir && test ! -e /.tote && echo untouched";
    cx.tote(&["exec", "c", "sh", "-c", look])
        .output()?
        .prints("untouched\n")?;
    over(container)
}

fn dynamic(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    // The image has a static busybox and no library.
    let script = "echo ${BASH_VERSION:+bash} $0 $1; test -e /lib64 || echo no linker; find --version | head -n 1 | cut -d ' ' -f 2";
    in_root(cx, &["bash", "-c", script, "name", "word"])?
        .prints("bash name word\nno linker\n(GNU\n")?
        .quietly()?;
    // A program of the tools starts another one, by its place as well as by its name.
    in_root(
        cx,
        &["bash", "-c", "/.tote/usr/bin/env bash -c 'echo $((6 * 7))'"],
    )?
    .prints("42\n")?;
    in_root(cx, &["bash", "-c", "exit 9"])?.exits(9)?;
    in_root(cx, &["bash", "-c", "kill -9 $$"])?.exits(137)?;
    in_root(cx, &["no-such-tool"])?.refuses(127, &["no-such-tool", "not found"])?;
    over(container)
}

/// In a container with a libc of its own, be it another one than the tools', each program takes the right one.
fn beside(cx: &Context) -> Result<()> {
    let (target, image) = cx.own_rootfs("other")?;
    for dir in ["lib64", "usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"] {
        fs::create_dir_all(target.join(dir))?;
        for library in ["libc.so.6", "ld-linux-x86-64.so.2", "libtinfo.so.6"] {
            let path = target.join(dir).join(library);
            fs::write(&path, "damaged")?;
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        }
    }
    let script =
        "echo ${BASH_VERSION:+bash}; cat /lib64/libc.so.6; echo; cat --version 2>&1 | grep -c GNU; true";
    debug(cx, &["--view", "target", &image, "bash", "-c", script])?
        .prints("bash\ndamaged\n0\n")?
        .quietly()?;
    Ok(())
}

fn python(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let script =
        "import json, os, sys; print(json.dumps([sys.prefix, os.path.exists('/usr/lib'), sys.argv[1:]]))";
    in_root(cx, &["python3", "-c", script, "a b"])?
        .has_out("[\"/.tote/")?
        .has_out("false, [\"a b\"]]")?
        .quietly()?;
    // A program that Python starts, and a script of Debian's tools.
    let script = "import subprocess; print(subprocess.check_output(['bash', '-c', 'echo $BASH_VERSION | wc -l'], text=True))";
    in_root(cx, &["python3", "-c", script])?
        .has_out("1\n")?
        .quietly()?;
    over(container)
}

fn debugger(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    in_root(cx, &["gdb", "-nx", "-batch", "-p", "1", "-ex", "info inferiors"])?
        .exits(0)?
        .has_out("process 1")?
        .has_out("detached")?;
    in_root(
        cx,
        &[
            "strace",
            "-o",
            "/dev/stdout",
            "-e",
            "trace=execve",
            "bash",
            "-c",
            "exit 3",
        ],
    )?
    .exits(3)?
    .has_out("execve(\"/.tote/usr/bin/bash\"")?;
    over(container)
}

fn editor(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let (mut session, _window) = cx
        .tote(&[
            "debug",
            "--view",
            "target",
            "-e",
            "TERM=xterm",
            "c",
            "vim",
            "/etc/edited",
        ])
        .spawn_in_terminal(20, 80)?;
    session.expect("/etc/edited")?;
    session.send(b"ia line\x1b:wq\r");
    ensure!(session.wait()? == 0, "vim has failed");
    cx.tote(&["exec", "c", "cat", "/etc/edited"])
        .output()?
        .prints("a line\n")?;
    in_root(
        cx,
        &["sh", "-c", "test -e $VIMRUNTIME/defaults.vim && echo there"],
    )?
    .prints("there\n")?;
    over(container)
}

fn names(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let shown = in_root(cx, &["ls", "/.tote"])?;
    // The image `host` shows what every machine has.
    let known = done(cx, &["run", "--rm", "host", "ls", "/"])?;
    for name in shown.exits(0)?.out().lines() {
        ensure!(known.lines().any(|line| line == name), "{name} is shown");
    }
    over(container)
}

/// Reads the cookie, and connects to the display.
const CLIENT: &str = "
import os, socket, sys
cookies = open(os.environ['XAUTHORITY'], 'rb').read()
s = socket.socket(socket.AF_UNIX)
display = os.environ['DISPLAY']
s.connect(display if display[0] == '/' else '/tmp/.X11-unix/X' + display[1:])
s.sendall(cookies)
s.shutdown(socket.SHUT_WR)
o = socket.socket(socket.AF_UNIX)
o.connect(sys.argv[1])
# Behind it comes a cookie of the session's own.
print(s.recv(99)[:-3])
";

fn sockets(cx: &Context) -> Result<()> {
    let path = cx.path("x")?;
    super::debug_forward::serve(UnixListener::bind(&path).context("listen")?);
    let cookies = cx.path("cookies")?;
    let kind = b"MIT-MAGIC-COOKIE-1";
    let entry = [&[255, 255, 0, 0, 0, 0, 0, 18], &kind[..], &[0, 3], b"key"].concat();
    fs::write(&cookies, &entry)?;
    let container = running(cx, &[])?;
    let expected = "b'\\xff\\xff\\x00\\x00\\x00\\x00\\x00\\x12MIT-MAGIC-COOKIE-1\\x00\\x03'\n";
    for (view, place) in [("tools", ""), ("target", "/.tote/.run")] {
        let second = format!("{place}{path}");
        let words = [
            "debug",
            "--view",
            view,
            "--forward",
            "x11",
            "--forward",
            &path,
            "c",
            "python3",
            "-c",
            CLIENT,
            &second,
        ];
        let session = cx.tote(&words).env("DISPLAY", &path).env("XAUTHORITY", &cookies);
        session.output()?.prints(expected)?.quietly()?;
    }
    // The container's own tree has got nothing.
    cx.tote(&["exec", "c", "test", "!", "-e", "/.tote"])
        .output()?
        .exits(0)?;
    let without = cx
        .tote(&[
            "debug",
            "--forward",
            "x11",
            "c",
            "sh",
            "-c",
            "echo ${XAUTHORITY:-none}",
        ])
        .env("DISPLAY", &path)
        .env("XAUTHORITY", "/no/such");
    without.output()?.prints("none\n")?;
    over(container)
}
