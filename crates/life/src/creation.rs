//! Creation of containers, also of those that join a pod.

use crate::container::{self, Container};
use crate::{EngineError, Home, RunRequest, pod};

/// Creates a container that can be started: directory, records, name, `--cidfile`, and its place in a pod, which is made
/// first if the request asks for a new one. All options are checked as far as possible without a start.
///
/// # Errors
/// [`EngineError`]; no part of the container is left then.
pub fn create(home: &Home, mut request: RunRequest) -> Result<Container, EngineError> {
    let _guard = pod::enlist(home, &mut request, false)?;
    container::create(home, request)
}
