//! Probes of a running container, by a process beside it, which stops the container in the end.

use super::http::HttpProbe;
use super::listen::{Heard, Hearing, Listening};
use crate::exec::{Target, capture};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_runtime::Aside;
use tote_sandbox::clone_flag;
use tote_slim::ProbeReport;
use tote_spec::NamespaceType;
use tote_sys::{Endless, Wait, best_effort, set_namespaces};

/// Pause between two attempts of a probe.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between the stop signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// Most bytes of a probe's output that are kept.
const OUTPUT: usize = 2048;

/// A question to the running container; it passes or it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlimProbe {
    /// A request from inside the container's network.
    Http(HttpProbe),
    /// A line for the container's shell; it passes with exit code 0.
    Exec(String),
    /// A line for the shell of this machine, in the container's network; `TOTE_CONTAINER` is the container's id.
    Command(String),
    /// The health check of the image: a command and its arguments.
    Health(Vec<String>),
}

impl std::fmt::Display for SlimProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http(probe) => write!(f, "--http-probe {probe}"),
            Self::Exec(line) => write!(f, "--exec {line}"),
            Self::Command(line) => write!(f, "--probe {line}"),
            Self::Health(_) => f.write_str("the image's health check"),
        }
    }
}

/// Time limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Time for which the container runs at least, if it does not end by itself.
    pub(super) run_for: Duration,
    /// Time in which each probe has to pass.
    pub probe: Duration,
}

/// Result of the probes of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Probed {
    pub probes: Vec<ProbeReport>,
    /// True if the container was stopped, and did not end by itself.
    pub stopped: bool,
    /// Calls of the processes that probed inside.
    pub(super) heard: Heard,
}

/// The process that probes, as its parent sees it.
#[derive(Debug)]
pub(super) struct Prober<'a> {
    home: &'a Home,
    id: ContainerId,
    probes: &'a [SlimProbe],
    times: Times,
    hearing: Option<(Hearing, u32)>,
    worker: Option<Pid>,
    result: Option<OwnedFd>,
    text: Vec<u8>,
    failure: Option<Errno>,
}

impl<'a> Prober<'a> {
    /// Prepares the probes of a container; `hearing` says what is to be heard of those inside, in a run of that number.
    pub(super) fn new(
        home: &'a Home,
        id: ContainerId,
        probes: &'a [SlimProbe],
        times: Times,
        hearing: Option<(Hearing, u32)>,
    ) -> Self {
        Self {
            home,
            id,
            probes,
            times,
            hearing,
            worker: None,
            result: None,
            text: Vec::new(),
            failure: None,
        }
    }

    /// Returns the results, once the container has ended.
    pub(super) fn results(mut self) -> Result<Probed, super::SlimError> {
        if let Some(errno) = self.failure {
            return Err(super::SlimError::Prober(errno));
        }
        if let Some(result) = &self.result {
            best_effort(rustix::io::ioctl_fionbio(result, false));
        }
        while self.result.is_some() {
            self.read();
        }
        self.reap();
        serde_json::from_slice(&self.text).map_err(|_| super::SlimError::Unanswered)
    }

    fn begin_worker(&mut self) -> Result<(), Errno> {
        let (result, sink) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&result, true)?;
        let (home, id, probes, times) = (self.home, &self.id, self.probes, self.times);
        let mut listening = self.hearing.map(|(hearing, run)| Listening::new(hearing, run));
        // process: prober
        let worker = tote_sys::fork_worker(move || {
            best_effort(tote_sys::die_with_parent());
            let mut found = probe_all((home, id), probes, times, listening.as_mut());
            match listening.map(Listening::heard).transpose() {
                Ok(heard) => found.heard = heard.unwrap_or_default(),
                // The parent finds no answer then.
                Err(_) => return 1,
            }
            let text = serde_json::to_vec(&found).unwrap_or_default();
            let mut rest = &text[..];
            while let Ok(written @ 1..) = rustix::io::write(&sink, rest) {
                rest = &rest[written..];
            }
            0
        })?;
        (self.worker, self.result) = (Some(worker), Some(result));
        Ok(())
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(result) = &self.result {
            match rustix::io::read(result, &mut bytes) {
                Ok(length @ 1..) => self.text.extend_from_slice(&bytes[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => self.result = None,
            }
        }
    }

    fn reap(&mut self) {
        if let Some(worker) = self.worker.take() {
            best_effort(Wait::ending().reap_child(worker));
        }
    }
}

impl Aside for Prober<'_> {
    fn begin(&mut self) -> Result<(), String> {
        self.failure = self.begin_worker().err();
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.result.iter().map(OwnedFd::as_fd).collect()
    }

