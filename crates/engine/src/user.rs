//! User of the container's process, and ids of its user namespace.

use crate::keep_id::{CallerLines, HostUser};
use crate::rootfs::Source;
use crate::{Caller, EngineError, Home, MachineError, RequestError};
use tote_bundle::{
    Image, ImageConfig, ResolvedUser, RunOptions, UsernsMode, resolve_groups, resolve_user, user_of,
};
use tote_images::ranges;
use tote_runtime::Maps;
use tote_sandbox::MapOrigin;
use tote_spec::{IdMapping, Spec};
use tote_sys::IdMaps;

/// The ids of a container.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) user: ResolvedUser,
    pub(crate) added_gids: Vec<u32>,
    pub(crate) mapping: MapOrigin,
    pub(crate) maps: Option<Maps>,
    /// The caller's lines among the image's users, where the caller has the same id inside.
    pub(crate) caller: CallerLines,
}

impl Ids {
    /// How the container's own ids are mapped; not at all where it joins a user namespace, which has its maps.
    pub(crate) fn mapping_of(&self, spec: &Spec) -> MapOrigin {
        if joins_user_namespace(spec) {
            MapOrigin::None
        } else {
            self.mapping
        }
    }
}

/// The id outside of the container's root, where files that root of the machine makes for it are to belong to that one.
pub(crate) fn root_outside(caller: Caller, ids: &Ids) -> Option<u32> {
    let maps = ids.maps.as_ref().filter(|_| caller == Caller::Root)?;
    IdMapping::outside(&maps.uid, 0)
}

/// Finds out about user, groups and maps; reads of the image only what it must.
pub(crate) fn ids(
    options: &RunOptions,
    config: &ImageConfig,
    image: &Image,
    source: &Source,
    home: &Home,
) -> Result<Ids, EngineError> {
    let wanted = user_of(options, config);
    let read = |path| {
        let bytes = source.read(home, path)?;
        Ok::<_, EngineError>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    };
    // Root of the host image is as tote wrote it there: nothing to read.
    let keeps = options.userns == UsernsMode::KeepId && options.user.is_none();
    let is_plain = *image == Image::Host && wanted.is_empty() && options.group_add.is_empty() && !keeps;
    let (passwd, group) = if is_plain {
        ("root:x:0:0:root:/root:/bin/sh".to_owned(), String::new())
    } else {
        (read("etc/passwd")?, read("etc/group")?)
    };
    let mut user = resolve_user(wanted, &passwd, &group)?;
    let added_gids = resolve_groups(&options.group_add, &group)?;
    let (mapping, maps) = mapping(options, &user, image, home.caller)?;
    if matches!(mapping, MapOrigin::Own(_)) {
        // One group is all there is: those that the image's files would add cannot be had.
        user.additional_gids.clear();
    }
    let mut caller = CallerLines::default();
    if keeps {
        let (uid, gid) = tote_images::caller_ids(home.caller);
        caller = CallerLines::of(&HostUser::look(uid, gid), (&passwd, &group), options, config);
        let known = resolve_user(&format!("{uid}:{gid}"), &passwd, &group)?;
        user = ResolvedUser {
            uid,
            gid,
            additional_gids: Vec::new(),
            home: caller.home.clone().unwrap_or(known.home),
        };
    }
    Ok(Ids {
        user,
        added_gids,
        mapping,
        maps,
        caller,
    })
}

impl Ids {
    /// Finds out about user and groups of a container that has every id, in a virtual machine.
    pub(crate) fn of_guest(
        options: &RunOptions,
        config: &ImageConfig,
        source: &Source,
        home: &Home,
    ) -> Result<Self, EngineError> {
        let read = |path| {
            let bytes = source.read(home, path)?;
            Ok::<_, EngineError>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
        };
        let (passwd, group) = (read("etc/passwd")?, read("etc/group")?);
        Ok(Self {
            user: resolve_user(user_of(options, config), &passwd, &group)?,
            added_gids: resolve_groups(&options.group_add, &group)?,
            mapping: MapOrigin::None,
            maps: None,
            caller: CallerLines::default(),
        })
    }
}

fn mapping(
    options: &RunOptions,
    user: &ResolvedUser,
    image: &Image,
    caller: Caller,
) -> Result<(MapOrigin, Option<Maps>), EngineError> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if caller != Caller::User {
        return Ok(match options.userns {
            UsernsMode::Default | UsernsMode::Host | UsernsMode::KeepId => (MapOrigin::None, None),
            UsernsMode::Remap | UsernsMode::Auto => return Err(EngineError::Request(RequestError::NoRemap)),
        });
    }
    let keep = options.userns == UsernsMode::KeepId;
    let (own_uid, own_gid) = if keep {
        tote_images::caller_ids(caller)
    } else {
        (0, 0)
    };
    // One id suffices for programs of the host that run as root: nothing in the image belongs to anybody else.
    let one_is_enough = (user.uid, user.gid) == (own_uid, own_gid) || (keep && options.user.is_none());
    let own = MapOrigin::Own(IdMaps {
        uid: (own_uid, uid),
        gid: (own_gid, gid),
    });
    // A member of a pod joins the user namespace of the infra container, with whatever image.
    if one_is_enough && *image == Image::Host && options.group_add.is_empty() && !options.infra {
        return Ok((own, None));
    }
    match ranges(own_uid, own_gid) {
        Some(maps) => Ok((MapOrigin::ByParent, Some(maps))),
        None if one_is_enough => Ok((own, None)),
        None => Err(EngineError::Machine(MachineError::NoRanges(user.uid.to_string()))),
    }
}

/// Whether the container joins another's user namespace.
pub(crate) fn joins_user_namespace(spec: &Spec) -> bool {
    spec.namespace(tote_spec::NamespaceType::User)
        .is_some_and(|namespace| namespace.path.is_some())
}

/// Whether setgroups(2) is allowed in the user namespace that the container joins, or else in this process's own.
pub(crate) fn may_set_groups(spec: &Spec) -> bool {
    let joined = spec
        .namespace(tote_spec::NamespaceType::User)
        .and_then(|namespace| namespace.path.as_deref());
    let process = joined
        .and_then(|path| path.strip_suffix("/ns/user"))
        .unwrap_or("/proc/self");
    tote_runtime::groups_allowed(process)
}

/// Whether the user namespace that this process is in has that group.
pub(crate) fn maps_group(gid: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    IdMapping::outside(&IdMapping::read(&map), gid).is_some()
}

/// Maps as the spec writes them.
pub(crate) fn spec_mappings(mapping: MapOrigin, maps: Option<&Maps>) -> (Vec<IdMapping>, Vec<IdMapping>) {
    match (mapping, maps) {
        (MapOrigin::Own(maps), _) => (
            vec![IdMapping::new(maps.uid.0, maps.uid.1, 1)],
            vec![IdMapping::new(maps.gid.0, maps.gid.1, 1)],
        ),
        (_, Some(maps)) => (maps.uid.clone(), maps.gid.clone()),
        _ => (Vec::new(), Vec::new()),
    }
}
