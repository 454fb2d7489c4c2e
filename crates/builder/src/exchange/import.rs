//! `--cache-from`: import of the caches of other builds.

use super::document::Document;
use super::option::CacheFrom;
use crate::{Access, EngineError, ImageFault, PullEvent};
use crate::{BuildFault, CacheFault};
use std::collections::BTreeMap;
use tote_build::Key;
use tote_image::{Descriptor, Digest, ImageConfig, MAX_CONFIG_BYTES, Platform, Read as _, Reference};
use tote_images::LayoutDirectory;
use tote_images::{Fetch, registry_client};
use tote_registry::Client;
use tote_store::{Ingest, Store, sha256};

/// Sources of one build, in the order in which they were given.
#[derive(Default)]
pub(crate) struct Imports(Vec<Source>);

/// Source of a cache. It is opened only when a local result is missing.
enum Source {
    Unasked(CacheFrom),
    Open(Box<Open>),
    /// Source that could not be read, which was reported.
    Useless,
}

struct Open {
    called: String,
    place: Place,
    records: BTreeMap<String, ImageConfig>,
    layers: BTreeMap<Digest, Descriptor>,
}

enum Place {
    Layout(LayoutDirectory),
    Registry(Box<Client>, Reference),
    /// Image of the store, whose layers are present.
    Store,
}

/// Environment of the import.
pub(crate) struct Asker<'a> {
    pub store: &'a Store,
    pub ingest: &'a Ingest<'a>,
    pub platform: Platform,
    pub(crate) access: &'a Access,
    pub report: &'a (dyn Fn(PullEvent<'_>) + Sync),
}

impl Imports {
    pub(crate) fn new(from: &[CacheFrom]) -> Self {
        Self(from.iter().cloned().map(Source::Unasked).collect())
    }

    /// Finds the result of an instruction with that key on the image `before`, with all of its layers in the store.
    pub(crate) fn find(&mut self, asker: &Asker<'_>, key: &Key, before: &ImageConfig) -> Option<ImageConfig> {
        let key = sha256(key.as_bytes()).hex();
        self.0.iter_mut().find_map(|source| {
            let found = source.opened(asker)?.record(asker, &key, before);
            found.unwrap_or_else(|error| {
                source.give_up(asker, &error);
                None
            })
        })
    }
}

