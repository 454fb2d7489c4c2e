//! Builds for each requested platform, and their common result.

use super::attest::Attested;
use super::built::BuiltManifest;
use super::exchange::{Exporter, Exports};
use super::output::Flat;
use super::step_place::StepPlace;
use super::worker::Building;
use super::workspace::Workspace;
use super::{BuildRequest, Voice, context};
use crate::EngineError;
use std::collections::HashSet;
use std::time::Duration;
use tote_build::{Built, Event};
use tote_dockerfile::Dockerfile;
use tote_image::{Descriptor, Digest, Index, Platform, Reference};
use tote_images::{entry_of, known_manifest, written};
use tote_store::{Image, Ingest, Store, StoreError};

/// Common parts of all builds of a request.
pub(super) struct Platforms<'a> {
    pub home: &'a crate::Home,
    pub store: &'a Store,
    pub ingest: &'a Ingest<'a>,
    pub request: &'a BuildRequest,
    pub files: &'a context::Files,
    pub(super) dockerfile: &'a Dockerfile,
    /// Names for the result.
    pub names: &'a [Reference],
    /// Time since 1970 at which the build began.
    pub began: Duration,
    /// Networks of the steps.
    pub place: StepPlace,
}

/// Built image, with its requested platform, if any.
struct BuiltPlatform {
    platform: Option<Platform>,
    image: Image,
    attested: Option<Attested>,
}

/// Results of the builds so far.
#[derive(Default)]
struct Made {
    images: Vec<BuiltPlatform>,
    /// Files of the images, if they are requested.
    flats: Vec<Flat>,
    exports: Exports,
    /// Layers of the base images.
    bases: HashSet<Digest>,
}

impl Platforms<'_> {
    /// Builds for one platform after the other, and makes an index of several images. Returns the id of the index or
    /// of the only image. Files of the results and the cache go to their destinations.
    ///
    /// # Errors
    /// [`EngineError`] of the first that fails.
    pub(crate) fn build(&self, workspace: &mut Workspace, voice: Voice<'_>) -> Result<Digest, EngineError> {
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
            [only] if only.attested.is_none() => Ok(only.image.id),
            several => self.index(several),
        }
    }

    /// Lists the requested platforms, each once.
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
        building.place = self.place;
        let options = tote_build::Options {
            platform: platform.clone(),
            ..self.request.options.clone()
        };
        let built = tote_build::build(self.dockerfile, &options, &mut building);
        building.hashes.save();
        let built = built.map_err(|error| crate::BuildFault::Build(Box::new(error)))?;
        let mut finished = self.finish(platform.clone(), &built)?;
        if !self.request.attestations.is_empty() {
            let about = (&finished.image, self.names);
            finished.attested = Some(Attested::of(&building, self.dockerfile, about, self.began)?);
        }
        if self.request.outputs.iter().any(super::BuildOutput::is_files) {
            let attested = finished.attested.as_ref();
            made.flats.push(Flat {
                beside: attested
                    .map(|attested| attested.files.clone())
                    .unwrap_or_default(),
                dir,
                tree: building.flat(&built.config.rootfs.diff_ids)?,
            });
        }
        made.bases.extend(building.base_layers());
        made.exports = std::mem::take(&mut building.exports);
        made.images.push(finished);
        Ok(())
    }

    fn finish(&self, platform: Option<Platform>, built: &Built) -> Result<BuiltPlatform, EngineError> {
        let image = match self.store.image(&built.id) {
            // Before the image has a name, a pruning may have removed its record; its layers are present.
            Err(StoreError::NoImage(_)) => self.ingest.image(&built.config.to_json(), None)?,
            // An unchanged base image keeps its own document.
            found => found?,
        };
        if !self.request.annotations.is_empty() {
            self.ingest.annotate(&image, &self.request.annotations)?;
        }
        Ok(BuiltPlatform {
            platform,
            image,
            attested: None,
        })
    }

    fn index(&self, several: &[BuiltPlatform]) -> Result<Digest, EngineError> {
        let entries = several.iter().map(|built| {
            let entry = entry_of(&built.image);
            Descriptor {
                // As in docker's builder, the requested platform counts, whatever the image's own configuration says.
                platform: built.platform.clone().or(entry.platform.clone()),
                ..entry
            }
        });
        for built in several {
            self.ingest.image(built.image.config.bytes(), None)?;
        }
        let mut index = Index::oci(entries.collect());
        let mut documents = Vec::new();
        for attested in several.iter().filter_map(|built| built.attested.as_ref()) {
            index.manifests.push(attested.entry.clone());
            documents.extend(attested.documents.iter().cloned());
        }
        Ok(self.ingest.index(&index, &documents)?.id)
    }
}

/// Returns the name of a platform's directory, as docker's builder calls it: `linux_arm64`.
fn dir_of(platform: &Platform) -> String {
    platform.to_string().replace('/', "_")
}

/// Returns the image of an id; `None` for an index of several.
///
/// # Errors
/// [`EngineError::Store`].
pub(super) fn only_image(store: &Store, id: &Digest) -> Result<Option<Digest>, EngineError> {
    let Some(index) = store.index(id)? else {
        return Ok(Some(*id));
    };
    let mut images = index.images();
    let first = images.next();
    Ok(first.filter(|_| images.next().is_none()))
}

/// Finds the manifest or index of the result: the pushed one, otherwise the one that `save` writes.
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
