//! `export`: a container's tree as an archive.

use super::container::{self, Container};
use super::differences::{differences, walk_failed};
use super::layer::Pack;
use super::merged::{Changes, Links, Merged, changes};
use super::{ContainerError, GuestChanges, What};
use crate::rootfs::Source;
use crate::{EngineError, Home, open_store};
use std::io::Write;
use std::os::fd::BorrowedFd;
use tote_archive::{Change, Shift};
use tote_bundle::Image;

/// Writes the tree of a container: its image with what it changed, without what was mounted. The process must have one thread, and
/// becomes root of the ids that own images ([`tote_images::enter_ids`]).
///
/// # Errors
/// [`EngineError`].
pub fn export(home: &Home, wanted: &str, out: impl Write) -> Result<(), EngineError> {
    let container = container::find(home, wanted)?;
    let guest = GuestChanges::ask(home, &container, What::Layer { holds: false })?;
    tote_images::enter_ids(home)?;
    let source = container.source(home)?;
    refuse_host(&container, &source)?;
    let links = links(home, &container)?;
    let image = source.dir()?;
    match guest {
        Some(guest) => guest.pass(|changes| Ok(pack_merged(&container, (image, changes, links), None, out)?)),
        None => Ok(pack_tree(&container, image, (links, container.shift()), out)?),
    }
}

/// A tree of the host image would have to have this machine's programs in it.
pub(crate) fn refuse_host(container: &Container, source: &Source) -> Result<(), ContainerError> {
    match source {
        Source::Host(_) => Err(ContainerError::OfHost(container.id.short().to_owned())),
        _ => Ok(()),
    }
}

/// The hard links of an image of the store.
pub(crate) fn links(home: &Home, container: &Container) -> Result<Option<Links>, EngineError> {
    let Image::Stored(id) = container.image()? else {
        return Ok(None);
    };
    let store = open_store(home)?;
    let image = store.image(&store.resolve(&id)?)?;
    Ok(Some(store.hard_links(&image)?))
}

/// Packs a container's whole tree, that of its image given.
pub(crate) fn pack_tree(
    container: &Container,
    image: BorrowedFd<'_>,
    (links, shift): (Option<Links>, Option<Shift>),
    out: impl Write,
) -> Result<(), ContainerError> {
    let changes = changes(differences(container, image)?);
    pack_merged(container, (image, changes, links), shift, out)
}

fn pack_merged(
    container: &Container,
    (image, changes, links): (BorrowedFd<'_>, Changes, Option<Links>),
    shift: Option<Shift>,
    out: impl Write,
) -> Result<(), ContainerError> {
    let id = container.id.short();
    let mut pack = Pack::new(id, out).shifted(shift);
    for found in Merged::new(image, changes, links) {
        let (entry, content) = found.map_err(|source| walk_failed(id, source))?;
        pack.add(&Change::Add(entry), content)?;
    }
    pack.finish()
}
