//! `tote debug`: sockets of the machine in a session, and ports of the container outside.

use super::exec::{over, running};
use crate::context::Context;
use crate::need::Need::Program;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_forward::a_hundred_connections_to_a_socket_at_once",
        &[Program("python3")],
        sockets,
    ),
    test(
        "debug_forward::a_hundred_clients_find_each_kind_by_its_variable",
        &[Program("python3")],
        kinds,
    ),
    test(
        "debug_forward::an_agent_is_found_by_its_variable",
        &[Program("python3")],
        agent,
    ),
    test(
        "debug_forward::a_port_that_was_never_published",
        &[Program("python3")],
        port,
    ),
    test(
        "debug_forward::a_port_is_heard_only_here",
        &[Program("python3")],
        loopback,
    ),
    test("debug_forward::mistakes_are_named", &[], mistakes),
];

/// Answers each connection with what it sends, in capitals, when the client has ended its side.
pub(super) fn serve(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut text = Vec::new();
                // A client that fails says so itself.
                let answered = stream
                    .read_to_end(&mut text)
                    .and_then(|_| stream.write_all(&text.to_ascii_uppercase()));
                drop(answered);
            });
        }
    });
}

/// Makes that many connections at once, and lets each send its number in a large text.
const CLIENTS: &str = "
import socket, sys, threading
failed = []
def client(number):
    try:
        text = (b'%d ' % number) * 20000
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[1])
        started.wait()
        threading.Thread(target=lambda: (s.sendall(text), s.shutdown(socket.SHUT_WR))).start()
        got = b''
        while True:
            part = s.recv(65536)
            if not part: break
            got += part
        if got != text.upper(): failed.append(number)
    except OSError as error:
        failed.append((number, error))
started = threading.Barrier(100)
threads = [threading.Thread(target=client, args=[n]) for n in range(100)]
[t.start() for t in threads]
[t.join() for t in threads]
print('failed:', failed) if failed else print('all')
";

fn sockets(cx: &Context) -> Result<()> {
    let path = cx.path("s")?;
    serve(UnixListener::bind(&path).context("listen")?);
    let container = running(cx, &[])?;
    cx.tote(&["debug", "--forward", &path, "c", "python3", "-c", CLIENTS, &path])
        .output()?
        .prints("all\n")?
        .quietly()?;
    let live = std::fs::read_dir(cx.root().join("live"))?.flatten();
    let left: Vec<_> = live
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().ends_with(".socket"))
        .collect();
    ensure!(left.len() <= 1, "sockets are left: {left:?}");
    over(container)
}

fn kinds(cx: &Context) -> Result<()> {
    let path = cx.path("s")?;
    serve(UnixListener::bind(&path).context("listen")?);
    let address = format!("unix:path={path}");
    let container = running(cx, &[])?;
    for (kind, variable, here, there) in [
        ("ssh-agent", "SSH_AUTH_SOCK", &path, "$SSH_AUTH_SOCK"),
        ("wayland", "WAYLAND_DISPLAY", &path, "$WAYLAND_DISPLAY"),
        ("x11", "DISPLAY", &path, "/tmp/.X11-unix/X${DISPLAY#:}"),
        (
            "dbus",
            "DBUS_SESSION_BUS_ADDRESS",
            &address,
            "${DBUS_SESSION_BUS_ADDRESS#unix:path=}",
        ),
    ] {
        let script = format!("exec python3 -c \"$0\" \"{there}\"");
        let words = ["debug", "--forward", kind, "c", "sh", "-c", &script, CLIENTS];
        cx.tote(&words)
            .env(variable, here)
            .output()?
            .prints("all\n")?
            .quietly()?;
    }
    over(container)
}

