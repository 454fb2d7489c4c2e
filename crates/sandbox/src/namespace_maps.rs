//! Maps of user namespaces.

use crate::tree::Idmap;
use tote_spec::{IdMapping, NamespaceType, Spec};

/// Root of a user namespace, as the host sees it.
pub(crate) struct NamespaceRoot {
    /// Maps of the namespace.
    pub(crate) maps: Idmap,
    /// User id on the host.
    pub(crate) uid: u32,
    /// Group id on the host.
    pub(crate) gid: u32,
}

/// Looks up the root of a spec's user namespace; `None` if the spec has none, or no id is root there.
pub(crate) fn root_of(spec: &Spec) -> Option<NamespaceRoot> {
    spec.namespace(NamespaceType::User)?;
    let linux = spec.linux.as_ref()?;
    let root = |maps: &[IdMapping]| {
        maps.iter()
            .find(|map| map.container_id == 0)
            .map(|map| map.host_id)
    };
    Some(NamespaceRoot {
        maps: of_namespace(spec),
        uid: root(&linux.uid_mappings)?,
        gid: root(&linux.gid_mappings)?,
    })
}

/// Returns the maps of a spec's user namespace.
pub(crate) fn of_namespace(spec: &Spec) -> Idmap {
    let linux = spec.linux.as_ref();
    linux.map_or_else(
        || maps(&[], &[]),
        |linux| maps(&linux.uid_mappings, &linux.gid_mappings),
    )
}

/// Returns maps of user and group ids as the kernel reads them.
pub(crate) fn maps(uid: &[IdMapping], gid: &[IdMapping]) -> Idmap {
    Idmap::Maps {
        uid: lines(uid),
        gid: lines(gid),
    }
}

fn lines(maps: &[IdMapping]) -> String {
    maps.iter().map(|map| format!("{map}\n")).collect()
}
