//! The list of images.

use crate::prune::filters::PruneFilters;
use crate::{EngineError, Home, ImageFault};
use std::collections::{HashMap, HashSet};
use tote_image::{Digest, ImageConfig, Raw, Reference};
use tote_images::open_store;
use tote_store::{Image, ImageIndex, ImageRecord, Store};

/// Which images to list.
#[derive(Clone, Debug, Default)]
pub struct ImageSelection {
    /// A repository, or a repository and a tag, possibly with `*`.
    pub reference: Option<String>,
    /// `dangling=true`, `label=KEY[=VALUE]`, `reference=PATTERN`, `before=IMAGE`, `since=IMAGE`, `until=TIME`.
    pub filters: Vec<String>,
    /// Also those that only builds go on from.
    pub all: bool,
}

/// A line of the list: an image under one of its names.
#[derive(Clone, Debug)]
pub struct ImageRow {
    /// Without tag, in the familiar form; `None` for an image without a name.
    pub repository: Option<String>,
    /// The tag; `None` where the name is a digest.
    pub tag: Option<String>,
    /// The digest of the manifest with which it was pulled under that repository.
    pub digest: Option<Digest>,
    /// The image, or the index.
    pub id: Digest,
    /// When it was made, as it says itself.
    pub created: Option<String>,
    /// Bytes of the files of all its layers; of an index those of all its images.
    pub size: u64,
    /// The labels of its configuration.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// The images, newest first, a line for each of their names.
///
/// # Errors
/// [`EngineError`].
pub fn images(home: &Home, selection: &ImageSelection) -> Result<Vec<ImageRow>, EngineError> {
    let store = open_store(home)?;
    let mut images = store.images()?;
    let mut of_indexes = HashSet::new();
    for index in store.indexes()? {
        of_indexes.extend(index.images());
        images.push(shown(&store, &index)?);
    }
    images.sort_by_key(|image| std::cmp::Reverse(created(image)));
    let mut names: HashMap<Digest, Vec<Reference>> = HashMap::new();
    for (name, id) in store.names()? {
        names.entry(id).or_default().push(name);
    }
    let mut filters = Vec::new();
    for filter in &selection.filters {
        filters.push(Filter::parse(filter, &|name| {
            Ok(store.image(&store.resolve(name)?)?)
        })?);
    }
    // Patterns are alternatives, as docker's are; the argument applies as well.
    let (patterns, filters): (Vec<Filter>, Vec<Filter>) = filters
        .into_iter()
        .partition(|filter| matches!(filter, Filter::Reference(_)));
    let named = selection.reference.clone().map(Filter::Reference);
    let is_shown = |row: &ImageRow, image: &Image| {
        (patterns.is_empty() || patterns.iter().any(|pattern| pattern.fits(row, image)))
            && named.iter().chain(&filters).all(|filter| filter.fits(row, image))
    };
    let mut rows = Vec::new();
    for image in &images {
        let names = names.remove(&image.id).unwrap_or_default();
        let is_part = of_indexes.contains(&image.id)
            || tote_builder::is_kept(home, &image.id)
            || image
                .config
                .value()
                .config
                .labels
                .contains_key(crate::graph::CLOSURE_LABEL);
        if names.is_empty() && !selection.all && is_part {
            continue;
        }
        rows.extend(
            rows_of(image, &names)
                .into_iter()
                .filter(|row| is_shown(row, image)),
        );
    }
    Ok(rows)
}

/// An index as a list shows it: as its image for this machine, with the bytes of all.
///
/// # Errors
/// [`EngineError::Store`].
pub(super) fn shown(store: &Store, index: &ImageIndex) -> Result<Image, EngineError> {
    let mut size = 0u64;
    for id in index.images() {
        // One that is lost has nothing.
        size = size.saturating_add(store.image(&id).map_or(0, |image| image.record.size));
    }
    let usual = index.usual().and_then(|id| store.image(&id).ok());
    let config = match usual {
        Some(image) => image.config,
        None => Raw::read(ImageConfig::default().to_json()).map_err(ImageFault::ImageDocument)?,
    };
    Ok(Image {
        id: index.id,
        config,
        record: ImageRecord {
            size,
            ..ImageRecord::default()
        },
    })
}

/// Every name of an image, and the ids of those that have none: by them all images can be removed.
///
/// # Errors
/// [`EngineError::Store`].
pub fn image_names(home: &Home) -> Result<Vec<String>, EngineError> {
    let store = open_store(home)?;
    let named = store.names()?;
    let mut all: Vec<String> = Vec::new();
    // Indexes first: images that have no name of their own go with them.
    let indexes = store.indexes()?;
    let images = store.images()?.into_iter().map(|image| image.id);
    let ids = indexes.iter().map(|index| index.id).chain(images);
    for id in ids {
        let names = named.iter().filter(|(_, of)| *of == id);
        let names: Vec<&Reference> = names.map(|(name, _)| name).collect();
        let tags = names.iter().filter(|name| name.digest().is_none());
        let before = all.len();
        all.extend(tags.map(|name| name.familiar()));
        // With its last tag of a repository go the digests that it has there.
        let tagged = |name: &Reference| {
            let mut others = names.iter().filter(|other| other.digest().is_none());
            others.any(|other| other.name() == name.name())
        };
        let digests = names
            .iter()
            .filter(|name| name.digest().is_some() && !tagged(name));
        all.extend(digests.map(|name| name.familiar()));
        if all.len() == before && !indexes.iter().any(|index| index.has(&id)) {
            all.push(id.to_string());
        }
    }
    Ok(all)
}

/// An image without a time of creation is older than anything.
pub(super) fn fits(filters: &PruneFilters, image: &Image) -> bool {
    let config = image.config.value();
    let created = config.created.as_deref();
    let created = created.and_then(tote_calendar::seconds_of).unwrap_or(0);
    filters.fit(i128::from(created) * 1_000_000_000, &config.config.labels)
}

fn rows_of(image: &Image, names: &[Reference]) -> Vec<ImageRow> {
    let row = |repository, tag, digest| ImageRow {
        labels: image.config.value().config.labels.clone(),
        repository,
        tag,
        digest,
        id: image.id,
        created: image.config.value().created.clone(),
        size: image.record.size,
    };
    let digest_of = |name: &Reference| {
        let same = names
            .iter()
            .find(|other| other.digest().is_some() && other.name() == name.name());
        same.and_then(|other| other.digest().copied())
    };
    let mut rows = Vec::new();
    for name in names {
        match name.digest() {
            None => {
                let tag = name.tag().map(ToOwned::to_owned);
                rows.push(row(Some(name.familiar_name()), tag, digest_of(name)));
            }
            // Under a digest only where no tag shows it already.
            Some(digest)
                if !names
                    .iter()
                    .any(|other| other.digest().is_none() && other.name() == name.name()) =>
            {
                rows.push(row(Some(name.familiar_name()), None, Some(*digest)));
            }
            Some(_) => {}
        }
    }
    if rows.is_empty() {
        rows.push(row(None, None, None));
    }
    rows
}

fn created(image: &Image) -> String {
    image.config.value().created.clone().unwrap_or_default()
}

enum Filter {
    Dangling(bool),
    Label(String, Option<String>),
    Reference(String),
    Before(String),
    Since(String),
    Until(Box<PruneFilters>),
}

impl Filter {
    fn parse(text: &str, find: &dyn Fn(&str) -> Result<Image, EngineError>) -> Result<Self, EngineError> {
        let wrong = || EngineError::Image(ImageFault::Filter(text.to_owned()));
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        Ok(match key {
            "dangling" => match value {
                "true" | "1" => Self::Dangling(true),
                "false" | "0" => Self::Dangling(false),
                _ => return Err(wrong()),
            },
            "label" => match value.split_once('=') {
                Some((key, value)) => Self::Label(key.to_owned(), Some(value.to_owned())),
                None => Self::Label(value.to_owned(), None),
            },
            "reference" => Self::Reference(value.to_owned()),
            "before" => Self::Before(created(&find(value)?)),
            "since" => Self::Since(created(&find(value)?)),
            "until" => Self::Until(Box::new(
                PruneFilters::of_images(&[text.to_owned()]).map_err(|_| wrong())?,
            )),
            _ => return Err(wrong()),
        })
    }

