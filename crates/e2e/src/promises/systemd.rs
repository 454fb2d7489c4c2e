//! The host's init starts containers; the test plays the init.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::invocation::Invocation;
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::fs;
use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};

const PROBE: Need = Need::Program("gcc");

pub(super) const TESTS: &[Test] = &[
    test("systemd::a_program_says_that_it_is_ready", &[PROBE], ready),
    test("systemd::in_the_background_and_once_more", &[PROBE], background),
    test("systemd::tote_says_it_for_the_program", &[], conmon),
    test("systemd::ready_when_healthy", &[], healthy),
    test("systemd::a_monitor_is_the_inits_own_child", &[], own_child),
    test("systemd::nothing_is_said", &[], ignore),
    test("systemd::the_monitor_ends_as_the_container_did", &[], exit_code),
    test("systemd::sockets_are_passed_on", &[PROBE], sockets),
    test("systemd::sockets_outlive_a_restart", &[PROBE], restarted),
];

/// Notification socket of an init.
struct Init {
    socket: UnixDatagram,
    name: String,
}

impl Init {
    fn new(cx: &Context) -> Result<Self> {
        let name = cx.path("notify")?;
        let socket = UnixDatagram::bind(&name)?;
        Self::of(socket, name)
    }

    fn hidden(cx: &Context) -> Result<Self> {
        let name = cx.path("notify")?;
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Self::of(socket, format!("@{name}"))
    }

    fn of(socket: UnixDatagram, name: String) -> Result<Self> {
        socket.set_read_timeout(Some(patience()))?;
        Ok(Self { socket, name })
    }

    fn starts(&self, command: Invocation) -> Invocation {
        command.env("NOTIFY_SOCKET", &self.name)
    }

