//! A resolver between clients and servers, all of them on this machine's loopback device.
#![allow(clippy::unwrap_used, reason = "a failing test may panic anywhere")]
#![expect(clippy::disallowed_methods, reason = "the servers are this process's own")]

use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use tote_resolver::{Names, Resolver, Server};

#[derive(Clone, Debug, Default)]
struct Known {
    names: BTreeMap<&'static str, Ipv4Addr>,
    servers: Option<Vec<SocketAddr>>,
}

impl Names for Known {
    fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.names.get(name).map(|address| vec![(*address).into()])
    }

    fn name(&self, address: IpAddr) -> Option<String> {
        let mut names = self.names.iter();
        names
            .find(|(_, other)| **other == address)
            .map(|(name, _)| (*name).to_owned())
    }

    fn servers(&self) -> Option<Vec<Server>> {
        let servers = self.servers.clone()?.into_iter();
        Some(
            servers
                .map(|address| Server {
                    address,
                    is_inside: false,
                })
                .collect(),
        )
    }
}

struct Stage {
    resolver: Resolver<Known>,
    client: UdpSocket,
    tcp: SocketAddr,
}

fn stage(servers: Option<Vec<SocketAddr>>) -> Stage {
    let (udp, tcp) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        TcpListener::bind("127.0.0.1:0").unwrap(),
    );
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(udp.local_addr().unwrap()).unwrap();
    client.set_nonblocking(true).unwrap();
    let names = Known {
        names: BTreeMap::from([("web", Ipv4Addr::new(10, 0, 0, 7))]),
        servers,
    };
    let network = std::fs::File::open("/proc/self/ns/net").unwrap();
    Stage {
        tcp: tcp.local_addr().unwrap(),
        resolver: Resolver::new((udp.into(), tcp.into()), network.into(), names).unwrap(),
        client,
    }
}

impl Stage {
    /// Lets the resolver work until that has happened.
    fn until<T>(&mut self, mut happened: impl FnMut(&UdpSocket) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(result) = happened(&self.client) {
                return result;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "nothing happens");
            let mut fds = [PollFd::new(&self.resolver, PollFlags::IN)];
            let short = Duration::from_millis(5);
            tote_sys::Wait::within(short).poll(&mut fds).unwrap();
            self.resolver.advance();
        }
    }

    fn answer(&mut self) -> Vec<u8> {
        self.until(received)
    }
}

fn received(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).ok()?;
    Some(bytes[..length].to_vec())
}

fn question(id: u16, name: &str) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The answer of a server that found nothing else to say than this code.
fn said(question: &[u8], code: u8) -> Vec<u8> {
    let mut bytes = question.to_vec();
    (bytes[2], bytes[3]) = (0x81, 0x80 | code);
    bytes
}

fn server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn heard(stage: &mut Stage, server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    stage.until(|_| {
        let mut bytes = [0; 4096];
        let (length, from) = server.recv_from(&mut bytes).ok()?;
        Some((bytes[..length].to_vec(), from))
    })
}

#[test]
fn names_are_answered_and_others_refused_where_nobody_is_to_be_asked() {
    let mut stage = stage(None);
    stage.client.send(&question(7, "web")).unwrap();
    let answer = stage.answer();
    assert_eq!(
        (&answer[..2], &answer[answer.len() - 4..]),
        (&[0, 7][..], &[10, 0, 0, 7][..])
    );
    stage.client.send(&question(8, "other")).unwrap();
    assert_eq!(stage.answer()[3] & 15, 3, "no such name");
}

