//! Tests with this machine's sockets.
#![expect(clippy::disallowed_methods, reason = "the listeners are this process's own")]

use super::*;
use crate::place::ByLink;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread::{JoinHandle, spawn};

/// A forwarder into this process's own network namespace; only root may open sockets in one by its descriptor.
fn forwarder() -> Option<Forwarder<ByLink>> {
    let network: OwnedFd = std::fs::File::open("/proc/self/ns/net").unwrap().into();
    let kind = (AddressFamily::INET, SocketType::STREAM, None);
    if tote_sys::socket_in(network.as_fd(), kind).is_err() {
        println!("skipped: needs root, for sockets in a network namespace");
        return None;
    }
    Some(Forwarder::new(network, None, ByLink).unwrap())
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn port(kind: Kind, from: SocketAddr, to: SocketAddr) -> BTreeSet<Forward> {
    let beside = None;
    BTreeSet::from([Forward {
        kind,
        from,
        to,
        beside,
    }])
}

/// Serves until a client has what it wants.
fn serve<T>(forwarder: &mut Forwarder<ByLink>, client: JoinHandle<T>) -> T {
    while !client.is_finished() {
        forwarder.advance(Some(Duration::from_millis(10)));
    }
    client.join().unwrap()
}

#[test]
fn bytes_pass_both_ways_and_ends_are_told() {
    let Some(mut forwarder) = forwarder() else { return };
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let (kind, from, to) = (Kind::Stream, free_port(), program.local_addr().unwrap());
    forwarder.lead(&port(kind, from, to)).unwrap();
    let answering = spawn(move || {
        let (mut client, _) = program.accept().unwrap();
        let mut asked = Vec::new();
        client.read_to_end(&mut asked).unwrap();
        client.write_all(&asked).unwrap();
    });
    let client = spawn(move || {
        let mut socket = TcpStream::connect(from).unwrap();
        let asked: Vec<u8> = (0..1_000_000u32).map(|number| number.to_le_bytes()[0]).collect();
        socket.write_all(&asked).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut answered = Vec::new();
        socket.read_to_end(&mut answered).unwrap();
        answered == asked
    });
    assert!(serve(&mut forwarder, client));
    answering.join().unwrap();
    while !forwarder.flows.is_empty() {
        forwarder.advance(Some(Duration::ZERO));
    }
    forwarder.lead(&BTreeSet::new()).unwrap();
    let refused = TcpStream::connect(from).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_connection_that_no_program_takes_is_reset() {
    let Some(mut forwarder) = forwarder() else { return };
    let (kind, from, to) = (Kind::Stream, free_port(), free_port());
    forwarder.lead(&port(kind, from, to)).unwrap();
    let client = spawn(move || TcpStream::connect(from).and_then(|mut socket| socket.read(&mut [0])));
    let reset = serve(&mut forwarder, client).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert!(forwarder.flows.is_empty());
    assert_eq!(is_free(kind, from), Err(Errno::ADDRINUSE));
}

#[test]
fn a_connection_that_is_cut_off_ends_with_what_came_before() {
    let Some(mut forwarder) = forwarder() else { return };
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let (kind, from, to) = (Kind::Stream, free_port(), program.local_addr().unwrap());
    let port = port(kind, from, to);
    forwarder.lead(&port).unwrap();
    let client = spawn(move || {
        let mut socket = TcpStream::connect(from).unwrap();
        let mut first = [0; 5];
        socket.read_exact(&mut first).unwrap();
        (first, socket)
    });
    let answering = spawn(move || {
        let (mut client, _) = program.accept().unwrap();
        client.write_all(b"first").unwrap();
        client
    });
    let (first, mut socket) = serve(&mut forwarder, client);
    assert_eq!(&first, b"first");
    let mut program = answering.join().unwrap();
    assert!(forwarder.outlived().is_empty());
    forwarder.lead(&BTreeSet::new()).unwrap();
    assert_eq!(forwarder.outlived(), BTreeSet::from([to.ip()]));
    assert!(!forwarder.is_idle());
    forwarder.cut_off(&BTreeSet::from(["192.0.2.1".parse().unwrap()]));
    assert!(!forwarder.is_idle());
    program.write_all(b"last").unwrap();
    forwarder.cut_off(&BTreeSet::from([to.ip()]));
    assert!(forwarder.is_idle());
    forwarder.advance(Some(Duration::ZERO));
    assert!(forwarder.flows.is_empty());
    let mut last = [0; 4];
    socket.read_exact(&mut last).unwrap();
    assert_eq!(&last, b"last");
    let reset = socket.read(&mut [0]).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn each_client_gets_the_answers_to_its_datagrams() {
    let Some(mut forwarder) = forwarder() else { return };
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (kind, from, to) = (Kind::Datagram, free_port(), program.local_addr().unwrap());
    forwarder.lead(&port(kind, from, to)).unwrap();
    let answering = spawn(move || {
        for _ in 0..2 {
            let mut bytes = [0; 16];
            let (length, client) = program.recv_from(&mut bytes).unwrap();
            program.send_to(&bytes[..length], client).unwrap();
        }
    });
    let client = spawn(move || {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for (number, socket) in sockets.iter().enumerate() {
            socket.send_to(&[u8::try_from(number).unwrap()], from).unwrap();
        }
        sockets.map(|socket| {
            let mut bytes = [9; 16];
            let (length, server) = socket.recv_from(&mut bytes).unwrap();
            (length, bytes[0], server)
        })
    });
    assert_eq!(serve(&mut forwarder, client), [(1, 0, from), (1, 1, from)]);
    answering.join().unwrap();
    assert_eq!(forwarder.peers.len(), 2);
}

/// A step that has nothing to do until its time is over comes soon: nothing is done again and again.
fn is_quiet(forwarder: &mut Forwarder<ByLink>) -> bool {
    let longest = Duration::from_millis(50);
    (0..10_000).any(|_| {
        let begin = Instant::now();
        forwarder.advance(Some(longest));
        begin.elapsed() >= longest
    })
}

/// A client that takes nothing costs nothing meanwhile, wherever the kernel keeps what is for it, the end included.
#[test]
fn a_slow_client_is_waited_for() {
    let Some(mut forwarder) = forwarder() else { return };
    for much in [1 << 18, 1 << 21, 1 << 22, 1 << 23, 1 << 25] {
        let program = TcpListener::bind("127.0.0.1:0").unwrap();
        let (kind, from, to) = (Kind::Stream, free_port(), program.local_addr().unwrap());
        let port = port(kind, from, to);
        forwarder.lead(&port).unwrap();
        let answering = spawn(move || {
            let (mut client, _) = program.accept().unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
            client.write_all(&vec![7; much]).unwrap();
        });
        let client = spawn(move || {
            let socket = TcpStream::connect(from).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            socket
        });
        let mut client = serve(&mut forwarder, client);
        assert!(is_quiet(&mut forwarder), "{much} bytes wait");
        let taken = spawn(move || {
            let mut taken = Vec::new();
            client.read_to_end(&mut taken).unwrap();
            taken.len()
        });
        assert_eq!(serve(&mut forwarder, taken), much);
        answering.join().unwrap();
        assert!(is_quiet(&mut forwarder), "{much} bytes have passed");
        assert!(forwarder.flows.is_empty());
    }
}

/// Places that others have had for too long are free before a program is refused one.
#[test]
fn connections_that_nobody_took_leave_room() {
    let Some(mut forwarder) = forwarder() else { return };
    tote_sys::raise_descriptor_limit();
    let old = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    forwarder.onward.fill(MANY_FLOWS, old);
    let ends = ("10.0.0.2:1".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
    assert_ne!(forwarder.begin_onward(ends), Err(Errno::MFILE));
}
