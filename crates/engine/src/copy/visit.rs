//! The mounts of a container that does not run, held by a process that does nothing else.
//!
//! It is born as a container is, from a plan, but without everything that is no mount: it waits where the program would
//! be executed. So whatever the storage driver and the volumes are, what is seen is what the program would see.

use crate::container::{Claim, Entry};
use crate::peer::Peers;
use crate::rootfs::Source;
use crate::user::{Ids, ids};
use crate::{EngineError, Home, covered, facts, spec, storage, volume};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tote_bundle::{ImageConfig, IpcMode, NetworkMode, PidMode, RunOptions, UtsMode};
use tote_runtime::{Creation, Witness};
use tote_sandbox::{DeviceNodes, IdMapping, Joins, Lifetime, Plan, Request, Stdin, Switch};
use tote_spec::{Linux, NamespaceType, Spec};
use tote_sys::{Child, Op, best_effort};

/// A process that holds the mounts. Nobody starts the container meanwhile.
pub(super) struct Visit {
    child: Child,
    claim: Option<Claim>,
    /// As long as it is held, the image stays.
    _source: Source,
}

impl Visit {
    /// Makes them; the claim is given back with this.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(super) fn new(home: &Home, entry: &Entry, claim: Claim) -> Result<Self, EngineError> {
        match Self::born(home, entry) {
            Ok((child, source)) => Ok(Self {
                child,
                claim: Some(claim),
                _source: source,
            }),
            Err(error) => {
                claim.release();
                Err(error)
            }
        }
    }

    fn born(home: &Home, entry: &Entry) -> Result<(Child, Source), EngineError> {
        let container = &entry.container;
        let options = mounts_only(container.run_options()?);
        let image = container.source()?;
        let source = Source::open(home, &image)?;
        let config = source.config();
        let ids = ids(&options, &config, &image, &source, home)?;
        let asked = (&options, &config, &ids);
        let (plan, writable, _beside) = plan(home, entry, &source, asked)?;
        if !writable.is_empty() && entry.state.writable != writable {
            // Made now, and told by `diff` before the first start.
            let mut state = entry.state.clone();
            state.writable = writable;
            state.write(home, &container.id)?;
        }
        let creation = Creation {
            plan: &plan,
            cgroup: None,
            maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
            network: None,
        };
        let witness = Witness {
            record: &mut |_, _| Ok(()),
            network: &mut |_| Ok(()),
            hooks: &mut || Ok(()),
            root: &mut |_| Ok(()),
            console: &mut |_| Ok(()),
            listener: &mut |_| Ok(()),
            warn: &mut |_| {},
            stays: &mut || {},
        };
        let created = tote_runtime::create(creation, witness)?;
        Ok((created.child, source))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid
    }

    /// A pidfd of its own.
    pub(super) fn pidfd(&self) -> std::io::Result<OwnedFd> {
        self.child.pidfd.try_clone()
    }
}

impl Drop for Visit {
    /// Its mounts go with it: what comes after may mount the same anew.
    fn drop(&mut self) {
        use rustix::fd::AsFd as _;
        best_effort(pidfd_send_signal(&self.child.pidfd, Signal::KILL));
        best_effort(waitid(
            WaitId::PidFd(self.child.pidfd.as_fd()),
            WaitIdOptions::EXITED,
        ));
        if let Some(claim) = self.claim.take() {
            claim.release();
        }
    }
}

/// The options without what another container or a device would be needed for.
fn mounts_only(mut options: RunOptions) -> RunOptions {
    if let NetworkMode::Container(_) | NetworkMode::Networks(_) = options.network {
        options.network = NetworkMode::None;
    }
    (options.pid, options.ipc, options.uts) = (PidMode::default(), IpcMode::default(), UtsMode::default());
    (options.pod, options.tty, options.init) = (None, false, false);
    options.devices.clear();
    options.sysctls.clear();
    options
}

/// Leaves of a spec what says what is mounted. `/dev` stays, because nodes are put into it.
fn strip(spec: &mut Spec) {
    (spec.hostname, spec.domainname, spec.hooks) = (None, None, None);
    spec.mounts
        .retain(|mount| mount.kind.as_deref() == Some("bind") || mount.destination == "/dev");
    let linux = spec.linux.take().unwrap_or_default();
    let kept = |kind| matches!(kind, NamespaceType::Mount | NamespaceType::User);
    spec.linux = Some(Linux {
        namespaces: linux
            .namespaces
            .into_iter()
            .filter(|one| kept(one.kind))
            .collect(),
        uid_mappings: linux.uid_mappings,
        gid_mappings: linux.gid_mappings,
        ..Linux::default()
    });
}

/// The plan, the paths that the container has copies of, and what must be held until everything is mounted.
fn plan(
    home: &Home,
    entry: &Entry,
    source: &Source,
    (options, config, ids): (&RunOptions, &ImageConfig, &Ids),
) -> Result<(Plan, Vec<String>, tote_driver::Beside), EngineError> {
    let (id, peers) = (&entry.container.id, Peers::default());
    let volumes = volume::prepare(home, id, (options, config), false)?;
    let mut spec = spec::make(home, id, (options, &peers), config, ids, &|_| None, &volumes)?;
    let files = covered::files(home, (id, ids), &mut spec, (options, &peers, &[]), false)?;
    strip(&mut spec);
    let device_nodes = DeviceNodes::Mounted;
    let request = Request {
        spec: &spec,
        attach_point: &home.attach_point(),
        files: &files,
        fill: &volume::to_fill(options, config, &spec)?,
        id_mapping: if spec::joins_user_namespace(&spec) {
            IdMapping::None
        } else {
            ids.mapping
        },
        default_filter: false,
        stdin: Stdin::Null,
        init: false,
        lifetime: Lifetime::OfParent,
        preserve_fds: 0,
        switch: Switch::Pivot,
        keyring: None,
        all_processors: false,
        links: &[],
        facts: facts::facts(home, options, &spec, None, device_nodes),
    };
    let wanted = storage::Wanted {
        options,
        config,
        spec: &spec,
        files: &files,
        ids,
        dry: false,
        runs: false,
    };
    let (root, beside) = storage::root(home, id, source, &wanted)?;
    let writable = storage::copies(&root);
    let mut plan = tote_sandbox::plan(&request, root, Joins::default())?;
    // Then it waits for what never comes: the end of whoever made it ends it as well.
    plan.ops.truncate(plan.switch_position() + 1);
    let gates = plan.ops.iter().filter(|op| matches!(op, Op::Gate)).count();
    plan.gates.truncate(gates);
    plan.ops.extend([Op::Ready, Op::Gate]);
    Ok((plan, writable, beside))
}
