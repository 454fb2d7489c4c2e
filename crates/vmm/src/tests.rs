//! The attendant with a VMM that boots nothing: its guest is a thread of the test.
#![expect(clippy::disallowed_methods, reason = "the listeners have room")]

use crate::attend::{Verdict, attend_within};
use crate::console::Tail;
use crate::streams::Streams;
use crate::vmm::Vmm;
use crate::{Accel, Begin, Machine};
use rustix::fd::AsFd;
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;
use tote_channel::{End, Event, Guest, Host, Order, Session, Stream, ToHost};
use tote_sys::{SignalFd, SignalSet};

mod fake;
mod members;

pub(crate) use fake::Fake;

pub(crate) fn machine() -> Machine {
    Machine {
        program: "".into(),
        accel: Accel::Tcg,
        board: crate::Board::Microvm,
        grows: false,
        memory: 1,
        processors: 1,
        kernel: "".into(),
        initramfs: "".into(),
        system: crate::Disk {
            serial: "tote".to_owned(),
            file: "".into(),
            readonly: true,
        },
        disks: Vec::new(),
        spare: Some(crate::Spare {
            serial: "tools".to_owned(),
            order: "hold\n".to_owned(),
        }),
        links: Vec::new(),
        shares: None,
        port: String::new(),
        begin: Begin::Boot,
    }
}

/// Runs a container with this input; returns its verdict, output and warnings.
fn run(vmm: &Fake, input: &[u8]) -> (Verdict, Vec<u8>, Vec<String>) {
    run_visited(vmm, input, None)
}

fn run_visited(vmm: &Fake, input: &[u8], visitors: Option<UnixListener>) -> (Verdict, Vec<u8>, Vec<String>) {
    run_within(Duration::from_secs(100), vmm, input, visitors)
}

fn run_within(
    patience: Duration,
    vmm: &Fake,
    input: &[u8],
    visitors: Option<UnixListener>,
) -> (Verdict, Vec<u8>, Vec<String>) {
    let (mut writer, reader) = UnixStream::pair().unwrap();
    let (out, mut read_out) = UnixStream::pair().unwrap();
    let input = input.to_vec();
    // The machine may end before it has read everything.
    let written = std::thread::spawn(move || drop(writer.write_all(&input)));
    let mut warnings = Vec::new();
    let collected = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read_out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let streams = Streams {
        input: reader.as_fd(),
        outputs: [out.as_fd(), out.as_fd()],
        signals: SignalFd::new(&SignalSet::empty()).unwrap(),
        plain: false,
        mute: false,
        patience: crate::attend::BOOT,
        visitors,
    };
    let machine = (vmm as &dyn Vmm, &machine());
    let verdict = attend_within(patience, machine, (b"the plan", None), streams, &mut |text| {
        warnings.push(text)
    });
    drop((out, reader));
    written.join().unwrap();
    (verdict, collected.join().unwrap(), warnings)
}

/// Serves as a guest until `answer` says that it is enough.
pub(crate) fn guest(mut channel: UnixStream, mut answer: impl FnMut(&mut Guest, Order) -> bool) {
    let mut guest = Guest::new("6.1");
    let mut buffer = [0; 10_000];
    loop {
        let out = std::mem::take(guest.outgoing());
        if channel.write_all(&out).is_err() {
            return;
        }
        let length = channel.read(&mut buffer).unwrap_or(0);
        if length == 0 {
            return;
        }
        for order in guest.received(&buffer[..length]).unwrap() {
            if answer(&mut guest, order) {
                let out = std::mem::take(guest.outgoing());
                let _gone = channel.write_all(&out);
                return;
            }
        }
    }
}

#[test]
fn streams_and_the_exit_code_are_passed_on() {
    let input: Vec<u8> = (0..600_000_u32).map(|at| at as u8).collect();
    let expected = input.clone();
    // A cat, whose output waits for room.
    let vmm = Fake::new(move |channel, _console| {
        let mut pending: Vec<u8> = Vec::new();
        let mut ended = false;
        guest(channel, move |guest, order| {
            match order {
                Order::Begin { session, plan, .. } => {
                    assert_eq!((session, &*plan), (1, &b"the plan"[..]));
                    guest.warn(1, "no keyring");
                    guest.runs(1);
                }
                Order::Input(1, bytes) => {
                    guest.consumed(1, bytes.len());
                    pending.extend(bytes);
                }
                Order::InputEnd(1) => ended = true,
                Order::Room(1, Stream::Out, _) => {}
                order => panic!("{order:?}"),
            }
            while !pending.is_empty() {
                let taken = guest.output(1, Stream::Out, &pending);
                if taken == 0 {
                    return false;
                }
                pending.drain(..taken);
            }
            if ended {
                guest.ended(1, End::Code(7));
            }
            ended
        });
    });
    let (verdict, output, warnings) = run(&vmm, &input);
    assert_eq!((verdict.code, verdict.message), (7, None));
    assert!(output == expected);
    assert_eq!(warnings, ["no keyring"]);
}

