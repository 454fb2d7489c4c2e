//! What earlier builds made, by key.

use crate::{EngineError, Home};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_build::Built;
use tote_image::{Digest, ImageConfig, Read as _};
use tote_store::{Store, sha256};
use tote_sys::best_effort;

fn path(home: &Home, key: &str) -> PathBuf {
    home.builds().join("cache").join(sha256(key.as_bytes()).hex())
}

/// The image that was made under the key, if all of its layers are there.
pub(crate) fn find(home: &Home, store: &Store, key: &str) -> Option<Built> {
    let path = path(home, key);
    let text = std::fs::read(&path).ok()?;
    let id = sha256(&text);
    let config = whole(&text, store)?;
    // When it was used last is what a pruning goes by.
    touch(&path);
    Some(Built { id, config })
}

/// The configuration, if it is one and all of its layers are there.
fn whole(text: &[u8], store: &Store) -> Option<ImageConfig> {
    let config = ImageConfig::read(text).ok()?;
    let mut layers = config.rootfs.diff_ids.iter();
    layers
        .all(|layer| matches!(store.layer(layer), Ok(Some(_))))
        .then_some(config)
}

/// Whether a record can be gone on from.
pub(crate) fn is_whole(path: &Path, store: &Store) -> bool {
    std::fs::read(path).is_ok_and(|text| whole(&text, store).is_some())
}

/// Notes that something is used now.
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

/// Notes what was made under the key.
pub(crate) fn put(home: &Home, key: &str, config: &ImageConfig) -> Result<Digest, EngineError> {
    let path = path(home, key);
    let text = config.to_json();
    let fresh = path.with_extension(std::process::id().to_string());
    let mut attempts = 0..ATTEMPTS;
    loop {
        tote_state::closed::write_new(&fresh, &text).map_err(EngineError::file("write", &fresh))?;
        match std::fs::rename(&fresh, &path) {
            // A pruning has taken it for one that a killed build has left.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts.next().is_some() => {}
            renamed => {
                return renamed
                    .map(|()| sha256(&text))
                    .map_err(EngineError::file("write", &path));
            }
        }
    }
}

/// How often a record is written anew that a pruning has taken before it had its name.
const ATTEMPTS: u32 = 8;

/// Notes that an image is there only to go on from; or that it is no longer.
pub(crate) fn keep(home: &Home, id: &Digest, only_for_builds: bool) {
    let path = home.builds().join("kept").join(id.hex());
    // It is only about what a list shows.
    if only_for_builds {
        best_effort(tote_state::closed::write(&path, ""));
    } else {
        best_effort(std::fs::remove_file(path));
    }
}

/// Whether an image without a name is there only for builds to go on from.
pub(crate) fn is_kept(home: &Home, id: &Digest) -> bool {
    // One that cannot be looked at stays.
    home.builds()
        .join("kept")
        .join(id.hex())
        .try_exists()
        .unwrap_or(true)
}
