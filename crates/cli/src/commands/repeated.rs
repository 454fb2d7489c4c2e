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

/// `--format` of every list and description.
pub(super) const FORMAT: Opt = Opt::value(
    "format",
    "FORMAT",
    "Format the output as json, as a table, or by a Go template",
)
.details(
    "`json`, `table`, `table TEMPLATE` or a template of Go's such as `{{.ID}}`. Functions: and or not eq ne lt le gt ge len \
index slice print printf println json split join title lower upper pad truncate.",
)
.completes(Completes::Words(&["json", "table"]));

/// `--disk-size`: limit on the bytes that containers of an image may write.
pub(super) const DISK_SIZE: Opt = Opt::value(
    "disk-size",
    "SIZE",
    "Limit the writable layer of each container of the image to this size; the units are b, k, m and g",
)
.details("\
As `run --disk-size` does, where nobody says otherwise. It is the label `tote.disk-size`, which images that are made of this \
one have as well.");

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
