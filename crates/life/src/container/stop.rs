//! End of containers: `stop`, `kill`, and `wait`.

use super::claim::Claim;
use super::error::LifeError;
use super::live::is_held;
use super::state::{State, Status};
use super::target::{Outcome, Target, end_of, wait_for};
use super::{Container, Entry, find, foreground, stopped};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use tote_bundle::{ContainerId, Signal, StopTimeout};
use tote_monitor::{Connection, Report, Request, Streams};
use tote_state::events::append;
use tote_sys::{Errno, best_effort, send_signal};

/// Default stop timeout, docker's.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of the time from a container's end to the monitor's next step.
const MOMENT: Duration = Duration::from_secs(2);

/// Options of `stop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopOptions {
    /// Signal; by default the container's own.
    pub signal: Option<Signal>,
    /// Time until the kill; by default the container's own.
    pub timeout: Option<StopTimeout>,
}

/// Asks containers to end, and kills those that do not in time. All are asked before the first is waited for. Returns
/// the result of each, in their order; a stopped one counts as a success, and one that SIGKILL does not end within ten seconds is
/// [`LifeError::Undying`].
pub fn stop(home: &Home, wanted: &[String], options: StopOptions) -> Vec<Result<(), EngineError>> {
    let mut results: Vec<Result<Option<Target>, EngineError>> =
        wanted.iter().map(|wanted| ask(home, wanted, options)).collect();
    let mut targets: Vec<&mut Target> = results.iter_mut().flatten().flatten().collect();
    while targets.iter().any(|target| target.outcome.is_none()) {
        let open = (0..targets.len()).filter(|at| targets[*at].outcome.is_none());
        let open: Vec<usize> = open.collect();
        let next = open.iter().filter_map(|at| targets[*at].kill_at).min();
        let fds: Vec<&OwnedFd> = open.iter().map(|at| &targets[*at].pidfd).collect();
        let ended = wait_for(&fds, next);
        let now = Instant::now();
        for (at, ended) in open.into_iter().zip(ended) {
            let target = &mut targets[at];
            if ended {
                target.outcome = Some(Outcome::Ended);
            } else if target.kill_at.is_some_and(|moment| now >= moment) {
                target.time_is_over();
            }
        }
    }
    let settled = |result: Result<Option<Target>, EngineError>| match result? {
        Some(target) if target.outcome == Some(Outcome::Lives) => Err(target.undying("stop")),
        // The monitor releases the claim when everything is recorded.
        Some(target) => settle(home, &target.id),
        None => Ok(()),
    };
    let settled: Vec<_> = results.into_iter().map(settled).collect();
    settled
}

/// Waits until the monitor of a container that has ended releases its claim.
fn let_go(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    match Claim::wait(home, id) {
        Ok(claim) => claim.release(),
        // The disk has no room for the file, so no process has the claim; or the monitor still cleans up.
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
    if !lives(&entry) && entry.kept && is_held(home, &entry.container.id) {
        // The monitor is about to release the claim, or to restart the container; the mark decides that, or the
        // container is seen running in a moment.
        mark(home, &entry);
        let until = Instant::now() + MOMENT;
        while !lives(&entry) && is_held(home, &entry.container.id) && Instant::now() < until {
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
        // The container has just ended by itself; its monitor sees the mark.
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

/// Tells the restart policy that a user wants the container to end.
fn mark(home: &Home, entry: &Entry) {
    if entry.kept {
        stopped::mark(home, &entry.container.id);
    }
}

/// Checks that a container can be stopped and started again. A missing container is an error of the stop.
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

/// Sends a signal to a container's first process. After SIGKILL this waits for the container's end, at most ten
/// seconds, because users write `tote kill` and then `tote rm`.
///
/// # Errors
/// [`LifeError::NotRunning`], and [`LifeError::Undying`] for one that has not ended by then.
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
    let mut target = target.ok_or_else(missing)?;
    if ends {
        mark(home, &entry);
    }
    let is_asked = signal == Signal::KILL && target.attends;
    if is_asked {
        target.end();
        wait_for(&[&target.pidfd], target.kill_at);
    }
    match send_signal(target.pidfd.as_fd(), i32::from(signal.number())) {
        // The guest has done so.
        Err(Errno::SRCH) if is_asked => {}
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
    if signal == Signal::KILL {
        end_of(&target, "kill")?;
        let_go(home, &entry.container.id)?;
    }
    Ok(())
}

/// Waits for the end of a container. Returns its exit code; for a stopped one the last exit code.
///
/// # Errors
/// [`EngineError`]; [`LifeError::NotRunning`] for a container that is gone after its end without a recorded code.
pub fn wait(home: &Home, wanted: &str) -> Result<i32, EngineError> {
    let entry = find(home, wanted)?;
    let id = &entry.container.id;
    let goes_on = match entry.state.status {
        Status::Running | Status::Restarting => true,
        // The monitor has not decided about a restart yet.
        Status::Exited => is_held(home, id),
        _ => false,
    };
    if !goes_on {
        return Ok(entry.state.exit_code);
    }
    let connected = if entry.kept {
        super::socket::connect(home, id).ok()
    } else {
        reach_foreground(home, &entry)
    };
    if let Some(code) = connected.and_then(hear_end) {
        return Ok(code);
    }
    // The end is not reported: the container has just ended, or its supervisor has no socket.
    if let Some(target) = Target::of(&entry)? {
        wait_for(&[&target.pidfd], None);
    }
    // A killed monitor sends no report, and keeps its claim a moment longer.
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

/// Connects to a command in the foreground. It listens as soon as the program runs, and may just be about to: the
/// socket may be missing, or without a listener.
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
    // The connection may have no further input, but still a report of the end.
    best_effort(connection.say(Request::Attach(Streams::default(), None)));
    loop {
        if let Report::Ended(code, _) = connection.hear().ok()?? {
            return Some(code);
        }
    }
}

/// Returns the number of a container's stop signal.
pub(crate) fn signal_of(container: &Container) -> u8 {
    container.stop_signal.parse().unwrap_or(Signal::TERM).number()
}

#[cfg(test)]
mod tests {
    use super::super::state::{ProcessId, boot};
    use super::super::tests::container;
    use super::*;
    use rustix::fd::AsRawFd as _;
    use std::process::{Command, Stdio};

    /// The monitor is killed while it records the end: it sends no report, its container is gone,
    /// and its claim ends later.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a program stands for a monitor")]
    fn the_end_of_a_monitor_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x11, "web").id;
        let claim = std::fs::File::create(home.live().join(id.as_str())).unwrap();
        assert!(tote_sys::lock_file(claim.as_fd()).unwrap());
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

    /// For a moment the command has made its socket and does not listen yet.
    #[test]
    fn who_is_about_to_listen_is_waited_for() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = container(&home, 0x11, "web").id;
        let claim = std::fs::File::create_new(home.live().join(id.as_str())).unwrap();
        assert!(tote_sys::lock_file(claim.as_fd()).unwrap());
        let state = State {
            status: Status::Running,
            process: ProcessId::of(std::process::id()),
            boot: boot(),
            ..State::default()
        };
        state.write(&home, &id).unwrap();
        let entry = super::super::open(&home, &id).unwrap().unwrap();
        let live = super::super::socket::open_dir(&home.live()).unwrap();
        let path = format!(
            "/proc/self/fd/{}/{id}.{}",
            live.as_raw_fd(),
            super::super::socket::SOCKET
        );
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
