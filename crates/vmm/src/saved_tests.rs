//! Machines that go on from templates, with a VMM that boots nothing.

use crate::arguments::arguments;
use crate::attend::{Verdict, attend_within};
use crate::qemu::pidfd;
use crate::save::save_within;
use crate::saved::{Files, Starting};
use crate::streams::Streams;
use crate::tests::{Fake, guest, machine};
use crate::vmm::{Booted, Vmm, Wires};
use crate::{Begin, Bringer, Change, Disk, Layout, Link, Machine, Plug, Spare, Template, VmmError};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tote_channel::{End, Guest, Order, Wake};
use tote_sys::{Errno, OPEN_FOR_BOTH, SignalFd, SignalSet, spawn_reporting};

const PATIENCE: Duration = Duration::from_secs(100);

fn template() -> Template {
    Template {
        memory: "/memory".into(),
        state: "/state".into(),
        layout: Layout { disks: 4, links: 1 },
    }
}

fn spare() -> Option<Spare> {
    Some(Spare {
        serial: "tools".to_owned(),
        order: String::new(),
    })
}

fn resumed() -> Machine {
    Machine {
        begin: Begin::Resume(template()),
        disks: ["image", "writes"]
            .map(|serial| Disk {
                serial: serial.to_owned(),
                file: format!("/{serial}").into(),
                readonly: serial == "image",
            })
            .into(),
        spare: spare(),
        links: vec![Link {
            tap: "tap0".to_owned(),
            mac: "02:42:ac:11:00:02".to_owned(),
        }],
        ..machine()
    }
}

fn run(vmm: &dyn Vmm, machine: &Machine) -> (Verdict, Vec<String>) {
    let (_writer, reader) = UnixStream::pair().unwrap();
    let (out, _read_out) = UnixStream::pair().unwrap();
    let streams = Streams {
        input: reader.as_fd(),
        outputs: [out.as_fd(), out.as_fd()],
        signals: SignalFd::new(&SignalSet::empty()).unwrap(),
        plain: false,
        mute: false,
        patience: crate::attend::BOOT,
        visitors: None,
    };
    let mut warnings = Vec::new();
    let verdict = attend_within(
        PATIENCE,
        (vmm, machine),
        (b"the plan", None),
        streams,
        &mut |text| warnings.push(text),
    );
    (verdict, warnings)
}

/// Sleeps as a guest does, and serves the plan when it is woken, with this exit code.
fn sleeper(code: u8) -> (Fake, Receiver<Wake>) {
    let (send, woken) = channel();
    let vmm = Fake::new(move |mut channel, _console| {
        let (mut asleep, mut buffer) = (Guest::new("6.1"), [0; 1000]);
        let length = channel.read(&mut buffer).unwrap();
        match &*asleep.received(&buffer[..length]).unwrap() {
            [Order::Wake(wake)] => send.send(*wake).unwrap(),
            orders => panic!("{orders:?}"),
        }
        guest(channel, move |guest, order| match order {
            Order::Begin { session, .. } => {
                guest.runs(session);
                guest.ended(session, End::Code(code));
                true
            }
            order => panic!("{order:?}"),
        });
    });
    (vmm, woken)
}

#[test]
fn a_guest_is_woken_before_it_gets_its_plan() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let mut seeds = Vec::new();
    for code in [3, 4] {
        let (vmm, woken) = sleeper(code);
        let begin = now();
        let (verdict, warnings) = run(&vmm, &resumed());
        assert_eq!(
            (verdict.code, verdict.message, warnings),
            (code, None, Vec::new())
        );
        let wake = woken.recv().unwrap();
        assert_eq!(
            (wake.disks, wake.links),
            (1, 1),
            "the guest keeps the first one and the spare one"
        );
        assert!((begin..=now()).contains(&wake.time.into()), "{}", wake.time);
        seeds.push(wake.seed);
    }
    assert_ne!(seeds[0], seeds[1]);
}

/// Two machines, one after the other.
#[derive(Debug)]
struct Twice(RefCell<Vec<Fake>>, RefCell<Vec<Begin>>);

impl Vmm for Twice {
    fn boot(&self, machine: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        self.1.borrow_mut().push(machine.begin.clone());
        match self.0.borrow_mut().pop() {
            Some(vmm) => vmm.boot(machine, wires),
            None => Err(VmmError::kernel("begin")(Errno::IO)),
        }
    }
}

