//! Dockerfiles and `.dockerignore` files as types.
//!
//! [`Dockerfile::parse`] returns stages of instructions for an executor to walk, [`expand`] replaces variables in
//! the words of an instruction, and [`Ignore`] decides which files of a context are left out.
//!
//! Invariants:
//!
//! - All functions are pure: they read no file, look up no image, and ask for no environment. No input makes them
//!   panic.
//! - Syntax and errors are docker's, line numbers included. The syntax is that of `docker/dockerfile:1` without its
//!   labs; a `# syntax=` line is reported and has no effect here.
//!
//! This crate does not execute instructions.

mod command;
mod duration;
mod error;
mod expand;
mod flags;
mod heredoc;
mod ignore;
mod instruction;
mod lines;
mod mount;
mod parse;
mod pattern;
mod spelling;
mod words;

pub use duration::parse as parse_duration;
pub use error::{ArgumentReason, FlagReason, HealthcheckReason, ParseError, Reason};
pub use expand::{ExpandError, expand, expand_words};
pub use heredoc::{Heredoc, is_only_heredoc};
pub use ignore::{Ignore, IgnoreError};
pub use instruction::{
    Add, Arg, Command, CommandLine, Copy, Dockerfile, Healthcheck, Instruction, Lines, Network, Run, Stage,
    Transfer,
};
pub use lines::Directives;
pub use mount::{Mount, MountFlag, MountKind, Sharing};
pub use spelling::similar;
