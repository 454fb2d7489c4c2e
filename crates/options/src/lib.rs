//! Command lines as tables: a program writes its commands and options down once, as `static` [`Command`]s, and gets from
//! them the parser ([`parse`]), `--help` ([`help`]), the man pages ([`man`]) and the completions ([`Shell::script`]).
//!
//! The rules are those of docker's command line (Go's pflag), because people bring their fingers and scripts along:
//! a flag may carry `=true` or `=false`, short flags cluster (`-it`), a value may be glued on or stand in the next
//! argument whatever that looks like, and some commands stop looking for options at the first other word.
//!
//! Invariants:
//! - Tables are constants. Nothing is built, sorted or allocated before [`parse`] runs, and it looks at each argument
//!   once; the renderers are plain functions that only those who ask for them pay for.
//! - Any argument is fine as bytes: a path need not be UTF-8. Where text is needed, [`Parsed::text`] says so kindly.
//! - Every command has `--help` without writing it down, and `-h` where it has no other use for the letter.
//! - [`table_faults`] holds what the tables must keep; every program with a table calls it in a test.
//!
//! It is *not* a place for meaning: which options contradict each other, and what their values are, the commands know.

mod complete;
mod error;
mod help;
mod man;
mod parse;
mod parsed;
mod prose;
mod suggest;
mod table;
mod tidy;

pub use complete::Shell;
pub use error::{Fault, UsageError};
pub use help::help;
pub use man::{man, man_name};
pub use parse::parse;
pub use parsed::Parsed;
pub use table::{
    Absent, Command, Completes, Example, ExitStatus, Group, HELP, Kind, Opt, Parsing, Positional, Section,
    find,
};
pub use tidy::table_faults;
