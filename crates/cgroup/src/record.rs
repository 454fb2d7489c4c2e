//! Records of groups before they are made, and uses of records whose groups may never have been made.

use crate::cgroup::Cgroup;
use crate::layout::Layout;
use crate::path::Start;
use crate::place::GroupPlace;
use crate::plan::Plan;
use rustix::fs::rmdir;
use std::path::Path;

impl Plan {
    /// Returns the future places of the groups, in the form of [`Cgroup::record`], so that they can be found if this
    /// process dies while it makes them. [`Cgroup::open`] leaves out groups that were not made.
    #[must_use]
    pub fn record(&self) -> String {
        let place = |is_v2, controllers, base: &Path, path: &Path| {
            let above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
            let missing = above.filter(|dir| is_absent(&base.join(dir))).count();
            GroupPlace {
                is_v2,
                made: missing,
                controllers,
                path: base.join(path),
            }
        };
        let v1 = self.v1.iter();
        let mut places: Vec<_> = v1
            .map(|group| place(false, group.controllers, &group.base, &group.path))
            .collect();
        if let Some(unified) = &self.v2 {
            let near = unified.path.start == Start::Near;
            let above = unified
                .parents()
                .into_iter()
                .take(if near { usize::MAX } else { 1 });
            places.extend(above.map(|parent| place(true, unified.needed, &parent, unified.path.as_path())));
        }
        GroupPlace::record(places)
    }
}

impl Layout {
    /// Takes the existing groups of a record as the caller's own: groups planned afterwards lie below them, in those
    /// hierarchies.
    pub fn enter(&mut self, group: &Cgroup) {
        for dir in &group.dirs {
            let v1 = self.v1.iter_mut().filter(|_| !dir.is_v2);
            let mut hierarchies = v1.chain(self.v2.as_mut().filter(|_| dir.is_v2));
            let entered = hierarchies.find_map(|hierarchy| {
                let own = dir.path.strip_prefix(&hierarchy.mount_point).ok()?.to_owned();
                Some((hierarchy, own))
            });
            if let Some((hierarchy, own)) = entered {
                hierarchy.own_path = own;
            }
        }
    }
}

/// True if nothing exists at that path. If looking fails, something may be there.
pub(crate) fn is_absent(path: &Path) -> bool {
    // absence: if looking fails, something may be there
    path.try_exists().is_ok_and(|found| !found)
}

/// Removes the directories above groups that were missing before according to a record, if they are empty: the groups
/// themselves may never have been made.
pub fn remove_above(record: &str) {
    for place in GroupPlace::readable(record) {
        for dir in place.path.ancestors().skip(1).take(place.made) {
            if rmdir(dir).is_err() && !is_absent(dir) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CgroupPath, Request, plan};
    use tote_spec::Resources;

    fn layout(root: &Path) -> Layout {
        let own = "5:memory:/own\n0::/\n";
        let mounts = format!(
            "1 1 0:1 / {0}/memory rw - cgroup c rw,memory\n2 1 0:2 / {0}/unified rw - cgroup2 c rw\n",
            root.display()
        );
        Layout::parse(own, &mounts)
    }

    #[test]
    fn what_is_noted_before_is_found_after() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("memory/a")).unwrap();
        let path = CgroupPath::from_oci("/a/b/c/leaf").unwrap();
        let resources = Resources::default();
        let mut request = Request::new(&path, &resources);
        request.also = crate::Controllers::MEMORY;
        let record = plan(&layout(root), &request).unwrap().record();
        let group = root.join("memory/a/b/c/leaf");
        assert_eq!(
            record.lines().next(),
            Some(format!("v1 2 memory {}", group.display()).as_str())
        );
        std::fs::create_dir_all(&group).unwrap();
        let opened = Cgroup::open(&record).unwrap();
        assert!(opened.paths().any(|(_, path)| path == group));
        // A group planned inside it lies below it.
        let mut inside = layout(root);
        inside.enter(&opened);
        let path = CgroupPath::from_id("member").unwrap();
        let mut request = Request::new(&path, &resources);
        request.also = crate::Controllers::MEMORY;
        let member = plan(&inside, &request).unwrap();
        assert!(
            member
                .v1_directories()
                .any(|(_, path)| path == group.join("tote-member"))
        );
        // Directories that existed before stay.
        std::fs::remove_dir(&group).unwrap();
        remove_above(&record);
        assert!(
            root.join("memory/a").try_exists().unwrap() && !root.join("memory/a/b").try_exists().unwrap()
        );
        remove_above("");
        remove_above("v1 x\nnonsense\nv1 3 memory");
    }
}