    fn advance(&mut self) -> bool {
        if self.worker.is_some() {
            self.read();
        }
        false
    }
}

impl Drop for Prober<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker {
            best_effort(rustix::process::kill_process(worker, Signal::KILL));
        }
        self.reap();
    }
}

/// Asks all questions, and stops the container.
fn probe_all(
    (home, id): (&Home, &ContainerId),
    probes: &[SlimProbe],
    times: Times,
    mut listening: Option<&mut Listening>,
) -> Probed {
    let begin = Instant::now();
    let mut probed = Probed::default();
    let target = match Target::find(home, id.as_str()) {
        Ok(target) => target,
        // It has ended already.
        Err(error) => {
            let late = |probe: &SlimProbe| report(probe, 0, false, tote_sys::chain(&error));
            probed.probes = probes.iter().map(late).collect();
            return probed;
        }
    };
    let stop_signal = target
        .entry
        .as_ref()
        .and_then(|entry| entry.container.stop_signal.parse().ok());
    for probe in probes {
        let listening = listening.as_deref_mut();
        let asked = ask((home, id), (probe, &target.init), times.probe, listening);
        probed.probes.push(asked);
    }
    let left = times.run_for.saturating_sub(begin.elapsed());
    if has_ended(&target.init, left) {
        return probed;
    }
    probed.stopped = true;
    let signal = stop_signal.unwrap_or(tote_bundle::Signal::TERM).number();
    let passed = probed.probes.iter().all(|probe| probe.passed);
    if let Some(named) = Signal::from_named_raw(signal.into()).filter(|_| passed && hears(target.pid, signal))
    {
        best_effort(pidfd_send_signal(&target.init, named));
        has_ended(&target.init, GRACE);
    }
    best_effort(pidfd_send_signal(&target.init, Signal::KILL));
    probed
}

