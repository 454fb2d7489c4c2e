//! Decision whether `run` must pull an image.

use super::settings::Settings;
use crate::RemoteError;
use crate::{Home, ImagesError};
use crate::{open_store, resolve};
use std::str::FromStr;
use tote_image::{Digest, Platform, Reference};
use tote_store::{Store, StoreError};

/// Time at which `run` pulls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenToPull {
    /// Pull if the image is not here.
    #[default]
    Missing,
    /// Pull each time.
    Always,
    /// Never pull.
    Never,
}

impl FromStr for WhenToPull {
    type Err = ImagesError;

    fn from_str(text: &str) -> Result<Self, ImagesError> {
        match text {
            "missing" => Ok(Self::Missing),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(RemoteError::WhenToPull(text.to_owned()).into()),
        }
    }
}

/// Image to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Image that is here, by this name.
    Here(String),
    /// Image that must be pulled first.
    ToPull {
        /// Name to pull.
        name: String,
        /// True if the image is not here at all.
        is_missing: bool,
    },
}

/// Looks for the image of a `run`; the configuration resolves short names. If a platform is requested, an image for
/// another platform counts as missing.
///
/// # Errors
/// [`ImagesError::Store`] if the image is missing and must not or cannot be pulled; [`ImagesError::OtherPlatform`] if
/// it is here for other platforms only.
pub fn wanted(
    home: &Home,
    image: &str,
    when: WhenToPull,
    platform: Option<&Platform>,
) -> Result<Wanted, ImagesError> {
    // Most images are here under the requested name; this skips the store, which the caller opens anyway.
    let named = Reference::parse(image).is_ok_and(|name| Store::is_named(&home.store(), &name));
    if named && when != WhenToPull::Always && platform.is_none() {
        return Ok(Wanted::Here(image.to_owned()));
    }
    let platforms = platform.map(std::slice::from_ref).unwrap_or_default();
    let store = open_store(home)?;
    let missing = match resolve(&store, image, platforms) {
        Ok(id) if when != WhenToPull::Always => {
            return Ok(Wanted::Here(of_index(&store, image, &id)?));
        }
        Ok(_) => None,
        Err(error) if is_missing(&error) => Some(error),
        Err(error) => return Err(error),
    };
    let settings = Settings::read()?;
    // A text that cannot be parsed as a name can only be an id.
    let (name, missing) = match (settings.reference(image), missing) {
        (Ok(name), missing) => (name, missing),
        (Err(_), Some(missing)) => return Err(missing),
        (Err(_), None) => return Ok(Wanted::Here(image.to_owned())),
    };
    let store = open_store(home)?;
    let here = store.named(&name)?;
    let fits = match &here {
        Some(_) => resolve(&store, &name.to_string(), platforms).map(Some),
        None => Ok(None),
    };
    match (here, fits, missing) {
        (Some(_), Ok(Some(id)), _) if when != WhenToPull::Always => {
            Ok(Wanted::Here(of_index(&store, &name.to_string(), &id)?))
        }
        (Some(_), Err(error), _) if when == WhenToPull::Never || !is_missing(&error) => Err(error),
        // An id that looks like a name stays an id.
        (None, _, None) => Ok(Wanted::Here(image.to_owned())),
        (None, _, Some(missing)) if when == WhenToPull::Never || is_other(&missing) => Err(missing),
        (_, _, missing) => Ok(Wanted::ToPull {
            name: name.to_string(),
            is_missing: missing.is_some(),
        }),
    }
}

/// Returns the name for an image that was found by a name and a platform. The image of an index gets its own id,
/// since the index's name means the image for this machine.
fn of_index(store: &Store, name: &str, id: &Digest) -> Result<String, ImagesError> {
    Ok(if store.resolve(name)? == *id {
        name.to_owned()
    } else {
        id.to_string()
    })
}

/// True if the image is not here, or not for that platform.
fn is_missing(error: &ImagesError) -> bool {
    matches!(error, ImagesError::Store(StoreError::NoImage(_))) || is_other(error)
}

/// True if the image is here for another platform.
fn is_other(error: &ImagesError) -> bool {
    matches!(error, ImagesError::OtherPlatform { .. })
}
