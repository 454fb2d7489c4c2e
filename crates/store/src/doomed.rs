//! Removal of objects that no layer needs.
//!
//! The name of an object is a hash, so each directory of objects has inodes from everywhere in the file system. XFS removes an
//! inode under a lock of its allocation group, and writes to its log what is changed beside it. Two threads that go from one
//! directory to the next wait for each other at most files. So the objects of many directories are sorted by the numbers of their
//! inodes, and each thread removes a range of these numbers, which is in other allocation groups than those of the others.

use crate::StoreError;
use crate::crew;
use crate::dir::Dir;
use crate::key::Key;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Number of objects that are sorted at once: a bound of the memory, which is about 150 bytes for each.
const BATCH: usize = 1 << 16;

/// An object that no layer needs, or another file among the objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doomed {
    /// Number of its inode, as the directory says.
    inode: u64,
    /// Its name in the directory of all objects.
    name: Box<str>,
}

impl Doomed {
    /// Removes it, and returns its size in bytes.
    pub(crate) fn remove(&self, objects: &Dir) -> Result<u64, StoreError> {
        let stat = objects.stat(&self.name);
        let size = stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
        let removed = objects.unlink(&self.name);
        removed
            .map_err(objects.failed("remove", &*self.name))
            .map(|()| size)
    }
}

/// Removes the objects of these directories that no layer needs; `removed` is called with the size of each.
pub(crate) fn remove_all(
    objects: &Dir,
    shards: &[String],
    needed: &HashSet<Key>,
    removed: &mut (dyn FnMut(u64) + Send),
) -> Result<(), StoreError> {
    let removed = Mutex::new(removed);
    let mut batch = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        batch.append(&mut list(objects, shard, needed)?);
        if batch.len() < BATCH && number + 1 < shards.len() {
            continue;
        }
        batch.sort_unstable();
        let length = batch.len().div_ceil(crew::size()).max(1);
        let ranges: Vec<&[Doomed]> = batch.chunks(length).collect();
        crew::for_each(&ranges, |range| {
            range.iter().try_for_each(|object| {
                let size = object.remove(objects)?;
                let mut removed = removed.lock().unwrap_or_else(PoisonError::into_inner);
                removed(size);
                Ok::<_, StoreError>(())
            })
        })?;
        batch.clear();
    }
    Ok(())
}

/// Lists the objects of a directory that no layer needs. What is not a directory is removed at once.
pub(crate) fn list(objects: &Dir, shard: &str, needed: &HashSet<Key>) -> Result<Vec<Doomed>, StoreError> {
    let dir = match objects.enter(shard) {
        Err(error) if error.is_no_directory() => {
            let removed = objects.unlink(shard).map_err(objects.failed("remove", shard));
            return removed.map(|()| Vec::new());
        }
        entered => entered?,
    };
    let mut doomed = Vec::new();
    for (inode, name) in dir.entries()? {
        let keep = match Key::parse(shard, &name) {
            Some((key, 0)) => needed.contains(&key),
            // A further copy is kept as long as a tree has it.
            Some((key, _)) => {
                let stat = dir.stat(&name).map_err(dir.failed("look at", &name))?;
                needed.contains(&key) && stat.st_nlink > 1
            }
            None => false,
        };
        if !keep {
            let name = format!("{shard}/{name}").into_boxed_str();
            doomed.push(Doomed { inode, name });
        }
    }
    Ok(doomed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Attributes;

    #[test]
    fn what_is_needed_stays_and_the_rest_is_in_the_order_of_inodes() {
        let temp = tempfile::tempdir().unwrap();
        let objects = Dir::open(temp.path()).unwrap();
        let key = |first: u8| Key::new([first; 32], &Attributes::default());
        let shards: Vec<String> = ["01", "02", "03"].map(str::to_owned).to_vec();
        for (number, shard) in (1..).zip(&shards) {
            objects.make(shard, 0o755).unwrap();
            std::fs::write(temp.path().join(key(number).name(0)), [number; 7]).unwrap();
            std::fs::write(temp.path().join(key(number).name(1)), "").unwrap();
        }
        std::fs::write(temp.path().join("01/no object"), "").unwrap();
        std::fs::create_dir(temp.path().join("02/no file")).unwrap();
        std::fs::hard_link(temp.path().join(key(3).name(1)), temp.path().join("tree")).unwrap();
        let needed = HashSet::from([key(2), key(3)]);
        let mut sizes = Vec::new();
        remove_all(&objects, &shards, &needed, &mut |size| sizes.push(size)).unwrap();
        assert_eq!(sizes.iter().filter(|size| **size == 7).count(), 1);
        let left = |shard: &str| objects.enter(shard).unwrap().names().unwrap().len();
        assert_eq!(["01", "02", "03"].map(left), [0, 1, 2]);
        let mut order = [3, 1, 2].map(|inode| Doomed {
            inode,
            name: format!("{}", 9 - inode).into(),
        });
        order.sort_unstable();
        assert_eq!(order.map(|object| object.inode), [1, 2, 3]);
        // A file in the place of a directory goes, too.
        std::fs::write(temp.path().join("04"), "").unwrap();
        assert_eq!(list(&objects, "04", &needed).unwrap(), []);
        assert!(!objects.has("04"));
    }
}
