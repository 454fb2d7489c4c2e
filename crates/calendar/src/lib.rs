//! Points in time and durations, as people and documents write them.
//!
//! Invariants: a time is in UTC and counted from 1970, the calendar is the Gregorian one, also before its introduction,
//! and no text makes a parser panic. [`parse_duration`] and [`Time::parse`] read what docker's users write.
//!
//! This crate measures nothing: durations come from `Instant`.

mod civil;
mod duration;
mod rfc3339;
mod time;
mod when;

pub use civil::Civil;
pub use duration::parse_duration;
pub use rfc3339::{in_nanoseconds, in_seconds, now, seconds_of};
pub use time::{Time, TimeText};
pub use when::BadTime;
