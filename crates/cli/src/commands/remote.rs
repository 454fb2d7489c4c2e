//! Commands that connect to registries.

use crate::{exit, remote};
use tote_options::{Command, Completes, Example, Group, Opt, Positional};

pub(super) const TLS_VERIFY: Opt = Opt::flag("tls-verify", "Require TLS and valid certificates").details(
    "Without it that is so, except where `registries.json` says otherwise, and for plain HTTP with this machine itself. \
     `--tls-verify=false` accepts any certificate, and plain HTTP.",
);

pub(super) const AUTHFILE: Opt = Opt::value("authfile", "FILE", "Read credentials only from this file")
    .details("The default is `$REGISTRY_AUTH_FILE`, then the files of podman and docker.")
    .completes(Completes::File);

pub(super) const CERT_DIR: Opt = Opt::value(
    "cert-dir",
    "DIR",
    "Trust the authorities in DIR/*.crt, and authenticate with DIR/*.cert and its *.key",
)
.details("The default is the registry's own directory, such as `/etc/containers/certs.d/HOST:PORT`.")
.completes(Completes::Dir);

pub(super) const CREDS: Opt = Opt::value(
    "creds",
    "NAME[:PASSWORD]",
    "Credentials for this command only; other users see them in the process list",
)
.details("A missing password is asked for at the terminal.");

pub(super) const CONTENT_TRUST: Opt = Opt::flag(
    "disable-content-trust",
    "Without effect: content is checked against its digest, signatures are not checked",
);

pub(super) const PLATFORM: Opt = Opt::value(
    "platform",
    "OS/ARCH[/VARIANT]",
    "Platform of the image (default: this machine's)",
);

/// `--platform` for an image or index in the store: an image has a single platform, an index several.
pub(super) const OF_PLATFORM: Opt = Opt::value(
    "platform",
    "OS/ARCH[/VARIANT]",
    "Take the image for this platform from an index; fail if there is none",
);

const IMAGE: Positional = Positional {
    name: "NAME",
    required: true,
    many: false,
    completes: Completes::Images,
};

/// Options of `run` about images that are not in the store.
pub(crate) static PULLING: Group = Group {
    title: "Pulling",
    options: &[
        Opt::value("pull", "WHEN", "When to pull the image: missing, always or never")
            .default("missing")
            .completes(Completes::Words(&["missing", "always", "never"])),
        PLATFORM,
        AUTHFILE,
        CERT_DIR,
        CREDS,
        TLS_VERIFY,
    ],
};

/// `tote pull`.
pub(crate) static PULL: Command = Command {
    usage: "[OPTIONS] NAME[:TAG|@DIGEST]",
    details: "\
Layers that are here already are not fetched, and what somebody else is just fetching is waited for. Whatever comes is \
checked against its digest.

A name without a registry is one of docker.io's, or what `registries.json` says. That file is looked for in \
`~/.config/tote`, then in `/etc/tote`; it also names mirrors.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all-tags", "Pull every tag of the repository").short('a'),
            AUTHFILE,
            CERT_DIR,
            CREDS,
            CONTENT_TRUST,
            PLATFORM,
            Opt::flag("quiet", "Print only the image's name").short('q'),
            TLS_VERIFY,
        ],
    }],
    positionals: &[IMAGE],
    examples: &[
        Example { about: "An image for another architecture", line: "tote pull --platform linux/arm64 alpine" },
        Example { about: "An image from a private registry", line: "tote pull --tls-verify=false registry.lan:5000/app:2" },
    ],
    ..Command::new("pull", "Pull an image from a registry", |parsed| exit::one(remote::pull(parsed)))
};

