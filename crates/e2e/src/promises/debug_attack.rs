//! `tote debug`: what a hostile container tries with the session of its operator.

use super::debug::debug;
use super::debug_forward::{free_port, serve};
use super::exec::{over, running};
use super::life::done;
use crate::context::Context;
use crate::exchange::Running;
use crate::invocation::Invocation;
use crate::need::Need::Program;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_attack::nothing_of_the_container_runs_in_the_tools",
        &[Program("gcc")],
        environment,
    ),
    test(
        "debug_attack::the_containers_users_lead_no_tool_into_it",
        &[],
        accounts,
    ),
    test(
        "debug_attack::with_more_rights_its_environment_and_its_root_are_refused",
        &[],
        refused,
    ),
    test(
        "debug_attack::a_kept_layer_is_only_for_sessions_with_its_rights",
        &[Program("gcc")],
        kept,
    ),
    test(
        "debug_attack::sockets_answer_the_session_alone",
        &[Program("gcc"), Program("python3")],
        sockets,
    ),
    test(
        "debug_attack::a_cookie_is_good_in_the_session_alone",
        &[Program("python3")],
        cookie,
    ),
    test(
        "debug_attack::a_command_does_not_steer_the_terminal",
        &[],
        entrypoint,
    ),
    test(
        "debug_attack::one_who_may_trace_the_session_is_named",
        &[],
        tracer,
    ),
];

/// A library that says in the container's root where it was loaded.
const LIBRARY: &str = r#"
#include <stdio.h>
__attribute__((constructor)) static void loaded(void)
{
	FILE *mark = fopen("/target/loaded", "a");
	if (mark)
		fputs("here\n", mark), fclose(mark);
}
"#;

/// Makes the library in a directory that the container has at /mnt. Returns the volume.
fn library(cx: &Context) -> Result<String> {
    let (dir, source) = (cx.directory("hostile")?, cx.file("library.c", LIBRARY)?);
    let library = format!("{dir}/library.so");
    let compile = ["gcc", "-shared", "-fPIC", "-o", &library, &source];
    Invocation::new(compile).output()?.exits(0)?;
    fs::write(format!("{dir}/settings"), "echo settings >>/target/loaded\n")?;
    Ok(format!("{dir}:/mnt:ro"))
}

/// Fails if something of the container has run in a session.
fn nothing_ran(cx: &Context, what: &str) -> Result<()> {
    let look = "cat /loaded 2>/dev/null || echo nothing";
    let out = cx.tote(&["exec", "c", "sh", "-c", look]).output()?.out();
    ensure!(out == "nothing\n", "{what}: {out}");
    Ok(())
}

fn environment(cx: &Context) -> Result<()> {
    let volume = library(cx)?;
    let hostile = [
        "LD_PRELOAD=/target/mnt/library.so",
        "BASH_ENV=/target/mnt/settings",
        "ENV=/target/mnt/settings",
        "PROMPT_COMMAND=. /target/mnt/settings",
        "PATH=/target/mnt:/bin",
    ];
    let mut options = vec!["-v", &volume, "-e", "MARK=theirs"];
    options.extend(hostile.iter().flat_map(|line| ["-e", line]));
    let container = running(cx, &options)?;
    let target = format!("pid:{}", processes::container_init(container.pid())?);
    let script = "id -u; bash -c :; echo ${MARK:-none} $HOME";
    for rights in [
        &[][..],
        &["--privileged"],
        &["--cap-add", "KILL"],
        &["--no-cgroup"],
    ] {
        for target in ["c", &target] {
            debug(cx, &[rights, &[target, "bash", "-c", script]].concat())?.prints("0\nnone /root\n")?;
        }
        let (mut session, _window) = cx
            .tote(&[&["debug"], rights, &["--shell", "bash", "c"]].concat())
            .env("TERM", "vt100")
            .spawn_in_terminal(20, 80)?;
        session.send(b"echo te\"\"rm $TERM; exit 4\n");
        session.expect("term vt100")?;
        ensure!(session.wait()? == 4);
        nothing_ran(cx, &format!("{rights:?}"))?;
    }
    // The container's own program has them, and on request the tools: the attack is one.
    let shown = "c tote exec env";
    let words: Vec<&str> = shown.split(' ').collect();
    let of_program = debug(cx, &words)?;
    for line in &hostile[..4] {
        of_program.has_out(&format!("{line}\n"))?;
    }
    debug(
        cx,
        &["-e", "MARK=mine", "c", "tote", "exec", "sh", "-c", "echo $MARK"],
    )?
    .prints("mine\n")?;
    nothing_ran(cx, "tote exec")?;
    debug(cx, &["--env-of-container", "c", "sh", "-c", "echo $MARK"])?.prints("theirs\n")?;
    ensure!(nothing_ran(cx, "on request").is_err(), "the library is no attack");
    over(container)
}

