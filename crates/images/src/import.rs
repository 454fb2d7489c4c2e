//! `import`: makes an image of an archive with a root file system.

use crate::ArchiveError;
use crate::change;
use crate::open::{open_store, or_nothing, sweep_a_little};
use crate::remote::{Access, web_client};
use crate::{Home, ImagesError};
use std::io::Read;
use tote_archive::{Decoder, Expansion};
use tote_image::{Digest, History, ImageConfig, Platform, Reference};
use tote_store::{Limits, Store};

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Name of the image.
    pub name: Option<String>,
    /// Instructions of a build file, one line each: `CMD ["sh"]`, `ENV A=b`.
    pub changes: Vec<String>,
    /// Platform of the image; that of this machine by default.
    pub platform: Option<Platform>,
    /// Comment for the image's history.
    pub message: Option<String>,
}

/// Makes an image of an archive, compressed or not, with a root file system.
///
/// # Errors
/// [`ImagesError`].
pub fn import(home: &Home, input: impl Read + Send, options: &ImportOptions) -> Result<Digest, ImagesError> {
    import_from("-", home, input, options)
}

/// Makes an image of an archive at an HTTP or HTTPS address. No credentials are sent there.
///
/// # Errors
/// [`ImagesError`]; an address that gives no file is [`ImagesError::Registry`].
pub fn import_url(
    home: &Home,
    url: &str,
    access: &Access,
    options: &ImportOptions,
) -> Result<Digest, ImagesError> {
    let archive = web_client(access)?.download(url)?;
    import_from(url, home, archive, options)
}

/// `source` is the origin in the image's history, in docker's words: an address, or `-` for any file.
fn import_from(
    source: &str,
    home: &Home,
    input: impl Read + Send,
    options: &ImportOptions,
) -> Result<Digest, ImagesError> {
    let name = options.name.as_deref().map(Reference::parse).transpose()?;
    let platform = options.platform.clone().unwrap_or_else(Platform::host);
    let mut config = ImageConfig {
        created: Some(tote_calendar::in_seconds(tote_calendar::now())),
        architecture: platform.architecture,
        os: platform.os,
        variant: platform.variant,
        ..ImageConfig::default()
    };
    for line in &options.changes {
        change::apply(line, &mut config.config)?;
    }
    let store = open_store(home)?;
    let comment = options.message.clone();
    let comment = comment.unwrap_or_else(|| format!("Imported from {source}"));
    let id = or_nothing(&store, add(&store, input, (name.as_ref(), comment), config))?;
    crate::events::passed(home, &store, "import", &[id]);
    sweep_a_little(&store);
    Ok(id)
}

fn add(
    store: &Store,
    input: impl Read + Send,
    (name, comment): (Option<&Reference>, String),
    mut config: ImageConfig,
) -> Result<Digest, ImagesError> {
    let ingest = store.ingest_at_once()?;
    let input = Decoder::new(input, Expansion::default()).map_err(ArchiveError::ImageInput)?;
    let layer = ingest.add_layer(input, Limits::default())?;
    config.rootfs.diff_ids.push(layer.diff_id);
    config.history.push(History {
        created: config.created.clone(),
        comment,
        ..History::default()
    });
    let image = ingest.image(&config.to_json(), None)?;
    store.make_tree(&image)?;
    if let Some(name) = name {
        ingest.tag(name, &image.id)?;
    }
    Ok(image.id)
}
