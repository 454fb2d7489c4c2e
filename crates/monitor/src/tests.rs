//! Tests of the monitor, with shells and their pipes as containers.

use crate::{
    Chores, Connection, Container, Ended, Exit, Listener, LogFile, LogOptions, Monitor, PATIENCE, Report,
    Request, Settings, Streams, Verdict, connect, pair,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SETTINGS: Settings = Settings {
    stop_signal: 15,
    stop_timeout: None,
    stdin_once: false,
    patience: PATIENCE,
    output_limit: None,
};

const OUTPUT: Streams = Streams {
    stdin: false,
    stdout: true,
    stderr: true,
};

struct Scene {
    dir: TempDir,
    monitor: Monitor,
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = Listener::bind(open(&dir).as_fd(), "socket").unwrap();
        let log = LogFile::open(open(&dir), "log.json", LogOptions::default()).unwrap();
        Self {
            monitor: Monitor::new(listener, Some(log), settings).unwrap(),
            dir,
        }
    }

    /// Makes a client that is there from the start, but is not trusted.
    fn client(&mut self, streams: Streams) -> Connection {
        let connection = Connection::new(self.connect()).unwrap();
        connection.say(Request::Attach(streams, None)).unwrap();
        // The monitor reads its request before the container exists.
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(self.monitor.wait_until(soon, &mut ()).unwrap());
        connection
    }

    fn connect(&self) -> OwnedFd {
        connect(open(&self.dir).as_fd(), "socket").unwrap()
    }

    fn run(self, script: &str) -> Run {
        self.run_with(script, Box::new(()))
    }

    fn run_with(mut self, script: &str, mut chores: Box<dyn Chores + Send>) -> Run {
        let mut shell = spawn(script, Stdio::piped);
        Run(std::thread::spawn(move || {
            let pidfd = pidfd_open(Pid::from_child(&shell), PidfdFlags::empty()).unwrap();
            let container = container(&mut shell, &pidfd);
            let ended = self.monitor.watch(container, &mut *chores).unwrap();
            self.monitor.farewell(ended.exit.code(), "");
            let log = std::fs::read_to_string(self.dir.path().join("log.json")).unwrap();
            (ended, log)
        }))
    }
}

#[expect(clippy::disallowed_methods, reason = "a shell stands for a container")]
fn spawn(script: &str, stdio: impl Fn() -> Stdio) -> Child {
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", script]).stdin(stdio()).stdout(stdio());
    shell.stderr(stdio()).spawn().unwrap()
}

fn container<'a>(shell: &mut Child, pidfd: &'a OwnedFd) -> Container<'a> {
    Container {
        pidfd: pidfd.as_fd(),
        guardian: None,
        stdin: shell.stdin.take().map(OwnedFd::from),
        stdout: shell.stdout.take().map(OwnedFd::from),
        stderr: shell.stderr.take().map(OwnedFd::from),
        console: None,
    }
}

struct Run(JoinHandle<(Ended, String)>);

impl Run {
    fn end(self) -> (Ended, String) {
        self.0.join().unwrap()
    }
}

fn open(dir: &TempDir) -> OwnedFd {
    rustix::fs::open(dir.path(), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Reads everything up to the end: standard output, standard error, exit code.
fn all(mut client: Connection) -> (Vec<u8>, Vec<u8>, Option<i32>) {
    let (mut stdout, mut stderr, mut code) = (Vec::new(), Vec::new(), None);
    while let Some(report) = client.hear().unwrap() {
        match report {
            Report::Stdout(bytes) => stdout.extend_from_slice(bytes),
            Report::Stderr(bytes) => stderr.extend_from_slice(bytes),
            Report::Ended(number, _) => code = Some(number),
            Report::Done => {}
        }
    }
    (stdout, stderr, code)
}

#[test]
fn output_goes_to_the_log_and_to_who_wants_it() {
    let mut scene = Scene::new(SETTINGS);
    let both = scene.client(OUTPUT);
    let waits = scene.client(Streams::default());
    let run = scene.run("echo out; echo err >&2; printf 'no end'; exit 7");
    assert_eq!(all(both), (b"out\nno end".to_vec(), b"err\n".to_vec(), Some(7)));
    assert_eq!(all(waits), (vec![], vec![], Some(7)));
    let (ended, log) = run.end();
    assert_eq!(
        (ended.exit, ended.asked_to_stop, ended.lost_entries),
        (Exit::Code(7), false, 0)
    );
    let entries: Vec<_> = log
        .lines()
        .map(|line| line.split(",\"time\"").next().unwrap())
        .collect();
    assert!(
        entries.contains(&"{\"log\":\"out\\n\",\"stream\":\"stdout\""),
        "{log}"
    );
    assert!(
        entries.contains(&"{\"log\":\"err\\n\",\"stream\":\"stderr\""),
        "{log}"
    );
    assert_eq!(entries.last(), Some(&"{\"log\":\"no end\",\"stream\":\"stdout\""));
}

#[test]
fn long_lines_are_several_entries() {
    let run = Scene::new(SETTINGS).run("head -c 40000 /dev/zero | tr '\\0' x; echo; echo next");
    let (_, log) = run.end();
    let lengths: Vec<_> = log
        .lines()
        .map(|line| line.chars().filter(|letter| *letter == 'x').count())
        .collect();
    assert_eq!(lengths[..3], [16384, 16384, 40000 - 2 * 16384]);
    let ends: Vec<_> = log.lines().map(|line| line.contains("\\n\"")).collect();
    assert_eq!(ends, [false, false, true, true]);
    let times: Vec<_> = log.lines().map(|line| line.split("time").last()).collect();
    assert!(
        times[0] == times[1] && times[1] == times[2],
        "one line has one time"
    );
}

#[test]
fn input_ends_with_the_first_client_where_it_is_to() {
    let mut scene = Scene::new(Settings {
        stdin_once: true,
        ..SETTINGS
    });
    let client = scene.client(Streams::ALL);
    let run = scene.run("cat");
    let sent = vec![b'y'; 300_000];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in sent.chunks(16 * 1024) {
                client.say(Request::Input(bytes)).unwrap();
            }
            client.say(Request::EndOfInput).unwrap();
        });
        let mut other = Connection::new(client.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let mut got = 0;
        while let Some(report) = other.hear().unwrap() {
            if let Report::Stdout(bytes) = report {
                got += bytes.len();
            }
        }
        assert_eq!(got, sent.len());
    });
    assert_eq!(run.end().0.exit, Exit::Code(0));
}

