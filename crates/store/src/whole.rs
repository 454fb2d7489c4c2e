//! Checks of trees: after another boot before their first use, and for `store verify`.

use crate::StoreError;
use crate::dir::Dir;
use crate::erofs;
use crate::error::is_gone;
use crate::forms::Form;
use crate::inodes::{self, INODES, Place};
use crate::leased::ROOT;
use crate::model::{Model, Node};
use crate::objects::is_unchanged;
use crate::store::{Store, sha256_hex};
use crate::stored_image::Image;
use crate::tree;
use rustix::fd::AsFd as _;
use std::collections::HashSet;
use tote_archive::EntryPath;

impl Store {
    /// Looks at all that is in a tree, and makes what it lacks for its containers; `None` where something is damaged.
    pub(crate) fn look_through(
        &self,
        dir: &Dir,
        chain: &str,
        image: &Image,
        model: &Model,
    ) -> Result<Option<Form>, StoreError> {
        let has_links = dir.is_there(ROOT)?;
        if has_links && self.damaged_links(model, dir, ROOT).is_some()
            || self.damaged_shifted(model, dir)?.is_some()
        {
            return Ok(None);
        }
        // Another kernel may not show what this one finds.
        let form = match self.overlays {
            Some(_) if self.erofs_from.is_some() && dir.is_there(erofs::IMAGE)? => {
                if !erofs::is_whole(model, chain, dir)? {
                    return Ok(None);
                }
                self.check_objects(image, model)?;
                let shows = erofs::show(model, dir.path(), &self.objects.dir)?;
                shows.then_some(Form::Image)
            }
            Some(rights) if inodes::are_there(dir) => {
                if inodes::damaged(&self.objects, model, (dir, INODES), rights)?.is_some() {
                    return Ok(None);
                }
                inodes::show(model, dir, rights)?.then_some(Form::Inodes(Place::of(dir)))
            }
            _ if !has_links => return Ok(None),
            _ => self
                .make_own_inodes(dir, chain, (image, model), || self.place_of_contents(dir))?
                .map(|(form, _)| form),
        };
        if form.is_none() && !has_links {
            self.link_all(dir, image, model)?;
        }
        Ok(Some(form.unwrap_or(Form::Links)))
    }

    pub(crate) fn damaged_links(&self, model: &Model, dir: &Dir, part: &str) -> Option<EntryPath> {
        let Ok(root) = dir.enter_closed(part) else {
            return Some(EntryPath::root());
        };
        tree::damaged(model, root.as_fd(), &|name, key, stat| {
            tree::is_object(&self.objects, key, stat, root.as_fd(), name)
        })
    }

    /// Returns the damaged part of the tree of an image whose layers are complete: a path in it, or its lease.
    pub(crate) fn damage_of_tree(&self, image: &Image) -> Result<Option<String>, StoreError> {
        let chain = self.tree_name(image)?;
        let Some(_lease) = self.lease(&chain)? else {
            return Ok(Some("lease is gone".to_owned()));
        };
        let dir = self.trees.enter(&chain)?;
        let has_links = dir.is_there(ROOT)?;
        let rights = self.overlays.filter(|_| inodes::are_there(&dir));
        let has_image = self.erofs_from.is_some() && dir.is_there(erofs::IMAGE)?;
        if !has_links && !has_image && rights.is_none() {
            return Ok(Some("its files are gone".to_owned()));
        }
        let model = self.model(image)?;
        if has_image && !erofs::is_whole(&model, &chain, &dir)? {
            return Ok(Some(format!("{} is not as it was made", erofs::IMAGE)));
        }
        let mut damaged = None;
        if has_links {
            damaged = self.damaged_links(&model, &dir, ROOT);
        }
        if let (None, Some(rights)) = (&damaged, rights) {
            damaged = inodes::damaged(&self.objects, &model, (&dir, INODES), rights)?;
        }
        if damaged.is_none() {
            damaged = self.damaged_shifted(&model, &dir)?;
        }
        Ok(damaged.map(|path| format!("{path} is not as it was made")))
    }

    /// Checks that all objects exist and have their sizes; otherwise removes the layers that they came with.
    pub(crate) fn check_objects(&self, image: &Image, model: &Model) -> Result<(), StoreError> {
        let mut lost = HashSet::new();
        let seen = self.objects.seen();
        for inode in model.inodes() {
            if let Node::File { key, size } = &inode.node
                && !seen.contains(key)
            {
                let name = key.name(0);
                match self.objects.dir.stat(&name) {
                    Ok(stat) if is_unchanged(&stat, *size, &inode.attributes) => {}
                    Ok(_) => drop(lost.insert(*key)),
                    Err(errno) if is_gone(errno) => drop(lost.insert(*key)),
                    Err(errno) => return Err(self.objects.dir.failed("look at", name)(errno)),
                }
            }
        }
        drop(seen);
        let Some(first) = lost.iter().next() else {
            return Ok(());
        };
        for diff_id in image.layers() {
            let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
            if crate::layer::contents(&dir)?
                .iter()
                .any(|stored| lost.contains(&stored.key))
            {
                self.discard(&self.layers, &sha256_hex(diff_id)?)?;
            }
        }
        Err(StoreError::Lost {
            image: image.id,
            count: lost.len(),
            first: first.name(0),
        })
    }
}
