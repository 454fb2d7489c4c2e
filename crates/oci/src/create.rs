//! `create` and `run`: from a bundle to a container.

use crate::bundle::{Bundle, absolute};
use crate::cgroup::Planned;
use crate::error::of_birth;
use crate::passed;
use crate::record::{Kept, Record};
use crate::store::Place;
use crate::{
    ContainerError, Id, Level, OciError, Say, Status, Store, delete, hooks, pidfile, plan, seccomp, state,
    status,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tote_cgroup::Cgroup;
use tote_runtime::{
    Attendance, Created, Creation, Listen, Outcome, RawMode, Refusal, Stdio, StdioMode, Witness, attend,
};
use tote_sandbox::Plan;
use tote_spec::{Hooks, NamespaceType, Spec};
use tote_sys::{Child, ComingNetwork, best_effort};

/// Options of `create` and `run` beside the id.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Directory of the bundle.
    pub bundle: PathBuf,
    /// True if the root is moved over the host's, for hosts whose own root pivot_root(2) does not accept.
    pub no_pivot: bool,
    /// Socket that gets the master of the container's console.
    pub console_socket: Option<PathBuf>,
    /// Socket that gets the pidfd of the first process.
    pub pidfd_socket: Option<PathBuf>,
    /// File that gets the pid of the first process.
    pub pid_file: Option<PathBuf>,
    /// Number of descriptors from 3 on that the container keeps.
    pub preserve_fds: u32,
    /// True if the cgroup is named as systemd names it, `slice:prefix:name`.
    pub systemd_cgroup: bool,
    /// True if it shares the caller's session keyring.
    pub no_new_keyring: bool,
    /// Turns the bundle into another one, if the caller has a place of its own for it.
    pub elsewhere: Option<Elsewhere>,
}

/// Specification and root in the place of those of a bundle, by its directory, root and specification; `None` leaves them as they
/// are. An error is one line.
pub type Elsewhere = fn(&Path, &Path, &Spec) -> Result<Option<(Spec, PathBuf)>, String>;

/// Result of `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The container runs, and the command does not wait for it.
    Detached,
    /// The container has ended with this exit code.
    Ended(u8),
}

/// Point up to which the command stays with the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until the container waits for its start.
    UntilCreated,
    /// Until its program runs.
    UntilRunning,
    /// To its end.
    ToTheEnd,
}

/// Everything that is prepared for a birth.
pub(crate) struct Expected {
    pub(crate) plan: Plan,
    pub(crate) cgroup: Planned,
    pub(crate) maps: Option<tote_runtime::Maps>,
    pub(crate) network: Option<ComingNetwork>,
    /// State files that hooks in the new process read, before and after the container is created.
    pub(crate) states: [Option<OwnedFd>; 2],
}

impl Expected {
    fn creation(&self) -> Creation<'_> {
        Creation {
            plan: &self.plan,
            cgroup: Some(&self.cgroup.plan),
            maps: self.maps.as_ref(),
            network: self.network.as_ref(),
        }
    }
}

/// Makes a container that waits for its start.
///
/// # Errors
/// [`OciError`]; everything of the container has been removed then.
pub fn create(store: &Store, id: &Id, options: &CreateOptions, say: Say<'_>) -> Result<(), OciError> {
    let mut cradle = Cradle::new(store, id, options, Life::UntilCreated, say)?;
    let made = cradle.bear(None).and_then(|created| cradle.tell(&created));
    match made {
        Ok(()) => Ok(()),
        Err(error) => Err(cradle.give_up(error)),
    }
}

