//! Ending containers: `stop`, `kill`, and waiting for an end.

use super::claim::Claim;
use super::error::LifeError;
use super::state::{State, Status};
use super::{Container, Entry, find, foreground, life, stopped};
use crate::{EngineError, Home};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use tote_bundle::{ContainerId, Signal, StopTimeout};
use tote_cgroup::Cgroup;
use tote_monitor::{Connection, Report, Request, Streams};
use tote_state::events::append;
use tote_sys::{Errno, best_effort, send_signal};

/// docker's, where nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long `kill` waits for the end of what it has killed: a process that waits for a disk does not end before the disk
/// answers.
const KILLED: Duration = Duration::from_secs(10);

/// How long a monitor may take from its container's end to what comes next.
const MOMENT: Duration = Duration::from_secs(2);

/// How `stop` asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopOptions {
    /// The signal; the container's own where it is not given.
    pub signal: Option<Signal>,
    /// When it is killed; the container's own where it is not given.
    pub timeout: Option<StopTimeout>,
}

/// A process that is to end, and when it is killed if it does not.
#[derive(Debug)]
pub(super) struct Target {
    id: ContainerId,
    pidfd: OwnedFd,
    cgroup: Option<String>,
    kill_at: Option<Instant>,
    ended: bool,
}

impl Target {
    /// A container's first process; between two of its lives, its monitor.
    ///
    /// # Errors
    /// It cannot be said whether it has ended.
    pub(super) fn of(entry: &Entry) -> Result<Option<Self>, EngineError> {
        let state = &entry.state;
        let Some(process) = state.process.or(state.monitor) else {
            return Ok(None);
        };
        let pidfd = tote_state::process::reach(process.pid, process.start_time)?;
        Ok(pidfd.map(|pidfd| Self {
            id: entry.container.id.clone(),
            pidfd,
            cgroup: state.cgroup.clone(),
            kill_at: None,
            ended: false,
        }))
    }

    /// The monitor of a container whose state cannot be read, where one listens: its container ends with it.
    pub(super) fn of_monitor(home: &Home, id: &ContainerId) -> Option<Self> {
        let connection = life::connect(home, id).ok()?;
        let monitor = rustix::net::sockopt::socket_peercred(&connection).ok()?.pid;
        Some(Self {
            id: id.clone(),
            pidfd: rustix::process::pidfd_open(monitor, rustix::process::PidfdFlags::empty()).ok()?,
            cgroup: None,
            kill_at: None,
            ended: false,
        })
    }

    pub(super) fn kill(&self) {
        self.send(Signal::KILL);
        self.thaw();
    }

    fn send(&self, signal: Signal) {
        // One that has just ended needs no signal.
        best_effort(send_signal(self.pidfd.as_fd(), i32::from(signal.number())));
    }

    /// What is frozen does not even die on cgroup v1.
    fn thaw(&self) {
        if let Some(Ok(cgroup)) = self.cgroup.as_deref().map(Cgroup::open)
            && cgroup.is_frozen().unwrap_or(false)
        {
            best_effort(cgroup.thaw());
        }
    }
}

/// Waits until all have ended, kills those whose time has come; after `limit` it waits for none any more.
pub(super) fn end_of(targets: &[Target], limit: Duration) {
    let fds: Vec<_> = targets.iter().map(|target| &target.pidfd).collect();
    wait_for(&fds, Some(Instant::now() + limit));
}

