//! Containers that come into a machine which runs already.
#![expect(clippy::disallowed_methods, reason = "the listeners have room")]

use super::{door, guest, run_visited, speak};
use crate::pass;
use crate::tests::fake::Fake;
use rustix::fd::AsFd as _;
use std::fs::File;
use std::os::unix::net::UnixStream;
use tote_channel::{End, Event, Order, Session};

/// Sends the line of a member with disks of these serial numbers, and this number of descriptors.
fn bring(stream: &UnixStream, serials: &[&str], count: usize) {
    let disks: Vec<String> = serials
        .iter()
        .map(|serial| format!("{{\"serial\":\"{serial}\",\"readonly\":true}}"))
        .collect();
    let line = format!("{{\"name\":\"a member\",\"disks\":[{}]}}\n", disks.join(","));
    let file = File::open("/dev/null").unwrap();
    pass::send(stream, line.as_bytes(), &vec![file.as_fd(); count]).unwrap();
}

/// Has the guest end its first process: any further one of a visitor does.
fn end(stream: UnixStream) {
    speak(stream, |host, event| {
        if matches!(event, Event::Ready(_)) {
            host.begin(b"end", None, Some(Session::FIRST)).unwrap();
        }
        matches!(event, Event::Runs(_))
    });
}

/// A machine whose second process gets a visitor, and ends at SIGTERM.
fn machine() -> Fake {
    Fake::new(|channel, _console| {
        guest(channel, |guest, order| match order {
            Order::Begin { session: 1, .. } => {
                guest.runs(1);
                false
            }
            Order::Begin {
                session, plan, joins, ..
            } => {
                guest.runs(session);
                match &*plan {
                    b"member" => assert_eq!(joins, Some(1), "it joins the first container"),
                    b"visitor" => {
                        assert_eq!(joins, Some(2), "it joins the member");
                        guest.ended(session, End::Code(4));
                    }
                    _ => guest.ended(1, End::Code(6)),
                }
                &*plan == b"end"
            }
            Order::Signal(2, number) => {
                guest.ended(2, End::Signal(number));
                false
            }
            _ => false,
        });
    })
}

#[test]
fn a_member_has_disks_and_visitors() {
    let (listener, connect) = door("member");
    let address = listener.local_addr().unwrap();
    let member = std::thread::spawn(move || {
        let stream = connect();
        bring(&stream, &["a", "b"], 2);
        let mut ended = Vec::new();
        speak(stream, |host, event| {
            match event {
                Event::Ready(_) => {
                    let first = host.begin(b"member", None, Some(Session::FIRST)).unwrap();
                    assert_eq!(first, Session::FIRST);
                }
                Event::Runs(Session::FIRST) => {
                    host.begin(b"visitor", None, Some(Session::FIRST)).unwrap();
                }
                Event::Ended(session, end) => {
                    ended.push((session.number(), end));
                    host.signal(Session::FIRST, 15);
                    return ended.len() == 2;
                }
                _ => {}
            }
            false
        });
        end(UnixStream::connect_addr(&address).unwrap());
        ended
    });
    let (verdict, ..) = run_visited(&machine(), b"", Some(listener));
    assert_eq!(verdict.code, 6);
    assert_eq!(member.join().unwrap(), [(2, End::Code(4)), (1, End::Signal(15))]);
}

#[test]
fn a_member_that_goes_is_killed_in_the_guest() {
    let (listener, connect) = door("member-gone");
    let address = listener.local_addr().unwrap();
    let member = std::thread::spawn(move || {
        for _ in 0..2 {
            // The second one has the disk that the first one had.
            let stream = UnixStream::connect_addr(&address).unwrap();
            bring(&stream, &["a"], 1);
            speak(stream, |host, event| {
                if matches!(event, Event::Ready(_)) {
                    host.begin(b"end of the first", None, Some(Session::FIRST))
                        .unwrap();
                }
                matches!(event, Event::Runs(_))
            });
        }
        end(connect());
    });
    let vmm = Fake::new(|channel, _console| {
        let mut killed = 0;
        guest(channel, move |guest, order| match order {
            Order::Begin { session, plan, .. } => {
                guest.runs(session);
                if &*plan == b"end" {
                    assert_eq!(killed, 2);
                    guest.ended(1, End::Code(0));
                }
                &*plan == b"end"
            }
            Order::Signal(session, 9) => {
                killed += 1;
                guest.ended(session, End::Signal(9));
                false
            }
            _ => false,
        });
    });
    let (verdict, ..) = run_visited(&vmm, b"", Some(listener));
    assert_eq!(verdict.code, 0);
    member.join().unwrap();
}

