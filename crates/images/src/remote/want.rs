//! Whether an image must be pulled before a container can be made of it.

use super::settings::Settings;
use crate::RemoteError;
use crate::{Home, ImagesError};
use crate::{open_store, resolve};
use std::str::FromStr;
use tote_image::{Digest, Platform, Reference};
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

/// Looks for an image of a `run`; short names are what the configuration says. Where a platform is asked for, an image
/// for another one is as good as not here.
///
/// # Errors
/// [`ImagesError::Store`] where it is not here and may not be pulled, or cannot be; [`ImagesError::OtherPlatform`] where
/// that goes for the platform.
pub fn wanted(
    home: &Home,
    image: &str,
    when: WhenToPull,
    platform: Option<&Platform>,
) -> Result<Wanted, ImagesError> {
    // Most images are here, by the name that is asked for; whoever uses it opens the store all the same.
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
    // What is no name can only have been an id.
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
        // An id that looks like a name stays one.
        (None, _, None) => Ok(Wanted::Here(image.to_owned())),
        (None, _, Some(missing)) if when == WhenToPull::Never || is_other(&missing) => Err(missing),
        (_, _, missing) => Ok(Wanted::ToPull {
            name: name.to_string(),
            is_missing: missing.is_some(),
        }),
    }
}

/// By which name an image is here that was asked for by a name and a platform: of an index it is that image's own id, since
/// the name alone means the image for this machine.
fn of_index(store: &Store, name: &str, id: &Digest) -> Result<String, ImagesError> {
    Ok(if store.resolve(name)? == *id {
        name.to_owned()
    } else {
        id.to_string()
    })
}

/// Whether the image is not here, or not for that platform.
fn is_missing(error: &ImagesError) -> bool {
    matches!(error, ImagesError::Store(StoreError::NoImage(_))) || is_other(error)
}

/// Whether there is an image, for another platform.
fn is_other(error: &ImagesError) -> bool {
    matches!(error, ImagesError::OtherPlatform { .. })
}
