//! Positionals and options that several commands have.

use tote_options::{Completes, ExitStatus, Opt, Positional};

/// The single container that a command is about.
pub(super) const CONTAINER: Positional = Positional {
    name: "CONTAINER",
    required: true,
    many: false,
    completes: Completes::Containers,
};

/// The containers that a command is about, at least one.
pub(super) const CONTAINERS: Positional = Positional {
    many: true,
    ..CONTAINER
};

/// Exit statuses of the commands `exists`.
pub(super) const IS_THERE: &[ExitStatus] = &[
    ExitStatus {
        status: "0",
        about: "The object exists",
    },
    ExitStatus {
        status: "1",
        about: "The object does not exist",
    },
];

/// The containers that a command is about, which options may name instead.
pub(super) const ANY_CONTAINERS: Positional = Positional {
    required: false,
    ..CONTAINERS
};

/// podman's option for the container that was created last.
pub(super) const LATEST: Opt = Opt::flag("latest", "Select the newest container")
    .short('l')
    .names_first();

/// podman's option for all containers.
pub(super) const ALL: Opt = Opt::flag("all", "Select all containers that match").short('a');

/// Builds a positional word that completion cannot guess.
pub(super) const fn word(name: &'static str, required: bool, many: bool) -> Positional {
    Positional {
        name,
        required,
        many,
        completes: Completes::None,
    }
}