#[test]
fn a_machine_that_does_not_go_on_boots() {
    let booted = || {
        Fake::new(|channel, _console| {
            guest(channel, |guest, order| {
                assert!(
                    matches!(order, Order::Begin { .. }),
                    "nobody wakes what has booted: {order:?}"
                );
                guest.runs(1);
                guest.ended(1, End::Code(5));
                true
            });
        })
    };
    let broken =
        || Fake::new(|_channel, mut console| console.write_all(b"load of migration failed\n").unwrap());
    let vmm = Twice(RefCell::new(vec![booted(), broken()]), RefCell::default());
    let (verdict, warnings) = run(&vmm, &resumed());
    assert_eq!((verdict.code, verdict.message), (5, None));
    assert_eq!(*vmm.1.borrow(), [resumed().begin, Begin::Boot]);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("the virtual machine boots, because it does not go on from its template: "),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("the last words"), "{warnings:?}");
    // One that does not boot either says so, and no more.
    let vmm = Twice(RefCell::new(vec![broken(), broken()]), RefCell::default());
    let (verdict, warnings) = run(&vmm, &resumed());
    assert_eq!((verdict.code, warnings.len()), (125, 0), "{verdict:?}");
    assert_eq!(vmm.1.borrow().len(), 2);
    // A machine that has said that it is up is not begun again.
    let dying = Fake::new(|mut channel, _console| {
        let mut guest = Guest::new("6.1");
        channel.write_all(&std::mem::take(guest.outgoing())).unwrap();
    });
    let vmm = Twice(RefCell::new(vec![booted(), dying]), RefCell::default());
    let (verdict, warnings) = run(&vmm, &resumed());
    assert_eq!((verdict.code, warnings.len()), (125, 0), "{verdict:?}");
    assert_eq!(vmm.1.borrow().len(), 1);
}

/// A process that has closed its control, and has ended.
struct Gone {
    control: UnixStream,
    ended: OwnedFd,
    heard: u32,
}

impl Starting for Gone {
    fn waits(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.ended.as_fd()]
    }

    fn speak(&mut self) -> Result<(), VmmError> {
        self.heard += 1;
        assert!(self.heard < 100, "nothing more is heard of it");
        Ok(())
    }

    fn is_open(&self) -> bool {
        false
    }
}

#[test]
fn a_process_that_ends_before_it_speaks_is_not_waited_for() {
    let machine = Machine {
        begin: Begin::Resume(Template {
            memory: "/dev/null".into(),
            state: "/dev/null".into(),
            ..template()
        }),
        ..machine()
    };
    let files = Files::open(&machine).unwrap().unwrap();
    rustix::thread::set_no_new_privs(true).unwrap();
    #[expect(
        clippy::disallowed_methods,
        reason = "a process that ends, at a path of every machine"
    )]
    let mut command = Command::new("/bin/true");
    let (mut child, listener) = spawn_reporting(&mut command, &OPEN_FOR_BOTH).unwrap();
    let ended = pidfd(&child).unwrap();
    tote_sys::await_program(&mut child).unwrap();
    let (control, _) = UnixStream::pair().unwrap();
    let mut gone = Gone {
        control,
        ended,
        heard: 0,
    };
    files.hand_out(&machine, &listener, &mut gone).unwrap();
}

/// A machine that can be saved: its guest is a function.
#[derive(Debug)]
struct Savable(Fake);

#[derive(Debug)]
struct Saved {
    inner: Box<dyn Booted>,
    told: (UnixStream, UnixStream),
    is_saved: bool,
}

impl Vmm for Savable {
    fn boot(&self, machine: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        Ok(Box::new(Saved {
            inner: self.0.boot(machine, wires)?,
            told: UnixStream::pair().unwrap(),
            is_saved: false,
        }))
    }
}

impl Booted for Saved {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        Some(self.told.0.as_fd())
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.inner.ended()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        self.is_saved = true;
        Ok(Vec::new())
    }

    fn attach(&mut self, _: Plug) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
    }

    fn detach(&mut self, _: &str) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
    }

    fn replace(&mut self, _: &str, _: OwnedFd) -> Result<(), VmmError> {
        Err(VmmError::Elsewhere)
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        None
    }

    fn save(&mut self, state: OwnedFd) -> Result<(), VmmError> {
        rustix::io::write(&state, b"state").unwrap();
        self.told.1.write_all(b"done").unwrap();
        Ok(())
    }

    fn is_saved(&self) -> bool {
        self.is_saved
    }

    fn end(&mut self) -> String {
        self.inner.end()
    }
}

fn save(
    patience: Duration,
    body: impl FnOnce(UnixStream, UnixStream) + Send + 'static,
) -> (Result<(), VmmError>, Vec<u8>) {
    let (mut read, write) = UnixStream::pair().unwrap();
    let vmm = Savable(Fake::new(body));
    let saved = save_within(patience, (&vmm, &machine()), write.into());
    let mut state = Vec::new();
    read.read_to_end(&mut state).unwrap();
    (saved, state)
}

#[test]
fn a_machine_is_saved_when_its_guest_is_ready_and_has_heard_nothing() {
    let (send, heard) = channel();
    let (saved, state) = save(PATIENCE, move |mut channel, _console| {
        let mut guest = Guest::new("6.1");
        channel.write_all(&std::mem::take(guest.outgoing())).unwrap();
        let mut rest = Vec::new();
        channel.read_to_end(&mut rest).unwrap();
        send.send(rest).unwrap();
    });
    saved.unwrap();
    assert_eq!(state, b"state");
    assert_eq!(heard.recv().unwrap(), b"");
}