/// Makes a container whose program runs, and stays with it to its end or, with `detach`, leaves it alone.
///
/// With `keep` the container is not removed at its end.
///
/// # Errors
/// [`OciError`]; everything of the container has been removed then.
pub fn run(
    store: &Store,
    id: &Id,
    options: &CreateOptions,
    (detach, keep): (bool, bool),
    say: Say<'_>,
) -> Result<Made, OciError> {
    let life = if detach {
        Life::UntilRunning
    } else {
        Life::ToTheEnd
    };
    let mut cradle = Cradle::new(store, id, options, life, say)?;
    let mut attendance = None;
    if !detach {
        match cradle.attendance() {
            Ok(made) => attendance = Some(made),
            Err(error) => return Err(cradle.give_up(error)),
        }
    }
    let born = cradle
        .bear(attendance.as_mut())
        .and_then(|created| cradle.tell(&created).map(|()| created))
        .and_then(|created| cradle.poststart().map(|()| created));
    let created = match born {
        Ok(created) => created,
        Err(error) => return Err(cradle.give_up(error)),
    };
    let Some(attendance) = attendance else {
        return Ok(Made::Detached);
    };
    cradle.place.unlock();
    let raw = cradle.raw_mode();
    let outcome = attend(attendance, &created.child.pidfd).map_err(OciError::Runtime)?;
    drop(raw);
    let Cradle { mut place, say, .. } = cradle;
    if !keep {
        match place.lock() {
            Ok(()) => delete::clear(place, id, created.cgroup, &mut |text| say(Level::Warning, &text))?,
            // Another command has removed it already.
            Err(OciError::Container(ContainerError::NotFound)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Made::Ended(exit_code(outcome)))
}

/// Returns the exit code as shells do.
pub(crate) fn exit_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Exited(code) => u8::try_from(code & 0xff).unwrap_or(255),
        Outcome::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(255),
        Outcome::TimedOut | Outcome::CpuTimeOver | Outcome::OutputOver | Outcome::Insisted => 255,
    }
}

/// Everything that belongs to a container while it is made.
struct Cradle<'a> {
    place: Place,
    id: &'a Id,
    options: CreateOptions,
    spec: Spec,
    expected: Expected,
    record: Record,
    kept: String,
    say: Say<'a>,
}

impl<'a> Cradle<'a> {
    fn new(
        store: &Store,
        id: &'a Id,
        options: &CreateOptions,
        life: Life,
        say: Say<'a>,
    ) -> Result<Self, OciError> {
        let listen = Listen::look();
        let passed = passed::count(options.preserve_fds, &listen)?;
        let path = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
        let options = CreateOptions {
            bundle: options.bundle.clone(),
            no_pivot: options.no_pivot,
            console_socket: path(&options.console_socket)?,
            pidfd_socket: path(&options.pidfd_socket)?,
            pid_file: path(&options.pid_file)?,
            preserve_fds: passed,
            ..*options
        };
        let store = Store::new(absolute(store.path())?);
        let mut bundle = Bundle::enter(&options.bundle)?;
        plan::finish_process(&mut bundle, &listen);
        if let Some(elsewhere) = options.elsewhere {
            let made = elsewhere(&bundle.dir, &bundle.rootfs, &bundle.spec);
            if let Some((spec, rootfs)) = made.map_err(OciError::Usage)? {
                (bundle.spec, bundle.rootfs) = (spec, rootfs);
            }
        }
        check_console(&bundle.spec, &options, life)?;
        if let (Life::ToTheEnd, Some(process)) = (life, &mut bundle.spec.process) {
            plan::fit_terminal(process);
        }
        let network = tote_sandbox::network_may_come(&bundle.spec)
            // A failure is reported later, when the namespace is needed.
            .then(ComingNetwork::begin)
            .and_then(Result::ok);
        let place = store.make(id)?;
        match prepare(&place, id, &bundle, (&options, life), network) {
            Ok((expected, record, kept)) => {
                for warning in &expected.plan.warnings {
                    say(Level::Warning, warning);
                }
                if let Some(flags) = seccomp::flags(&expected.plan) {
                    say(Level::Debug, &format!("seccomp filter flags: {flags}"));
                }
                Ok(Self {
                    place,
                    id,
                    options,
                    spec: bundle.spec,
                    expected,
                    record,
                    kept,
                    say,
                })
            }
            Err(error) => {
                // If removal fails, a directory without a record stays, which the next creator clears.
                best_effort(place.remove());
                Err(error)
            }
        }
    }

