//! Hard links of an image. The tree on disk has more, because equal files are links to one object.

use crate::StoreError;
use crate::model::{Model, Node, Number, ROOT};
use crate::store::Store;
use crate::stored_image::Image;
use std::collections::HashMap;
use tote_archive::EntryPath;

impl Store {
    /// Returns further names of an image's files, each with the file's first name in the order of [`EntryPath`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn hard_links(&self, image: &Image) -> Result<HashMap<EntryPath, EntryPath>, StoreError> {
        Ok(links(&self.model(image)?))
    }
}

fn links(model: &Model) -> HashMap<EntryPath, EntryPath> {
    let mut names: HashMap<Number, Vec<EntryPath>> = HashMap::new();
    let mut open = vec![(EntryPath::root(), ROOT)];
    while let Some((dir, number)) = open.pop() {
        let Node::Directory(children) = &model.inode(number).node else {
            continue;
        };
        for (name, child) in children {
            let Ok(path) = dir.join(name) else { continue };
            match model.inode(child.inode).node {
                Node::Directory(_) => open.push((path, child.inode)),
                _ => names.entry(child.inode).or_default().push(path),
            }
        }
    }
    let mut links = HashMap::new();
    for mut names in names.into_values().filter(|names| names.len() > 1) {
        names.sort();
        let first = names[0].clone();
        links.extend(names.into_iter().map(|name| (name, first.clone())));
    }
    links
}