fn accounts(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let lines = "root:x:0:0:root:/target/h:/target/h/shell\nalice\\033[2J:x:7:7::/:/bin/sh\nbob:x:8:8::/target/h:/bin/sh\n";
    let prepare =
        format!("mkdir /h; echo 'echo settings >>/target/loaded' >/h/.bashrc; printf '{lines}' >/etc/passwd");
    done(cx, &["exec", "c", "sh", "-c", &prepare])?;
    let (mut session, _window) = cx
        .tote(&["debug", "--privileged", "--shell", "bash", "c"])
        .spawn_in_terminal(20, 80)?;
    session.send(b"echo a\"\"t ~ ~root ~bob; exit 4\n");
    session.expect("at /root /root /\r\n")?;
    ensure!(session.wait()? == 4);
    nothing_ran(cx, "settings at a home")?;
    debug(cx, &["c", "cat", "/etc/passwd"])?
        .prints("root:x:0:0:root:/root:/bin/sh\nbob:x:8:8::/:/bin/sh\n")?;
    debug(cx, &["-u", "bob", "c", "sh", "-c", "echo $HOME"]).map(drop)?;
    // A file that is too long for a copy is not shown in its place.
    let long = "i=0; while [ $i -lt 22 ]; do cat /etc/passwd /etc/passwd >/p; mv /p /etc/passwd; i=$((i + 1)); \
        [ $(stat -c %s /etc/passwd) -gt 1048576 ] && break; done; echo long";
    ensure!(done(cx, &["exec", "c", "sh", "-c", long])?.trim() == "long");
    debug(cx, &["c", "grep", "-c", "target", "/etc/passwd"])?.has_out("0\n")?;
    over(container)
}

fn refused(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    for rights in [
        &["--privileged"][..],
        &["--cap-add", "NET_ADMIN"],
        &["--no-cgroup"],
    ] {
        for (option, hint) in [
            (&["--env-of-container"][..], "with -e"),
            (&["--view", "target"], "/target"),
            (&["--root", "target"], "/target"),
        ] {
            debug(cx, &[rights, option, &["c", "true"]].concat())?
                .refuses(125, &[&rights.join(" "), "the container would have these rights"])?
                .has_err(hint)?;
        }
        debug(cx, &[rights, &["c", "true"]].concat())?.exits(0)?;
    }
    over(container)
}

/// Starts a session that waits, in a container `k`.
fn waiting(cx: &Context, options: &[&str]) -> Result<Running> {
    let wait = ["k", "sh", "-c", "echo up; read line"];
    let mut session = cx.tote(&[&["debug"], options, &wait].concat()).spawn()?;
    session.expect("up\n")?;
    Ok(session)
}

/// From a program of the container: writes where sessions look for libraries that they load, in each session it can reach into.
const PLANT: &str = "for process in /proc/[0-9]*; do [ -d $process/root/.tote ] && \
    echo /target/mnt/library.so >$process/root/etc/ld.so.preload && echo planted; done 2>/dev/null; true";

fn kept(cx: &Context) -> Result<()> {
    let (volume, image) = (library(cx)?, cx.image());
    let run = ["run", "-d", "--name", "k", "-v", &volume, &image, "sleep", "1000"];
    done(cx, &run)?;
    let mut session = waiting(cx, &["--keep"])?;
    done(cx, &["exec", "k", "sh", "-c", PLANT]).map(drop)?;
    session.send(b"\n");
    session.wait()?;
    let loaded = || cx.tote(&["exec", "k", "cat", "/loaded"]).output();
    // Sessions without more rights than the container are open to it, and so is their layer: the attack is one.
    debug(cx, &["--keep", "k", "test", "-s", "/etc/ld.so.preload"])?.exits(0)?;
    loaded()?.exits(0)?;
    done(cx, &["exec", "k", "rm", "/loaded"])?;
    for rights in [
        &["--privileged"][..],
        &["--cap-add", "KILL,SYS_TIME"],
        &["--no-cgroup"],
        &["--privileged", "--no-cgroup"],
    ] {
        let script = "test ! -e /etc/ld.so.preload && test ! -e /etc/own && echo own > /etc/own";
        debug(cx, &[rights, &["--keep", "k", "sh", "-c", script]].concat())?.exits(0)?;
        debug(cx, &[rights, &["--keep", "k", "cat", "/etc/own"]].concat())?.prints("own\n")?;
    }
    debug(cx, &["--keep", "k", "test", "!", "-e", "/etc/own"])?.exits(0)?;
    let mut found: Vec<String> = debug(cx, &["--kept", "k"])?
        .out()
        .lines()
        .map(|line| line.split('\t').skip(2).collect())
        .collect();
    found.sort();
    let expected = [
        "",
        "--cap-add KILL,SYS_TIME",
        "--no-cgroup",
        "--privileged",
        "--privileged --no-cgroup",
    ];
    ensure!(found == expected, "{found:?}");
    // A session with more rights is closed to the container while it runs.
    let mut session = waiting(cx, &["--privileged"])?;
    let out = cx.tote(&["exec", "k", "sh", "-c", PLANT]).output()?.out();
    ensure!(!out.contains("planted"), "{out}");
    session.send(b"\n");
    session.wait()?;
    debug(cx, &["--forget", "k"])?.prints("")?;
    debug(cx, &["--kept", "k"])?.prints("")?;
    done(cx, &["rm", "-f", "k"])?;
    Ok(())
}

