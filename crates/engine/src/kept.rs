//! What stays of a container that was not started with `--rm`.

use crate::live::Live;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tote_bundle::ContainerId;
use tote_image::Digest;
use tote_runtime::Outcome;
use tote_spec::Spec;

#[derive(Serialize)]
struct State<'a> {
    #[serde(flatten)]
    live: &'a Live,
    exited: Option<i32>,
    signaled: Option<i32>,
}

/// Writes down what it was and how it ended.
pub(crate) fn write(
    home: &Home,
    id: &ContainerId,
    spec: &Spec,
    live: &Live,
    result: Option<&(Outcome, u64)>,
) -> Result<(), EngineError> {
    let dir = home.container(id);
    let (exited, signaled) = match result {
        Some((Outcome::Exited(code), _)) => (Some(*code), None),
        Some((Outcome::Signaled(signal), _)) => (None, Some(*signal)),
        _ => (None, None),
    };
    put(&dir.join("config.json"), spec)?;
    put(
        &dir.join("state.json"),
        &State {
            live,
            exited,
            signaled,
        },
    )
}

/// By a temporary name and rename(2): a reader sees the old text or the new one.
fn put(path: &Path, value: &impl Serialize) -> Result<(), EngineError> {
    let fail = |source| EngineError::State {
        attempt: "write",
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_vec_pretty(value).map_err(|error| fail(error.into()))?;
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).map_err(fail)?;
    std::fs::rename(&fresh, path).map_err(fail)
}

/// A container that has an image.
pub(crate) struct ImageUser {
    /// Its name, or its short id.
    pub(crate) container: String,
    /// Whether it runs.
    pub(crate) runs: bool,
}

/// The containers that have an image: those that run first.
pub(crate) fn users(home: &Home, image: &Digest) -> Vec<ImageUser> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Uses {
        name: Option<String>,
        image_id: Option<String>,
    }
    let image = image.to_string();
    let mut users = Vec::new();
    for (dir, file, runs) in [(home.live(), "", true), (home.containers(), "state.json", false)] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = if runs {
                entry.path()
            } else {
                entry.path().join(file)
            };
            // What is no container, or goes just now, has no image.
            let Ok(text) = std::fs::read(path) else { continue };
            let uses: Uses = serde_json::from_slice(&text).unwrap_or_default();
            if uses.image_id.as_ref() == Some(&image) {
                let id = entry.file_name().to_string_lossy().into_owned();
                let container = uses.name.unwrap_or_else(|| id.chars().take(12).collect());
                users.push(ImageUser { container, runs });
            }
        }
    }
    users
}
