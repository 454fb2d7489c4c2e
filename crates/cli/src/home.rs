//! The state root of a command.

use std::path::Path;
use tote_engine::{EngineError, Home};
use tote_options::Parsed;

/// Opens the state root that the command line or the environment names, or the default one.
pub(crate) fn home(parsed: &Parsed) -> Result<Home, EngineError> {
    let mut home = Home::open(parsed.setting("root").as_deref().map(Path::new))?;
    if let Some(how) = parsed.setting("share-host") {
        home.share_host(&how.to_string_lossy())?;
    }
    Ok(home)
}