fn agent(cx: &Context) -> Result<()> {
    let path = cx.path("agent")?;
    serve(UnixListener::bind(&path).context("listen")?);
    let container = running(cx, &["-e", "SSH_AUTH_SOCK=/of/the/container"])?;
    let client = "
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['SSH_AUTH_SOCK'])
s.sendall(b'key')
s.shutdown(socket.SHUT_WR)
print(s.recv(9).decode())
";
    let ask = ["debug", "--forward", "ssh-agent", "c", "python3", "-c", client];
    cx.tote(&ask)
        .env("SSH_AUTH_SOCK", &path)
        .output()?
        .prints("KEY\n")?;
    over(container)
}

/// A server in the container that answers when its client has ended its side.
const SERVER: &str = "
import socket, threading
l = socket.create_server(('127.0.0.1', 80), backlog=200)
print('ready', flush=True)
def answer(s):
    got = b''
    while True:
        part = s.recv(65536)
        if not part: break
        got += part
    s.sendall(got.upper()); s.close()
while True:
    s, _ = l.accept()
    threading.Thread(target=answer, args=[s]).start()
";

/// Returns a port that no program has just now.
pub(super) fn free_port() -> Result<u16> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok(address.port())
}

fn port(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let port = free_port()?;
    let mut session = cx
        .tote(&[
            "debug",
            "--port-forward",
            &format!("{port}:80"),
            "c",
            "python3",
            "-c",
            SERVER,
        ])
        .spawn()?;
    session.expect("ready\n")?;
    let clients: Vec<_> = (0..100)
        .map(|number| {
            std::thread::spawn(move || -> Result<bool> {
                let text = format!("n{number} ").repeat(20_000);
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
                stream.write_all(text.as_bytes())?;
                stream.shutdown(Shutdown::Write)?;
                let mut got = String::new();
                stream.read_to_string(&mut got)?;
                Ok(got == text.to_ascii_uppercase())
            })
        })
        .collect();
    for client in clients {
        let same = client
            .join()
            .map_err(|_| anyhow::anyhow!("a client panicked"))??;
        ensure!(same, "an answer is not whole");
    }
    session.signal(rustix::process::Signal::TERM)?;
    session.wait()?;
    let until = std::time::Instant::now() + crate::exchange::patience();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
        ensure!(
            std::time::Instant::now() < until,
            "the listener outlives the session"
        );
    }
    over(container)
}

fn loopback(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let (one, other) = (free_port()?, free_port()?);
    let ports = [format!("{one}:80"), format!("0.0.0.0:{other}:80")];
    let mut session = cx
        .tote(&[
            "debug",
            "--port-forward",
            &ports[0],
            "--port-forward",
            &ports[1],
            "c",
            "python3",
            "-c",
            SERVER,
        ])
        .spawn()?;
    session.expect("ready\n")?;
    let everywhere = Ipv4Addr::new(127, 1, 2, 3);
    ensure!(
        TcpStream::connect((everywhere, one)).is_err(),
        "it listens on another address"
    );
    let mut stream = TcpStream::connect((everywhere, other))?;
    stream.write_all(b"a")?;
    stream.shutdown(Shutdown::Write)?;
    let mut got = String::new();
    stream.read_to_string(&mut got)?;
    ensure!(got == "A", "{got:?}");
    session.signal(rustix::process::Signal::INT)?;
    session.wait()?;
    over(container)
}

fn mistakes(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let debug = |words: &[&str]| cx.tote(&[&["debug"], words].concat()).output();
    debug(&["--forward", "x12", "c", "true"])?.refuses(125, &["x12", "ssh-agent"])?;
    debug(&["--forward", "/no/such.sock", "c", "true"])?.refuses(125, &["/no/such.sock", "no such file"])?;
    debug(&["--port-forward", "80:", "c", "true"])?.refuses(125, &["80:", "PORT"])?;
    let port = free_port()?;
    let _taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let taken = format!("{port}:80");
    debug(&["--port-forward", &taken, "c", "true"])?.refuses(125, &[&port.to_string(), "in use"])?;
    let path = cx.path("gone")?;
    drop(UnixListener::bind(&path)?);
    debug(&["--forward", &path, "c", "true"])?.refuses(125, &["refused"])?;
    over(container)
}