/// True if the first process of a container does something about a signal: without a handler the kernel keeps it from it.
fn hears(pid: u32, signal: u8) -> bool {
    // absence: the process has ended, and the probe's own limit of time ends the wait
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let masks = status.lines().filter_map(|line| {
        // It may also wait for a signal that it blocks.
        let mask = line
            .strip_prefix("SigCgt:")
            .or_else(|| line.strip_prefix("SigBlk:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    let bit = 1u64.checked_shl(u32::from(signal).wrapping_sub(1)).unwrap_or(0);
    masks.fold(0, |all, mask| all | mask) & bit != 0
}

/// How the output of an attempt begins that the end of the time has cut short.
const CUT_SHORT: &str = "it did not end in time";

/// Repeats a probe until it passes, the container ends or the time is over.
fn ask(
    at: (&Home, &ContainerId),
    (probe, init): (&SlimProbe, &OwnedFd),
    limit: Duration,
    mut listening: Option<&mut Listening>,
) -> ProbeReport {
    let end = Instant::now() + limit;
    let mut earlier: Option<String> = None;
    for attempts in 1.. {
        let left = end.saturating_duration_since(Instant::now());
        let (passed, output) = attempt(at, probe, left, listening.as_deref_mut())
            .unwrap_or_else(|error| (false, tote_sys::chain(&error)));
        // An attempt that was cut short says less than one that has ended before.
        let is_cut = output.starts_with(CUT_SHORT);
        let output = earlier.take().filter(|_| is_cut).unwrap_or(output);
        if passed || Instant::now() + PAUSE >= end || has_ended(init, PAUSE) {
            return report(probe, attempts, passed, output);
        }
        earlier = Some(output);
    }
    report(probe, 0, false, String::new())
}

fn report(probe: &SlimProbe, attempts: u32, passed: bool, output: String) -> ProbeReport {
    ProbeReport {
        probe: probe.to_string(),
        passed,
        attempts,
        output,
    }
}

fn attempt(
    (home, id): (&Home, &ContainerId),
    probe: &SlimProbe,
    limit: Duration,
    listening: Option<&mut Listening>,
) -> Result<(bool, String), EngineError> {
    let target = Target::find(home, id.as_str())?;
    let command = match probe {
        SlimProbe::Http(http) => {
            let answer = beside(&target, limit, || http.ask(limit))?;
            return Ok(answer);
        }
        SlimProbe::Command(line) => {
            let id = id.as_str();
            return beside(&target, limit, || shell(line, id));
        }
        SlimProbe::Exec(line) => ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
        SlimProbe::Health(command) => command.clone(),
    };
    let captured = capture(target, command, (limit, OUTPUT), listening)?;
    let output = String::from_utf8_lossy(&captured.output).trim().to_owned();
    Ok(match captured.code {
        Some(0) => (true, output),
        Some(code) => (false, with_output(&format!("exit code {code}"), &output)),
        None => (false, with_output(CUT_SHORT, &output)),
    })
}

fn with_output(what: &str, output: &str) -> String {
    match output {
        "" => what.to_owned(),
        output => format!("{what}: {output}"),
    }
}

/// Does something in a process of its own in the container's network namespace.
fn beside(
    target: &Target,
    limit: Duration,
    work: impl FnOnce() -> (bool, String),
) -> Result<(bool, String), EngineError> {
    let failed = |source| EngineError::Kernel {
        attempt: "start a process in the container's network",
        source,
    };
    let namespaces = target.namespaces();
    let (result, sink) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    // process: process of a probe
    let process = tote_sys::fork_worker(|| {
        best_effort(tote_sys::die_with_parent());
        let (passed, text) = match join_network(target, namespaces.flags, namespaces.user) {
            Ok(()) => work(),
            Err(errno) => (false, tote_sys::reason(errno)),
        };
        let mut end = text.len().min(OUTPUT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        best_effort(rustix::io::write(&sink, &text.as_bytes()[..end]));
        u8::from(!passed)
    })
    .map_err(failed)?;
    drop(sink);
    let text = read_until(&result, limit);
    if text.is_none() {
        best_effort(rustix::process::kill_process(process, Signal::KILL));
    }
    let ended = Wait::ending().reap_child(process).map_err(failed)?;
    let passed = ended.is_some_and(|status| status.exit_status() == Some(0));
    Ok(match text {
        Some(text) => (passed, text),
        None => (false, CUT_SHORT.to_owned()),
    })
}

fn join_network(target: &Target, flags: u32, user: bool) -> Result<(), Errno> {
    let network = flags & clone_flag(NamespaceType::Network);
    if network == 0 {
        return Ok(());
    }
    if user {
        set_namespaces(target.init.as_fd(), clone_flag(NamespaceType::User))?;
    }
    set_namespaces(target.init.as_fd(), network)
}

/// Reads to the end; `None` if that does not come in time.
fn read_until(pipe: &OwnedFd, limit: Duration) -> Option<String> {
    let end = Instant::now() + limit;
    let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
    while is_ready(pipe, end.saturating_duration_since(Instant::now())) {
        match rustix::io::read(pipe, &mut bytes) {
            Ok(0) => return Some(String::from_utf8_lossy(&text).into_owned()),
            Ok(length) => text.extend_from_slice(&bytes[..length]),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Waits until a descriptor is ready, at most for this time.
fn is_ready(fd: &OwnedFd, limit: Duration) -> bool {
    Wait::within(limit).readable(fd.as_fd()) == Ok(true)
}

/// Waits for the end of a process, at most for this time.
fn has_ended(process: &OwnedFd, limit: Duration) -> bool {
    is_ready(process, limit)
}

/// Runs a line by the shell of this machine.
#[expect(
    clippy::disallowed_methods,
    reason = "the line is the user's own, for the user's own shell"
)]
fn shell(line: &str, id: &str) -> (bool, String) {
    // process: programs of the host
    let mut command = std::process::Command::new("/bin/sh");
    command
        .args(["-c", line])
        .env("TOTE_CONTAINER", id)
        .stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output =
        tote_sys::spawn_mortal(&mut command).and_then(|shell| Wait::endless(Endless::Program).collect(shell));
    match output {
        Ok(output) => {
            let text = [&output.stdout[..], &output.stderr[..]].concat();
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            match output.status.success() {
                true => (true, text),
                false => (false, with_output(&output.status.to_string(), &text)),
            }
        }
        Err(error) => (false, format!("cannot run /bin/sh: {error}")),
    }
}
