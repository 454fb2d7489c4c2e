//! Ids that nothing else has.

use crate::StateError;
use tote_bundle::ContainerId;

/// A random id: of a container, or of anything else that is named as containers are.
///
/// # Errors
/// [`StateError::Id`]: getrandom(2)'s.
pub fn new_id() -> Result<ContainerId, StateError> {
    let mut bytes = [0; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(StateError::Id)?;
    Ok(ContainerId::from_bytes(bytes))
}