#[test]
fn a_killed_container_is_told_apart() {
    let mut scene = Scene::new(SETTINGS);
    let client = scene.client(OUTPUT);
    let run = scene.run("kill -9 $$");
    assert_eq!(all(client).2, Some(137));
    assert_eq!(run.end().0.exit, Exit::Signal(9));
}

#[test]
fn clients_that_never_read_are_cut_off() {
    let mut scene = Scene::new(Settings {
        patience: Duration::from_millis(200),
        ..SETTINGS
    });
    let lazy = scene.client(OUTPUT);
    let run = scene.run("head -c 3000000 /dev/zero; echo done >&2");
    let (ended, log) = run.end();
    assert_eq!(ended.exit, Exit::Code(0));
    assert!(log.contains("done"));
    assert_eq!(all(lazy).2, None, "its connection was closed before the end");
}

#[test]
fn the_one_that_started_it_gets_everything_however_slow_it_is() {
    let mut scene = Scene::new(Settings {
        patience: Duration::from_millis(50),
        ..SETTINGS
    });
    let (theirs, ours) = pair().unwrap();
    scene.monitor.adopt(theirs, OUTPUT).unwrap();
    let run = scene.run("head -c 3000000 /dev/zero");
    let mut client = Connection::new(ours).unwrap();
    let (mut got, mut code) = (0, None);
    let mut slow = 5;
    while let Some(report) = client.hear().unwrap() {
        match report {
            Report::Stdout(bytes) => got += bytes.len(),
            Report::Stderr(_) => {}
            Report::Ended(number, _) => code = Some(number),
            Report::Done => {}
        }
        if slow > 0 {
            slow -= 1;
            // This is longer than the patience with other clients.
            tote_sys::Wait::within(Duration::from_millis(100))
                .poll(&mut [])
                .unwrap();
        }
    }
    assert_eq!((got, code), (3_000_000, Some(0)));
    drop(run.end());
}

#[test]
fn what_is_left_at_the_end_needs_nobody_to_read_it() {
    let mut scene = Scene::new(SETTINGS);
    let (theirs, ours) = pair().unwrap();
    scene.monitor.adopt(theirs, OUTPUT).unwrap();
    // The output is more than the socket takes while the container runs, so the pipes are full when it ends.
    let script = "head -c 100000 /dev/zero; head -c 60000 /dev/zero >&2";
    let begin = Instant::now();
    let (ended, _) = scene.run(script).end();
    assert!(begin.elapsed() < PATIENCE, "nobody was waited for");
    assert_eq!(ended.exit, Exit::Code(0));
    let (stdout, stderr, code) = all(Connection::new(ours).unwrap());
    assert_eq!((stdout.len(), stderr.len(), code), (100_000, 60_000, Some(0)));
}

#[test]
fn garbage_ends_a_connection_and_nothing_else() {
    let mut scene = Scene::new(SETTINGS);
    let good = scene.client(Streams::ALL);
    let bad: Vec<_> = [
        b"".as_slice(),
        b"?",
        b"A",
        b"I",
        b"W",
        &[b'I'; 17],
        &[0xff; 70_000],
    ]
    .into_iter()
    .map(|message| {
        let socket = scene.connect();
        rustix::net::send(&socket, message, rustix::net::SendFlags::NOSIGNAL).unwrap();
        Connection::new(socket).unwrap()
    })
    .collect();
    let forbidden = scene.client(OUTPUT);
    forbidden.say(Request::Input(b"exit 1\n")).unwrap();
    let run = scene.run("read line; echo $line");
    for bad in bad {
        assert_eq!(all(bad).2, None);
    }
    assert_eq!(all(forbidden).2, None, "input without having asked for it");
    good.say(Request::Input(b"fine\n")).unwrap();
    assert_eq!(all(good), (b"fine\n".to_vec(), vec![], Some(0)));
    assert_eq!(run.end().0.exit, Exit::Code(0));
}