#[test]
fn what_cannot_be_saved_says_why() {
    let (saved, state) = save(PATIENCE, |_channel, mut console| {
        console.write_all(b"no init found\n").unwrap()
    });
    let text = saved.unwrap_err().to_string();
    assert!(
        text.starts_with("the virtual machine ended before it was saved: the last words"),
        "{text}"
    );
    assert_eq!(state, b"");
    let (saved, _) = save(Duration::from_millis(50), |mut channel, _console| {
        let mut rest = Vec::new();
        channel.read_to_end(&mut rest).unwrap();
    });
    assert!(matches!(saved.unwrap_err(), VmmError::Silent { .. }));
    let (saved, _) = save(PATIENCE, |mut channel, _console| {
        channel.write_all(&[9; 100]).unwrap()
    });
    assert!(matches!(saved.unwrap_err(), VmmError::Channel(_)));
}

#[test]
fn a_machine_is_saved_with_placeholders_and_goes_on_with_devices() {
    let saved = Machine {
        begin: Begin::Save {
            template: template(),
            word: "asleep".to_owned(),
            first: "image".to_owned(),
        },
        spare: spare(),
        ..machine()
    };
    let line = arguments(&saved, None, (3, 4, 5), None).join(" ");
    for part in [
        "-machine microvm,memory-backend=memory",
        "memory-backend-file,id=memory,size=1M,share=on,mem-path=/memory",
        "deadline_init asleep=1",
        "-kernel ",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let resumed = arguments(&resumed(), None, (3, 4, 5), None);
    let text = resumed.join(" ");
    for part in [
        "share=off,mem-path=/memory -incoming defer",
        "drive=image",
        "drive=absent3",
        "netdev=tap0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("balloon") && !line.contains("balloon"), "{text}");
    assert!(!text.contains("-kernel"), "its kernel is in its memory: {text}");
    // QEMU finds the state of each device by its kind and its place among those of that kind.
    let devices = |line: &str| {
        let words = line.split(' ');
        let names = words.filter_map(|word| word.split_once("-device,").map(|(kind, _)| kind.to_owned()));
        names.collect::<Vec<_>>()
    };
    assert_eq!(devices(&line), devices(&text));
    assert_eq!(
        devices(&text).iter().filter(|kind| *kind == "virtio-blk").count(),
        6,
        "that of tote, four, and the spare one"
    );
    // The spare disk is the same one in both, whatever other disks there are.
    let place = |line: &str| {
        let disks = line.split("-device virtio-blk-device,drive=").skip(1);
        let mut names = disks.filter_map(|rest| rest.split(',').next());
        names.position(|name| name == "tools")
    };
    assert_eq!((place(&line), place(&text)), (Some(5), Some(5)));
    // Guests that go on know the first one, with its size as it was.
    assert!(
        line.contains("node-name=image,read-only=on,file.driver=null-co"),
        "{line}"
    );
    assert!(line.find("drive=image") < line.find("drive=absent1"), "{line}");
    assert_eq!(
        devices(&text).iter().filter(|kind| *kind == "virtio-net").count(),
        1
    );
}

/// Brings a plan when its guest is ready, after a rehearsal.
#[derive(Debug)]
struct Late(UnixStream, UnixStream);

impl Bringer for Late {
    fn comes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn rehearsal(&self) -> Option<Vec<u8>> {
        Some(b"the rehearsal".to_vec())
    }

    fn ready(&mut self) -> Result<(), VmmError> {
        self.1.write_all(b"x").unwrap();
        Ok(())
    }

    fn bring(&mut self) -> Result<Option<Vec<u8>>, VmmError> {
        self.0.read_exact(&mut [0]).unwrap();
        Ok(Some(b"the plan".to_vec()))
    }

    fn failed(&mut self, reason: &str) {
        panic!("{reason}")
    }
}

#[test]
fn a_plan_comes_after_a_rehearsal() {
    let (send, heard) = channel();
    let vmm = Fake::new(move |channel, _console| {
        guest(channel, move |guest, order| {
            let Order::Begin { session, plan, .. } = order else {
                panic!("{order:?}")
            };
            send.send((session, plan.to_vec())).unwrap();
            if session == 1 {
                guest.failed(session, 126, "it cannot be executed");
                return false;
            }
            guest.runs(session);
            guest.ended(session, End::Code(7));
            true
        });
    });
    let (_writer, reader) = UnixStream::pair().unwrap();
    let (out, _read_out) = UnixStream::pair().unwrap();
    let streams = Streams {
        input: reader.as_fd(),
        outputs: [out.as_fd(), out.as_fd()],
        signals: SignalFd::new(&SignalSet::empty()).unwrap(),
        plain: false,
        mute: false,
        patience: crate::attend::BOOT,
        visitors: None,
    };
    let pair = UnixStream::pair().unwrap();
    let late = Box::new(Late(pair.0, pair.1));
    let verdict = attend_within(
        PATIENCE,
        (&vmm, &machine()),
        (&[], Some(late)),
        streams,
        &mut |text| panic!("{text}"),
    );
    assert_eq!((verdict.code, verdict.message), (7, None));
    let heard: Vec<_> = heard.iter().collect();
    assert_eq!(heard, [(1, b"the rehearsal".to_vec()), (2, b"the plan".to_vec())]);
}
