use crate::frame::{Frames, HEADER, push};
use crate::message::{End, SEED, Stream, ToGuest, ToHost, Wake};
use crate::{ChannelError, Event, Guest, Host, MAX_PAYLOAD, MAX_WARNINGS, Order, Session, VERSION, WINDOW};
use proptest::prelude::*;

/// A host that has been greeted and has begun a process.
fn begun() -> (Host, Session, Guest) {
    let (mut host, mut guest) = (Host::new(), Guest::new("6.1.0"));
    let greeting = std::mem::take(guest.outgoing());
    assert_eq!(
        host.received(&greeting).unwrap(),
        [Event::Ready("6.1.0".to_owned())]
    );
    let plan = vec![7; MAX_PAYLOAD + 5];
    let session = host.begin(&plan, None, None).unwrap();
    let orders = guest.received(&std::mem::take(host.outgoing())).unwrap();
    let begin = Order::Begin {
        session: 1,
        plan,
        terminal: None,
        joins: None,
    };
    assert_eq!(orders, [begin]);
    (host, session, guest)
}

fn sent(message: &ToHost, session: u16) -> Vec<u8> {
    let mut out = Vec::new();
    message.push(session, &mut out);
    out
}

#[test]
fn a_process_from_its_plan_to_its_end() {
    let (mut host, session, mut guest) = begun();
    assert_eq!(host.input(session, b"in"), 2);
    host.end_input(session);
    host.signal(session, 15);
    let orders = guest.received(&std::mem::take(host.outgoing())).unwrap();
    assert_eq!(
        orders,
        [
            Order::Input(1, b"in".to_vec()),
            Order::InputEnd(1),
            Order::Signal(1, 15)
        ]
    );
    guest.runs(1);
    guest.output(1, Stream::Err, b"out");
    guest.consumed(1, 2);
    guest.ended(1, End::Code(3));
    guest.output(1, Stream::Err, b"after the end");
    let events = host.received(&std::mem::take(guest.outgoing())).unwrap();
    assert_eq!(
        events,
        [
            Event::Runs(session),
            Event::Output(session, Stream::Err, b"out".to_vec()),
            Event::Room(session, 2),
            Event::Ended(session, End::Code(3)),
        ]
    );
    // Nothing is sent to what has ended.
    host.signal(session, 9);
    host.consumed(session, Stream::Err, 3);
    assert!(host.outgoing().is_empty());
    assert_eq!(host.room(session), 0);
}

#[test]
fn a_stream_stops_at_its_window_and_the_other_goes_on() {
    let (mut host, session, mut guest) = begun();
    let chunk = vec![0; MAX_PAYLOAD];
    let mut total = 0;
    while guest.room(1, Stream::Out) > 0 {
        total += guest.output(1, Stream::Out, &chunk);
    }
    assert_eq!(total, WINDOW);
    assert_eq!(guest.output(1, Stream::Err, b"x"), 1);
    let events = host.received(&std::mem::take(guest.outgoing())).unwrap();
    assert_eq!(events.len(), WINDOW / MAX_PAYLOAD + 1);
    // A few bytes are not worth a message, and more than came is not given back.
    host.consumed(session, Stream::Out, 10);
    host.consumed(session, Stream::Err, WINDOW);
    assert!(host.outgoing().is_empty());
    host.consumed(session, Stream::Out, WINDOW / 4);
    guest.received(&std::mem::take(host.outgoing())).unwrap();
    assert_eq!(guest.room(1, Stream::Out), (WINDOW / 4 + 10).min(MAX_PAYLOAD));
    let mut input = 0;
    while host.room(session) > 0 {
        input += host.input(session, &chunk);
    }
    assert_eq!(input, WINDOW);
}

/// Each byte is a message of its own, and the guest never reads what it is told.
#[test]
fn a_guest_that_writes_and_does_not_read_does_not_grow_the_host() {
    let (mut host, session, _) = begun();
    let byte = sent(&ToHost::Output(Stream::Out, vec![0]), session.number());
    let waiting = host.outgoing().len();
    let many = byte.repeat(1000);
    for _ in 0..10 * WINDOW / 1000 {
        for event in host.received(&many).unwrap() {
            let Event::Output(session, stream, bytes) = event else {
                panic!("{event:?}")
            };
            host.consumed(session, stream, bytes.len());
        }
    }
    let grown = host.outgoing().len() - waiting;
    assert!(grown < 1000, "{grown} bytes wait");
    host.outgoing().resize(200 << 20, 0);
    assert!(matches!(host.received(&byte), Err(ChannelError::Deaf)));
}