    /// Makes the container.
    fn bear(&mut self, mut attendance: Option<&mut Attendance>) -> Result<Created, OciError> {
        let (id, place, kept) = (self.id, &self.place, &self.kept);
        let (record, say) = (RefCell::new(&mut self.record), RefCell::new(&mut *self.say));
        let debug = |text: &str| (*say.borrow_mut())(Level::Debug, text);
        let states = &self.expected.states;
        let spec_hooks = self.spec.hooks.as_ref();
        let socket = self.options.console_socket.as_deref();
        let mut note = |child: &Child, cgroup: Option<&Cgroup>| -> Result<(), Refusal> {
            let mut record = record.borrow_mut();
            record.pid = Some(child.pid);
            record.start_time = status::start_time(child.pid)?;
            record.cgroup = cgroup.map(Cgroup::record).unwrap_or_default();
            place.write(&record, kept)?;
            debug(&format!(
                "nsexec container setup: process {} has its namespaces and mounts",
                child.pid
            ));
            for (file, status) in states.iter().zip([Status::Creating, Status::Created]) {
                if let Some(file) = file {
                    tote_runtime::set_state(file.as_fd(), &state::for_hooks(id, &record, status))?;
                }
            }
            Ok(())
        };
        let mut note_root = |tree: BorrowedFd<'_>| -> Result<(), Refusal> {
            let mut record = record.borrow_mut();
            let number = tote_sys::mount_number(tree);
            record.root_mount =
                Some(number.map_err(OciError::kernel("ask for the number of the root's mount"))?);
            Ok(place.write(&record, kept)?)
        };
        let mut run_hooks = || -> Result<(), Refusal> {
            let Some(hooks) = spec_hooks else { return Ok(()) };
            // `prestart` is from a version of the specification without a state between creating and created.
            let state = |status| state::for_hooks(id, &record.borrow(), status);
            hooks::run("prestart", &hooks.prestart, &state(Status::Created))?;
            Ok(hooks::run(
                "createRuntime",
                &hooks.create_runtime,
                &state(Status::Creating),
            )?)
        };
        let mut console = |master: OwnedFd| -> Result<(), Refusal> {
            match (&mut attendance, socket) {
                (_, Some(socket)) => Ok(send("console", socket, "/dev/ptmx", &master)?),
                (Some(attendance), None) => Ok(attendance.take_console(master)?),
                (None, None) => Ok(()),
            }
        };
        let profile = self.spec.linux.as_ref().and_then(|linux| linux.seccomp.as_ref());
        let mut listener = |fd: OwnedFd| -> Result<(), Refusal> {
            let record = record.borrow();
            let pid = record.pid.unwrap_or(0);
            Ok(seccomp::hand_over(
                &fd,
                profile,
                pid,
                (id, &record, Status::Creating),
            )?)
        };
        // The new process begins as a copy of this one, and processes of the container may look at it.
        tote_sys::set_title(c"tote oci create"); // process: command
        let created = tote_runtime::create(
            self.expected.creation(),
            Witness {
                record: &mut note,
                root: &mut note_root,
                network: &mut |_| Ok(()),
                hooks: &mut run_hooks,
                console: &mut console,
                listener: &mut listener,
                warn: &mut |text| (*say.borrow_mut())(Level::Warning, &text),
                stays: &mut || {},
            },
        );
        let created = created.map_err(of_birth)?;
        debug("child process in init(): it has become the container's first process");
        debug("init: closing the pipe to signal completion");
        Ok(created)
    }

    /// Reports the container's process to the caller.
    fn tell(&self, created: &Created) -> Result<(), OciError> {
        if let Some(socket) = &self.options.pidfd_socket {
            send("pidfd", socket, "standard", &created.child.pidfd)?;
        }
        match &self.options.pid_file {
            Some(path) => pidfile::write(path, created.child.pid),
            None => Ok(()),
        }
    }

    fn poststart(&self) -> Result<(), OciError> {
        let hooks = self.spec.hooks.as_ref().map(|hooks| &hooks.poststart[..]);
        match hooks {
            None | Some([]) => Ok(()),
            Some(hooks) => {
                let state = state::for_hooks(self.id, &self.record, Status::Running);
                hooks::run("poststart", hooks, &state)
            }
        }
    }

    fn attendance(&mut self) -> Result<Attendance, OciError> {
        let mode = StdioMode {
            interactive: true,
            terminal: self.terminal(),
            passes_files: true,
            attached: [true; 3],
            output_limit: None,
        };
        let (stdio, ops) = Stdio::new(mode).map_err(OciError::kernel("make pipes for the container"))?;
        plan::relay_line_ends(&mut self.expected.plan);
        self.expected.plan.insert_stdio(ops);
        Attendance::new(stdio).map_err(OciError::Runtime)
    }

    fn terminal(&self) -> bool {
        self.spec.process.as_ref().is_some_and(|process| process.terminal)
    }

    fn raw_mode(&self) -> Option<RawMode> {
        self.terminal().then(|| RawMode::enter().ok()).flatten()
    }

    /// Removes the parts that were made; returns the error.
    fn give_up(self, error: OciError) -> OciError {
        let Self {
            place,
            spec,
            id,
            mut record,
            say,
            ..
        } = self;
        let warn = &mut |text: String| say(Level::Warning, &text);
        if let Err(second) = delete::destroy(&record, None) {
            warn(crate::error::chain(&second));
        }
        record.pid = None;
        let hooks = spec.hooks.map(|hooks: Hooks| hooks.poststop).unwrap_or_default();
        let state = state::for_hooks(id, &record, Status::Stopped);
        if let Err(second) = place.remove() {
            warn(crate::error::chain(&second));
        }
        hooks::run_all("poststop", &hooks, &state, warn);
        error
    }
}