/// Waits until all processes have ended, or until that moment. Gives which have.
fn wait_for(pidfds: &[&OwnedFd], until: Option<Instant>) -> Vec<bool> {
    let mut ended = vec![false; pidfds.len()];
    loop {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let mut places = Vec::new();
        for (place, pidfd) in pidfds.iter().enumerate().filter(|(place, _)| !ended[*place]) {
            fds.push(PollFd::new(*pidfd, PollFlags::IN));
            places.push(place);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if fds.is_empty() {
            return ended;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        best_effort(poll(&mut fds, timeout.as_ref()));
        for (fd, place) in fds.iter().zip(&places) {
            ended[*place] |= !fd.revents().is_empty();
        }
        if left == Some(Duration::ZERO) {
            return ended;
        }
    }
}

/// Asks containers to end, and kills those that do not in time. All are asked before the first is waited for. Gives for
/// each what came of it, in their order; one that does not run is as it should be.
pub fn stop(home: &Home, wanted: &[String], options: StopOptions) -> Vec<Result<(), EngineError>> {
    let mut results: Vec<Result<Option<Target>, EngineError>> =
        wanted.iter().map(|wanted| ask(home, wanted, options)).collect();
    let mut targets: Vec<&mut Target> = results.iter_mut().flatten().flatten().collect();
    while targets.iter().any(|target| !target.ended) {
        let open: Vec<usize> = (0..targets.len()).filter(|at| !targets[*at].ended).collect();
        let next = open.iter().filter_map(|at| targets[*at].kill_at).min();
        let fds: Vec<&OwnedFd> = open.iter().map(|at| &targets[*at].pidfd).collect();
        let ended = wait_for(&fds, next);
        let now = Instant::now();
        for (at, ended) in open.into_iter().zip(ended) {
            let target = &mut targets[at];
            target.ended = ended;
            if !ended && target.kill_at.is_some_and(|moment| now >= moment) {
                target.kill();
                target.kill_at = None;
            }
        }
    }
    let settled = |result: Result<Option<Target>, EngineError>| match result? {
        // Its monitor lets go when all is written down.
        Some(target) => settle(home, &target.id),
        None => Ok(()),
    };
    let settled: Vec<_> = results.into_iter().map(settled).collect();
    settled
}

/// Waits until the monitor of a container that has ended lets go of it.
fn let_go(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    match Claim::wait(home, id) {
        Ok(claim) => claim.release(),
        // There is no room for the file, so nobody has it; or its monitor still puts away what its container has left.
        Err(error) if error.is_full() => {}
        Err(EngineError::Life(LifeError::Held { .. })) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn settle(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    let_go(home, id)?;
    if let Some(entry) = super::open(home, id)? {
        append(home, &[entry.container.event("stop")]);
    }
    Ok(())
}

fn ask(home: &Home, wanted: &str, options: StopOptions) -> Result<Option<Target>, EngineError> {
    let mut entry = find(home, wanted)?;
    let lives = |entry: &Entry| matches!(entry.state.status, Status::Running | Status::Restarting);
    if !lives(&entry) && entry.kept && Claim::is_held(home, &entry.container.id) {
        // Its monitor is about to let go, or to start it again; the mark decides that, or it is seen alive in a moment.
        mark(home, &entry);
        let until = Instant::now() + MOMENT;
        while !lives(&entry) && Claim::is_held(home, &entry.container.id) && Instant::now() < until {
            #[expect(
                clippy::disallowed_methods,
                reason = "between its container's lives a monitor has nothing that could be waited for"
            )]
            std::thread::sleep(Duration::from_millis(1));
            entry.state = State::truth(home, &entry.container.id)?;
        }
    }
    if !lives(&entry) {
        return Ok(None);
    }
    mark(home, &entry);
    let Some(mut target) = Target::of(&entry)? else {
        // It has just ended by itself; its monitor sees the mark.
        settle(home, &entry.container.id)?;
        return Ok(None);
    };
    let signal = if entry.state.runs() {
        let own = entry.container.stop_signal.parse().unwrap_or(Signal::TERM);
        options.signal.unwrap_or(own)
    } else {
        Signal::TERM
    };
    target.send(signal);
    if entry.state.paused {
        target.thaw();
    }
    let own = entry
        .container
        .run_options()
        .ok()
        .and_then(|options| options.stop_timeout);
    target.kill_at = match options.timeout.or(own) {
        Some(StopTimeout::Never) => None,
        Some(StopTimeout::After(limit)) => Instant::now().checked_add(limit),
        None => Some(Instant::now() + TIMEOUT),
    };
    let killed = entry.container.event("kill").with("signal", signal.number());
    append(home, &[killed]);
    Ok(Some(target))
}

/// Tells the restart policy that somebody wants it to end.
fn mark(home: &Home, entry: &Entry) {
    if entry.kept {
        stopped::mark(home, &entry.container.id);
    }
}

/// Whether a container can be stopped and started again. One that is not there is an error of the stop.
///
/// # Errors
/// [`LifeError::RestartOfRm`].
pub fn check_restart(home: &Home, wanted: &str) -> Result<(), EngineError> {
    match find(home, wanted) {
        Ok(entry) if entry.container.rm && entry.state.runs() => {
            Err(LifeError::RestartOfRm(entry.container.display().to_owned()).into())
        }
        _ => Ok(()),
    }
}

/// Sends a signal to a container's first process. After SIGKILL the container has ended when this comes back, unless that
/// takes longer than ten seconds: `tote kill` and then `tote rm` is what people write.
///
/// # Errors
/// [`LifeError::NotRunning`].
pub fn kill(home: &Home, wanted: &str, signal: Signal) -> Result<(), EngineError> {
    let entry = find(home, wanted)?;
    let missing = || LifeError::NotRunning {
        action: "kill",
        name: wanted.to_owned(),
        id: entry.container.id.short().to_owned(),
    };
    let ends = signal == Signal::KILL || signal.number() == signal_of(&entry.container);
    let target = match entry.state.process {
        Some(_) => Target::of(&entry)?,
        None => None,
    };
    let target = target.ok_or_else(missing)?;
    if ends {
        mark(home, &entry);
    }
    match send_signal(target.pidfd.as_fd(), i32::from(signal.number())) {
        Ok(()) => {}
        Err(Errno::SRCH) => return Err(missing().into()),
        Err(source) => {
            return Err(EngineError::Kernel {
                attempt: "send a signal to the container",
                source,
            });
        }
    }
    if signal == Signal::KILL {
        target.thaw();
    }
    append(
        home,
        &[entry.container.event("kill").with("signal", signal.number())],
    );
    if signal == Signal::KILL && wait_for(&[&target.pidfd], Some(Instant::now() + KILLED)) == [true] {
        let_go(home, &entry.container.id)?;
    }
    Ok(())
}

/// Waits for the end of a container; gives its exit code, and of one that does not run the last one.
///
/// # Errors
/// [`EngineError`]; [`LifeError::NotRunning`] of one that is gone when it has ended, and that left no code.
pub fn wait(home: &Home, wanted: &str) -> Result<i32, EngineError> {
    let entry = find(home, wanted)?;
    let id = &entry.container.id;
    let goes_on = match entry.state.status {
        Status::Running | Status::Restarting => true,
        // Its monitor has yet to say whether it is started again.
        Status::Exited => Claim::is_held(home, id),
        _ => false,
    };
    if !goes_on {
        return Ok(entry.state.exit_code);
    }
    let connected = if entry.kept {
        life::connect(home, id).ok()
    } else {
        reach_foreground(home, &entry)
    };
    if let Some(code) = connected.and_then(hear_end) {
        return Ok(code);
    }
    // Nobody is there to say it: it has just ended, or its supervisor speaks to nobody.
    if let Some(target) = Target::of(&entry)? {
        wait_for(&[&target.pidfd], None);
    }
    // A monitor that is being killed says nothing any more, and has its claim for a moment longer.
    if let Some(monitor) = entry.state.monitor
        && let Some(pidfd) = tote_state::process::open(monitor.pid, monitor.start_time)
    {
        wait_for(&[&pidfd], Some(Instant::now() + MOMENT));
    }
    if let Some(entry) = super::open(home, id)?
        && !entry.state.runs()
    {
        return Ok(entry.state.exit_code);
    }
    Err(LifeError::NotRunning {
        action: "wait for",
        name: wanted.to_owned(),
        id: id.short().to_owned(),
    }
    .into())
}

/// The command listens as soon as the program runs, and may just be about to: the socket is not there yet, or is there
/// and nobody listens yet.
fn reach_foreground(home: &Home, entry: &Entry) -> Option<OwnedFd> {
    for _ in 0..400 {
        match foreground::connect(home, &entry.container.id) {
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            connected => return connected.ok(),
        }
        let target = Target::of(entry).ok()??;
        if wait_for(&[&target.pidfd], Some(Instant::now() + Duration::from_millis(5))) == [true] {
            return None;
        }
    }
    None
}

fn hear_end(socket: OwnedFd) -> Option<i32> {
    let mut connection = Connection::new(socket).ok()?;
    // Whoever has nothing more to hear may be about to say how it ended.
    best_effort(connection.say(Request::Attach(Streams::default(), None)));
    loop {
        if let Report::Ended(code, _) = connection.hear().ok()?? {
            return Some(code);
        }
    }
}

/// The number of a container's stop signal.
pub(super) fn signal_of(container: &Container) -> u8 {
    container.stop_signal.parse().unwrap_or(Signal::TERM).number()
}

#[cfg(test)]
mod tests {
    use super::super::state::{ProcessId, boot};
    use super::super::tests::container;
    use super::*;
    use rustix::fd::AsRawFd as _;
    use std::process::{Command, Stdio};

    /// Killed while it writes down the end: it speaks no more, its container is gone, and its claim goes with it, later.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a program stands for a monitor")]
    fn the_end_of_a_monitor_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x11, "web").id;
        let claim = std::fs::File::create(home.live().join(id.as_str())).unwrap();
        assert!(tote_sys::lock_file(claim.as_fd(), false).unwrap());
        let mut monitor = {
            let mut sleep = Command::new("sleep");
            sleep.arg("0.2").stdin(Stdio::from(claim)).spawn().unwrap()
        };
        let ended = ProcessId {
            pid: monitor.id(),
            start_time: 0,
        };
        let state = State {
            status: Status::Running,
            process: Some(ended),
            monitor: ProcessId::of(monitor.id()),
            boot: boot(),
            ..State::default()
        };
        state.write(&home, &id).unwrap();
        assert_eq!(wait(&home, "web").unwrap(), 137);
        monitor.wait().unwrap();
    }

    /// There is a moment in which the command has made its socket and does not listen yet.
    #[test]
    fn who_is_about_to_listen_is_waited_for() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x11, "web").id;
        let claim = std::fs::File::create_new(home.live().join(id.as_str())).unwrap();
        assert!(tote_sys::lock_file(claim.as_fd(), false).unwrap());
        let state = State {
            status: Status::Running,
            process: ProcessId::of(std::process::id()),
            boot: boot(),
            ..State::default()
        };
        state.write(&home, &id).unwrap();
        let entry = super::super::open(&home, &id).unwrap().unwrap();
        let live = life::open_dir(&home.live()).unwrap();
        let path = format!("/proc/self/fd/{}/{id}.{}", live.as_raw_fd(), life::SOCKET);
        let command = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        bind(&command, &SocketAddrUnix::new(path).unwrap()).unwrap();
        assert_eq!(foreground::connect(&home, &id).err(), Some(Errno::CONNREFUSED));
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| send.send(reach_foreground(&home, &entry).is_some()).unwrap());
            let early = receive.recv_timeout(Duration::from_millis(100));
            assert!(early.is_err(), "it has given up");
            listen(&command, 1).unwrap();
            assert!(receive.recv().unwrap(), "it has not connected");
        });
    }
}