#[test]
fn an_enemy_is_refused() {
    let ready = |version| ToHost::Ready {
        version,
        kernel: String::new(),
    };
    let chunk = ToHost::Output(Stream::Out, vec![0; MAX_PAYLOAD]);
    let flood: Vec<u8> = (0..=WINDOW / MAX_PAYLOAD).flat_map(|_| sent(&chunk, 1)).collect();
    let warnings: Vec<u8> = (0..=MAX_WARNINGS)
        .flat_map(|_| sent(&ToHost::Warning("w".to_owned()), 1))
        .collect();
    let runs = sent(&ToHost::Runs, 1);
    let mut long = Vec::new();
    push(&mut long, 131, 1, &[]);
    long[4..8].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    let mut huge_text = Vec::new();
    push(&mut huge_text, 134, 1, &[b'x'; MAX_PAYLOAD]);
    let table = [
        (sent(&ready(VERSION), 0), ChannelError::Order("the machine")),
        (sent(&ToHost::Runs, 2), ChannelError::Session(2)),
        (sent(&ToHost::Runs, 0), ChannelError::Session(0)),
        (
            [&runs[..], &runs].concat(),
            ChannelError::Order("the start of a process"),
        ),
        (
            [runs, sent(&ToHost::Failed(1, "no".to_owned()), 1)].concat(),
            ChannelError::Order("the start of a process"),
        ),
        (flood, ChannelError::Window),
        (sent(&ToHost::Credit(1), 1), ChannelError::Credit),
        (sent(&ToHost::Credit(u32::MAX), 1), ChannelError::Credit),
        (warnings, ChannelError::Warnings),
        (long, ChannelError::Length(MAX_PAYLOAD as u32 + 1)),
        (huge_text, ChannelError::Payload(134)),
        (
            sent(&ToHost::Output(Stream::Out, vec![]), 1),
            ChannelError::Payload(131),
        ),
        (vec![1; 2 * HEADER], ChannelError::Length(0x0101_0101)),
        (vec![200, 0, 0, 0, 0, 0, 0, 0], ChannelError::Kind(200)),
        // A message of the host's own.
        (vec![8, 0, 0, 0, 0, 0, 0, 0], ChannelError::Kind(8)),
    ];
    for (bytes, error) in table {
        let (mut host, ..) = begun();
        assert_eq!(host.received(&bytes).unwrap_err(), error);
    }
    let other = Host::new().received(&sent(&ready(VERSION + 1), 0));
    assert_eq!(other.unwrap_err(), ChannelError::Version(VERSION + 1));
}

#[test]
fn texts_have_one_line() {
    let (mut host, session, mut guest) = begun();
    guest.warn(1, "a\n\u{1b}[2Jb");
    let events = host.received(&std::mem::take(guest.outgoing())).unwrap();
    assert_eq!(events, [Event::Warning(session, "a??[2Jb".to_owned())]);
    guest.warn(1, &"ä".repeat(5000));
    let events = host.received(&std::mem::take(guest.outgoing())).unwrap();
    assert_eq!(events, [Event::Warning(session, "ä".repeat(2048))]);
}

fn any_to_host() -> impl Strategy<Value = ToHost> {
    let text =
        ".{0,20}".prop_map(|text: String| text.chars().filter(|c| !c.is_control()).collect::<String>());
    let bytes = prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        (any::<u16>(), text.clone()).prop_map(|(version, kernel)| ToHost::Ready { version, kernel }),
        Just(ToHost::Runs),
        (any::<bool>(), bytes)
            .prop_map(|(out, bytes)| { ToHost::Output(if out { Stream::Out } else { Stream::Err }, bytes) }),
        any::<u32>().prop_map(ToHost::Credit),
        text.clone().prop_map(ToHost::Warning),
        (any::<u8>(), text).prop_map(|(code, text)| ToHost::Failed(code, text)),
        any::<u8>().prop_map(|code| ToHost::Ended(End::Code(code))),
        any::<u8>().prop_map(|number| ToHost::Ended(End::Signal(number))),
    ]
}

fn any_to_guest() -> impl Strategy<Value = ToGuest> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        bytes.clone().prop_map(ToGuest::Plan),
        any::<(Option<(u16, u16)>, Option<u16>)>()
            .prop_map(|(terminal, joins)| ToGuest::Begin { terminal, joins }),
        bytes.prop_map(ToGuest::Input),
        Just(ToGuest::InputEnd),
        any::<u8>().prop_map(ToGuest::Signal),
        any::<(u16, u16)>().prop_map(|(rows, columns)| ToGuest::Resize(rows, columns)),
        any::<u32>().prop_map(|bytes| ToGuest::Credit(Stream::Out, bytes)),
        Just(ToGuest::PowerOff),
        (any::<u64>(), any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(time, disks, links, byte)| {
            ToGuest::Wake(Wake {
                time,
                disks,
                links,
                seed: [byte; SEED],
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Messages come back however their bytes are cut.
    #[test]
    fn messages_come_back(
        host in any_to_host(), guest in any_to_guest(), session in any::<u16>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        host.push(session, &mut bytes);
        guest.push(session, &mut bytes);
        let (mut frames, at) = (Frames::default(), cut.index(bytes.len()));
        let mut found = Vec::new();
        for part in [&bytes[..at], &bytes[at..]] {
            frames.push(part);
            while let Some(frame) = frames.next().unwrap() {
                found.push(frame);
            }
        }
        prop_assert_eq!(found.len(), 2);
        prop_assert!(found.iter().all(|frame| frame.session == session));
        prop_assert_eq!(ToGuest::of(found.pop().unwrap()).unwrap(), guest);
        prop_assert_eq!(ToHost::of(found.pop().unwrap()).unwrap(), host);
    }

    /// Noise, also such as begins like messages, never makes the host keep more than a frame and what it was given.
    #[test]
    fn noise_is_an_event_or_an_error(
        messages in prop::collection::vec(any_to_host(), 0..20),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        changed in any::<prop::sample::Index>(),
    ) {
        let (mut host, session, _) = begun();
        let mut bytes: Vec<u8> = messages.iter().flat_map(|message| sent(message, 1)).collect();
        bytes.extend(&noise);
        if !bytes.is_empty() {
            let at = changed.index(bytes.len());
            bytes[at] ^= 1;
        }
        let mut taken = 0;
        for part in bytes.chunks(13) {
            match host.received(part) {
                Ok(events) => for event in events {
                    if let Event::Output(_, _, bytes) = event {
                        taken += bytes.len();
                    }
                },
                Err(_) => break,
            }
        }
        prop_assert!(taken <= 2 * WINDOW);
        prop_assert!(host.room(session) <= WINDOW);
    }

    /// Noise makes the guest's end keep no more either.
    #[test]
    fn noise_of_a_host(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut guest = Guest::new("");
        if let Ok(orders) = guest.received(&noise) {
            prop_assert!(orders.len() <= noise.len());
        }
    }
}
