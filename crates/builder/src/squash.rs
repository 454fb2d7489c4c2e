//! `--squash`: merges the changes of several layers into one.

use super::layer::pack;
use super::worker::Building;
use crate::EngineError;
use crate::changes::{LinkedNames, Passages, add_layer};
use std::os::fd::AsFd as _;
use tote_archive::{Writer, compare};
use tote_image::Digest;

impl Building<'_> {
    /// Makes the layer that replaces those above the first `below` layers; `None` if they change nothing.
    pub(crate) fn merged(&mut self, layers: &[Digest], below: usize) -> Result<Option<Digest>, EngineError> {
        let (lower, upper) = (self.flat(&layers[..below])?, self.flat(layers)?);
        let (lower, upper) = (lower.view()?, upper.view()?);
        // The store shares equal files, but that does not make them hard links of the image.
        let all = compare(lower.as_fd(), upper.as_fd()).without_links();
        let mut merged = Passages::new(all).peekable();
        if merged.peek().is_none() {
            return Ok(None);
        }
        let mut links = LinkedNames::new(self.store.hard_links(&Self::bare(layers)?)?);
        let changes = merged.map(move |found| found.map(|found| links.linked(found.change, found.content)));
        let layer = add_layer(self.ingest, |out| pack(Writer::new(out), changes))?;
        Ok(Some(layer.diff_id))
    }
}
