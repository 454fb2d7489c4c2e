//! The layers of a smaller image: the files that stay, and the rest, which together are the whole.

use super::SlimRequest;
use super::fallback::WHOLE_LABEL;
use crate::EngineError;
use crate::changes::{LinkedNames, add_layer};
use rustix::fd::BorrowedFd;
use std::collections::{HashMap, HashSet};
use tote_archive::{Change, EntryPath, Kind, Writer, walk};
use tote_builder::pack;
use tote_image::{Digest, History, ImageConfig};
use tote_needs::Needs;
use tote_store::{Image, Ingest, Layer};

/// Names of an image's files with several names, each with the first one.
pub(super) type Links = HashMap<EntryPath, EntryPath>;

/// The image whose files are divided.
pub(super) struct Divided<'a> {
    pub root: BorrowedFd<'a>,
    pub links: &'a Links,
    pub found: &'a Needs,
    pub request: &'a SlimRequest,
}

/// The images that come of it.
pub(super) struct Halves {
    pub slim: Image,
    /// The image with everything, where the rest is kept.
    pub whole: Option<Image>,
    /// Bytes that both added to the store's files.
    pub written: u64,
}

impl Divided<'_> {
    /// Adds both images.
    pub(super) fn add(&self, ingest: &Ingest<'_>, config: &ImageConfig) -> Result<Halves, EngineError> {
        let kept = self.layer(ingest, &|path, is_dir| self.stays(path, is_dir))?;
        let mut written = kept.sizes.written;
        let mut slim = self.config(config, std::slice::from_ref(&kept.diff_id));
        let mut whole = None;
        if self.request.keeps_rest {
            let split = self.split();
            // A file with names on both sides is in the rest with all of them, so that the whole has it as it was.
            let rest = self.layer(ingest, &|path, is_dir| {
                !self.stays(path, is_dir) || split.contains(path)
            })?;
            written += rest.sizes.written;
            let config = self.config(config, &[kept.diff_id, rest.diff_id]);
            let image = ingest.image(&config.to_json(), None)?;
            let label = (WHOLE_LABEL.to_owned(), image.id.to_string());
            slim.config.labels.extend([label]);
            whole = Some(image);
        }
        Ok(Halves {
            slim: ingest.image(&slim.to_json(), None)?,
            whole,
            written,
        })
    }

    fn stays(&self, path: &EntryPath, is_dir: bool) -> bool {
        let name = path.as_bytes();
        let is_dir = is_dir && !super::make::is_excluded(name, self.request);
        path.is_root() || is_dir || self.found.kept.contains_key(name)
    }

    /// The names of files of which one name stays and another one does not.
    fn split(&self) -> HashSet<EntryPath> {
        let mut sides: HashMap<&EntryPath, [bool; 2]> = HashMap::new();
        for (name, first) in self.links {
            sides.entry(first).or_default()[usize::from(self.stays(name, false))] = true;
        }
        let is_split = |first: &EntryPath| sides.get(first) == Some(&[true; 2]);
        let names = self.links.iter().filter(|(_, first)| is_split(first));
        names.map(|(name, _)| name.clone()).collect()
    }

    fn layer(
        &self,
        ingest: &Ingest<'_>,
        has: &(dyn Fn(&EntryPath, bool) -> bool + Sync),
    ) -> Result<Layer, EngineError> {
        let mut linked = LinkedNames::new(self.links.clone());
        let changes = walk(self.root).without_links().filter_map(|entry| match entry {
            Ok((entry, content)) => has(&entry.path, entry.kind == Kind::Directory)
                .then(|| Ok(linked.linked(Change::Add(entry), content))),
            Err(error) => Some(Err(error)),
        });
        add_layer(ingest, |out| pack(Writer::new(out), changes))
    }

    /// Returns the configuration of the image with these layers in place of its own.
    fn config(&self, config: &ImageConfig, layers: &[Digest]) -> ImageConfig {
        let mut config = config.clone();
        let created = Some(tote_calendar::in_seconds(tote_calendar::now()));
        config.rootfs.diff_ids = layers.to_vec();
        config.config.labels.remove(WHOLE_LABEL);
        for line in &mut config.history {
            line.empty_layer = true;
        }
        config.created.clone_from(&created);
        let lines = ["tote slim", "the rest for tote slim"];
        for (line, _) in lines.iter().zip(layers) {
            config.history.push(History {
                created: created.clone(),
                created_by: format!("{line} {}", self.request.name_of_image),
                ..History::default()
            });
        }
        config
    }
}
