//! The model of the state root: everything present must be reachable, and what was committed must be there.
