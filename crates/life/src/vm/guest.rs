//! The guest's part: the plan of the container, as tote makes it in the guest.

use super::member::Part;
use crate::facts::choose_filter;
use crate::making::Making;
use crate::network::Joined;
use crate::rootfs::Source;
use crate::standard::stdin;
use crate::user::Ids;
use crate::volume::{Brought, Volumes};
use crate::{Caller, EngineError};
use std::path::{Path, PathBuf};
use tote_bundle::{BlockLimits, RunOptions, Treatment};
use tote_rootfs::{Storage, Upper};
use tote_sandbox::{
    CgroupView, DeviceNodes, Facts, Fill, Joins, Lifetime, MapOrigin, Request, Root, SecurityModule, Switch,
};
use tote_spec::Spec;

/// All capabilities that Linux has had until now, of which a guest's kernel drops those that it does not know.
const CAPABILITIES: u64 = (1 << 41) - 1;

/// Byte form of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    pub plan: Vec<u8>,
    /// True if it has the descriptor of a process, in whose place the guest brings its own.
    pub joins: bool,
}

/// The guest's part of a plan.
pub(crate) struct Planned {
    pub spec: Spec,
    pub bytes: Bytes,
    pub warnings: Vec<String>,
}

/// Serial number of the disk that has the container's writes.
pub(crate) const WRITES: &str = "writes";

/// Returns the serial number of a volume's disk, by its place among the container's.
pub(crate) fn serial_of(place: usize) -> String {
    format!("volume{place}")
}

/// True if the container's writes outlive the machine: then they are on a disk.
pub(crate) fn keeps_writes(options: &RunOptions) -> bool {
    !options.rm && !options.read_only && options.tmpfs_size.is_none()
}

/// Returns the place of a disk in the guest.
fn node(serial: &str) -> String {
    format!("{}/{serial}", tote_guest::DISKS)
}

/// Plans the container for root of a machine that has nothing else to do, with these volumes.
pub(crate) fn plan(
    making: &Making<'_>,
    source: &Source,
    options: &RunOptions,
    (part, brought, joined): (&Part, &Brought, &Joined),
) -> Result<Planned, EngineError> {
    let (peers, shm) = part.peers(making.home, options)?;
    let mut options = inside(options, brought);
    part.alone(&mut options, peers.hostname.as_deref());
    let options = &options;
    let config = &making.config;
    let ids = Ids::of_guest(options, config, source, making.home)?;
    let nodes = brought.disks.iter().enumerate();
    let nodes = nodes.map(|(place, disk)| (disk, node(&serial_of(place))));
    let volumes = Volumes::of_guest(nodes);
    let asked = (options, &peers);
    let mut spec = crate::spec::make(
        Caller::Root,
        making.id,
        asked,
        config,
        &ids,
        making.environment,
        &volumes,
    )?;
    part.leave(&mut spec);
    let linux = spec
        .linux
        .as_mut()
        .ok_or(tote_sandbox::PlanError::Missing("linux"))?;
    let default_filter = choose_filter(options, linux)?;
    let files = crate::spec::files((&spec, making.home.caller), options, &peers, &joined.endpoints)?;
    let filled = brought.shares.iter().filter(|share| share.fill && making.first);
    let fill: Vec<Fill> = filled
        .map(|share| Fill {
            destination: share.request.destination.clone(),
            owner: (share.request.treatment == Treatment::Chowned).then_some((ids.user.uid, ids.user.gid)),
            // The guest has no lock of this machine's.
            lock: None,
        })
        .collect();
    let request = Request {
        spec: &spec,
        attach_point: Path::new(tote_guest::CONTAINERS),
        files: &files,
        fill: &fill,
        id_mapping: MapOrigin::None,
        default_filter,
        stdin: stdin(options),
        init: options.init,
        lifetime: Lifetime::OfParent,
        preserve_fds: 0,
        switch: Switch::Pivot,
        keyring: None,
        all_processors: true,
        links: &joined.guest_links(),
        facts: Facts {
            // A guest of a template has made it before.
            network_comes: tote_sandbox::network_may_come(&spec),
            ..facts()
        },
    };
    let root = root(options);
    let joins = Joins {
        shm,
        ..Joins::default()
    };
    let plan = tote_sandbox::plan(&request, root, joins)?;
    let form = plan.to_bytes();
    let bytes = Bytes {
        joins: !form.fds.is_empty(),
        plan: form.bytes,
    };
    Ok(Planned {
        bytes,
        warnings: plan.warnings,
        spec,
    })
}

/// Returns the root: the image's disk, below a disk or a file system in memory for the writes.
fn root(options: &RunOptions) -> Root {
    Root::Stored {
        storage: Storage::Overlay {
            lowers: vec![PathBuf::from(tote_guest::IMAGE)],
            own_inodes: None,
            upper: if keeps_writes(options) {
                Upper::Disk {
                    fs: "ext4",
                    device: node(WRITES).into(),
                }
            } else {
                Upper::Tmpfs {
                    size: options.disk_size.or(options.tmpfs_size),
                }
            },
            volatile: false,
        },
        binds: Vec::new(),
        private: false,
        nosuid: false,
    }
}

/// Leaves out the options that concern this machine, and takes the mounts that the guest has in their place.
fn inside(options: &RunOptions, brought: &Brought) -> RunOptions {
    let mut mounts = options.mounts.clone();
    for shared in super::shares::inside(&brought.shares) {
        let place = mounts
            .iter_mut()
            .find(|mount| mount.destination == shared.destination);
        if let Some(mount) = place {
            *mount = shared;
        }
    }
    RunOptions {
        mounts,
        block: BlockLimits::default(),
        oom_score_adj: None,
        ..options.clone()
    }
}

/// The facts of a guest.
pub(crate) fn facts() -> Facts<'static> {
    Facts {
        bounding: CAPABILITIES,
        // Root of a guest may raise its limits.
        hard_limit: &|_| None,
        oom_score_adj: 0,
        cgroup_view: CgroupView::None,
        waits_for_cgroup: false,
        network_comes: false,
        device_nodes: DeviceNodes::Mounted,
        setgroups: true,
        own_executable: None,
        privileged: true,
        becomes_root: false,
        security_module: SecurityModule::None,
    }
}