#[test]
fn forged_answers_are_not_believed() {
    let (server, address) = server();
    let mut stage = stage(Some(vec![address]));
    stage.client.send(&question(7, "example.org")).unwrap();
    let (asked, from) = heard(&mut stage, &server);
    assert_ne!(from.port(), stage.client.peer_addr().unwrap().port());
    let mut wrong_number = said(&asked, 0);
    wrong_number[0] ^= 1;
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(&said(&asked, 5), from).unwrap();
    let mut other_name = said(&asked, 0);
    other_name[13] ^= 1;
    for forged in [wrong_number, other_name, asked.clone(), vec![0; 3]] {
        server.send_to(&forged, from).unwrap();
    }
    server.send_to(&said(&asked, 3), from).unwrap();
    let answer = stage.answer();
    assert_eq!(answer, said(&question(7, "example.org"), 3));
    assert_eq!(received(&stage.client), None, "one answer");
}

#[test]
fn the_next_server_is_asked_where_one_fails_is_not_there_or_is_silent() {
    let ((failing, first), (silent, third), (good, last)) = (server(), server(), server());
    let absent = { UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let mut stage = stage(Some(vec![first, absent, third, last]));
    stage.client.send(&question(7, "example.org")).unwrap();
    let (asked, from) = heard(&mut stage, &failing);
    failing.send_to(&said(&asked, 2), from).unwrap();
    let begin = Instant::now();
    heard(&mut stage, &silent);
    // The client loses patience, and asks again: no server is asked twice for that.
    stage.client.send(&question(7, "example.org")).unwrap();
    let (asked, from) = heard(&mut stage, &good);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    good.send_to(&said(&asked, 0), from).unwrap();
    assert_eq!(stage.answer(), said(&question(7, "example.org"), 0));
    assert!(good.recv(&mut [0; 16]).is_err() && received(&stage.client).is_none());
}

#[test]
fn the_answer_of_a_server_that_failed_is_better_than_none() {
    let (only, address) = server();
    let mut stage = stage(Some(vec![address]));
    stage.client.send(&question(7, "example.org")).unwrap();
    let (asked, from) = heard(&mut stage, &only);
    only.send_to(&said(&asked, 5), from).unwrap();
    assert_eq!(stage.answer(), said(&question(7, "example.org"), 5));
}

#[test]
fn more_questions_than_there_is_room_for_fail_at_once() {
    let (_silent, address) = server();
    let mut stage = stage(Some(vec![address]));
    for id in 0..200 {
        stage.client.send(&question(id, "example.org")).unwrap();
    }
    for _ in 0..200 - 128 {
        assert_eq!(stage.answer()[3] & 15, 2);
    }
    stage.client.send(&question(9999, "web")).unwrap();
    assert_eq!(stage.answer()[..2], 9999u16.to_be_bytes());
}

#[test]
fn by_tcp_servers_are_asked_by_tcp() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let mut stage = stage(Some(vec![server.local_addr().unwrap()]));
    let mut client = TcpStream::connect(stage.tcp).unwrap();
    client.set_nonblocking(true).unwrap();
    for name in ["web", "example.org"] {
        let message = question(7, name);
        client
            .write_all(&u16::try_from(message.len()).unwrap().to_be_bytes())
            .unwrap();
        client.write_all(&message).unwrap();
    }
    let mut first = [0; 2 + 37];
    stage.until(|_| client.read_exact(&mut first).ok());
    assert_eq!(first[first.len() - 4..], [10, 0, 0, 7]);
    let (mut asked, _) = stage.until(|_| server.accept().ok());
    asked.set_nonblocking(true).unwrap();
    let mut message = [0; 2 + 29];
    stage.until(|_| asked.read_exact(&mut message).ok());
    asked.set_nonblocking(false).unwrap();
    let message = &message[2..];
    // A long answer, as those for which clients ask by TCP.
    let mut answer = said(message, 0);
    answer.resize(60_000, 7);
    asked.write_all(&60_000u16.to_be_bytes()).unwrap();
    asked.write_all(&answer).unwrap();
    let mut got = Vec::new();
    stage.until(|_| {
        let mut piece = [0; 65536];
        while let Ok(count @ 1..) = client.read(&mut piece) {
            got.extend(&piece[..count]);
        }
        (got.len() == 60_002).then_some(())
    });
    assert_eq!((&got[..4], got[60_001]), (&[0xea, 0x60, 0, 7][..], 7));
}