/// A socket for visitors, and what connects to it.
fn door(name: &str) -> (UnixListener, impl FnOnce() -> UnixStream + Send + 'static) {
    let name = format!("tote-vmm-test-{}-{name}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    listener.set_nonblocking(true).unwrap();
    (listener, move || UnixStream::connect_addr(&address).unwrap())
}

/// Speaks as a visitor until `hear` says that it is enough.
fn speak(mut stream: UnixStream, mut hear: impl FnMut(&mut Host, Event) -> bool) {
    let mut host = Host::new();
    let mut buffer = [0; 10_000];
    loop {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "the attendant hung up");
        for event in host.received(&buffer[..length]).unwrap() {
            if hear(&mut host, event) {
                return;
            }
        }
        let out = std::mem::take(host.outgoing());
        // The attendant may have ended after what it has said.
        let _gone = stream.write_all(&out);
    }
}

#[test]
fn a_visitor_has_a_process_of_its_own() {
    let (listener, connect) = door("own");
    let input: Vec<u8> = (0..400_000_u32).map(|at| at as u8).collect();
    let expected = input.clone();
    let visitor = std::thread::spawn(move || echoed(connect(), &input));
    let (verdict, output, _) = run_visited(&cat_of_a_visitor(), b"", Some(listener));
    assert_eq!(verdict.code, 6);
    assert!(output.is_empty());
    let (output, warned) = visitor.join().unwrap();
    assert!(output == expected && warned);
}

/// A machine whose second process is a cat that ends with 5; the first one ends with 6 then.
fn cat_of_a_visitor() -> Fake {
    Fake::new(move |channel, _console| {
        let mut pending: Vec<u8> = Vec::new();
        let mut ended = false;
        guest(channel, move |guest, order| {
            match order {
                Order::Begin {
                    session: 1, joins, ..
                } => {
                    assert_eq!(joins, None);
                    guest.runs(1);
                }
                Order::Begin {
                    session,
                    plan,
                    terminal,
                    joins,
                } => {
                    assert_eq!((session, joins), (2, Some(1)));
                    assert_eq!((&*plan, terminal), (&b"another plan"[..], Some((3, 4))));
                    guest.runs(2);
                }
                Order::Input(2, bytes) => {
                    guest.consumed(2, bytes.len());
                    pending.extend(bytes);
                }
                Order::InputEnd(2) => ended = true,
                Order::Resize(2, 5, 6) => guest.warn(2, "resized"),
                Order::Room(2, ..) | Order::InputEnd(1) => {}
                order => panic!("{order:?}"),
            }
            let taken = guest.output(2, Stream::Out, &pending);
            pending.drain(..taken);
            let is_over = ended && pending.is_empty();
            if is_over {
                guest.ended(2, End::Code(5));
                guest.ended(1, End::Code(6));
            }
            is_over
        });
    })
}

/// Begins a process with this input; returns its output, and whether the process has seen its terminal's size change.
fn echoed(stream: UnixStream, input: &[u8]) -> (Vec<u8>, bool) {
    let (mut sent, mut output, mut warned) = (0, Vec::new(), false);
    let mut process: Option<Session> = None;
    speak(stream, |host, event| {
        match event {
            Event::Ready(kernel) => {
                assert_eq!(kernel, "6.1");
                let first = Some(Session::FIRST);
                let begun = host.begin(b"another plan", Some((3, 4)), first).unwrap();
                host.resize(begun, 5, 6);
                process = Some(begun);
            }
            Event::Output(session, stream, bytes) => {
                host.consumed(session, stream, bytes.len());
                output.extend(bytes);
            }
            Event::Ended(_, end) => {
                assert_eq!(end, End::Code(5));
                return true;
            }
            Event::Warning(_, text) => warned = text == "resized",
            Event::Runs(_) | Event::Room(..) => {}
            Event::Failed(..) => panic!("{event:?}"),
        }
        sent += host.input(process.unwrap(), &input[sent..]);
        if sent == input.len() {
            host.end_input(process.unwrap());
        }
        false
    });
    (output, warned)
}

#[test]
fn the_process_of_a_visitor_that_is_gone_is_killed() {
    let (listener, connect) = door("gone");
    let vmm = Fake::new(move |channel, _console| {
        guest(channel, move |guest, order| match order {
            Order::Begin { session, .. } => {
                guest.runs(session);
                false
            }
            Order::Signal(2, 9) => {
                // What it still says has room, and is passed over.
                guest.output(2, Stream::Out, b"late");
                guest.ended(2, End::Signal(9));
                guest.ended(1, End::Code(0));
                true
            }
            Order::InputEnd(1) => false,
            order => panic!("{order:?}"),
        });
    });
    let visitor = std::thread::spawn(move || {
        speak(connect(), |host, event| {
            if matches!(event, Event::Ready(_)) {
                host.begin(b"plan", None, Some(Session::FIRST)).unwrap();
            }
            matches!(event, Event::Runs(_))
        });
    });
    let (verdict, output, _) = run_visited(&vmm, b"", Some(listener));
    assert_eq!((verdict.code, output), (0, Vec::new()));
    visitor.join().unwrap();
}

