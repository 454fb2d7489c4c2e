//! User of the container's process, and ids of its user namespace.

use crate::keep_id::{CallerLines, HostUser};
use crate::rootfs::Source;
use crate::{Caller, EngineError, Home, MachineError, RequestError};
use tote_archive::Shift;
use tote_bundle::{
    Image, ImageConfig, KeptIds, ResolvedUser, RunOptions, UsernsMode, resolve_groups, resolve_user, user_of,
};
use tote_images::ranges;
use tote_runtime::Maps;
use tote_sandbox::MapOrigin;
use tote_spec::{IdMapping, Spec};
use tote_sys::IdMaps;

/// The ids of a container.
#[derive(Debug)]
pub struct Ids {
    /// User of the container's program.
    pub user: ResolvedUser,
    /// Supplementary groups.
    pub added_gids: Vec<u32>,
    /// Origin of the id map.
    pub mapping: MapOrigin,
    /// Id maps, if the container has a user namespace of its own.
    pub maps: Option<Maps>,
    /// The caller's lines among the image's users, where the caller has the same id inside.
    pub caller: CallerLines,
    /// The ids that the caller has inside in place of root's, where files of an image belong to several ids.
    pub shift: Option<Shift>,
}

impl Ids {
    /// Takes the owners of files from the user namespace that the container joins, if it joins one.
    ///
    /// # Errors
    /// [`EngineError`]: the maps of that namespace cannot be read.
    pub fn join(&mut self, spec: &Spec, caller: Caller) -> Result<(), EngineError> {
        if let Some(process) = joined_process(spec).filter(|_| caller == Caller::User) {
            self.shift = joined_shift(process)?;
        }
        Ok(())
    }

    /// How the container's own ids are mapped; not at all where it joins a user namespace, which has its maps.
    pub fn mapping_of(&self, spec: &Spec) -> MapOrigin {
        if joins_user_namespace(spec) {
            MapOrigin::None
        } else {
            self.mapping
        }
    }
}

/// The id outside of the container's root, where files that root of the machine makes for it are to belong to that one.
pub fn root_outside(caller: Caller, ids: &Ids) -> Option<u32> {
    let maps = ids.maps.as_ref().filter(|_| caller == Caller::Root)?;
    IdMapping::outside(&maps.uid, 0)
}

/// Finds out about user, groups and maps; reads of the image only what it must.
pub fn ids(
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
    let keeps = kept(options).is_some() && options.user.is_none();
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
    if kept(options).is_some() {
        let (uid, gid) = kept_ids(options, home.caller);
        let named = if keeps || user.uid == uid {
            let (host_uid, host_gid) = tote_images::caller_ids(home.caller);
            HostUser::look(host_uid, host_gid)
        } else {
            HostUser::numbered(user.uid, user.gid)
        };
        let ids = if keeps { (uid, gid) } else { (user.uid, user.gid) };
        caller = CallerLines::of(&named.called(ids.0, ids.1), (&passwd, &group), options, config);
        if keeps {
            let known = resolve_user(&format!("{uid}:{gid}"), &passwd, &group)?;
            user = ResolvedUser {
                uid,
                gid,
                additional_gids: Vec::new(),
                home: known.home,
            };
        }
        if let Some(home) = &caller.home {
            user.home.clone_from(home);
        }
    }
    Ok(Ids {
        user,
        added_gids,
        shift: shift_of(options, home.caller).filter(|_| maps.is_some()),
        mapping,
        maps,
        caller,
    })
}

impl Ids {
    /// Finds out about user and groups of a container that has every id, in a virtual machine.
    pub fn of_guest(
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
            shift: None,
        })
    }
}

fn kept(options: &RunOptions) -> Option<KeptIds> {
    match options.userns {
        UsernsMode::KeepId(kept) => Some(kept),
        _ => None,
    }
}

fn shift_of(options: &RunOptions, caller: Caller) -> Option<Shift> {
    kept(options).filter(|_| caller == Caller::User)?;
    let (uid, gid) = kept_ids(options, caller);
    Shift::keeping(uid, gid)
}

/// The ids that the caller has inside with `keep-id`.
fn kept_ids(options: &RunOptions, caller: Caller) -> (u32, u32) {
    let (uid, gid) = tote_images::caller_ids(caller);
    let kept = kept(options).unwrap_or_default();
    // Root's containers have no user namespace, and so the ids of the machine.
    match caller {
        Caller::User => (kept.uid.unwrap_or(uid), kept.gid.unwrap_or(gid)),
        _ => (uid, gid),
    }
}