/// Does everything before the birth that leaves traces.
fn prepare(
    place: &Place,
    id: &Id,
    bundle: &Bundle,
    (options, life): (&CreateOptions, Life),
    network: Option<ComingNetwork>,
) -> Result<(Expected, Record, String), OciError> {
    let root = crate::seal::is_root_of_machine();
    let cgroup = crate::cgroup::plan(id, &bundle.spec, root, options.systemd_cgroup)?;
    crate::cgroup::check_unused(&cgroup.record)?;
    let kept = Kept::of(&bundle.spec).text()?;
    let process = bundle.spec.process.as_ref();
    let record = Record {
        oci_version: bundle.spec.oci_version.clone(),
        bundle: bundle.dir.display().to_string(),
        rootfs: bundle.rootfs.display().to_string(),
        created: tote_calendar::in_nanoseconds(tote_calendar::now()),
        annotations: bundle.spec.annotations.clone(),
        program: process
            .and_then(|process| process.args.first().cloned())
            .unwrap_or_default(),
        pid: None,
        start_time: None,
        own_pids: plan::has_own_pids(&bundle.spec),
        has_gate: life == Life::UntilCreated,
        own_keyring: !options.no_new_keyring,
        root_mount: None,
        mount_namespace: bundle
            .spec
            .namespace(NamespaceType::Mount)
            .and_then(|namespace| namespace.path.clone())
            .filter(|path| !path.is_empty()),
        cgroup: cgroup.record.clone(),
    };
    // From here on there is a container, which is being created; to plan it takes the longest.
    place.write(&record, &kept)?;
    let expected = plan::expect((place, id), bundle, cgroup, (options, life), network)?;
    Ok((expected, record, kept))
}

/// Checks that a console has a holder.
fn check_console(spec: &Spec, options: &CreateOptions, life: Life) -> Result<(), OciError> {
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let detached = life != Life::ToTheEnd;
    plan::check_console(terminal, detached, options.console_socket.is_some())
}

/// Hands a descriptor to the caller.
pub(crate) fn send(what: &'static str, socket: &Path, name: &str, fd: &OwnedFd) -> Result<(), OciError> {
    tote_runtime::send_descriptor(socket, name, fd.as_fd()).map_err(|source| OciError::Send {
        what,
        socket: socket.to_owned(),
        source,
    })
}
