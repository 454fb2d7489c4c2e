//! Smaller images whose containers have the whole image behind them, and the files that they ask it for.
//!
//! A smaller image is a part of its whole, so what a container would see of both is the whole: it runs on the whole
//! image, and the calls by which it opens files are listened to. Those that the smaller image lacks are noted beside the whole.

use super::SlimError;
use super::listen::{Hearing, Listening};
use crate::rootfs::Source;
use crate::{EngineError, Home, open_store};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use tote_bundle::{Image, RunOptions};
use tote_image::Digest;
use tote_runtime::{Aside, Refusal};
use tote_sandbox::Plan;

/// Label of a smaller image: the id of the image with everything.
pub const WHOLE_LABEL: &str = "tote.slim.whole";
/// Ending of the name of the image with everything.
pub const WHOLE_ENDING: &str = "-fat";

/// A smaller image and its whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Smaller image.
    pub slim: Digest,
    /// Image with everything.
    pub whole: Digest,
}

/// Finds an image, and the image that it is a part of.
///
/// # Errors
/// [`SlimError::NoWhole`], [`SlimError::WholeGone`] and others.
pub fn pair(home: &Home, name: &str) -> Result<Pair, EngineError> {
    let store = open_store(home)?;
    let slim = store.resolve(name)?;
    let image = store.image(&slim)?;
    let labels = &image.config.value().config.labels;
    let whole = labels.get(WHOLE_LABEL).and_then(|id| id.parse::<Digest>().ok());
    let whole = whole.ok_or_else(|| SlimError::NoWhole(name.to_owned()))?;
    match store.image(&whole) {
        Ok(_) => Ok(Pair { slim, whole }),
        Err(tote_store::StoreError::NoImage(_)) => Err(SlimError::WholeGone {
            image: name.to_owned(),
            whole: whole.to_string(),
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the image that a container with `--slim-fallback` runs on. The options note the smaller one, for later starts.
///
/// # Errors
/// Those of a smaller image without its whole.
pub fn fall_back(
    home: &Home,
    image: &Image,
    options: &mut RunOptions,
    given: &mut Vec<(String, String)>,
) -> Result<Option<Image>, EngineError> {
    if options.slim_fallback.is_none() {
        return Ok(None);
    }
    if options.vm.is_some() {
        return Err(SlimError::Machine.into());
    }
    let Image::Stored(name) = image else {
        return Err(SlimError::NoWhole("an image that is not of the store".to_owned()).into());
    };
    let found = pair(home, name)?;
    let slim = found.slim.to_string();
    given.push(("slim-fallback".to_owned(), slim.clone()));
    options.slim_fallback = Some(slim);
    Ok(Some(Image::Stored(found.whole.to_string())))
}

/// The listener of a container that has a whole image behind it.
#[derive(Debug)]
pub struct Misses {
    listening: Listening,
    slim: String,
    whole: Digest,
}

impl Misses {
    /// Prepares to listen to a container on that image, if its options ask for it.
    pub fn of(options: &RunOptions, source: &Source, plan: &mut Plan) -> Result<Option<Self>, EngineError> {
        let whole = source.image_id().and_then(|id| id.parse().ok());
        let (Some(slim), Some(whole)) = (&options.slim_fallback, whole) else {
            return Ok(None);
        };
        let hearing = Hearing {
            files: true,
            rights: false,
        };
        let listening = Listening::new(hearing, 1);
        listening.listen_to(plan)?;
        Ok(Some(Self {
            listening,
            slim: slim.clone(),
            whole,
        }))
    }

    /// Lets the listener be answered; a failure shows in [`Self::note`].
    pub fn answer(&mut self, listener: &OwnedFd) -> Result<(), Refusal> {
        self.listening.answer(listener);
        Ok(())
    }

    /// Notes the files that the smaller image lacks, once the container has ended.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn note(self, home: &Home) -> Result<(), EngineError> {
        let heard = self.listening.heard()?;
        let whole = Source::open(home, &Image::Stored(self.whole.to_string()))?;
        // Where the smaller image is gone, everything that was used is what a new one needs.
        let slim = match open_store(home)?.find(&self.slim) {
            Ok(_) => Some(Source::open(home, &Image::Stored(self.slim.clone()))?),
            Err(tote_store::StoreError::NoImage(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let mut missed = BTreeSet::new();
        for (path, _) in heard.uses {
            let Ok(path) = String::from_utf8(path.0) else {
                continue;
            };
            if whole.has(&path)? && !slim.as_ref().map_or(Ok(false), |slim| slim.has(&path))? {
                missed.insert(format!("/{path}"));
            }
        }
        if !missed.is_empty() {
            open_store(home)?.add_misses(&self.whole, missed)?;
        }
        Ok(())
    }
}

impl Aside for Misses {
    fn listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        self.listening.listener(listener)
    }
}
