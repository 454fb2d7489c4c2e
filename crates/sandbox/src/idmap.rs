//! Id-mapped mounts: the maps of each.

use crate::error::PlanError;
use crate::namespace_maps::{maps, of_namespace};
use crate::plan::Builder;
use crate::tree::Idmap;
use tote_spec::{Mount, NamespaceType};

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
