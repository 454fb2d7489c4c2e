//! Results of earlier builds, by key.

use crate::{EngineError, Home};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_build::{Built, Key};
use tote_image::{Digest, ImageConfig, Read as _};
use tote_store::{Store, sha256};
use tote_sys::best_effort;

fn path(home: &Home, key: &Key) -> PathBuf {
    home.builds().join("cache").join(sha256(key.as_bytes()).hex())
}

/// Finds the image of a key, if all of its layers are present.
pub(crate) fn find(home: &Home, store: &Store, key: &Key) -> Option<Built> {
    let path = path(home, key);
    // absence: a step whose record cannot be read is done again
    let text = std::fs::read(&path).ok()?;
    let id = sha256(&text);
    let config = whole(&text, store)?;
    // A pruning goes by the time of the last use.
    touch(&path);
    Some(Built { id, config })
}

/// Parses a configuration; `None` if it is invalid or a layer is missing.
fn whole(text: &[u8], store: &Store) -> Option<ImageConfig> {
    let config = ImageConfig::read(text).ok()?;
    let mut layers = config.rootfs.diff_ids.iter();
    layers
        .all(|layer| matches!(store.layer(layer), Ok(Some(_))))
        .then_some(config)
}

/// True if a build can continue from a record.
pub(crate) fn is_whole(path: &Path, store: &Store) -> bool {
    // absence: a step whose record cannot be read is done again
    std::fs::read(path).is_ok_and(|text| whole(&text, store).is_some())
}

/// Sets the time of the last use to now.
pub(crate) fn touch(path: &Path) {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    best_effort(rustix::fs::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    ));
}

/// Records the result of a key.
pub(crate) fn put(home: &Home, key: &Key, config: &ImageConfig) -> Result<Digest, EngineError> {
    let path = path(home, key);
    let text = config.to_json();
    let fresh = path.with_extension(std::process::id().to_string());
    let mut attempts = 0..ATTEMPTS;
    loop {
        tote_state::closed::write_new(&fresh, &text).map_err(EngineError::file("write", &fresh))?;
        match std::fs::rename(&fresh, &path) {
            // A pruning took the file for the rest of a killed build.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts.next().is_some() => {}
            Err(error) if error.kind() == ErrorKind::IsADirectory && attempts.next().is_some() => {
                tote_state::record::clear(&path)?;
            }
            renamed => {
                return renamed
                    .map(|()| sha256(&text))
                    .map_err(EngineError::file("write", &path));
            }
        }
    }
}

/// Number of attempts to write a record that a concurrent pruning removes before it has its name.
const ATTEMPTS: u32 = 8;

/// Marks an image as present only for later builds, or removes the mark.
pub(crate) fn keep(home: &Home, id: &Digest, only_for_builds: bool) {
    let path = home.builds().join("kept").join(id.hex());
    // A failure is ignored, because the mark only changes what lists show.
    if only_for_builds {
        best_effort(tote_state::closed::write(&path, ""));
    } else {
        best_effort(std::fs::remove_file(path));
    }
}

/// True if an image without a name is present only for later builds.
pub fn is_kept(home: &Home, id: &Digest) -> bool {
    // absence: an image whose mark cannot be examined is kept
    home.builds()
        .join("kept")
        .join(id.hex())
        .try_exists()
        .unwrap_or(true)
}
