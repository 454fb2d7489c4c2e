//! `--cache-to`: export of a build's cache.

use super::document::{ANNOTATION, Document, MAX_ANNOTATION, MEDIA_TYPE};
use super::option::{CachePlace, CacheTo};
use crate::{Access, EngineError, Home, ImageFault, PullEvent, PushEvent, PushReport, PushStep};
use crate::{BuildFault, CacheFault};
use std::collections::{BTreeMap, HashSet};
use std::io::{Cursor, Read};
use std::sync::atomic::AtomicBool;
use tote_build::Key;
use tote_image::{Descriptor, Digest, ImageConfig, MAX_LAYERS, Manifest};
use tote_images::LayoutDirectory;
use tote_images::{Compressed, for_each, push_layers, registry_client};
use tote_store::{Ingest, Store, sha256};

/// Records of a build, for export.
#[derive(Default)]
pub(crate) struct Exports {
    to: Vec<CacheTo>,
    in_result: bool,
    /// Records by the hash of a key, each with a flag that is true if the result is made of it.
    records: BTreeMap<String, (bool, ImageConfig)>,
}

/// Environment of the export.
pub(crate) struct Exporter<'a> {
    pub home: &'a Home,
    pub store: &'a Store,
    pub ingest: &'a Ingest<'a>,
    pub(crate) access: &'a Access,
    /// Listener to warnings about failures that do not end the build.
    pub report: &'a (dyn Fn(PullEvent<'_>) + Sync),
    pub push: &'a PushReport,
}

impl Exports {
    pub(crate) fn new(to: &[CacheTo]) -> Self {
        Self {
            to: to.to_vec(),
            ..Self::default()
        }
    }

    pub(crate) fn stage(&mut self, in_result: bool) {
        self.in_result = in_result;
    }

    pub(crate) fn note(&mut self, key: &Key, config: &ImageConfig) {
        if self.to.is_empty() {
            return;
        }
        let known = self.records.entry(sha256(key.as_bytes()).hex());
        let record = known.or_insert_with(|| (false, config.clone()));
        record.0 |= self.in_result;
    }

    /// Returns the records so far, each with the hash of its key.
    pub(crate) fn noted(&self) -> Vec<(String, bool, ImageConfig)> {
        let records = self.records.iter();
        records
            .map(|(key, (in_result, config))| (key.clone(), *in_result, config.clone()))
            .collect()
    }

    /// Adds records of another process of this build.
    pub(crate) fn add(&mut self, noted: Vec<(String, bool, ImageConfig)>) {
        for (key, in_result, config) in noted {
            self.records.entry(key).or_insert((false, config)).0 |= in_result;
        }
    }

    /// Writes the cache to all destinations. Layers of base images, `bases`, are left out, because builds from these
    /// images have them.
    pub(crate) fn write(
        &self,
        exporter: &Exporter<'_>,
        results: &[Digest],
        bases: &HashSet<Digest>,
    ) -> Result<(), EngineError> {
        for to in &self.to {
            let written = match &to.place {
                CachePlace::Inline => results
                    .iter()
                    .try_for_each(|result| self.inline(exporter, result)),
                place => self.outside(exporter, place, to.all_stages, bases),
            };
            let written = written.map_err(|source| {
                let (to, source) = (to.place.to_string(), Box::new(source));
                EngineError::from(BuildFault::Cache(CacheFault::CacheExport { to, source }))
            });
            match written {
                Err(error) if to.may_fail => {
                    (exporter.report)(PullEvent::Warning(&tote_sys::chain(&error)));
                }
                written => written?,
            }
        }
        Ok(())
    }

