//! `tote run --pool`: takes a sandbox, sends it its program, and attends it to its end.

use super::error::PoolError;
use super::fill::fill_apart;
use super::keeper::Note;
use super::record::{Pool, open_dir, sockets_in};
use crate::container::{self, fault};
use crate::finished::finished;
use crate::given::read_env_files;
use crate::prepare::prepare;
use crate::standard::{check_terminal, stdio};
use crate::{EngineError, Finished, Home, HostInit, RunRequest};
use rustix::fd::{AsFd as _, BorrowedFd};
use std::ffi::CString;
use tote_bundle::{ContainerId, EnvEntry, ExecContext, ExecOptions, RunOptions, command_line, exec_process};
use tote_runtime::{Attendance, Attended, Moment, RuntimeError, Timings};
use tote_spec::Process;
use tote_state::process::set_title;
use tote_sys::{Errno, Letter, Op, Taking, best_effort};

/// Request to run a command in a sandbox of a pool.
#[derive(Clone, Debug)]
pub struct PoolRun {
    /// Name of the pool.
    pub pool: String,
    /// Options by their long names.
    pub given: Vec<(String, String)>,
    /// Command; if empty, the pool's own.
    pub command: Vec<String>,
}

/// Options that can still be given to a finished sandbox.
const OPTIONS: [&str; 10] = [
    "name",
    "label",
    "interactive",
    "tty",
    "env",
    "env-file",
    "workdir",
    "entrypoint",
    "timeout",
    "rm",
];

/// Options that a container without a monitor cannot have.
const KEPT: [&str; 4] = ["detach", "restart", "log-driver", "log-opt"];

/// Runs a command in a sandbox of a pool, to its end. If none is ready, a container is made in the usual way.
///
/// # Errors
/// [`EngineError`]; no part of the container is left then.
pub fn run_from_pool(
    home: &Home,
    request: PoolRun,
    mut timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let pool = Pool::find(home, &request.pool)?;
    let mut options = RunOptions::default();
    for (option, value) in &request.given {
        if KEPT.contains(&option.as_str()) {
            return Err(PoolError::Kept(option.clone()).into());
        }
        if !OPTIONS.contains(&option.as_str()) {
            return Err(PoolError::Shaping(option.clone()).into());
        }
        options.set(option, value)?;
    }
    read_env_files(&mut options.env)?;
    check_terminal(&options)?;
    options.command = request.command;
    mark(&mut timings, "parent: read the pool");
    if let Some(finished) = attempt(home, &pool, (&options, &request.given), &mut timings)? {
        return Ok(finished);
    }
    // The maker of the pool has the means to fill it, and the next command should find it full.
    fill_apart(home, &pool.name);
    let mut given = pool.template.options.clone();
    given.extend(request.given);
    let mut whole = pool.template.run_options()?;
    whole.name = None;
    for (option, value) in &given[pool.template.options.len()..] {
        whole.set(option, value)?;
    }
    if !options.command.is_empty() || options.entrypoint.is_some() {
        whole.command = options.command;
    }
    let request = RunRequest {
        image: pool.template.source()?,
        options: whole,
        given,
        kept: false,
        init: HostInit::default(),
    };
    let prepared = prepare(home, request, false, timings.as_deref_mut())?;
    crate::run(home, prepared, None, timings, warn)
}

fn mark(timings: &mut Option<&mut Timings>, what: &str) {
    if let Some(timings) = timings {
        timings.mark(what);
    }
}

/// Tries the ready sandboxes in turn, from an arbitrary one, because many commands may want one at once. `None` if
/// none could be taken.
fn attempt(
    home: &Home,
    pool: &Pool,
    (options, given): (&RunOptions, &[(String, String)]),
    timings: &mut Option<&mut Timings>,
) -> Result<Option<Finished>, EngineError> {
    let dir = pool.sockets(home);
    // absence: a container is made in the usual way
    let Ok(sockets) = open_dir(&dir) else {
        return Ok(None);
    };
    // If the sandboxes cannot be listed, a container is made in the usual way.
    let mut ids = sockets_in(sockets.as_fd()).unwrap_or_default();
    if ids.is_empty() {
        return Ok(None);
    }
    if let Some(name) = &options.name {
        // The name is checked before a sandbox is spent on it.
        container::name::check(home, name)?;
    }
    let start = std::process::id() as usize % ids.len();
    ids.rotate_left(start);
    let follow = options.tty && rustix::termios::isatty(rustix::stdio::stdin());
    let raw = if follow && options.interactive {
        Some(tote_runtime::RawMode::enter()?)
    } else {
        None
    };
    let (streams, ops) = stdio(options)?;
    let attendance = Attendance::new(streams)?.with_input(options.interactive, None);
    let mut attempt = Attempt {
        home,
        pool,
        options,
        given,
        process: process(pool, options),
        attendance,
        theirs: ops,
    };
    for id in ids {
        let taking = match Taking::open(sockets.as_fd(), id.as_str()) {
            Ok(taking) => taking,
            Err(Errno::CONNREFUSED) => {
                // The keeper was killed, or another command has just taken the sandbox.
                best_effort(std::fs::remove_file(dir.join(id.as_str())));
                continue;
            }
            Err(_) => continue,
        };
        if let Some(finished) = attempt.take(&id, &taking, timings)? {
            drop(raw);
            return Ok(Some(finished));
        }
    }
    Ok(None)
}

