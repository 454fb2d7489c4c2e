//! Options of podman's that scripts begin with, and that have nothing to do here: each says why.

use tote_options::{Group, Opt};

/// Options before a command.
pub(super) static OF_TOTE: Group = Group {
    title: "Accepted",
    options: &[
        Opt::value(
            "cgroup-manager",
            "NAME",
            "Accepted for compatibility with podman: cgroups are made without a manager",
        ),
        Opt::value(
            "events-backend",
            "NAME",
            "Accepted for compatibility with podman: events are kept in a file",
        ),
        Opt::value(
            "runroot",
            "DIR",
            "Accepted for compatibility with podman: --root DIR holds all state",
        ),
        Opt::value(
            "storage-driver",
            "NAME",
            "Accepted for compatibility with podman: --driver of run and create chooses",
        ),
        Opt::flag(
            "syslog",
            "Accepted for compatibility with podman: nothing is logged",
        ),
    ],
};

/// Options of `build`.
pub(super) static OF_BUILD: Group = Group {
    title: "Accepted",
    options: &[
        Opt::value(
            "format",
            "FORMAT",
            "Accepted for compatibility with podman: save and push choose the form",
        ),
        Opt::flag(
            "layers",
            "Accepted for compatibility with podman: each step is a layer, and --no-cache builds anew",
        ),
    ],
};

/// `ps --external`.
pub(super) const EXTERNAL: Opt = Opt::flag(
    "external",
    "Accepted for compatibility with podman: all containers here are tote's",
);

/// `cp --pause`.
pub(super) const PAUSE: Opt = Opt::flag(
    "pause",
    "Accepted for compatibility with podman: what is copied is what is there at the time",
);

/// `save --quiet`.
pub(super) const SAVE_QUIETLY: Opt = Opt::flag(
    "quiet",
    "Accepted for compatibility with podman: no progress is shown in any case",
)
.short('q');

/// `save --uncompressed`.
pub(super) const UNCOMPRESSED: Opt = Opt::flag(
    "uncompressed",
    "Accepted for compatibility with podman: layers come out as they came in",
);

/// `push --format`.
pub(super) const PUSHED_FORMAT: Opt = Opt::value(
    "format",
    "FORMAT",
    "Accepted for compatibility with podman: an image goes in the form that it has",
);

/// `push --remove-signatures`.
pub(super) const SIGNATURES: Opt = Opt::flag(
    "remove-signatures",
    "Accepted for compatibility with podman: no signatures are kept with images",
);

/// `pod create --infra-image`.
pub(super) const INFRA_IMAGE: Opt = Opt::value(
    "infra-image",
    "IMAGE",
    "Accepted for compatibility with podman: the infra container needs no image",
);

/// `pod create --infra-command`.
pub(super) const INFRA_COMMAND: Opt = Opt::value(
    "infra-command",
    "COMMAND",
    "Accepted for compatibility with podman: the infra container only waits",
);

/// `volume rm --time`.
pub(super) const NO_TIME: Opt = Opt::value(
    "time",
    "SECONDS",
    "Accepted for compatibility with podman: no container is stopped",
)
.short('t');

/// `wait --interval`.
pub(super) const INTERVAL: Opt = Opt::value(
    "interval",
    "TIME",
    "Accepted for compatibility with podman: tote is told, and does not look again and again",
);

/// `logs --color`.
pub(super) const COLOR: Opt = Opt::flag(
    "color",
    "Accepted for compatibility with podman: names of containers have no colours",
);