#[test]
fn ends_of_all_kinds() {
    let ended = |end| {
        Fake::new(move |channel, _console| {
            guest(channel, move |guest, _| {
                guest.runs(1);
                guest.ended(1, end);
                true
            });
        })
    };
    assert_eq!(run(&ended(End::Code(0)), b"").0.code, 0);
    assert_eq!(run(&ended(End::Signal(9)), b"").0.code, 137);
    assert_eq!(run(&ended(End::Signal(255)), b"").0.code, 255);
    let failed = Fake::new(|channel, _console| {
        guest(channel, |guest, _| {
            guest.failed(1, 127, "exec: \"x\": no such file or directory");
            true
        });
    });
    let (verdict, ..) = run(&failed, b"");
    assert_eq!(verdict.code, 127);
    assert_eq!(verdict.message.unwrap(), "exec: \"x\": no such file or directory");
}

#[test]
fn a_machine_that_is_killed_is_reported_with_its_last_words() {
    let early = Fake::new(|_channel, mut console| {
        console.write_all(b"Kernel \x1bpanic\r\nnot syncing\r\n").unwrap();
    });
    let (verdict, ..) = run(&early, b"");
    assert_eq!(verdict.code, 125);
    let message = verdict.message.unwrap();
    assert!(
        message.starts_with("the virtual machine ended before the container did: the last words"),
        "{message}"
    );
    let late = Fake::new(|channel, _console| {
        guest(channel, |guest, _| {
            guest.runs(1);
            guest.output(1, Stream::Out, b"said before");
            true
        });
    });
    let (verdict, output, _) = run(&late, b"");
    assert_eq!((verdict.code, &*output), (137, &b"said before"[..]));
}

#[test]
fn garbage_of_the_guest_ends_it() {
    let vmm = Fake::new(|mut channel, mut console| {
        // The console is flooded; only its end is kept.
        let _gone = console.write_all(&[b'x'; 100_000]);
        let _gone = channel.write_all(&[0xff; 100_000]);
        let _gone = channel.read(&mut [0; 10]);
    });
    let (verdict, output, _) = run(&vmm, b"input");
    assert_eq!((verdict.code, output.len()), (125, 0));
    let message = verdict.message.unwrap();
    assert!(message.starts_with("the guest was ended, because"), "{message}");
}

#[test]
fn a_silent_guest_is_not_waited_for_without_end() {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let vmm = Fake::new(move |channel, mut console| {
        console.write_all(b"the kernel waits for ever\n").unwrap();
        // It is there, and says nothing.
        let _gone = is_done.recv();
        drop(channel);
    });
    let (verdict, ..) = run_within(Duration::from_millis(300), &vmm, b"input", None);
    drop(done);
    assert_eq!(verdict.code, 125);
    let message = verdict.message.unwrap();
    assert!(
        message.starts_with("the guest did not answer within 0 seconds"),
        "{message}"
    );
    assert!(message.contains("the kernel waits for ever"), "{message}");
}

#[test]
fn floods_of_the_guest_end_it() {
    let flood = |message: fn(u16) -> Vec<u8>| {
        let vmm = Fake::new(move |channel, _console| {
            let mut raw = channel.try_clone().unwrap();
            guest(channel, |guest, _| {
                guest.runs(1);
                true
            });
            // More than the window, more warnings than there may be, or processes that do not exist.
            let bytes = message(1).repeat(100);
            while raw.write_all(&bytes).is_ok() {}
        });
        let (verdict, output, warnings) = run(&vmm, b"");
        // What comes with the flood, the start of the process among it, may be lost.
        assert!(matches!(verdict.code, 125 | 137), "{}", verdict.code);
        let message = verdict.message.unwrap();
        assert!(message.starts_with("the guest was ended, because"), "{message}");
        assert!(output.len() <= 2 * tote_channel::WINDOW && warnings.len() <= 32);
    };
    flood(|session| sent(&ToHost::Warning("w".to_owned()), session));
    flood(|session| sent(&ToHost::Runs, session));
    flood(|session| sent(&ToHost::Credit(1), session));
    flood(|session| sent(&ToHost::Ended(End::Code(0)), session + 1));
}

/// A message as the guest sends it.
fn sent(message: &ToHost, session: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.push(session, &mut bytes);
    bytes
}

#[test]
fn the_end_of_a_text() {
    let mut tail = Tail::default();
    for number in 0..10_000 {
        tail.push(format!("line {number}\r\n\n").as_bytes());
    }
    tail.push(b"a\x07b");
    assert_eq!(tail.lines(2), ["line 9999", "a?b"]);
    assert!(tail.lines(10_000).len() < 1000);
}
