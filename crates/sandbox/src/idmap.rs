//! Id-mapped mounts: the maps of each.

use crate::error::PlanError;
use crate::plan::{Builder, Idmap};
use tote_spec::{IdMapping, Mount, NamespaceType, Spec};

impl Builder<'_> {
    /// Returns the maps of a bind, and whether they apply to the mounts below as well. `option` is the value of
    /// `idmap` or `ridmap`.
    pub(crate) fn idmap(
        &self,
        mount: &Mount,
        option: Option<bool>,
    ) -> Result<Option<(Idmap, bool)>, PlanError> {
        let own = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
        if !own && option.is_none() {
            return Ok(None);
        }
        if !self.request.facts.privileged {
            return Err(PlanError::Invalid(
                "id-mapped mounts are not supported for rootless containers".to_owned(),
            ));
        }
        let user = self.request.spec.namespace(NamespaceType::User);
        let idmap = match user.and_then(|user| user.path.as_ref()) {
            _ if own => maps(&mount.uid_mappings, &mount.gid_mappings),
            Some(path) => Idmap::Namespace(path.clone()),
            // `check` has refused a mount without mappings of its own outside a user namespace.
            None => of_namespace(self.request.spec),
        };
        Ok(Some((idmap, option == Some(true))))
    }
}

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
fn of_namespace(spec: &Spec) -> Idmap {
    let linux = spec.linux.as_ref();
    linux.map_or_else(
        || maps(&[], &[]),
        |linux| maps(&linux.uid_mappings, &linux.gid_mappings),
    )
}

fn maps(uid: &[IdMapping], gid: &[IdMapping]) -> Idmap {
    Idmap::Maps {
        uid: lines(uid),
        gid: lines(gid),
    }
}

fn lines(maps: &[IdMapping]) -> String {
    maps.iter().map(|map| format!("{map}\n")).collect()
}