/// The maps of `--uidmap` and `--gidmap` in ids of the machine; `None` without these options.
fn given_maps(options: &RunOptions, caller: Caller) -> Result<Option<Maps>, EngineError> {
    if options.id_maps.is_empty() {
        return Ok(None);
    }
    if caller != Caller::User {
        return Err(EngineError::Request(RequestError::NoRemap));
    }
    if options.userns != UsernsMode::Default {
        let text = "conflicting options: --userns and --uidmap or --gidmap";
        return Err(EngineError::Usage(text.to_owned()));
    }
    let own =
        ranges(0, 0).ok_or_else(|| EngineError::Machine(MachineError::NoRanges("--uidmap".to_owned())))?;
    let (uid, gid) = options.id_maps.both();
    Ok(Some(Maps {
        uid: composed("--uidmap", uid, &own.uid)?,
        gid: composed("--gidmap", gid, &own.gid)?,
        privileged: own.privileged,
    }))
}

/// Lines whose ids outside are those of the machine, of lines whose ids outside are among `own`.
fn composed(option: &str, given: &[IdMapping], own: &[IdMapping]) -> Result<Vec<IdMapping>, EngineError> {
    let mut lines = Vec::new();
    for line in given {
        let mut done = 0;
        while done < line.size {
            let wanted = line.host_id + done;
            let range = own
                .iter()
                .find(|range| IdMapping::outside(&[**range], wanted).is_some());
            let Some(range) = range else {
                let total: u64 = own.iter().map(|range| u64::from(range.size)).sum();
                let text = format!(
                    "{option} {line}: {wanted} is none of your {total} ids, 0 to {}",
                    total - 1
                );
                return Err(EngineError::Usage(text));
            };
            let skipped = wanted - range.container_id;
            let size = (range.size - skipped).min(line.size - done);
            lines.push(IdMapping::new(
                line.container_id + done,
                range.host_id + skipped,
                size,
            ));
            done += size;
        }
    }
    // What the container writes is the caller's on disk.
    if IdMapping::inside(given, 0).is_none() {
        let text =
            format!("{option}: the caller needs an id inside: add a map of the id 0, such as 1000:0:1");
        return Err(EngineError::Usage(text));
    }
    Ok(lines)
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
    if let Some(maps) = given_maps(options, caller)? {
        return Ok((MapOrigin::ByParent, Some(maps)));
    }
    if caller != Caller::User {
        return Ok(match options.userns {
            UsernsMode::Default | UsernsMode::Host | UsernsMode::KeepId(_) => (MapOrigin::None, None),
            UsernsMode::Remap | UsernsMode::Auto => return Err(EngineError::Request(RequestError::NoRemap)),
        });
    }
    let keep = kept(options).is_some();
    let (own_uid, own_gid) = if keep { kept_ids(options, caller) } else { (0, 0) };
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
pub fn joins_user_namespace(spec: &Spec) -> bool {
    spec.namespace(tote_spec::NamespaceType::User)
        .is_some_and(|namespace| namespace.path.is_some())
}

/// The directory in `/proc` of the process whose user namespace the container joins.
fn joined_process(spec: &Spec) -> Option<&str> {
    let joined = spec.namespace(tote_spec::NamespaceType::User)?;
    joined.path.as_deref()?.strip_suffix("/ns/user")
}

/// The ids that the caller has in the user namespace of a process; `None` for one whose maps `keep-id` would not make.
fn joined_shift(process: &str) -> Result<Option<Shift>, EngineError> {
    let read = |file: &str| {
        let path = format!("{process}/{file}");
        let text = std::fs::read_to_string(&path).map_err(EngineError::file("read", &path))?;
        Ok::<_, EngineError>(IdMapping::read(&text))
    };
    let (uids, gids) = (read("uid_map")?, read("gid_map")?);
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let kept = IdMapping::inside(&uids, own.0).zip(IdMapping::inside(&gids, own.1));
    let shift = kept.and_then(|(uid, gid)| Shift::keeping(uid, gid));
    Ok(shift.filter(|shift| {
        let (uid, gid) = shift.kept();
        ranges(uid, gid).is_some_and(|maps| (maps.uid, maps.gid) == (uids, gids))
    }))
}

/// Whether setgroups(2) is allowed in the user namespace that the container joins, or else in this process's own.
pub fn may_set_groups(spec: &Spec) -> bool {
    tote_runtime::groups_allowed(joined_process(spec).unwrap_or("/proc/self"))
}

/// Whether the user namespace that this process is in has that group.
pub fn maps_group(gid: u32) -> bool {
    // absence: a group that is not known to be there is not given
    let map = std::fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    IdMapping::outside(&IdMapping::read(&map), gid).is_some()
}

/// Maps as the spec writes them.
pub fn spec_mappings(mapping: MapOrigin, maps: Option<&Maps>) -> (Vec<IdMapping>, Vec<IdMapping>) {
    match (mapping, maps) {
        (MapOrigin::Own(maps), _) => (
            vec![IdMapping::new(maps.uid.0, maps.uid.1, 1)],
            vec![IdMapping::new(maps.gid.0, maps.gid.1, 1)],
        ),
        (_, Some(maps)) => (maps.uid.clone(), maps.gid.clone()),
        _ => (Vec::new(), Vec::new()),
    }
}
