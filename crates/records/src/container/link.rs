//! The links that lead from a name to an id.
//!
//! The text of a link is the id in base 64. ext4 stores a link of more than 59 bytes as a file with a block of its
//! own, and freeing that takes five times as long as the rest of the removal.

use crate::EngineError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io::ErrorKind;
use std::path::Path;
use tote_bundle::ContainerId;

/// Returns the text of a link for a container: shorter than its id, so that ext4 needs no block for the link.
pub fn link_text(id: &ContainerId) -> String {
    URL_SAFE_NO_PAD.encode(id.to_bytes())
}

/// Reads the id to which a link leads; `None` for a missing link, and for an invalid text. Former versions wrote the
/// id itself as the text.
///
/// # Errors
/// [`EngineError::State`] for every failure but ENOENT: an unreadable name is not free.
pub fn read(link: &Path) -> Result<Option<ContainerId>, EngineError> {
    let text = match std::fs::read_link(link) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(EngineError::file("read the name", link))?,
    };
    Ok(text.to_str().and_then(parse))
}

/// Parses the text of a link.
pub fn parse(text: &str) -> Option<ContainerId> {
    text.parse().ok().or_else(|| {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(ContainerId::from_bytes(bytes.try_into().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_short() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        let id = ContainerId::from_bytes(std::array::from_fn(|at| (at * 9) as u8));
        assert!(link_text(&id).len() < 60, "it would have a block of its own");
        for (text, read) in [
            (link_text(&id), Some(&id)),
            (id.to_string(), Some(&id)),
            (format!("{}A", link_text(&id)), None),
            ("../somewhere".to_owned(), None),
        ] {
            std::os::unix::fs::symlink(&text, &link).unwrap();
            assert_eq!(super::read(&link).unwrap().as_ref(), read, "{text}");
            std::fs::remove_file(&link).unwrap();
        }
    }
}
