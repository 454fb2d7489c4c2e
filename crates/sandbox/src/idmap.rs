//! Id-mapped mounts: the maps of each.

use crate::error::PlanError;
use crate::plan::{Builder, Idmap};
use tote_spec::{IdMapping, Mount, NamespaceType};

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
        let linux = self.request.spec.linux.as_ref();
        let user = self.request.spec.namespace(NamespaceType::User);
        let idmap = match (user.and_then(|user| user.path.as_ref()), linux) {
            _ if own => maps(&mount.uid_mappings, &mount.gid_mappings),
            (Some(path), _) => Idmap::Namespace(path.clone()),
            // `check` has refused a mount without mappings of its own outside a user namespace.
            (None, linux) => linux.map_or_else(
                || maps(&[], &[]),
                |linux| maps(&linux.uid_mappings, &linux.gid_mappings),
            ),
        };
        Ok(Some((idmap, option == Some(true))))
    }
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