impl Source {
    fn opened(&mut self, asker: &Asker<'_>) -> Option<&Open> {
        if let Self::Unasked(from) = self {
            match open(asker, from) {
                Ok(open) => *self = Self::Open(Box::new(open)),
                Err(error) => self.give_up(asker, &error),
            }
        }
        match self {
            Self::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Reports an unusable source; the build goes on without it.
    fn give_up(&mut self, asker: &Asker<'_>, error: &EngineError) {
        let called = match self {
            Self::Unasked(from) => from.to_string(),
            Self::Open(open) => open.called.clone(),
            Self::Useless => return,
        };
        let why = tote_sys::chain(error);
        (asker.report)(PullEvent::Warning(&format!(
            "the cache of {called} is not used: {why}"
        )));
        *self = Self::Useless;
    }
}

fn open(asker: &Asker<'_>, from: &CacheFrom) -> Result<Open, EngineError> {
    match from {
        CacheFrom::Local { src, tag } => {
            let layout = LayoutDirectory::new(src);
            let manifest = layout.manifest(tag, &asker.platform)?;
            let config = |blob: &Descriptor| Ok(layout.blob(blob, MAX_CONFIG_BYTES)?);
            let (document, layers) = Document::of(&manifest, config)?;
            Ok(Open {
                called: from.to_string(),
                place: Place::Layout(layout),
                records: document.records,
                layers,
            })
        }
        CacheFrom::Registry(names) => {
            let mut failure = BuildFault::Cache(CacheFault::NoCache).into();
            for name in names {
                match named(asker, name) {
                    Ok(open) => return Ok(open),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }
}

/// Opens the cache at a registry, or a pulled or loaded image of that name.
fn named(asker: &Asker<'_>, name: &str) -> Result<Open, EngineError> {
    let (client, name) = registry_client(name, asker.access)?;
    at_registry(asker, client, &name).or_else(|error| match in_store(asker, &name) {
        Ok(Some(open)) => Ok(open),
        _ => Err(error),
    })
}

fn in_store(asker: &Asker<'_>, name: &Reference) -> Result<Option<Open>, EngineError> {
    let Some(id) = asker.store.named(name)? else {
        return Ok(None);
    };
    let Some(id) = asker.store.image_of(&id, Some(&asker.platform))? else {
        return Ok(None);
    };
    let Some(manifest) = asker.store.manifest(&id)? else {
        return Ok(None);
    };
    let (document, _) = Document::of(manifest.value(), |_| {
        Err(BuildFault::Cache(CacheFault::NoCache).into())
    })?;
    Ok(Some(Open {
        called: name.familiar(),
        place: Place::Store,
        records: document.records,
        layers: BTreeMap::new(),
    }))
}

fn at_registry(asker: &Asker<'_>, client: Client, name: &Reference) -> Result<Open, EngineError> {
    let resolved = client.resolve(name, &asker.platform)?;
    let config = |blob: &Descriptor| Ok(client.blob_bytes(name, blob, MAX_CONFIG_BYTES as u64)?);
    let (document, layers) = Document::of(&resolved.manifest, config)?;
    (asker.report)(PullEvent::From(name));
    Ok(Open {
        called: name.familiar(),
        place: Place::Registry(Box::new(client), name.clone()),
        records: document.records,
        layers,
    })
}

impl Open {
    fn record(
        &self,
        asker: &Asker<'_>,
        key: &str,
        before: &ImageConfig,
    ) -> Result<Option<ImageConfig>, EngineError> {
        let Some(found) = self.records.get(key).filter(|found| follows(found, before)) else {
            return Ok(None);
        };
        // The configuration is read with the limits of any other one.
        let found = ImageConfig::read(&found.to_json()).map_err(ImageFault::ImageDocument)?;
        let mut missing: Vec<(Digest, Descriptor)> = Vec::new();
        for diff_id in &found.rootfs.diff_ids {
            if asker.store.layer(diff_id)?.is_some() || missing.iter().any(|(known, _)| known == diff_id) {
                continue;
            }
            match self.layers.get(diff_id) {
                Some(blob) => missing.push((*diff_id, blob.clone())),
                // The layer is one of a missing base image, or unknown.
                None => return Ok(None),
            }
        }
        self.fetch(asker, &missing)?;
        Ok(Some(found))
    }

    fn fetch(&self, asker: &Asker<'_>, layers: &[(Digest, Descriptor)]) -> Result<(), EngineError> {
        match &self.place {
            Place::Layout(layout) => Ok(layers
                .iter()
                .try_for_each(|(diff_id, blob)| layout.fetch(asker.ingest, blob, diff_id))?),
            Place::Registry(client, name) => {
                let fetch = Fetch {
                    client,
                    store: asker.store,
                    ingest: asker.ingest,
                    reference: name,
                    report: asker.report,
                };
                Ok(fetch.layers(layers).map(drop)?)
            }
            Place::Store => Ok(()),
        }
    }
}

/// True if this can be the result of one instruction on the image `before`: one more step, at most the last layer
/// different, for the same platform. This check excludes damage, not forgery: the author of a cache is trusted.
fn follows(found: &ImageConfig, before: &ImageConfig) -> bool {
    let (layers, below) = (&found.rootfs.diff_ids, &before.rootfs.diff_ids);
    let kept = &layers[..layers.len().saturating_sub(1)];
    found.platform() == before.platform()
        && found.history.len() == before.history.len() + 1
        && (layers == below || below.starts_with(kept))
}

#[cfg(test)]
mod tests {
    use super::follows;
    use tote_image::{Digest, History, ImageConfig};

    fn image(steps: usize, layers: &[u8]) -> ImageConfig {
        let mut config = ImageConfig {
            os: "linux".to_owned(),
            architecture: "amd64".to_owned(),
            history: vec![History::default(); steps],
            ..ImageConfig::default()
        };
        config.rootfs.diff_ids = layers.iter().map(|byte| Digest::sha256([*byte; 32])).collect();
        config
    }

    #[test]
    fn one_instruction_after_another() {
        let before = image(2, &[1, 2]);
        for (steps, layers) in [(3, &[1, 2][..]), (3, &[1, 2, 3]), (3, &[1, 3]), (3, &[3])] {
            assert!(follows(&image(steps, layers), &before), "{steps} {layers:?}");
        }
        for (steps, layers) in [
            (2, &[1, 2, 3][..]),
            (4, &[1, 2, 3]),
            (3, &[2, 1, 3]),
            (3, &[1, 2, 3, 4]),
        ] {
            assert!(!follows(&image(steps, layers), &before), "{steps} {layers:?}");
        }
        let mut other = image(3, &[1, 2, 3]);
        other.architecture = "arm64".to_owned();
        assert!(!follows(&other, &before));
        assert!(follows(&image(1, &[]), &image(0, &[])));
    }
}
