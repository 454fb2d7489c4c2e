//! `ADD` of an address: the file is downloaded into the build's own directory, and copied from there.

use super::BuildFault;
use super::attest::Material;
use super::select::{Chosen, Item};
use super::worker::Building;
use super::workspace::make_dir;
use crate::{EngineError, ImageFault};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};
use tote_build::{CopyStep, Event};
use tote_image::{Algorithm, Digest};
use tote_images::web_client;
use tote_registry::Hasher;

/// Interval between reports of the progress.
const TELL: Duration = Duration::from_millis(100);

impl Building<'_> {
    /// Downloads the files of a step.
    pub(crate) fn downloads(&mut self, step: &CopyStep) -> Result<Vec<Chosen>, EngineError> {
        let mut chosen = Vec::new();
        for url in &step.downloads {
            let dir = self.workspace.path().join("downloads");
            make_dir(&dir, 0o700)?;
            let path = super::workspace::next_in(&dir)?;
            let mtime = self.download(url, &path, step.checksum.as_ref())?;
            let base = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            let base = base.map_err(EngineError::file("open", &path))?;
            chosen.push(Chosen {
                base,
                is_dir: false,
                unpack: step.unpack_downloads,
                items: vec![Item::downloaded(name(url), mtime)],
            });
        }
        Ok(chosen)
    }

    /// Downloads a file. Returns the time of its last change.
    fn download(&mut self, url: &str, path: &Path, checksum: Option<&Digest>) -> Result<i64, EngineError> {
        let wrong = |source| BuildFault::Download {
            url: url.to_owned(),
            source: Box::new(source),
        };
        let client = web_client(&self.request.access)?;
        let mut input = client.download(url).map_err(|error| wrong(error.into()))?;
        let length = input.length;
        let file = File::create_new(path).map_err(EngineError::file("make", path))?;
        let mut output = BufWriter::with_capacity(128 << 10, file);
        let wanted = self.request.attestations.provenance.is_some();
        let algorithm = checksum
            .map(Digest::algorithm)
            .or(wanted.then_some(Algorithm::Sha256));
        let mut hasher = algorithm.map(Hasher::new);
        let (mut buffer, mut received, mut told) = (vec![0; 64 << 10], 0, Instant::now());
        loop {
            let read = input.read(&mut buffer);
            let count = read.map_err(|error| wrong(EngineError::Image(ImageFault::LayerOutput(error))))?;
            if count == 0 {
                break;
            }
            received += count as u64;
            if let Some(hasher) = &mut hasher {
                hasher.update(&buffer[..count]);
            }
            output
                .write_all(&buffer[..count])
                .map_err(EngineError::file("write", path))?;
            if told.elapsed() >= TELL {
                told = Instant::now();
                (self.say)(Event::Download {
                    url,
                    received,
                    length,
                });
            }
        }
        output.flush().map_err(EngineError::file("write", path))?;
        if let Some(actual) = hasher.map(Hasher::finish) {
            self.downloaded
                .push(Material::new(tote_build::redacted(url), &actual));
            if let Some(expected) = checksum.filter(|expected| **expected != actual) {
                let (expected, actual) = (expected.to_string(), actual.to_string());
                return Err(BuildFault::Checksum {
                    url: url.to_owned(),
                    expected,
                    actual,
                }
                .into());
            }
        }
        Ok(input.modified.unwrap_or(0))
    }
}

/// Name of a download from an address without one; docker's.
const UNNAMED: &str = "__unnamed__";

/// Returns the last name in an address's path; [`UNNAMED`] if it has no usable one.
pub(crate) fn name(url: &str) -> String {
    let address = url.split(['#', '?']).next().unwrap_or_default();
    let path = address
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'));
    let last = path
        .and_then(|(_, path)| path.rsplit('/').find(|name| !name.is_empty()))
        .unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = last.as_bytes();
    while let [first, more @ ..] = rest {
        let hex = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        rest = match (first, more) {
            (b'%', [high, low, behind @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                bytes.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                behind
            }
            _ => {
                bytes.push(*first);
                more
            }
        };
    }
    match String::from_utf8(bytes) {
        Ok(name) if !matches!(&*name, "" | "." | "..") && !name.contains(['/', '\0']) => name,
        _ => UNNAMED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names() {
        for (url, expected) in [
            ("https://x.example/a/b.tar.gz", "b.tar.gz"),
            ("https://x.example/a%20b?x=/y#z/w", "a b"),
            ("https://x.example/a/", "a"),
            ("https://x.example/", "__unnamed__"),
            ("https://x.example", "__unnamed__"),
            ("https://x.example/?q=a", "__unnamed__"),
            ("https://x.example/%2e%2e", "__unnamed__"),
            ("https://x.example/a%2fb", "__unnamed__"),
            ("https://x.example/100%", "100%"),
        ] {
            assert_eq!(name(url), expected, "{url}");
        }
    }
}