struct Attempt<'a> {
    home: &'a Home,
    pool: &'a Pool,
    options: &'a RunOptions,
    given: &'a [(String, String)],
    /// Program of the sandbox; `HOSTNAME` is not set for a sandbox yet.
    process: Process,
    attendance: Attendance,
    /// Ends of pipes for the sandbox.
    theirs: Vec<Op>,
}

impl Attempt<'_> {
    /// Runs the command in this sandbox; `None` if another command was first.
    fn take(
        &mut self,
        id: &ContainerId,
        taking: &Taking,
        timings: &mut Option<&mut Timings>,
    ) -> Result<Option<Finished>, EngineError> {
        fault::point("pool-connected");
        if self.pool.named_by_id {
            self.name_host(id);
        }
        let exec = tote_sandbox::program(&self.process, None)?;
        let cwd = self.options.workdir.clone().map(CString::new).transpose();
        let cwd = cwd.map_err(|_| tote_sandbox::PlanError::Missing("process.cwd"))?;
        // The connection exists: whatever happens to this process, the sandbox's keeper releases the name.
        if let Some(name) = &self.options.name {
            container::name::take(self.home, name, id, crate::remains::sweep)?;
        }
        fault::point("pool-named");
        let letter = Letter {
            exec: &exec,
            cwd: cwd.as_deref(),
            stdio: self.descriptors(),
            terminal: self
                .options
                .tty
                .then(|| tote_runtime::terminal_size().unwrap_or((24, 80))),
        };
        let attended = match taking.bring(&letter) {
            Err(Errno::PIPE | Errno::CONNRESET) => Attended::Lost,
            Err(source) => {
                return Err(EngineError::Kernel {
                    attempt: "hand the program to a sandbox of the pool",
                    source,
                });
            }
            Ok(()) => {
                fault::point("pool-brought");
                self.attend(taking, timings)?
            }
        };
        match attended {
            Attended::Lost => {
                if let Some(name) = &self.options.name {
                    container::name::release(self.home, name.as_str(), id);
                }
                Ok(None)
            }
            Attended::Failed(step) => Err(RuntimeError::Step(step).into()),
            Attended::Orphaned => Ok(Some(Finished {
                exit_code: 137,
                reason: Some("the keeper of the sandbox was killed, and the sandbox with it".to_owned()),
            })),
            Attended::Ended(outcome, ooms) => {
                mark(timings, "parent: wait for its end");
                let limits = RunOptions {
                    memory: self.memory_limit(ooms),
                    timeout: self.options.timeout,
                    ..RunOptions::default()
                };
                Ok(Some(
                    finished(outcome, ooms, &limits).with_broken(self.attendance.broken()),
                ))
            }
        }
    }

    fn attend(
        &mut self,
        taking: &Taking,
        timings: &mut Option<&mut Timings>,
    ) -> Result<Attended, EngineError> {
        let note = self.note();
        let Self {
            home,
            pool,
            options,
            process,
            attendance,
            theirs,
            ..
        } = self;
        let program = process.args.first().map_or("", String::as_str);
        let timeout = options.timeout.filter(|limit| !limit.is_zero());
        let mut reached = |moment| match moment {
            Moment::Taken => {
                theirs.clear();
                mark(timings, "parent: take a sandbox");
            }
            Moment::Began => {
                mark(timings, "parent: the program runs");
                fault::point("pool-began");
            }
            Moment::Settled => {
                // The record comes after the start of the program, so lists show the container a little later.
                best_effort(serde_json::to_vec(&note).map(|text| best_effort(taking.note(&text))));
                // process: command
                set_title(&format!("tote run --pool {}", pool.name));
                fill_apart(home, &pool.name);
            }
        };
        Ok(tote_runtime::attend_taken(
            attendance,
            taking,
            (program, timeout),
            &mut reached,
        )?)
    }

    /// Returns descriptors for standard input, output and error, unless they are a terminal or the `/dev/null` that a
    /// parked sandbox has already.
    fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 3] {
        if self.options.tty {
            return [None; 3];
        }
        let input = self.options.interactive.then(rustix::stdio::stdin);
        let mut fds = [
            input,
            Some(rustix::stdio::stdout()),
            Some(rustix::stdio::stderr()),
        ];
        for op in &self.theirs {
            let (number, fd) = match op {
                Op::Stdio { fd, number } => (*number, Some(fd.as_fd())),
                Op::NoOutput { number } => (*number, None),
                _ => (0, None),
            };
            if let Some(place) = usize::try_from(number)
                .ok()
                .and_then(|number| fds.get_mut(number))
            {
                *place = fd;
            }
        }
        fds
    }

    /// Sets `HOSTNAME` to the sandbox's host name, unless an option sets it.
    fn name_host(&mut self, id: &ContainerId) {
        let own = |entry: &EnvEntry| {
            let (EnvEntry::Set(text) | EnvEntry::Inherit(text)) = entry;
            text.split('=').next() == Some("HOSTNAME")
        };
        if !self.options.env.iter().any(own)
            && let Some(entry) = self
                .process
                .env
                .iter_mut()
                .find(|entry| entry.starts_with("HOSTNAME="))
        {
            *entry = format!("HOSTNAME={}", id.short());
        }
    }

    fn note(&self) -> Note {
        Note {
            name: self
                .options
                .name
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            given: self
                .given
                .iter()
                .filter(|(option, _)| option != "name" && option != "env-file")
                .cloned()
                .collect(),
            labels: self.options.labels.clone(),
            command: self.options.command.clone(),
            path_and_args: self.process.args.clone(),
            env: self.process.env.clone(),
            cwd: self.process.cwd.clone(),
            terminal: self.options.tty,
        }
    }

    /// Returns the memory limit for the message about an out-of-memory kill.
    fn memory_limit(&self, ooms: u64) -> u64 {
        if ooms == 0 {
            return 0;
        }
        self.pool
            .template
            .run_options()
            .map_or(0, |options| options.memory)
    }
}