fn sockets(cx: &Context) -> Result<()> {
    let path = cx.path("s")?;
    serve(UnixListener::bind(&path).context("listen")?);
    let container = running(cx, &[])?;
    let client = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1]); s.sendall(b'mine'); s.shutdown(socket.SHUT_WR)
print(s.recv(9).decode(), flush=True)
sys.stdin.readline()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1]); s.sendall(b'still'); s.shutdown(socket.SHUT_WR)
print(s.recv(9).decode(), flush=True)
";
    // With a port, the relay is in the container's network.
    let port = format!("{}:80", free_port()?);
    for port in [&[][..], &["--port-forward", &port]] {
        let words = ["--forward", &path, "c", "python3", "-c", client, &path];
        let mut session = cx.tote(&[&["debug"], port, &words].concat()).spawn()?;
        session.expect("MINE\n")?;
        let attack = format!(
            "for process in /proc/[0-9]*; do [ -d $process/root/.tote ] && cd $process/root && probe ask .{path} theirs; done 2>/dev/null; true"
        );
        let out = cx.tote(&["exec", "c", "sh", "-c", &attack]).output()?.out();
        ensure!(out == "connected, no answer\n", "{out:?}");
        session.send(b"\n");
        session.expect("STILL\n")?;
        session.finish()?.exits(0)?;
    }
    over(container)
}

/// Greets a display as a client of Xlib does, with the cookie of the session's file; prints the answer and the cookie.
const GREET: &str = "
import os, socket, struct, sys
cookie = open(os.environ['XAUTHORITY'], 'rb').read()[-16:]
s = socket.socket(socket.AF_UNIX)
display = os.environ['DISPLAY']
s.connect(display if display[0] == '/' else '/tmp/.X11-unix/X' + display[1:])
name = b'MIT-MAGIC-COOKIE-1'
s.sendall(struct.pack('<BxHHHHxx', 0x6c, 11, 0, len(name), len(cookie)) + name + b'\\0\\0' + cookie)
print(s.recv(99).decode(), cookie.hex())
";

/// Answers the greeting of one client after the other with the cookie that it has.
fn display(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut greeting = [0; 48];
            let answered = stream
                .read_exact(&mut greeting)
                .and_then(|()| stream.write_all(&greeting[32..]));
            drop(answered);
        }
    });
}

fn cookie(cx: &Context) -> Result<()> {
    const SECRET: &str = "sixteen letters.";
    let path = cx.path("x")?;
    display(UnixListener::bind(&path).context("listen")?);
    let cookies = cx.path("cookies")?;
    let entry = [255, 255, 0, 0, 0, 0, 0, 18];
    let entry = [&entry[..], b"MIT-MAGIC-COOKIE-1", &[0, 16], SECRET.as_bytes()].concat();
    fs::write(&cookies, entry)?;
    let container = running(cx, &[])?;
    let secret: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    for view in ["tools", "target"] {
        let words = [
            "debug",
            "--view",
            view,
            "--forward",
            "x11",
            "c",
            "python3",
            "-c",
            GREET,
        ];
        let session = cx.tote(&words).env("DISPLAY", &path).env("XAUTHORITY", &cookies);
        let out = session.output()?;
        let shown = out.exits(0)?.out();
        let cookie = shown.trim().strip_prefix(SECRET).map(str::trim);
        // The display has got its own cookie, and the session has another one.
        ensure!(
            cookie.is_some_and(|cookie| cookie.len() == 32 && cookie != secret),
            "{}",
            out.transcript()
        );
    }
    over(container)
}

fn entrypoint(cx: &Context) -> Result<()> {
    let image = cx.image();
    let command = "/bin/sh\u{1b}[2J\u{9b}";
    done(cx, &["create", "--name", "still", &image, command, "it's"])?;
    debug(cx, &["still", "entrypoint"])?.prints("$'/bin/sh\\x1b[2J\\xc2\\x9b' 'it'\\''s'\n")?;
    let faults = debug(cx, &["still", "entrypoint", "--lint"])?;
    let text = faults.out();
    let steers = |letter: char| letter.is_control() && letter != '\n';
    ensure!(
        text.contains("cannot be executed") && !text.contains(steers),
        "{text:?}"
    );
    done(cx, &["rm", "still"])?;
    Ok(())
}

fn tracer(cx: &Context) -> Result<()> {
    let container = running(cx, &["--cap-add", "SYS_PTRACE"])?;
    debug(cx, &["c", "true"])?.exits(0)?.quietly()?;
    debug(cx, &["--cap-add", "KILL", "c", "true"])?.quietly()?;
    for rights in [
        &["--privileged"][..],
        &["--cap-add", "SYS_ADMIN"],
        &["--no-cgroup"],
    ] {
        debug(cx, &[rights, &["c", "true"]].concat())?
            .exits(0)?
            .warns_once("can take this session over")?;
    }
    over(container)?;
    let container = running(cx, &[])?;
    for rights in ["--privileged", "--no-cgroup"] {
        debug(cx, &[rights, "c", "true"])?.exits(0)?.quietly()?;
    }
    over(container)
}
