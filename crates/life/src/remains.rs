//! Remains of killed commands, of containers and of pods alike: either may hold a name that the other one wants.

use crate::{Home, container, pod};

/// Clears what killed commands left of containers and of pods.
pub fn sweep(home: &Home) {
    container::sweep(home);
    pod::sweep(home);
}
