//! Archives of all kinds, good and bad, against the crate as its users see it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot be prepared has failed, a skipped one says so"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "GNU tar is what some of these tests compare with"
)]

mod compare;
mod gnu_tar;
mod hostile;
mod layers;
mod mutation;
mod roundtrip;
mod tar;
mod trees;
