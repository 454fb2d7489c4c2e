//! Commands about tote itself.

use super::repeated::word;
use crate::{about, complete, exit, generate, unshare};
use tote_options::{Command, Completes, Example, Group, Opt, Parsing, Positional, Shell};

/// `tote version`.
pub(crate) static VERSION: Command = Command {
    usage: "[OPTIONS]",
    options: &[&FORMAT],
    ..Command::new(
        "version",
        "Print the version and how it was built",
        about::version,
    )
};

/// `tote info`.
pub(crate) static INFO: Command = Command {
    usage: "[OPTIONS]",
    details: "\
Shows where containers are kept and what this machine offers: kernel, control groups, namespaces, security modules, \
overlayfs. What is missing is listed with the reason.",
    options: &[&FORMAT],
    ..Command::new(
        "info",
        "Show tote's settings and the features of this machine",
        about::info,
    )
};

/// `tote unshare`, podman's.
pub(crate) static UNSHARE: Command = Command {
    usage: "[COMMAND [ARG...]]",
    details: "\
The command runs as root of a user namespace with the ids that this user's containers have, and can read, remove and give away \
the files that containers have made. Without a COMMAND it is the shell of `$SHELL`. Mounts are this machine's: `unshare --mount` \
after it gives the command its own.",
    positionals: &[word("COMMAND", false, false), word("ARG", false, true)],
    parsing: Parsing::StopAtFirstPositional,
    examples: &[Example {
        about: "Remove what a database in a container has left",
        line: "tote unshare rm -r ./data",
    }],
    ..Command::new(
        "unshare",
        "Run a command with the ids of this user's containers",
        |parsed| exit::own(unshare::unshare(parsed)),
    )
};

/// `tote help`.
pub(crate) static HELP: Command = Command {
    usage: "[COMMAND...]",
    positionals: &[Positional {
        name: "COMMAND",
        required: false,
        many: true,
        completes: Completes::Commands,
    }],
    ..Command::new("help", "Print the help of a command", about::help)
};

/// `tote completion`.
pub(crate) static COMPLETION: Command = Command {
    usage: "SHELL",
    details: "\
bash
: `tote completion bash > /etc/bash_completion.d/tote`
zsh
: `tote completion zsh > /usr/local/share/zsh/site-functions/_tote`
fish
: `tote completion fish > ~/.config/fish/completions/tote.fish`",
    positionals: &[Positional {
        name: "SHELL",
        required: true,
        many: false,
        completes: Completes::Words(Shell::NAMES),
    }],
    examples: &[Example {
        about: "Complete in this bash",
        line: "source <(tote completion bash)",
    }],
    ..Command::new(
        "completion",
        "Print the completion script for bash, zsh or fish",
        complete::script,
    )
};

/// `tote __complete`, which the completion scripts call.
pub(crate) static COMPLETE: Command = Command {
    usage: "KIND",
    positionals: &[Positional {
        name: "KIND",
        required: true,
        many: false,
        completes: Completes::None,
    }],
    hidden: true,
    ..Command::new(
        "__complete",
        "Print the names of this kind, one per line",
        complete::complete,
    )
};

/// `tote __man`, which the packaging calls.
pub(crate) static MAN: Command = Command {
    usage: "DIR",
    positionals: &[Positional {
        name: "DIR",
        required: true,
        many: false,
        completes: Completes::Dir,
    }],
    hidden: true,
    ..Command::new(
        "__man",
        "Write every man page into a directory",
        generate::man_pages,
    )
};

static FORMAT: Group = Group {
    title: "",
    options: &[Opt::value("format", "FORMAT", "Print json, or a Go template")
        .short('f')
        .completes(Completes::Words(&["json"]))],
};
