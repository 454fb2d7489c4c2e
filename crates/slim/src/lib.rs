//! Reports of images that were made smaller.
//!
//! A [`Report`] says which files of an image stay in the smaller one, with the reason of each, and which do not. It answers
//! questions about single paths ([`Report::explain`]), names the largest things that are gone, and becomes a page with a map
//! of the image in which each file has the area of its size ([`Report::page`]).
//!
//! Invariants:
//!
//! - The crate is pure: it reads no file and prints nothing.
//! - Paths and names come from an image, so from an enemy: a page shows them as text only.
//!
//! This crate does not decide which files stay.

mod map;
mod page;
mod report;

pub use report::{FileFate, Part, ProbeReport, Report, RunReport};
