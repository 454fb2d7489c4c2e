//! The space that the store takes, as docker's `system df` shows it.

use crate::kept::{Kept, cells, of_all};
use crate::listing::Listing;
use crate::text::{ago, size, table};
use serde_json::{Value, json};
use std::collections::HashSet;
use tote_engine::{BuildSpace, EngineError, Home, ImageSelection, ImageUsage, Space};

/// The sizes of everything that the store and the state root keep.
#[derive(Debug)]
pub struct SpaceView {
    space: Space,
    builds: BuildSpace,
    kept: Kept,
}

impl SpaceView {
    /// Measures everything, which reads the directories of every container and volume.
    ///
    /// # Errors
    /// [`EngineError`], of the store and of records.
    pub fn count(home: &Home) -> Result<Self, EngineError> {
        Ok(Self {
            space: tote_engine::space(home)?,
            builds: tote_engine::build_space(home)?,
            kept: Kept::count(home)?,
        })
    }

    /// The images that are only there for later builds, and the others.
    fn parted(&self) -> (Vec<&ImageUsage>, Vec<&ImageUsage>) {
        let all = self.space.usage.images.iter();
        all.partition(|part| self.builds.images.contains(&part.id))
    }

    /// Bytes of what is only there for later builds.
    fn built(&self) -> u64 {
        self.parted().0.iter().map(|part| part.unique).sum()
    }

    /// Lists the kinds of things with docker's fields.
    #[must_use]
    pub fn listing(&self) -> Listing {
        let (space, builds) = (&self.space, &self.builds);
        let usage = &space.usage;
        let images = self.parted().1;
        let built = self.built();
        let stored = usage.stored.saturating_sub(built);
        let reclaimable = stored.saturating_sub(usage.active);
        let built = built + builds.mount_bytes;
        let mut listing = Listing {
            headings: &[
                ("Type", "TYPE"),
                ("TotalCount", "TOTAL"),
                ("Active", "ACTIVE"),
                ("Size", "SIZE"),
                ("Reclaimable", "RECLAIMABLE"),
            ],
            columns: "{{.Type}}\t{{.TotalCount}}\t{{.Active}}\t{{.Size}}\t{{.Reclaimable}}".to_owned(),
            rows: vec![json!({
                "Type": "Images",
                "TotalCount": images.len().to_string(),
                "Active": space.active.len().to_string(),
                "Size": size(stored),
                "Reclaimable": of_all(reclaimable, stored),
                "Bytes": {
                    "Stored": usage.stored,
                    "Layered": usage.layered,
                    "Copied": usage.copied,
                    "Host": usage.host,
                },
            })],
            ..Listing::default()
        };
        listing.rows.extend(self.kept.rows());
        listing.rows.push(json!({
            "Type": "Build Cache",
            "TotalCount": (builds.records + builds.mounts).to_string(),
            "Active": "0",
            "Size": size(built),
            "Reclaimable": size(built),
        }));
        let podmans = |row: &Value| json!({ "Total": row["TotalCount"] });
        listing.also = listing.rows.iter().map(podmans).collect();
        listing
    }

    /// Formats a table for each kind of things.
    ///
    /// # Errors
    /// [`EngineError`], of the store.
    pub fn in_detail(&self, home: &Home) -> Result<String, EngineError> {
        let lines = self.lines_of_images(home)?;
        let kept_for_builds: Vec<_> = self
            .parted()
            .0
            .iter()
            .map(|part| (part.id.short(), part.unique))
            .collect();
        Ok(format!(
            "Images space usage:\n\n{}{}\nBuild cache usage: {}\n\n{}",
            table(&lines),
            self.kept.tables(),
            size(self.built() + self.builds.mount_bytes),
            table(&lines_of_builds(&kept_for_builds))
        ))
    }

    /// Compares the space of files that are stored once with that of other ways.
    #[must_use]
    pub fn comparison(&self) -> String {
        let usage = &self.space.usage;
        format!(
            "Every file once: {}; layers apart: {}; a copy for each image: {}; shared with the host: {}",
            size(usage.stored),
            size(usage.layered),
            size(usage.copied),
            size(usage.host),
        )
    }

    /// Formats a table of the images' sizes, with headings.
    fn lines_of_images(&self, home: &Home) -> Result<Vec<Vec<String>>, EngineError> {
        let selection = ImageSelection {
            all: true,
            ..ImageSelection::default()
        };
        let mut lines = vec![cells(&[
            "REPOSITORY",
            "TAG",
            "IMAGE ID",
            "CREATED",
            "SIZE",
            "SHARED SIZE",
            "UNIQUE SIZE",
            "CONTAINERS",
        ])];
        let mut shown = HashSet::new();
        for image in tote_engine::images(home, &selection)? {
            // docker's: an image is shown by its first name alone.
            if !shown.insert(image.id) {
                continue;
            }
            let Some(part) = self.space.usage.images.iter().find(|part| part.id == image.id) else {
                continue;
            };
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "<none>".to_owned());
            lines.push(vec![
                or_none(image.repository),
                or_none(image.tag),
                part.id.short(),
                ago(image.created.as_deref().unwrap_or_default()),
                size(part.size),
                size(part.shared),
                size(part.unique),
                self.kept.of_image(&part.id.to_string()).to_string(),
            ]);
        }
        Ok(lines)
    }
}

/// Formats a table of the images that are only there for later builds, with headings.
fn lines_of_builds(parts: &[(String, u64)]) -> Vec<Vec<String>> {
    let headings = [
        "CACHE ID",
        "CACHE TYPE",
        "SIZE",
        "CREATED",
        "LAST USED",
        "USAGE",
        "SHARED",
    ];
    let line = |(id, bytes): &(String, u64)| {
        let known = [id.clone(), "regular".to_owned(), size(*bytes)];
        // What the store does not know is left empty.
        let unknown = std::iter::repeat_n(String::new(), headings.len() - known.len());
        known.into_iter().chain(unknown).collect()
    };
    std::iter::once(cells(&headings))
        .chain(parts.iter().map(line))
        .collect()
}
