//! A build for each platform that is asked for, and what comes of them together.

use super::exchange::{Exporter, Exports};
use super::output::Flat;
use super::request::BuiltManifest;
use super::worker::Building;
use super::workspace::Workspace;
use super::{BuildRequest, Voice, context};
use crate::EngineError;
use crate::image::{entry_of, known_manifest, make_index, written};
use std::collections::{BTreeMap, HashMap, HashSet};
use tote_build::{Built, Event};
use tote_dockerfile::Dockerfile;
use tote_image::{Descriptor, Digest, Platform};
use tote_store::{Image, Ingest, Store};

/// What all builds of a request have in common.
pub(super) struct Platforms<'a> {
    pub(super) home: &'a crate::Home,
    pub(super) store: &'a Store,
    pub(super) ingest: &'a Ingest<'a>,
    pub(super) request: &'a BuildRequest,
    pub(super) files: &'a context::Files,
    pub(super) dockerfile: &'a Dockerfile,
}

/// An image, and the platform that it was built for, where one was asked for.
struct BuiltPlatform {
    platform: Option<Platform>,
    image: Image,
}

/// What builds have made so far.
#[derive(Default)]
struct Made {
    images: Vec<BuiltPlatform>,
    /// Their files, where some are wanted.
    flats: Vec<Flat>,
    exports: Exports,
    /// Layers of the images that they began with.
    bases: HashSet<Digest>,
}

impl Platforms<'_> {
    /// Builds for one platform after the other, and makes an index of the images where there are several; its id, or that of
    /// the only image. Files of the results go where they are to go, and the cache with them.
    ///
    /// # Errors
    /// [`EngineError`] of the first that fails.
    pub(super) fn build(&self, workspace: &mut Workspace, voice: Voice<'_>) -> Result<Digest, EngineError> {
        let request = self.request;
        let platforms = self.platforms();
        let mut made = Made {
            exports: Exports::new(&request.cache_to),
            ..Made::default()
        };
        let is_one = platforms.len() == 1;
        for platform in platforms {
            let dir = platform.as_ref().filter(|_| !is_one).map(dir_of);
            if let Some(platform) = platform.as_ref().filter(|_| !is_one) {
                (voice.say)(Event::Platform(platform));
            }
            let voice = Voice {
                say: &mut *voice.say,
                pull: voice.pull,
                push: voice.push.clone(),
                guard: voice.guard,
            };
            self.build_one((platform, dir), workspace, voice, &mut made)?;
        }
        for output in &request.outputs {
            output.write(&made.flats)?;
        }
        let ids: Vec<Digest> = made.images.iter().map(|built| built.image.id).collect();
        let exporter = Exporter {
            home: self.home,
            store: self.store,
            ingest: self.ingest,
            access: &request.access,
            report: voice.pull,
            push: &voice.push,
        };
        made.exports.write(&exporter, &ids, &made.bases)?;
        match &made.images[..] {
            [only] => Ok(only.image.id),
            several => self.index(several),
        }
    }

    /// What is asked for, each once.
    fn platforms(&self) -> Vec<Option<Platform>> {
        let mut platforms: Vec<Option<Platform>> = Vec::new();
        for platform in self.request.platforms.iter().map(Platform::normalized) {
            if !platforms.contains(&Some(platform.clone())) {
                platforms.push(Some(platform));
            }
        }
        if platforms.is_empty() {
            platforms.push(self.request.options.platform.clone());
        }
        platforms
    }

    fn build_one<'b>(
        &'b self,
        (platform, dir): (Option<Platform>, Option<String>),
        workspace: &'b mut Workspace,
        voice: Voice<'b>,
        made: &mut Made,
    ) -> Result<(), EngineError> {
        let asked = (self.request, platform.as_ref());
        let places = (self.store, self.ingest);
        let mut building = Building::new(self.home, places, asked, self.files, workspace, voice);
        building.exports = std::mem::take(&mut made.exports);
        let options = tote_build::Options {
            platform: platform.clone(),
            ..self.request.options.clone()
        };
        let built = tote_build::build(self.dockerfile, &options, &mut building);
        building.hashes.save();
        let built = built.map_err(|error| EngineError::Build(Box::new(error)))?;
        if self.request.outputs.iter().any(super::BuildOutput::is_files) {
            let tree = building.flat(&built.config.rootfs.diff_ids)?;
            made.flats.push(Flat { dir, tree });
        }
        made.bases.extend(building.base_layers());
        made.exports = std::mem::take(&mut building.exports);
        drop(building);
        made.images.push(self.finish(platform, &built)?);
        Ok(())
    }

    fn finish(&self, platform: Option<Platform>, built: &Built) -> Result<BuiltPlatform, EngineError> {
        // Until it has a name, a pruning may have removed its record; its layers are here.
        let image = self.ingest.image(&built.config.to_json(), None)?;
        if !self.request.annotations.is_empty() {
            self.ingest.annotate(&image, &self.request.annotations)?;
        }
        Ok(BuiltPlatform { platform, image })
    }

    fn index(&self, several: &[BuiltPlatform]) -> Result<Digest, EngineError> {
        let entries = several.iter().map(|built| Descriptor {
            // As in docker's builder, what was asked for counts, whatever the image says of itself.
            platform: built.platform.clone(),
            ..entry_of(&built.image)
        });
        for built in several {
            self.ingest.image(built.image.config.bytes(), None)?;
        }
        let entries = (entries.collect(), BTreeMap::new());
        Ok(make_index(self.ingest, entries, Vec::new(), &HashMap::new())?.id)
    }
}

/// The directory of a platform's files, as docker's builder calls it: `linux_arm64`.
fn dir_of(platform: &Platform) -> String {
    platform.to_string().replace('/', "_")
}

/// The manifest or index of what was built: that with which it was pushed, and else the one that `save` writes.
///
/// # Errors
/// [`EngineError::Store`].
pub(super) fn manifest_of(store: &Store, id: &Digest) -> Result<Option<BuiltManifest>, EngineError> {
    let Some(index) = store.index(id)? else {
        return Ok(None);
    };
    let known = |image: &Image| known_manifest(store, image).map(|(descriptor, _)| descriptor);
    let descriptor = written(store, &index, known)?.descriptor;
    Ok(Some(BuiltManifest {
        media_type: descriptor.media_type,
        digest: descriptor.digest,
        size: descriptor.size,
    }))
}
