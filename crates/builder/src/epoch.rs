//! `rewrite-timestamp`: layers whose files are no younger than a given time.

use super::BuildFault;
use super::worker::Building;
use crate::changes::add_layer;
use crate::{EngineError, ImageFault};
use std::io::{BufReader, Read, Write};
use std::time::Duration;
use tote_archive::{Change, Kind, Limits, ReadError, Reader, Timestamp, Writer};
use tote_image::Digest;

/// Size of the buffers, in bytes.
const BUFFER: usize = 128 << 10;

impl Building<'_> {
    /// Makes the layers in which a younger file has that time. The layers themselves stay for the cache.
    pub(crate) fn older(&self, layers: &[Digest], time: Duration) -> Result<Vec<Digest>, EngineError> {
        let latest = Timestamp {
            secs: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        };
        let mut older = Vec::new();
        for layer in layers {
            let archive = BufReader::with_capacity(BUFFER, self.store.layer_archive(layer)?);
            let name = format!("layer {layer}");
            older.push(add_layer(self.ingest, |out| clamp((archive, &name), out, latest))?.diff_id);
        }
        Ok(older)
    }
}

/// Copies an archive; `name` is for errors.
fn clamp((archive, name): (impl Read, &str), out: impl Write, latest: Timestamp) -> Result<(), EngineError> {
    let failed = ImageFault::LayerOutput;
    let unreadable = |error: ReadError| BuildFault::Source {
        path: name.to_owned(),
        source: std::io::Error::other(error),
    };
    let mut reader = Reader::new(archive, Limits::default());
    let mut writer = Writer::new(out).whole_seconds();
    while let Some(mut change) = reader.next_change().map_err(unreadable)? {
        if let Change::Add(entry) = &mut change {
            entry.mtime = entry.mtime.min(latest);
        }
        let extents = reader.content_extents();
        let stored: u64 = extents.iter().map(|extent| extent.len).sum();
        match &change {
            Change::Add(entry) if matches!(entry.kind, Kind::File { size } if size > stored) => {
                writer.sparse_entry(entry, extents)?;
            }
            change => writer.change(change)?,
        }
        while let Some((_, bytes)) = reader.next_chunk().map_err(unreadable)? {
            writer.write_all(bytes).map_err(failed)?;
        }
    }
    Ok(writer.finish()?.flush().map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_archive::{Entry, EntryPath, Extent};

    /// Times are clamped, and everything else is as before: contents, holes, removals and attributes.
    #[test]
    fn younger_files_become_older() {
        let path = |name: &str| EntryPath::parse(name.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        for (name, secs) in [("old", 5), ("young", 2000)] {
            let mut entry = Entry::new(path(name), Kind::File { size: 3 });
            entry.mtime = Timestamp { secs, nanos: 7 };
            entry.xattrs.push((b"user.a".to_vec(), b"b".to_vec()));
            writer.entry(&entry).unwrap();
            writer.write_all(b"abc").unwrap();
        }
        let sparse = Entry::new(path("sparse"), Kind::File { size: 9 });
        writer
            .sparse_entry(&sparse, &[Extent { offset: 4, len: 2 }])
            .unwrap();
        writer.write_all(b"xy").unwrap();
        writer.change(&Change::Whiteout(path("gone"))).unwrap();
        writer.finish().unwrap();
        let mut out = Vec::new();
        clamp((&*bytes, "layer"), &mut out, Timestamp { secs: 1000, nanos: 0 }).unwrap();
        let mut reader = Reader::new(&*out, Limits::default());
        let mut found = Vec::new();
        while let Some(change) = reader.next_change().unwrap() {
            let mut content = Vec::new();
            while let Some((_, bytes)) = reader.next_chunk().unwrap() {
                content.extend_from_slice(bytes);
            }
            let (time, attributes) = match &change {
                Change::Add(entry) => (entry.mtime.secs, entry.xattrs.len()),
                _ => (-1, 0),
            };
            let name = String::from_utf8(change.path().as_bytes().to_vec()).unwrap();
            found.push((name, time, attributes, content));
        }
        let expected = [
            ("old", 5, 1, &b"abc"[..]),
            ("young", 1000, 1, b"abc"),
            ("sparse", 0, 0, b"xy"),
            ("gone", -1, 0, b""),
        ];
        let expected = expected
            .map(|(name, time, attributes, content)| (name.to_owned(), time, attributes, content.to_vec()));
        assert_eq!(found, expected);
    }
}