/// Visits the member of this name with a file; returns what the visitor hears in the end.
fn visit_with_file(stream: UnixStream, name: &str) -> Event {
    pass::send(&stream, format!("{{\"name\":\"{name}\"}}\n").as_bytes(), &[]).unwrap();
    let (sender, mut last) = (stream.try_clone().unwrap(), None);
    let file = File::open("/dev/null").unwrap();
    speak(stream, |host, event| {
        match event {
            Event::Ready(_) => {
                host.begin(b"look", None, Some(Session::FIRST)).unwrap();
                let begin = std::mem::take(host.outgoing());
                pass::send(&sender, &begin, &[file.as_fd()]).unwrap();
            }
            Event::Ended(..) | Event::Failed(..) => last = Some(event),
            _ => {}
        }
        last.is_some()
    });
    last.unwrap()
}

#[test]
fn a_visitor_brings_a_file_to_a_member() {
    let (listener, connect) = door("member-file");
    let address = listener.local_addr().unwrap();
    let vmm = Fake::new(|channel, _console| {
        guest(channel, |guest, order| match order {
            Order::Begin {
                session, plan, joins, ..
            } => {
                if &*plan == b"hold\nlook" {
                    assert_eq!(joins, Some(2), "it joins the member");
                }
                guest.runs(session);
                if &*plan == b"end" {
                    guest.ended(1, End::Code(6));
                }
                &*plan == b"end"
            }
            // The file is on the disk.
            Order::InputEnd(3) => {
                guest.ended(3, End::Code(4));
                false
            }
            Order::Signal(session, number) => {
                guest.ended(session, End::Signal(number));
                false
            }
            _ => false,
        });
    });
    let member = std::thread::spawn(move || {
        let stream = connect();
        bring(&stream, &["a"], 1);
        let mut heard = Vec::new();
        speak(stream, |host, event| {
            match event {
                Event::Ready(_) => {
                    host.begin(b"member", None, Some(Session::FIRST)).unwrap();
                }
                Event::Runs(_) => {
                    for name in ["a member", "another one"] {
                        let stream = UnixStream::connect_addr(&address).unwrap();
                        heard.push(visit_with_file(stream, name));
                    }
                }
                _ => {}
            }
            !heard.is_empty()
        });
        end(UnixStream::connect_addr(&address).unwrap());
        heard
    });
    let (verdict, ..) = run_visited(&vmm, b"", Some(listener));
    assert_eq!(verdict.code, 6);
    let heard = member.join().unwrap();
    assert!(matches!(heard[0], Event::Ended(_, End::Code(4))), "{heard:?}");
    assert!(
        matches!(&heard[1], Event::Failed(_, 126, text) if text.contains("does not run")),
        "{heard:?}"
    );
}

#[test]
fn a_disk_that_the_machine_cannot_have_is_told() {
    let (listener, connect) = door("member-refused");
    let address = listener.local_addr().unwrap();
    let member = std::thread::spawn(move || {
        let stream = connect();
        bring(&stream, &["good", "bad"], 2);
        let mut told = String::new();
        speak(stream, |host, event| {
            if matches!(event, Event::Ready(_)) {
                host.begin(b"member", None, Some(Session::FIRST)).unwrap();
            }
            if let Event::Failed(_, code, text) = &event {
                told = format!("{code} {text}");
            }
            !told.is_empty()
        });
        end(UnixStream::connect_addr(&address).unwrap());
        told
    });
    let (verdict, ..) = run_visited(&machine(), b"", Some(listener));
    assert_eq!(verdict.code, 6);
    let told = member.join().unwrap();
    assert_eq!(
        told,
        "125 the virtual machine cannot have a disk of the container: it is bad"
    );
}

#[test]
fn disks_without_descriptors_are_refused() {
    let (listener, connect) = door("member-wrong");
    let address = listener.local_addr().unwrap();
    let member = std::thread::spawn(move || {
        use std::io::Read as _;
        let mut stream = connect();
        bring(&stream, &["a", "b"], 1);
        // The attendant hangs up.
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap_or_default();
        end(UnixStream::connect_addr(&address).unwrap());
    });
    let (verdict, ..) = run_visited(&machine(), b"", Some(listener));
    assert_eq!(verdict.code, 6);
    member.join().unwrap();
}
