//! Machines of containers that are stopped and stay so: with their disks, and without their program.

use super::ask::ask;
use super::guest::{self, Bytes};
use super::host;
use super::member::Part;
use super::{KILL_IN_GUEST, VmFault, sandbox_of};
use crate::container::{Container, Stillness};
use crate::exec::{Conversation, Target, converse_as};
use crate::making::Making;
use crate::network::Joined;
use crate::rootfs::Source;
use crate::volume::{self, Brought};
use crate::{EngineError, Home, HostInit};
use tote_bundle::{CgroupsMode, ContainerId, RunOptions, VmOptions};
use tote_runtime::Creation;
use tote_state::process;

/// Name of the program that waits, which only the guest sees.
const WAITING: &str = "tote-waiting";

/// Work of such a machine's guest.
pub(super) enum Work {
    /// An order in the place of the container's plan, after which the machine ends.
    Order(Vec<u8>),
    /// The container with its volumes, and with a program that waits for a signal.
    Waiting,
}

/// Boots the machine, which ends with this process. The way in which it has directories of this one comes with it.
pub(super) fn boot(
    home: &Home,
    container: &Container,
    work: &Work,
) -> Result<(Conversation, Option<&'static str>), EngineError> {
    let options = options(container, work)?;
    let image = container.source()?;
    let mut source = Source::open(home, &image)?;
    super::adapt(&options, &mut source);
    let brought = match work {
        Work::Order(_) => Brought::default(),
        Work::Waiting => volume::brought(home, &options, false)?,
    };
    let init = HostInit::default();
    let made = {
        let Source::Stored(stored) = &source else {
            return Err(VmFault::NotStored.into());
        };
        let making = Making::again(home, container, false, (&image, source.config()), &init);
        let guest = |joined: &Joined| {
            let plan = match work {
                Work::Order(order) => order.clone(),
                Work::Waiting => {
                    let plan = guest::plan(&making, &source, &options, (&Part::Still, &brought, joined))?;
                    tote_guest::waiting(&crate::pod::pause(), &plan.bytes.plan)
                }
            };
            Ok(Bytes { plan, joins: false })
        };
        let vm = options.vm.clone().unwrap_or_default();
        let asked = (Some(&**stored), &brought, &guest as host::GuestPlan<'_>);
        host::plan(&making, (&vm, &Part::Still, &options), asked, None)?
    };
    let shares = made.shares;
    let mut prepared = made.prepared((container.clone(), true), options, source, init);
    let maps = prepared.ids.maps.take();
    let talk = converse_as(&mut prepared.plan, |plan| {
        let maps = maps.as_ref().filter(|_| plan.user_namespace.is_none());
        let creation = Creation {
            plan,
            cgroup: None,
            maps,
            network: None,
        };
        Ok(tote_runtime::create_alone(creation, &mut |_| {}, &mut || {})?.child)
    })?;
    Ok((talk, shares))
}

/// Returns the options of the container that its files depend on, and no limits: the machine is this command's.
fn options(container: &Container, work: &Work) -> Result<RunOptions, EngineError> {
    let own = container.run_options()?;
    let vm = own.vm.map(|vm| VmOptions {
        memory: None,
        processors: None,
        ..vm
    });
    let bare = RunOptions {
        vm,
        disk_size: own.disk_size,
        cgroups: CgroupsMode::Disabled,
        ..RunOptions::default()
    };
    Ok(match work {
        Work::Order(_) => bare,
        Work::Waiting => RunOptions {
            command: vec![WAITING.to_owned()],
            entrypoint: Some(String::new()),
            workdir: Some("/".to_owned()),
            user: Some("0".to_owned()),
            mounts: own.mounts,
            read_only: own.read_only,
            tmpfs_size: own.tmpfs_size,
            ..bare
        },
    })
}

/// Machine of a stopped container whose guest answers orders as that of a container that runs.
#[derive(Debug)]
pub struct StillMachine {
    /// The attendant; `None` once it has ended.
    talk: Option<Conversation>,
    target: Target,
    _still: Stillness,
}

impl StillMachine {
    /// Boots it.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(super) fn boot(home: &Home, still: Stillness) -> Result<Self, EngineError> {
        let mut entry = still.entry().clone();
        let (talk, shares) = boot(home, &entry.container, &Work::Waiting)?;
        entry.state.shares = shares.map(str::to_owned);
        let (pid, init) = talk.process()?;
        // In this machine it is alone.
        entry.container.pod = None;
        let inside = sandbox_of(home, &entry)?;
        let target = Target {
            id: entry.container.id.to_string(),
            entry: Some(entry),
            pid,
            start_time: process::start_time(pid).unwrap_or_default(),
            init,
            cgroup: String::new(),
            inside,
            guest: None,
        };
        Ok(Self {
            talk: Some(talk),
            target,
            _still: still,
        })
    }

    /// True for the machine of this container.
    pub(super) fn is_of(&self, id: &ContainerId) -> bool {
        let entry = self.target.entry.as_ref();
        entry.is_some_and(|entry| entry.container.id == *id)
    }

    /// Has the guest do what the order says.
    pub(super) fn ask(&self, order: &[u8], input: bool) -> Result<Conversation, EngineError> {
        ask(&self.target, order, input)
    }

    /// Ends the machine, once its guest has written everything to the disks.
    ///
    /// # Errors
    /// [`EngineError`] if it had ended before.
    pub fn end(mut self) -> Result<(), EngineError> {
        let Some(talk) = self.talk.take() else {
            return Ok(());
        };
        talk.signal(KILL_IN_GUEST);
        match talk.finish()? {
            (_, said) if said.is_empty() => Ok(()),
            (_, said) => Err(VmFault::Guest(VmFault::said(&said)).into()),
        }
    }
}

impl Drop for StillMachine {
    fn drop(&mut self) {
        if let Some(talk) = self.talk.take() {
            talk.kill();
            // Why it ends is known.
            tote_sys::best_effort(talk.finish());
        }
    }
}