    fn fits(&self, row: &ImageRow, image: &Image) -> bool {
        match self {
            Self::Dangling(dangling) => (row.repository.is_none() || row.tag.is_none()) == *dangling,
            Self::Label(key, value) => {
                let found = image.config.value().config.labels.get(key);
                found.is_some_and(|found| value.as_ref().is_none_or(|value| found == value))
            }
            Self::Reference(pattern) => {
                let Some(repository) = &row.repository else {
                    return false;
                };
                let tag = row.tag.as_deref().unwrap_or_default();
                let full = format!("{repository}:{tag}");
                matches(pattern, repository) || matches(pattern, &full)
            }
            Self::Before(time) => created(image) < *time,
            Self::Since(time) => created(image) > *time,
            Self::Until(filters) => fits(filters, image),
        }
    }
}

/// Whether a text is as a pattern says, in which `*` is any text without a slash and `?` one letter.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut here) = (0, 0);
    // Where to go back to: behind the last star, and one letter more of the text than last time.
    let mut star: Option<(usize, usize)> = None;
    while here < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, here));
                at += 1;
            }
            Some(b'?') if text[here] != b'/' => (at, here) = (at + 1, here + 1),
            Some(letter) if *letter == text[here] => (at, here) = (at + 1, here + 1),
            _ => match star {
                Some((behind, from)) if text[from] != b'/' => {
                    star = Some((behind, from + 1));
                    (at, here) = (behind, from + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("alpine", "alpine", true),
            ("alp*", "alpine", true),
            ("*pine", "alpine", true),
            ("a*i*e", "alpine", true),
            ("a?pine", "alpine", true),
            ("*", "a/b", false),
            ("*/*", "a/b", true),
            ("alpine:3.*", "alpine:3.10", true),
            ("alpine", "alpine:3.10", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
