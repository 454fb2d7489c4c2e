//! Runs the tests, each in a process of its own, and tells how each ended.
//!
//! ```text
//! runner (subreaper, one thread, one poll loop)
//!  ├─ tote-e2e --exact A (subreaper)      everything that A starts stays below it while it runs;
//!  │   └─ tote … └─ container             what is left when it ends falls to the runner, which kills it
//!  └─ tote-e2e --exact B (subreaper)      and fails A
//! ```

use crate::context::RUN_DIRECTORY;
use crate::exchange::{SLOW, scaled, slowness};
use crate::fixture;
use crate::leaks::Host;
use crate::need;
use crate::processes::{self, Process, timespec};
use crate::promise::Test;
use crate::promises::machines;
use crate::remains;
use crate::suite;
use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Number of tests that wait for most of their time and run at once, beside the others.
const WAITING: usize = 2;

/// Returns the time limit of a test.
fn limit(test: &Test) -> Duration {
    scaled(Duration::from_secs(30)) * test.slow
}

/// Returns the time in which processes of an ended test may still end, before they count as left behind.
fn grace() -> Duration {
    scaled(Duration::from_secs(1))
}

/// Test that runs.
#[derive(Debug)]
struct Active {
    test: &'static Test,
    waits: bool,
    pid: i32,
    pidfd: OwnedFd,
    started: Instant,
    transcript: PathBuf,
    timed_out: bool,
}

/// Queue of tests, of which some run at once.
#[derive(Debug)]
struct Lane {
    queue: Vec<&'static Test>,
    waits: bool,
    places: usize,
}

impl Lane {
    /// Returns the lane of the tests that wait, and that of the others. A caller who wants one test at a time gets one
    /// lane only.
    fn both(tests: Vec<&'static Test>, jobs: usize) -> [Self; 2] {
        let (waiting, working) = tests.into_iter().partition(|test| test.waits && jobs > 1);
        let lane = |queue, waits, places| Self { queue, waits, places };
        [lane(waiting, true, WAITING), lane(working, false, jobs)]
    }

    /// Returns the next test if a place is free. A short test mostly waits for processes that end, and takes half a place.
    fn next(&mut self, active: &[Active]) -> Option<&'static Test> {
        let halves = |test: &Test| if test.slow > 1 { 2 } else { 1 };
        let running = active.iter().filter(|active| active.waits == self.waits);
        let taken: usize = running.map(|active| halves(active.test)).sum();
        let next = self.queue.last()?;
        let fits = self.places > 1 && taken + halves(next) <= 2 * self.places;
        (fits || taken == 0).then(|| self.queue.pop()).flatten()
    }
}

/// Counts of the run.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Runs all tests whose names contain `filter`.
pub(crate) fn run(tote: &Path, filter: &str, jobs: usize) -> Result<ExitCode> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("become a subreaper")?;
    let directory = tempfile::Builder::new()
        .prefix("tote-e2e-")
        .tempdir()
        .context("make the run's directory")?;
    // A container's user must be able to reach mounts from this directory.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    fixture::make(directory.path()).context("make the fixtures")?;

    let before = Host::now();
    let mut tally = Tally::default();
    let runnable = choose(filter, &mut tally);
    ensure!(
        !runnable.is_empty() || tally.skipped + tally.failed > 0,
        "no test's name contains {filter:?}"
    );
    run_all(tote, directory.path(), runnable, jobs, &mut tally)?;
    tally.failed += remains::check(directory.path())?;
    let machines = machines::counts(directory.path())?;
    let mut leaks = Host::now().leaked_since(&before);
    if let Err(error) = remains::remove(&directory.keep()) {
        leaks.push(format!("the run's directory cannot be removed: {error:#}"));
    }
    if !leaks.is_empty() {
        tally.failed += 1;
        println!(
            "FAILED leaks::the_host_is_as_before\n    left on the host:\n    {}",
            leaks.join("\n    ")
        );
    }
    if let Some(counts) = machines {
        println!("{counts}");
    }
    let who = if need::is_root() { "root" } else { "user" };
    println!(
        "e2e({who}): {} passed, {} failed, {} skipped",
        tally.passed, tally.failed, tally.skipped
    );
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Chooses the tests that can run here, last first, so that long ones begin early; the others are reported and counted.
fn choose(filter: &str, tally: &mut Tally) -> Vec<&'static Test> {
    let required = std::env::var("TOTE_TEST_REQUIRE").unwrap_or_default();
    let mut runnable = Vec::new();
    for test in suite::matching(filter) {
        match test.missing() {
            None => runnable.push(test),
            Some(need) if need.required_by(&required) => {
                tally.failed += 1;
                println!(
                    "FAILED {}\n    needs {need}, which TOTE_TEST_REQUIRE demands",
                    test.name
                );
            }
            Some(need) => {
                tally.skipped += 1;
                println!("skipped: {}: needs {need}", test.name);
            }
        }
    }
    runnable.reverse();
    runnable.sort_by_key(|test| test.slow);
    runnable
}

