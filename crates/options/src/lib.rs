//! Command lines as tables: a program declares its commands and options once, as `static` [`Command`]s, and gets from
//! them the parser ([`parse`]), `--help` ([`help`]), the man pages ([`man`]) and the completions ([`Shell::script`]).
//!
//! The rules are those of docker's command line (Go's pflag), because people bring habits and scripts along: a flag
//! may carry `=true` or `=false`, short flags cluster (`-it`), a value may be glued on or be the next argument
//! whatever that looks like, and some commands stop looking for options at the first other word.
//!
//! Invariants:
//! - Tables are constants. Nothing is built, sorted or allocated before [`parse`] runs, and it looks at each argument
//!   once; the renderers are plain functions that cost nothing unless they are called.
//! - Any argument is allowed as bytes: a path need not be UTF-8. If text is needed, [`Parsed::text`] returns an error
//!   for it.
//! - Every command has `--help` without declaring it, and `-h` unless it uses the letter otherwise.
//! - [`table_faults`] checks the rules for tables; every program with a table calls it in a test.
//!
//! The crate knows no meanings: the commands know which options contradict each other, and what their values mean.

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
    Absent, Action, Command, Completes, Example, ExitStatus, Group, HELP, Kind, Opt, Parsing, Positional,
    Section, find,
};
pub use tidy::table_faults;
