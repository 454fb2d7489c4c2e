//! Hard links among the files of one source, which a copy keeps, as BuildKit does.

use super::select::{Chosen, Item};
use super::worker::Building;
use crate::EngineError;
use std::collections::HashMap;
use std::hash::Hash;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use tote_archive::EntryPath;
use tote_image::Digest;

/// Marks further names of a file with its first name, for files of directories on this machine.
pub(crate) fn mark(chosen: &mut [Chosen]) {
    for source in chosen {
        mark_by(&mut source.items, Item::inode);
    }
}

fn mark_by<T: Eq + Hash>(items: &mut [Item], file: impl Fn(&Item) -> Option<T>) {
    let mut firsts: HashMap<T, Vec<u8>> = HashMap::new();
    for item in items {
        let Some(file) = file(item) else { continue };
        match firsts.get(&file) {
            Some(first) => item.first = Some(first.clone()),
            None => drop(firsts.insert(file, item.path.clone())),
        }
    }
}

impl Building<'_> {
    /// Marks further names of a file as [`mark`] does, for files of layers. There equal files share an inode without being links, so
    /// the image's own names decide.
    pub(crate) fn mark_links(
        &self,
        layers: &[Digest],
        root: &OwnedFd,
        chosen: &mut [Chosen],
    ) -> Result<(), EngineError> {
        let shared = |source: &Chosen| source.items.iter().filter(|item| item.inode().is_some()).count() > 1;
        if !chosen.iter().any(shared) {
            return Ok(());
        }
        let links = self.store.hard_links(&Self::bare(layers)?)?;
        if links.is_empty() {
            return Ok(());
        }
        for source in chosen.iter_mut().filter(|source| source.is_dir) {
            let Some(base) = below(root, &source.base)? else {
                continue;
            };
            mark_by(&mut source.items, |item| {
                item.inode()?;
                let path = [&*base, b"/", &*item.path].concat();
                let path = EntryPath::parse(path.strip_prefix(b"/").unwrap_or(&path)).ok()?;
                links.get(&path).cloned()
            });
        }
        Ok(())
    }
}

/// Returns the path of a directory below a root, without links on the way; `None` for one that has moved out of it.
fn below(root: &OwnedFd, dir: &OwnedFd) -> Result<Option<Vec<u8>>, EngineError> {
    let path = |fd: &OwnedFd| {
        let link = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        std::fs::read_link(&link).map_err(EngineError::file("read", &link))
    };
    let (root, dir) = (path(root)?, path(dir)?);
    let rest = dir.strip_prefix(root);
    Ok(rest.map(|rest| rest.as_os_str().as_bytes().to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use super::super::select::{Filter, choose, digest};
    use super::*;
    use rustix::fs::OFlags;
    use std::path::Path;
    use tote_build::{CopyStep, Origin};
    use tote_dockerfile::Ignore;

    fn chosen(dir: &Path) -> (CopyStep, Vec<Chosen>) {
        let root = super::super::view::open(dir, OFlags::RDONLY).unwrap();
        let mut step = CopyStep::of(Origin::Context, "/".to_owned(), "/t".to_owned());
        step.exclude = vec!["no".to_owned()];
        let filter = Filter {
            ignore: &Ignore::default(),
            exclude: Ignore::parse("no").unwrap(),
            sockets: true,
        };
        let mut chosen = choose(&root, &step, &filter).unwrap();
        mark(&mut chosen);
        (step, chosen)
    }

    /// The first name is one that is copied, and the digest tells links from equal files.
    #[test]
    fn names_of_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("d")).unwrap();
        for name in ["no", "equal"] {
            std::fs::write(path(name), "text").unwrap();
        }
        for name in ["a", "d/b", "z"] {
            std::fs::hard_link(path("no"), path(name)).unwrap();
        }
        let (step, linked) = chosen(dir.path());
        let firsts: Vec<_> = linked[0]
            .items
            .iter()
            .map(|item| (&*item.path, item.first.as_deref()))
            .collect();
        let expected: [(&[u8], Option<&[u8]>); 6] = [
            (b"", None),
            (b"a", None),
            (b"d", None),
            (b"d/b", Some(b"a")),
            (b"equal", None),
            (b"z", Some(b"a")),
        ];
        assert_eq!(firsts, expected);
        let before = digest(&linked, &step, false, None).unwrap();
        std::fs::remove_file(path("z")).unwrap();
        std::fs::write(path("z"), "text").unwrap();
        let (step, apart) = chosen(dir.path());
        assert_ne!(digest(&apart, &step, false, None).unwrap(), before);
    }
}