#[test]
fn a_thousand_connections_are_not_served_at_once() {
    let mut scene = Scene::new(SETTINGS);
    let good = scene.client(Streams::ALL);
    let sockets: Vec<_> = (0..500).map(|_| scene.connect()).collect();
    let run = scene.run("read line; echo $line");
    good.say(Request::Input(b"fine\n")).unwrap();
    assert_eq!(all(good), (b"fine\n".to_vec(), vec![], Some(0)));
    for socket in sockets {
        assert_eq!(
            all(Connection::new(socket).unwrap()).2,
            Some(0),
            "all hear of the end"
        );
    }
    drop(run.end());
}

#[test]
fn who_says_nothing_makes_room_for_others() {
    let mut scene = Scene::new(Settings {
        patience: Duration::from_millis(100),
        ..SETTINGS
    });
    let good = scene.client(Streams::ALL);
    let silent: Vec<_> = (0..300).map(|_| scene.connect()).collect();
    let late = Connection::new(scene.connect()).unwrap();
    late.say(Request::Attach(Streams::default(), None)).unwrap();
    let run = scene.run("read line");
    for silent in silent {
        assert_eq!(all(Connection::new(silent).unwrap()).2, None);
    }
    good.say(Request::Input(b"\n")).unwrap();
    assert_eq!(all(late).2, Some(0));
    drop(run.end());
}

/// Kills the container at a moment.
struct Limit(Option<Instant>);

impl Chores for Limit {
    fn due(&self) -> Option<Instant> {
        self.0
    }

    fn perform(&mut self, now: Instant) -> Verdict {
        assert!(self.0.take().is_some_and(|due| due <= now));
        Verdict::Kill
    }
}

#[test]
fn the_caller_may_limit_its_time() {
    let limit = Limit(Some(Instant::now() + Duration::from_millis(100)));
    let run = Scene::new(SETTINGS).run_with("exec sleep 1000", Box::new(limit));
    assert_eq!(run.end().0.exit, Exit::Signal(9));
}

#[test]
fn a_terminal_takes_input_and_sizes() {
    let mut scene = Scene::new(SETTINGS);
    let client = scene.client(Streams::ALL);
    let master =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ptsname(&master, vec![]).unwrap();
    let terminal = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        Stdio::from(rustix::fs::open(slave.as_c_str(), flags, Mode::empty()).unwrap())
    };
    let mut shell = spawn("read line; stty size; echo \"<$line>\"; exit 5", terminal);
    client.say(Request::Resize((33, 44))).unwrap();
    client.say(Request::Input(b"typed\n")).unwrap();
    let reader = std::thread::spawn(move || all(client));
    let pidfd = pidfd_open(Pid::from_child(&shell), PidfdFlags::empty()).unwrap();
    let container = Container {
        console: Some(master),
        ..container(&mut shell, &pidfd)
    };
    let ended = scene.monitor.watch(container, &mut ()).unwrap();
    scene.monitor.farewell(ended.exit.code(), "bye");
    let (output, _, code) = reader.join().unwrap();
    let output = String::from_utf8(output).unwrap();
    assert_eq!(code, Some(5));
    assert!(output.ends_with("33 44\r\n<typed>\r\n"), "{output:?}");
}

#[test]
fn in_between_two_runs_clients_wait() {
    let mut scene = Scene::new(SETTINGS);
    let client = scene.client(OUTPUT);
    let soon = Instant::now() + Duration::from_millis(50);
    assert!(scene.monitor.wait_until(soon, &mut ()).unwrap());
    assert!(Instant::now() >= soon);
    let run = scene.run("echo again");
    assert_eq!(all(client), (b"again\n".to_vec(), vec![], Some(0)));
    drop(run.end());
}

/// Returns the processor time of this thread so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// poll(2) reports a closed connection all the time, so the monitor must not poll it while its input has no room.
#[test]
fn the_monitor_sleeps_while_nothing_happens() {
    let mut scene = Scene::new(SETTINGS);
    let client = scene.client(Streams::ALL);
    let lazy = scene.client(OUTPUT);
    let mut shell = spawn("head -c 600000 /dev/zero; exec sleep 1000", Stdio::piped);
    rustix::io::ioctl_fionbio(&client, true).unwrap();
    let feeder = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            tote_sys::best_effort(client.say(Request::Input(&[b'x'; 16 * 1024])));
        }
    });
    let begin = processor_time();
    let pidfd = pidfd_open(Pid::from_child(&shell), PidfdFlags::empty()).unwrap();
    let container = container(&mut shell, &pidfd);
    let mut limit = Limit(Some(Instant::now() + Duration::from_secs(1)));
    let ended = scene.monitor.watch(container, &mut limit).unwrap();
    assert_eq!(ended.exit, Exit::Signal(9));
    let used = processor_time() - begin;
    assert!(used < Duration::from_millis(300), "{used:?} of processor time");
    drop((feeder.join().unwrap(), lazy));
}
