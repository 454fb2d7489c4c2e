//! Making a tree in the best form that the kernel and the file system can show.

use crate::StoreError;
use crate::crew;
use crate::dir::{Dir, write_all};
use crate::erofs;
use crate::inodes::{self, EmptyFiles, Numbered, Numbers, Place};
use crate::leased::{LEASE, ROOT};
use crate::model::Model;
use crate::parts::{Divided, Part};
use crate::store::Store;
use crate::stored_image::Image;
use crate::tree::{self, LinkedFiles, Site};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_sys::{MountRights, best_effort};

/// Form of a tree that its lease calls complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `root/` alone.
    Links,
    /// `inodes/`, with the contents in that place.
    Inodes(Place),
    /// `image.erofs`.
    Image,
}

impl Form {
    /// Sign of the form in a lease.
    fn sign(self) -> &'static str {
        match self {
            Self::Links => "",
            Self::Inodes(Place::Contents) => "+",
            Self::Inodes(Place::Objects) => "=",
            Self::Image => "#",
        }
    }

    pub(crate) fn of_sign(sign: &[u8]) -> Option<Self> {
        let inodes = [Place::Contents, Place::Objects].map(Self::Inodes);
        let all = [Self::Links, inodes[0], inodes[1], Self::Image];
        all.into_iter().find(|form| form.sign().as_bytes() == sign)
    }
}

/// Work that was done to provide a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMade {
    /// Number of device nodes outside `/dev` that could not be made.
    pub left_out: u64,
}

/// A piece of work on a tree for overlayfs.
#[derive(Debug)]
enum Work<'a> {
    /// Checks all objects.
    Check,
    /// Makes empty files with inodes of their own.
    Inodes(&'a Part),
    /// Links the objects that these contain: a piece of work for a single thread, since two would only wait for each other in
    /// the one directory.
    Contents(&'a [Numbered<'a>], &'a Dir),
}

impl Store {
    /// The content of the lease of a whole tree.
    pub(crate) fn words_of(&self, form: Form) -> String {
        format!("{}{}", self.boot, form.sign())
    }

    /// Makes everything in the directory of a new tree.
    pub(crate) fn fill_tree(&self, dir: &Dir, chain: &str, image: &Image) -> Result<TreeMade, StoreError> {
        let lease = dir.create(LEASE, 0o600).map_err(dir.failed("make", LEASE))?;
        // Asking the kernel takes a millisecond, and needs nothing of the model.
        let (place, model) = crew::both(|| self.place_of_contents(dir), || self.model(image));
        let model = model?;
        let (form, left_out) = match self.make_own_inodes(dir, chain, (image, &model), || place)? {
            Some(made) => made,
            None => (Form::Links, self.link_all(dir, image, &model)?),
        };
        let words = self.words_of(form);
        write_all(&lease, words.as_bytes()).map_err(dir.failed("write", LEASE))?;
        Ok(TreeMade { left_out })
    }

    /// Makes `image.erofs`, or else `inodes/` and `contents/`, and gives the number of device nodes that could not be made.
    /// `place` asks where the contents are to be, as [`Self::place_of_contents`] does. `None` where the kernel or the file system
    /// cannot have such a tree.
    pub(crate) fn make_own_inodes(
        &self,
        dir: &Dir,
        chain: &str,
        (image, model): (&Image, &Model),
        place: impl FnOnce() -> Result<Option<Place>, StoreError>,
    ) -> Result<Option<(Form, u64)>, StoreError> {
        if self.has_files_enough(model) && erofs::can_be_shown(dir)? {
            self.check_objects(image, model)?;
            let left_out = erofs::make(model, chain, dir)?;
            return Ok(Some((Form::Image, left_out)));
        }
        match (place()?, self.overlays) {
            (Some(place), Some(rights)) => {
                let made = self.make_directories(dir, (image, model), place, rights)?;
                Ok(made.map(|left_out| (Form::Inodes(place), left_out)))
            }
            _ => Ok(None),
        }
    }

    /// Asks the kernel where the contents of a tree of directories are to be; `None` if it cannot show such a tree.
    pub(crate) fn place_of_contents(&self, dir: &Dir) -> Result<Option<Place>, StoreError> {
        match self.overlays {
            Some(rights) => inodes::can_be_shown(dir, rights),
            None => Ok(None),
        }
    }

    /// True if a tree is large enough to be one file: a mount of the file costs each start the same, however small the tree is.
    fn has_files_enough(&self, model: &Model) -> bool {
        self.erofs_from
            .is_some_and(|least| model.inodes().count() as u64 >= least)
    }

    /// Makes `inodes/`, and `contents/` where the objects themselves cannot be its contents. `None` where the file system refuses
    /// the attributes of the files.
    fn make_directories(
        &self,
        dir: &Dir,
        (image, model): (&Image, &Model),
        place: Place,
        rights: MountRights,
    ) -> Result<Option<u64>, StoreError> {
        let contents = match place {
            Place::Contents => Some((Numbers::of(model), inodes::make_dir(dir, inodes::CONTENTS)?)),
            Place::Objects => None,
        };
        let root = inodes::make_dir(dir, inodes::INODES)?;
        let site = Site::new((&self.objects, self.owners), model, &root);
        let numbers = contents.as_ref().map(|(numbers, _)| numbers);
        let files = EmptyFiles::new(&self.objects, &root, numbers, rights);
        let divided = Divided::of(model);
        divided.begin(&site)?;
        let mut work = vec![Work::Check];
        work.extend(
            contents
                .as_ref()
                .map(|(numbers, dir)| Work::Contents(numbers.contents(), dir)),
        );
        work.extend(divided.parts.iter().map(Work::Inodes));
        let is_refused = AtomicBool::new(false);
        // True where the file system does not keep the attributes of the files, or does not let this user set them.
        let refused = |made: Result<(), StoreError>| match made {
            Err(error) if matches!(error.errno(), Some(Errno::OPNOTSUPP | Errno::PERM)) => {
                is_refused.store(true, Ordering::Relaxed);
                Ok(())
            }
            made => made,
        };
        crew::for_each(&work, |work| match work {
            Work::Check => self.check_objects(image, model),
            Work::Inodes(_) if is_refused.load(Ordering::Relaxed) => Ok(()),
            Work::Inodes(part) => refused(part.make(&site, &mut files.clone())),
            Work::Contents(links, dir) => inodes::link_contents(&self.objects, links, dir)
                // Only the check knows which layers are damaged if an object is lost.
                .map_err(|error| self.check_objects(image, model).err().unwrap_or(error)),
        })?;
        refused(divided.finish(&site))?;
        if is_refused.into_inner() {
            return inodes::forget(dir).map(|()| None);
        }
        Ok(Some(site.left_out()))
    }

    /// Makes `root/` in the directory of a tree, and gives the number of device nodes that could not be made. It has its name
    /// when it is whole.
    pub(crate) fn link_all(&self, dir: &Dir, image: &Image, model: &Model) -> Result<u64, StoreError> {
        self.check_objects(image, model)?;
        let (root, unfinished) = dir.make_unfinished()?;
        let mut files = LinkedFiles::new(&self.objects);
        let made = tree::make((&self.objects, self.owners), model, &root, &mut files).and_then(|left_out| {
            let named = dir.rename(&unfinished, dir, ROOT);
            named.map_err(dir.failed("make", ROOT)).map(|()| left_out)
        });
        if made.is_err() {
            best_effort(dir.remove_tree(&unfinished));
        }
        made
    }
}
