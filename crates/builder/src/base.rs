//! Images that a build begins with, or copies from.

use super::BuildFault;
use super::named::{LAYOUT, split_layout};
use super::worker::Building;
use crate::{EngineError, PullRequest, Wanted, WhenToPull};
use std::collections::HashSet;
use std::path::Path;
use tote_build::Built;
use tote_image::{Digest, Platform};
use tote_images::LayoutDirectory;

impl Building<'_> {
    /// Finds the image of a name, and pulls it if necessary. The result stays the same during a build.
    pub(crate) fn base(&mut self, name: &str, platform: Option<&str>) -> Result<Built, EngineError> {
        let key = (name.to_owned(), platform.map(ToOwned::to_owned));
        if let Some(known) = self.bases.get(&key) {
            return Ok(known.clone());
        }
        let platform: Option<Platform> = platform.map(str::parse).transpose()?;
        if let Some(layout) = name.strip_prefix(LAYOUT) {
            let (dir, image) = split_layout(layout);
            let dir = LayoutDirectory::new(Path::new(dir));
            let id = dir.load(self.store, self.ingest, image, platform.as_ref())?;
            let built = self.stored(&id.to_string())?;
            self.bases.insert(key, built.clone());
            return Ok(built);
        }
        let built = match crate::wanted(self.home, name, self.request.pull, None)? {
            Wanted::Here(here) => match self.here(&here, platform.as_ref())? {
                built if fits(&built, platform.as_ref()) => built,
                built if self.request.pull == WhenToPull::Never => {
                    return Err(other_platform(name, &built, platform.as_ref()));
                }
                // The name refers to an image for another platform; its registry may have one for
                // this platform as well.
                _ => self.fetch(&here, platform.as_ref())?,
            },
            Wanted::ToPull { name, .. } => self.fetch(&name, platform.as_ref())?,
        };
        if !fits(&built, platform.as_ref()) {
            return Err(other_platform(name, &built, platform.as_ref()));
        }
        self.bases.insert(key, built.clone());
        Ok(built)
    }

    /// Returns the layers of all images that the build began with, or copied from.
    pub(crate) fn base_layers(&self) -> HashSet<Digest> {
        let layers = self.bases.values().map(|base| &base.config.rootfs.diff_ids);
        layers.flatten().copied().collect()
    }

    /// Finds a present image by name; an index gives its image for the platform, if it has one.
    fn here(&self, name: &str, platform: Option<&Platform>) -> Result<Built, EngineError> {
        let of_platform = self.store.image_of(&self.store.find(name)?, platform)?;
        match of_platform {
            Some(id) => self.stored(&id.to_string()),
            None => self.stored(name),
        }
    }

    fn stored(&self, name: &str) -> Result<Built, EngineError> {
        let image = self.store.image(&self.store.resolve(name)?)?;
        let config = image.config.value().clone();
        Ok(Built { id: image.id, config })
    }

    fn fetch(&self, name: &str, platform: Option<&Platform>) -> Result<Built, EngineError> {
        let request = PullRequest {
            image: name.to_owned(),
            platform: platform.cloned(),
            // The name keeps its present image for this machine.
            beside: true,
            access: self.request.access.clone(),
        };
        let pulled = crate::pull(self.home, &request, self.pull)?;
        self.stored(&pulled.id.to_string())
    }
}

fn fits(built: &Built, wanted: Option<&Platform>) -> bool {
    wanted.is_none_or(|wanted| wanted.normalized() == built.config.platform().normalized())
}

fn other_platform(name: &str, built: &Built, wanted: Option<&Platform>) -> EngineError {
    BuildFault::Platform {
        image: name.to_owned(),
        found: built.config.platform().to_string(),
        wanted: wanted.map(ToString::to_string).unwrap_or_default(),
    }
    .into()
}