fn run_all(tote: &Path, dir: &Path, tests: Vec<&'static Test>, jobs: usize, tally: &mut Tally) -> Result<()> {
    let mut lanes = Lane::both(tests, jobs);
    let mut active: Vec<Active> = Vec::new();
    loop {
        for lane in &mut lanes {
            while let Some(test) = lane.next(&active) {
                active.push(start(tote, dir, test, lane.waits)?);
            }
        }
        if active.is_empty() {
            return Ok(());
        }
        wait_for_one(&active)?;
        for late in active
            .iter_mut()
            .filter(|late| late.started.elapsed() > limit(late.test))
        {
            late.timed_out = true;
            end(late.pid);
        }
        while let Some((pid, status)) = reap()? {
            // A pid without a test belongs to an orphan of a test.
            if let Some(at) = active.iter().position(|test| test.pid == pid.as_raw_pid()) {
                let ended = active.swap_remove(at);
                let left = left_behind(&active);
                tell(&ended, status, &left, tally);
            }
        }
    }
}

fn start(tote: &Path, dir: &Path, test: &'static Test, waits: bool) -> Result<Active> {
    let transcript = dir.join(format!("{}.transcript", test.name.replace("::", "-")));
    let file = File::create(&transcript).with_context(|| format!("create {}", transcript.display()))?;
    let child = Command::new(std::env::current_exe().context("find this program")?)
        .arg("--tote")
        .arg(tote)
        .args(["--exact", test.name])
        .env(RUN_DIRECTORY, dir)
        .env(SLOW, (slowness() * test.slow).to_string())
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {}", test.name))?;
    let pid = child.id().try_into()?;
    let pidfd = processes::pidfd(pid)?;
    Ok(Active {
        test,
        waits,
        pid,
        pidfd,
        started: Instant::now(),
        transcript,
        timed_out: false,
    })
}

/// Waits until a test has ended or one has used up its time.
fn wait_for_one(active: &[Active]) -> Result<()> {
    let left = active.iter().map(|active| {
        (limit(active.test) + Duration::from_millis(1)).saturating_sub(active.started.elapsed())
    });
    let left = timespec(left.min().unwrap_or_default());
    let mut fds: Vec<_> = active
        .iter()
        .map(|test| PollFd::new(&test.pidfd, PollFlags::IN))
        .collect();
    match poll(&mut fds, Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("wait for a test"),
    }
}

fn reap() -> Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG) {
        Err(rustix::io::Errno::CHILD) => Ok(None),
        other => other.context("reap"),
    }
}

/// Ends a test with all its processes: SIGSTOP first, so that it starts no more.
fn end(pid: i32) {
    processes::kill(pid, Signal::STOP);
    processes::kill_descendants(pid, grace());
    processes::kill(pid, Signal::KILL);
}

/// Ends the processes that finished tests have left to the runner. Returns those that did not end by themselves.
fn left_behind(active: &[Active]) -> Vec<Process> {
    let orphans = || -> Vec<Process> {
        let all = processes::descendants(rustix::process::getpid().as_raw_pid());
        let ours = rustix::process::getpid().as_raw_pid();
        let is_active = |pid| active.iter().any(|test| test.pid == pid);
        all.into_iter()
            .filter(|process| process.parent == ours && !is_active(process.pid))
            .collect()
    };
    let mut left = Vec::new();
    for orphan in orphans() {
        let ended = processes::pidfd(orphan.pid).and_then(|fd| processes::readable(&fd, grace()));
        if !ended.unwrap_or(true) {
            left.extend(processes::descendants(orphan.pid));
            left.push(orphan);
        }
    }
    for process in &left {
        processes::kill(process.pid, Signal::KILL);
    }
    left
}

fn tell(ended: &Active, status: WaitStatus, left: &[Process], tally: &mut Tally) {
    let name = ended.test.name;
    let took = ended.started.elapsed().as_millis();
    let mut reasons = Vec::new();
    if ended.timed_out {
        reasons.push(format!(
            "it did not end within {:?} and was killed with all that it started",
            limit(ended.test)
        ));
    } else if status.exit_status() != Some(0) {
        let how = status
            .terminating_signal()
            .map_or_else(String::new, |signal| format!(" (killed by signal {signal})"));
        reasons.push(format!("what it ran, and why it failed{how}:"));
    }
    reasons.extend(
        left.iter()
            .map(|process| format!("it left process {} ({})", process.pid, process.name)),
    );
    if reasons.is_empty() {
        tally.passed += 1;
        println!("ok {name} {took} ms");
        return;
    }
    tally.failed += 1;
    let transcript = fs::read(&ended.transcript).unwrap_or_default();
    println!("FAILED {name} {took} ms");
    for line in reasons
        .iter()
        .map(String::as_str)
        .chain(String::from_utf8_lossy(&transcript).lines())
    {
        println!("    {line}");
    }
}
