//! What stays of a container that was not started with `--rm`.

use crate::live::Live;
use crate::{EngineError, Home};
use serde::Serialize;
use std::path::Path;
use tote_bundle::ContainerId;
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