/// Builds the process from the pool's program and the options.
fn process(pool: &Pool, options: &RunOptions) -> Process {
    let own = Process {
        env: pool.env.clone(),
        cwd: pool.cwd.clone(),
        ..Process::default()
    };
    let entrypoint = options.entrypoint.as_deref();
    let command = if options.command.is_empty() && entrypoint.is_none() {
        &pool.template.command
    } else {
        &options.command
    };
    let entrypoint = entrypoint.or_else(|| pool.template.option("entrypoint"));
    let changes = ExecOptions {
        command: command_line(entrypoint, command, &pool.image_config()),
        tty: options.tty,
        env: options.env.clone(),
        workdir: options.workdir.clone(),
        ..ExecOptions::default()
    };
    let context = ExecContext {
        linux: None,
        users: None,
        setgroups: false,
        all_capabilities: &Vec::new,
        environment: &|name| std::env::var(name).ok(),
    };
    exec_process(own, &changes, &context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        let id = ContainerId::from_bytes([1; 32]);
        let text = format!(
            r#"{{"name":"p","size":1,"generation":"g","entrypoint":["/entry"],"cmd":["of","image"],
                "env":["PATH=/bin","HOSTNAME=x","A=pool"],"cwd":"/srv","named_by_id":true,
                "template":{{"id":"{id}","image":"host"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn args(pool: &Pool, set: &[(&str, &str)], command: &[&str]) -> Vec<String> {
        let mut options = RunOptions::default();
        for (option, value) in set {
            options.set(option, value).unwrap();
        }
        options.command = command.iter().map(ToString::to_string).collect();
        process(pool, &options).args
    }

    #[test]
    fn what_is_run() {
        let mut pool = pool();
        assert_eq!(args(&pool, &[], &[]), ["/entry", "of", "image"]);
        assert_eq!(args(&pool, &[], &["x"]), ["/entry", "x"]);
        assert_eq!(args(&pool, &[("entrypoint", "e")], &["x"]), ["e", "x"]);
        pool.template.command = vec!["of".to_owned(), "pool".to_owned()];
        assert_eq!(args(&pool, &[], &[]), ["/entry", "of", "pool"]);
        assert_eq!(args(&pool, &[("entrypoint", "e")], &[]), ["e"]);
        pool.template.options = vec![("entrypoint".to_owned(), String::new())];
        assert_eq!(args(&pool, &[], &[]), ["of", "pool"]);
        assert_eq!(args(&pool, &[], &["x"]), ["x"]);
    }

    #[test]
    fn what_it_is_given() {
        let mut options = RunOptions::default();
        for (option, value) in [
            ("env", "A=run"),
            ("env", "B=run"),
            ("tty", "true"),
            ("workdir", "/w"),
        ] {
            options.set(option, value).unwrap();
        }
        let process = process(&pool(), &options);
        assert_eq!(
            process.env,
            ["PATH=/bin", "HOSTNAME=x", "A=run", "TERM=xterm", "B=run"]
        );
        assert_eq!((process.cwd.as_str(), process.terminal), ("/w", true));
    }
}
