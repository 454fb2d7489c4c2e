//! `import`: a root file system in an archive becomes an image.

use super::change;
use super::open::{open_store, sweep_a_little};
use crate::{EngineError, Home};
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};
use tote_archive::{Decoder, Expansion};
use tote_image::{Digest, History, ImageConfig, Platform, Reference};
use tote_store::Limits;

/// What an imported image is to be.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Its name.
    pub name: Option<String>,
    /// Lines of a build file: `CMD ["sh"]`, `ENV A=b`.
    pub changes: Vec<String>,
    /// A remark for its history.
    pub message: Option<String>,
}

/// Makes an image of an archive, compressed or not, that has a root file system.
///
/// # Errors
/// [`EngineError`].
pub fn import(home: &Home, input: impl Read, options: &ImportOptions) -> Result<Digest, EngineError> {
    let name = options.name.as_deref().map(Reference::parse).transpose()?;
    let platform = Platform::host();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let created = rfc3339(now);
    let mut config = ImageConfig {
        created: Some(created.clone()),
        architecture: platform.architecture,
        os: platform.os,
        ..ImageConfig::default()
    };
    for line in &options.changes {
        change::apply(line, &mut config.config)?;
    }
    let store = open_store(home)?;
    let ingest = store.ingest()?;
    let input = Decoder::new(input, Expansion::default()).map_err(EngineError::ImageInput)?;
    let layer = ingest.add_layer(input, Limits::default())?;
    config.rootfs.diff_ids.push(layer.diff_id);
    config.history.push(History {
        created: Some(created),
        comment: options.message.clone().unwrap_or_else(|| "imported".to_owned()),
        ..History::default()
    });
    let image = ingest.image(&config.to_json(), None)?;
    store.make_tree(&image)?;
    if let Some(name) = name {
        ingest.tag(&name, &image.id)?;
    }
    drop(ingest);
    sweep_a_little(&store);
    Ok(image.id)
}

/// A time in seconds since 1970, as text.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Years that begin in March, in eras of 400.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_706_315_448, "2024-01-27T00:30:48Z"),
        ] {
            assert_eq!(super::rfc3339(seconds), text);
        }
    }
}
