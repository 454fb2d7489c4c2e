//! `tote context`, docker's.

use super::absent;
use super::repeated::{FORMAT, word};
use crate::{context, exit, tell};
use tote_options::{Command, Group, Opt, Section};

/// `tote context`.
pub(crate) static CONTEXT: Command = Command {
    usage: "COMMAND",
    details: "\
docker's contexts say which daemon a command goes to. tote has no daemon, so there is one context, `default`: this machine. \
Scripts that list, show or select it go on working.",
    subcommands: &[Section {
        title: "Commands",
        commands: &[&LS, &SHOW, &USE, &INSPECT],
    }],
    absent: absent::OF_CONTEXT,
    ..Command::new("context", "Show the context, which is this machine", tell::help)
};

static LS: Command = Command {
    aliases: &["list"],
    usage: "[OPTIONS]",
    options: &[&Group {
        title: "",
        options: &[FORMAT, Opt::flag("quiet", "Print the name only").short('q')],
    }],
    ..Command::new("ls", "List contexts: the one of this machine", |parsed| {
        exit::own(context::ls(parsed))
    })
};

static SHOW: Command = Command::new("show", "Print the name of the context", context::current);

static USE: Command = Command {
    usage: "CONTEXT",
    positionals: &[word("CONTEXT", true, false)],
    ..Command::new(
        "use",
        "Select a context: default, which is selected already",
        |parsed| exit::one(context::select(parsed)),
    )
};

static INSPECT: Command = Command {
    usage: "[OPTIONS] [CONTEXT...]",
    options: &[&Group {
        title: "",
        options: &[FORMAT.short('f')],
    }],
    positionals: &[word("CONTEXT", false, true)],
    ..Command::new("inspect", "Print the description of contexts", context::inspect)
};
