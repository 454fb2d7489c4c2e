//! Whether an image must be pulled before a container can be made of it.

use super::settings::Settings;
use crate::image::open_store;
use crate::{EngineError, Home};
use std::str::FromStr;
use tote_image::Reference;
use tote_store::{Store, StoreError};

/// When `run` pulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenToPull {
    /// When the image is not here.
    #[default]
    Missing,
    /// Each time.
    Always,
    /// At no time.
    Never,
}

impl FromStr for WhenToPull {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        match text {
            "missing" => Ok(Self::Missing),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(EngineError::WhenToPull(text.to_owned())),
        }
    }
}

/// An image that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is here, by this name.
    Here(String),
    /// It must be pulled first.
    ToPull {
        /// By this name.
        name: String,
        /// Whether it is not here at all.
        is_missing: bool,
    },
}

/// Looks for an image of a `run`; short names are what the configuration says.
///
/// # Errors
/// [`EngineError::Store`] where it is not here and may not be pulled, or cannot be.
pub fn wanted(home: &Home, image: &str, when: WhenToPull) -> Result<Wanted, EngineError> {
    // Most images are here, by the name that is asked for; whoever uses it opens the store all the same.
    let named = Reference::parse(image).is_ok_and(|name| Store::is_named(&home.store(), &name));
    if named && when != WhenToPull::Always {
        return Ok(Wanted::Here(image.to_owned()));
    }
    let found = open_store(home)?.resolve(image);
    let missing = match found {
        Ok(_) if when != WhenToPull::Always => return Ok(Wanted::Here(image.to_owned())),
        Ok(_) => None,
        Err(error @ StoreError::NoImage(_)) => Some(error),
        Err(error) => return Err(error.into()),
    };
    let settings = Settings::read()?;
    // What is no name can only have been an id.
    let name = match (settings.reference(image), missing) {
        (Ok(name), missing) => (name, missing),
        (Err(_), Some(missing)) => return Err(missing.into()),
        (Err(_), None) => return Ok(Wanted::Here(image.to_owned())),
    };
    let (name, missing) = name;
    let store = open_store(home)?;
    match (store.named(&name)?, missing) {
        (Some(_), _) if when != WhenToPull::Always => Ok(Wanted::Here(name.to_string())),
        // An id that looks like a name stays one.
        (None, None) => Ok(Wanted::Here(image.to_owned())),
        (None, Some(missing)) if when == WhenToPull::Never => Err(missing.into()),
        (_, missing) => Ok(Wanted::ToPull {
            name: name.to_string(),
            is_missing: missing.is_some(),
        }),
    }
}