    fn document(&self, all_stages: bool, is_left_out: impl Fn(&Digest) -> bool) -> Document {
        let records = self
            .records
            .iter()
            .filter(|(_, (in_result, _))| all_stages || *in_result);
        let mut document = Document::default();
        let mut known = HashSet::new();
        for (key, (_, config)) in records {
            for diff_id in &config.rootfs.diff_ids {
                if !is_left_out(diff_id) && known.insert(*diff_id) {
                    document.layers.push(*diff_id);
                }
            }
            document.records.insert(key.clone(), config.clone());
        }
        document.layers.sort();
        document
    }

    /// Writes the cache as an annotation of the result, whose image has the layers then.
    fn inline(&self, exporter: &Exporter<'_>, result: &Digest) -> Result<(), EngineError> {
        let result = &exporter.store.image(result)?;
        let mut document = self.document(false, |_| true);
        if document.records.is_empty() {
            // The result is the base image itself.
            return Ok(());
        }
        document.layers = result.layers().to_vec();
        let json = document.to_json()?;
        if json.len() > MAX_ANNOTATION {
            return Err(BuildFault::Cache(CacheFault::CacheInline(json.len())).into());
        }
        let text = String::from_utf8_lossy(&json).into_owned();
        let annotation = BTreeMap::from([(ANNOTATION.to_owned(), text)]);
        Ok(exporter.ingest.annotate(result, &annotation)?)
    }

    fn outside(
        &self,
        exporter: &Exporter<'_>,
        place: &CachePlace,
        all_stages: bool,
        bases: &HashSet<Digest>,
    ) -> Result<(), EngineError> {
        let document = self.document(all_stages, |layer| bases.contains(layer));
        if document.layers.len() > MAX_LAYERS {
            return Err(BuildFault::Cache(CacheFault::CacheLayers(document.layers.len())).into());
        }
        let json = document.to_json()?;
        let config = Descriptor::new(MEDIA_TYPE, sha256(&json), json.len() as u64);
        match place {
            CachePlace::Local { dest, tag } => {
                let layout = LayoutDirectory::new(dest);
                layout.make()?;
                let layers = for_each(&document.layers, |layer, stop| {
                    exporter.put_layer(&layout, layer, stop)
                })?;
                let manifest = Manifest::oci(config, layers);
                layout.put_document(&json)?;
                Ok(layout.put_manifest(tag, &manifest)?)
            }
            CachePlace::Registry(name) => {
                let (client, name) = registry_client(name, exporter.access)?;
                let Exporter {
                    home, store, push, ..
                } = exporter;
                let layers = push_layers(home, &client, store, &name, &document.layers, push)?;
                let mut source =
                    || -> std::io::Result<Box<dyn Read>> { Ok(Box::new(Cursor::new(json.clone()))) };
                client.push_blob(&name, &config, None, &mut source)?;
                let manifest = Manifest::oci(config, layers);
                client.push_manifest(&name, manifest.media_type(), &manifest.to_json())?;
                Ok(())
            }
            CachePlace::Inline => Ok(()),
        }
    }
}

impl Exporter<'_> {
    /// Writes a layer to a layout in the form of a push, unless it is present.
    fn put_layer(
        &self,
        layout: &LayoutDirectory,
        diff_id: &Digest,
        stop: &AtomicBool,
    ) -> Result<Descriptor, EngineError> {
        let tell = |step| (self.push)(PushEvent::Layer { diff_id, step });
        for blob in self.store.blobs(diff_id)? {
            if layout.has(&blob) {
                tell(PushStep::Exists);
                return Ok(blob);
            }
        }
        tell(PushStep::Compressing);
        let mut told = |done, size| tell(PushStep::Compressed { done, size });
        let compressed = Compressed::new(self.home, self.store, diff_id, (stop, &mut told))?;
        let content = compressed.open().map_err(ImageFault::LayerOutput)?;
        layout.put_blob(&compressed.descriptor, content)?;
        tell(PushStep::Done);
        // The next build finds the layer in this form.
        self.ingest.note_blob(diff_id, &compressed.descriptor)?;
        Ok(compressed.descriptor)
    }
}
