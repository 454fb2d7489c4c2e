//! Mounts of a stopped container, held by a process that does nothing else.
//!
//! The process is made like a container's, from a plan, but with mounts only: it waits at the point where the program
//! would be executed. So with any storage driver and volumes, it sees the files that the program would see.

use crate::container::{Entry, Stillness};
use crate::peer::Peers;
use crate::rootfs::Source;
use crate::user::{Ids, ids};
use crate::{EngineError, Home, covered, facts, spec, storage, volume};
use rustix::fd::OwnedFd;
use rustix::process::{Signal, pidfd_send_signal};
use tote_bundle::{ImageConfig, KeptIds, RunOptions, UsernsMode};
use tote_runtime::Creation;
use tote_sandbox::{DeviceNodes, Joins, Lifetime, MapOrigin, Plan, Request};
use tote_spec::{Linux, NamespaceType, Spec};
use tote_sys::{Child, Op, Wait, best_effort};

/// Process that holds the mounts. Meanwhile the container cannot be started.
pub(crate) struct Visit {
    child: Child,
    still: Option<Stillness>,
    /// Reference to the image, which stays while this is held.
    _source: Source,
}

impl Visit {
    /// Makes the mounts; the container may start again when this value has gone.
    ///
    /// # Errors
    /// [`EngineError`].
    pub(crate) fn new(home: &Home, still: Stillness) -> Result<Self, EngineError> {
        let (child, source) = Self::born(home, still.entry())?;
        Ok(Self {
            child,
            still: Some(still),
            _source: source,
        })
    }

    fn born(home: &Home, entry: &Entry) -> Result<(Child, Source), EngineError> {
        let container = &entry.container;
        let mut options = container.run_options()?;
        options.keep_mounts_only();
        if let Some((uid, gid)) = entry.state.kept_ids {
            // Also where it was in another container's user namespace.
            options.userns = UsernsMode::KeepId(KeptIds {
                uid: Some(uid),
                gid: Some(gid),
            });
        }
        let image = container.source()?;
        let source = Source::open(home, &image)?;
        let config = source.config();
        let mut ids = ids(&options, &config, &image, &source, home)?;
        if !container.roots_files {
            ids.shift = None;
        }
        let asked = (&options, &config, &ids);
        let (plan, writable, _beside) = plan(home, entry, &source, asked)?;
        if !writable.is_empty() && entry.state.writable != writable {
            // The copies are made now, and `diff` shows them before the first start.
            let mut state = entry.state.clone();
            state.writable = writable;
            state.write(home, &container.id)?;
        }
        // process: visit of `cp`
        let creation = Creation {
            plan: &plan,
            cgroup: None,
            maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
            network: None,
        };
        let created = tote_runtime::create_alone(creation, &mut |_| {}, &mut || {})?;
        Ok((created.child, source))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Duplicates the pidfd of the process.
    pub(crate) fn pidfd(&self) -> std::io::Result<OwnedFd> {
        self.child.pidfd.try_clone()
    }
}

impl Drop for Visit {
    /// Drop waits for the end of the mounts, so that a later command can mount the same files again.
    fn drop(&mut self) {
        use rustix::fd::AsFd as _;
        best_effort(pidfd_send_signal(&self.child.pidfd, Signal::KILL));
        // One that the kernel holds up keeps its mounts, and the command goes on.
        best_effort(Wait::ending().reap(self.child.pidfd.as_fd()));
        drop(self.still.take());
    }
}

/// Reduces a spec to its mounts. `/dev` stays, because device nodes are made in it.
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

/// Makes the plan. Also returns the paths of which the container has copies, and the resources to hold until all
/// mounts are made.
fn plan(
    home: &Home,
    entry: &Entry,
    source: &Source,
    (options, config, ids): (&RunOptions, &ImageConfig, &Ids),
) -> Result<(Plan, Vec<String>, tote_driver::Beside), EngineError> {
    let (id, peers) = (&entry.container.id, Peers::default());
    let volumes = volume::prepare(home, id, (options, config), false)?;
    let mut spec = spec::make(
        home.caller,
        id,
        (options, &peers),
        config,
        ids,
        &|_| None,
        &volumes,
    )?;
    // A container that has run has files of its own, in which its program may have written: a copy leaves them as they are.
    let has_run = entry.state.started_at != 0;
    let files = covered::files(home, (id, ids), &mut spec, (options, &peers, &[]), has_run)?;
    strip(&mut spec);
    let filling = volume::Filling {
        home,
        id,
        options,
        config,
        user: &ids.user,
        first: !has_run,
        dry: false,
    };
    let fill = filling.of(&spec)?;
    let attach_point = home.attach_point();
    let facts = facts::facts(home, options, &spec, None, DeviceNodes::Mounted, ids);
    let request = Request {
        files: if has_run { &[] } else { &files },
        fill: &fill,
        id_mapping: if crate::user::joins_user_namespace(&spec) {
            MapOrigin::None
        } else {
            ids.mapping
        },
        lifetime: Lifetime::OfParent,
        ..Request::bare(&spec, &attach_point, facts)
    };
    let wanted = storage::Wanted {
        options,
        config,
        spec: &spec,
        files: &files,
        ids,
        dry: false,
        runs: false,
        again: true,
    };
    let (root, beside) = storage::root(home, id, source, &wanted)?;
    let writable = storage::copies(&root);
    let mut plan = tote_sandbox::plan(&request, root, Joins::default())?;
    // The process then waits for ever; the end of its parent ends it as well.
    plan.ops.truncate(plan.switch_position() + 1);
    let gates = plan.ops.iter().filter(|op| matches!(op, Op::Gate)).count();
    plan.gates.truncate(gates);
    plan.ops.extend([Op::Ready, Op::Gate]);
    Ok((plan, writable, beside))
}