    fn hears(&self) -> Result<String> {
        let mut text = [0; 4096];
        let length = self
            .socket
            .recv(&mut text)
            .context("the init has heard nothing")?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    fn hears_exactly(&self, expected: &str) -> Result<()> {
        let heard = self.hears()?;
        ensure!(heard == expected, "the init heard {heard:?}, not {expected:?}");
        Ok(())
    }

    /// Receives the process that the init is to take for the main one.
    fn main_process(&self) -> Result<i32> {
        let heard = self.hears()?;
        let pid = heard.strip_prefix("MAINPID=").context(heard.clone())?;
        Ok(pid.parse()?)
    }

    fn hears_no_more(&self) -> Result<()> {
        self.socket.set_nonblocking(true)?;
        let heard = self.hears();
        self.socket.set_nonblocking(false)?;
        ensure!(heard.is_err(), "the init heard also {heard:?}");
        Ok(())
    }
}

fn state(cx: &Context) -> Result<serde_json::Value> {
    let mut dirs = fs::read_dir(cx.root().join("containers"))?;
    let dir = dirs.next().context("there is no container")??.path();
    Ok(serde_json::from_slice(&fs::read(dir.join("state.json"))?)?)
}

fn done(cx: &Context, words: &[&str]) -> Result<()> {
    cx.tote(words).output()?.exits(0)?;
    Ok(())
}

fn ready(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let said = "MAINPID=77\nREADY=1\nSTATUS=up";
    let running = init
        .starts(cx.run_command(&[&cx.image(), "probe", "notify", said]))
        .spawn()?;
    let pid = running.pid();
    ensure!(
        init.main_process()? == pid,
        "the main process is the one that was started"
    );
    init.hears_exactly("READY=1\nSTATUS=up")?;
    running.finish()?.exits(0)?;
    init.hears_no_more()
}

fn background(cx: &Context) -> Result<()> {
    let init = Init::hidden(cx)?;
    let script = "probe notify READY=1 && exec sleep 1000";
    let image = cx.image();
    let run = cx.tote(&["run", "-d", "--name", "c", &image, "sh", "-c", script]);
    init.starts(run).output()?.exits(0)?;
    for again in [false, true] {
        if again {
            init.starts(cx.tote(&["start", "c"])).output()?.exits(0)?;
        }
        let monitor = state(cx)?["monitor"]["pid"].as_i64();
        ensure!(
            Some(i64::from(init.main_process()?)) == monitor,
            "the main process is the monitor"
        );
        init.hears_exactly("READY=1")?;
        done(cx, &["stop", "-t", "0", "c"])?;
    }
    done(cx, &["start", "c"])?;
    init.hears_no_more()?;
    done(cx, &["rm", "-f", "c"])
}

fn conmon(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let image = cx.image();
    let run = cx.run_command(&["--sdnotify=conmon", &image, "sh", "-c", "echo $NOTIFY_SOCKET"]);
    let running = init.starts(run).spawn()?;
    let pid = running.pid();
    init.hears_exactly(&format!("MAINPID={pid}\nREADY=1"))?;
    running.finish()?.prints("\n")?;
    let created = cx.tote(&["create", "--name", "c", &image, "true"]).output()?;
    created.exits(0)?;
    let start = cx.tote(&["start", "-a", "--sdnotify", "conmon", "c"]);
    init.starts(start).output()?.exits(0)?;
    let heard = init.hears()?;
    ensure!(
        heard.starts_with("MAINPID=") && heard.ends_with("\nREADY=1"),
        "{heard:?}"
    );
    done(cx, &["rm", "c"])?;
    cx.tote(&["run", "--sdnotify=maybe", &image, "true"])
        .output()?
        .refuses(125, &["sdnotify", "maybe"])?;
    Ok(())
}

/// systemd waits only for the ends of its own children, and kills any other main process when the service stops.
fn own_child(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let image = cx.image();
    // The command in the foreground stays as long as the monitor.
    let run = cx.run_command(&["-i", "--sdnotify=conmon", "--health-cmd", "true", &image, "cat"]);
    let running = init.starts(run).spawn()?;
    let heard = init.hears()?;
    let pid = heard.lines().find_map(|line| line.strip_prefix("MAINPID="));
    let pid: i32 = pid.context(heard.clone())?.parse()?;
    let monitor = processes::all().into_iter().find(|process| process.pid == pid);
    let parent = monitor.context("the main process is gone")?.parent;
    ensure!(
        pid != running.pid() && parent != running.pid(),
        "the main process {pid} is a child of {parent}, the command {}",
        running.pid()
    );
    running.finish()?.exits(0)?;
    Ok(())
}

fn healthy(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let (image, shared) = (cx.image(), cx.directory("shared")?);
    let volume = format!("{shared}:/shared");
    let without = cx.tote(&["run", "--rm", "--sdnotify=healthy", &image, "true"]);
    without.output()?.refuses(125, &["healthcheck"])?;
    let words = [
        "run",
        "--rm",
        "--name",
        "c",
        "--sdnotify=healthy",
        "--health-cmd",
        "test -e /shared/well",
        "--health-interval",
        "10ms",
        "-v",
        &volume,
        &image,
        "sleep",
        "1000",
    ];
    let running = init.starts(cx.tote(&words)).spawn()?;
    init.main_process()?;
    init.hears_no_more()?;
    fs::write(cx.scratch().join("shared/well"), "")?;
    init.hears_exactly("READY=1")?;
    done(cx, &["stop", "-t", "0", "c"])?;
    running.finish()?.exits(137)?;
    init.hears_no_more()
}

fn ignore(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let image = cx.image();
    let run = cx.run_command(&["--sdnotify", "ignore", &image, "sh", "-c", "echo $NOTIFY_SOCKET"]);
    init.starts(run).output()?.prints("\n")?;
    init.hears_no_more()?;
    let run = cx.run_command(&[&image, "true"]);
    run.env("NOTIFY_SOCKET", "here")
        .output()?
        .warns_once("notify_socket")?;
    Ok(())
}

fn exit_code(cx: &Context) -> Result<()> {
    let init = Init::new(cx)?;
    let image = cx.image();
    let run = cx.tote(&["run", "-d", "--rm", &image, "sh", "-c", "exit 3"]);
    init.starts(run).output()?.exits(0)?;
    let monitor = Pid::from_raw(init.main_process()?);
    // The test is a subreaper, as an init is.
    let (_, status) = waitpid(monitor, WaitOptions::empty())?.context("nobody to wait for")?;
    ensure!(status.exit_status() == Some(3), "the monitor's end: {status:?}");
    Ok(())
}

/// Sockets as for a service: those of the command's standard input become descriptors 3 and 4.
const ACTIVATE: &str = r#"exec 3<&0 4<&0 9<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:admin; exec "$@""#;

fn activated(cx: &Context, listener: &UnixListener, words: &[&str]) -> Result<Running> {
    let command = cx.tote(words).under(&["sh", "-c", ACTIVATE, "sh"]);
    command.spawn_with(listener.try_clone()?)
}

fn answers(name: &str, expected: &str) -> Result<()> {
    let mut stream = UnixStream::connect(name)?;
    stream.set_read_timeout(Some(patience()))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(text == expected, "the service says {text:?}, not {expected:?}");
    Ok(())
}

fn sockets(cx: &Context) -> Result<()> {
    const HANDED: &str = "fds=2 mine=yes names=web:admin open= 3 4\n";
    let (image, name) = (cx.image(), cx.path("listener")?);
    let listener = UnixListener::bind(&name)?;
    for options in [
        &["run", "--rm"][..],
        &["run", "--rm", "--init"],
        &["run", "--rm", "-d"],
        &["create", "--name", "c"],
    ] {
        let words = [options, &[&image, "probe", "serve"]].concat();
        let mut running = activated(cx, &listener, &words)?;
        if options[0] == "create" {
            running.finish()?.exits(0)?;
            running = activated(cx, &listener, &["start", "-a", "c"])?;
        }
        answers(&name, HANDED)?;
        running.finish()?.exits(0)?;
    }
    done(cx, &["wait", "c"])?;
    done(cx, &["rm", "c"])?;
    let closed = r#"export LISTEN_PID=$$ LISTEN_FDS=900; exec "$@""#;
    let run = cx
        .run_command(&[&image, "true"])
        .under(&["sh", "-c", closed, "sh"]);
    run.output()?.refuses(125, &["is not open", "LISTEN_FDS"])?;
    let other = r#"export LISTEN_PID=1 LISTEN_FDS=2; exec "$@""#;
    let run = cx
        .run_command(&[&image, "sh", "-c", "echo $LISTEN_FDS"])
        .under(&["sh", "-c", other, "sh"]);
    run.output()?.prints("\n")?;
    Ok(())
}

fn restarted(cx: &Context) -> Result<()> {
    let (image, name) = (cx.image(), cx.path("listener")?);
    let listener = UnixListener::bind(&name)?;
    let words = [
        "run",
        "-d",
        "--restart",
        "always",
        "--name",
        "c",
        &image,
        "probe",
        "serve",
    ];
    activated(cx, &listener, &words)?.finish()?.exits(0)?;
    // Each connection is answered by another process.
    for _ in 0..3 {
        answers(&name, "fds=2 mine=yes names=web:admin open= 3 4\n")?;
    }
    done(cx, &["rm", "-f", "c"])
}