/// `tote push`.
pub(crate) static PUSH: Command = Command {
    usage: "[OPTIONS] NAME[:TAG] [DESTINATION]",
    details: "\
The name says where it goes; `tote tag` gives an image another one, and DESTINATION is another one for this once. Layers that the registry has are not sent.",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all-tags", "Push every tag of the repository").short('a'),
            AUTHFILE,
            CERT_DIR,
            CREDS,
            CONTENT_TRUST,
            super::accepted::PUSHED_FORMAT,
            super::accepted::SIGNATURES,
            OF_PLATFORM,
            Opt::flag("quiet", "Print only the image's name").short('q'),
            TLS_VERIFY,
        ],
    }],
    positionals: &[
        IMAGE,
        Positional {
            name: "DESTINATION",
            required: false,
            ..IMAGE
        },
    ],
    examples: &[Example {
        about: "An image under a new name",
        line: "tote tag app ghcr.io/me/app:1 && tote push ghcr.io/me/app:1",
    }],
    ..Command::new("push", "Push an image to a registry", |parsed| {
        exit::one(remote::push(parsed))
    })
};

/// `tote search`.
pub(crate) static SEARCH: Command = Command {
    usage: "[OPTIONS] [REGISTRY/]TERM",
    details: "\
Asks docker.io, or the registry that is named. A registry that has no search is asked for its catalog, if it shows that, and \
the names that contain TERM are printed; such a registry has neither descriptions nor stars.",
    options: &[&Group {
        title: "",
        options: &[
            AUTHFILE,
            CERT_DIR,
            CREDS,
            Opt::list(
                "filter",
                "KEY=VALUE",
                "Print only results that match: stars=N, is-official=BOOL",
            )
            .short('f')
            .details("`is-automated=BOOL` is accepted too; docker.io has no automated images any more."),
            super::repeated::FORMAT,
            Opt::value("limit", "N", "Limit of results, 1 to 100; any number for tags").default("25"),
            Opt::flag(
                "list-tags",
                "Print the tags of a repository; every registry supports this",
            ),
            Opt::flag("no-trunc", "Do not shorten descriptions"),
            TLS_VERIFY,
        ],
    }],
    positionals: &[Positional {
        name: "TERM",
        required: true,
        many: false,
        completes: Completes::None,
    }],
    examples: &[
        Example {
            about: "Docker official images",
            line: "tote search --filter is-official=true python",
        },
        Example {
            about: "The tags of an image",
            line: "tote search --list-tags --limit 100 ghcr.io/me/app",
        },
    ],
    ..Command::new("search", "Search for images at a registry", remote::search)
};

const REGISTRY: Positional = Positional {
    name: "REGISTRY",
    required: false,
    many: false,
    completes: Completes::None,
};

/// `tote login`.
pub(crate) static LOGIN: Command = Command {
    usage: "[OPTIONS] [REGISTRY]",
    details: "\
Tries the name and the password, and keeps them where docker does: in `~/.docker/config.json`, or with the credential \
program that this file names. Those of podman are found, too. Without REGISTRY it is docker.io.",
    options: &[&Group {
        title: "",
        options: &[
            Opt {
                help: "Store the credentials in this file",
                details: "The default is `$REGISTRY_AUTH_FILE`, then docker's file.",
                ..AUTHFILE
            },
            CERT_DIR,
            Opt::flag(
                "get-login",
                "Print only the user name that is stored for the registry",
            ),
            Opt::value("username", "NAME", "The name").short('u'),
            Opt::value(
                "password",
                "PASSWORD",
                "Password; other users see it in the process list",
            )
            .short('p'),
            Opt::flag("password-stdin", "Read the password from standard input"),
            TLS_VERIFY,
        ],
    }],
    positionals: &[REGISTRY],
    examples: &[Example {
        about: "A login from a script",
        line: "tote login -u me --password-stdin ghcr.io < token",
    }],
    ..Command::new("login", "Log in to a registry", remote::login)
};

/// `tote logout`.
pub(crate) static LOGOUT: Command = Command {
    usage: "[OPTIONS] [REGISTRY]",
    options: &[&Group {
        title: "",
        options: &[
            Opt::flag("all", "Remove the credentials of all registries").short('a'),
            AUTHFILE,
        ],
    }],
    positionals: &[REGISTRY],
    ..Command::new("logout", "Log out from a registry", remote::logout)
};
