//! Vocabulary of the tables; everything here can be used in a `static`.

use crate::parsed::Parsed;
use std::process::ExitCode;

/// Function that carries out a command: it gets the command line, and returns the exit code of the process.
pub type Action = fn(&Parsed) -> ExitCode;

/// Command, or group of commands such as `tote image`.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Word that is typed.
    pub name: &'static str,
    /// Other words for the same command.
    pub aliases: &'static [&'static str],
    /// Summary in one line, starting with a verb, without a full stop.
    pub about: &'static str,
    /// Long text for help and the man page; may be empty. Blank lines separate paragraphs; lines that start with two
    /// spaces are kept unchanged; `TERM` followed by a line that starts with `: ` is an entry of a list of terms;
    /// backquotes mark literal text.
    pub details: &'static str,
    /// Text after the command's name, in docker's style: `[OPTIONS] IMAGE [COMMAND] [ARG...]`. One line for each
    /// form.
    pub usage: &'static str,
    /// Options of the command, without `--help`, in groups that commands may share.
    pub options: &'static [&'static Group],
    /// Commands below it. Where a command has positionals as well, a first word that names no such command is a positional,
    /// and so is every word behind `--`.
    pub subcommands: &'static [Section],
    /// Words that it takes besides options, in order.
    pub positionals: &'static [Positional],
    /// Whether options may follow positionals.
    pub parsing: Parsing,
    /// Command lines to copy.
    pub examples: &'static [Example],
    /// Meaning of its exit statuses.
    pub exit_status: &'static [ExitStatus],
    /// True if it works, but is not listed.
    pub hidden: bool,
    /// Words that people know from other programs and that are unknown here.
    pub absent: &'static [Absent],
    /// Function that carries out the command: [`Parsed::execute`] calls it. For a group without a command, that is
    /// usually one that prints the help.
    pub action: Action,
}

/// Options or subcommands of other programs that this one lacks, with advice for each.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// Words as they are typed: `--publish`, `-p`, `compose`.
    pub words: &'static [&'static str],
    /// Advice in one sentence with a full stop; the hint of the error begins with it.
    pub advice: &'static str,
}

/// Options that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Title in a word or two, `Resource`, which help shows as `Resource options:`; empty for just `Options:`.
    pub title: &'static str,
    /// Options in the order in which help shows them.
    pub options: &'static [Opt],
}

/// Commands that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Heading in help, `Image commands`.
    pub title: &'static str,
    /// Commands in the order in which help shows them.
    pub commands: &'static [&'static Command],
}

/// An option. Built with [`Opt::flag`] and its siblings, then refined: `Opt::list("env", …).short('e')`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Name after `--`; it is also the name in [`crate::Parsed`]'s accessors.
    pub long: &'static str,
    /// Letter after `-`, ASCII.
    pub short: Option<char>,
    /// Other long names for the same option; help does not show them, the man page does.
    pub aliases: &'static [&'static str],
    /// Kind of its value.
    pub kind: Kind,
    /// Default value as text; empty without one.
    pub default: &'static str,
    /// Environment variable whose value is used if the option is absent.
    pub env: Option<&'static str>,
    /// Summary in one line, at most 100 characters, without a full stop.
    pub help: &'static str,
    /// Further text for the man page, in the form of [`Command::details`]; may be empty.
    pub details: &'static str,
    /// Kind of its value, for completion.
    pub completes: Completes,
    /// True for a flag that stands for the first positional, which the program then puts there:
    /// [`crate::Parsed::put_first`].
    pub names_first: bool,
}

/// Kind of value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value; on when given. `--rm=false` turns it off again.
    Flag,
    /// A value; the last one given wins.
    Value {
        /// Name of the value in help: `NAME`.
        metavar: &'static str,
    },
    /// A value, any number of times.
    List {
        /// Name of each value in help.
        metavar: &'static str,
    },
    /// A value that may be left out, so it must be glued on: `--gpus` or `--gpus=all`.
    OptionalValue {
        /// Name of the value in help.
        metavar: &'static str,
        /// Value that the bare option stands for.
        bare: &'static str,
    },
    /// Flag that is carried out in place of the command, `--version`: parsing ends there, and no positional is
    /// required.
    Halt,
}

/// Kind of a value, for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completes {
    /// Nothing can be completed.
    None,
    /// Path of a file.
    File,
    /// Path of a directory.
    Dir,
    /// Words to choose from.
    Words(&'static [&'static str]),
    /// Containers in any state.
    Containers,
    /// Path on this machine, or in a container after its name and a colon.
    Places,
    /// Images in the store.
    Images,
    /// Objects with a name: containers, images, volumes and pods.
    Objects,
    /// Networks.
    Networks,
    /// Named volumes.
    Volumes,
    /// Pods.
    Pods,
    /// Pools of sandboxes.
    Pools,
    /// Signal names.
    Signals,
    /// Capability names.
    Capabilities,
    /// Names of environment variables.
    Environment,
    /// The program's own commands.
    Commands,
}

/// Word that a command takes besides options.
#[derive(Clone, Copy, Debug)]
pub struct Positional {
    /// Name in capitals, as in [`Command::usage`].
    pub name: &'static str,
    /// True if it must be given. Positionals after an optional one are optional.
    pub required: bool,
    /// True if it may be repeated; only the last one can.
    pub many: bool,
    /// Kind of its value, for completion.
    pub completes: Completes,
}

/// Whether options may follow positionals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsing {
    /// Options may follow positionals: `rm web --force` is `rm --force web`.
    Interspersed,
    /// Options end at the first positional: in `run alpine ls -l`, the words after the image are the container's.
    StopAtFirstPositional,
}

/// Command line to copy.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Effect of the line, without a full stop.
    pub about: &'static str,
    /// Command line, from the program's name on.
    pub line: &'static str,
}

/// Exit status and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct ExitStatus {
    /// Number, or a formula such as `128+N`.
    pub status: &'static str,
    /// Condition in one line, without a full stop.
    pub about: &'static str,
}

/// Option that every command has. A command may use its letter otherwise, as `run -h NAME` does.
pub static HELP: Opt = Opt {
    short: Some('h'),
    ..Opt::new("help", Kind::Halt, "Print this help")
};

impl Command {
    /// Makes a command without options; for `..Command::new(…)` below the fields that matter.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, action: Action) -> Self {
        Self {
            name,
            aliases: &[],
            about,
            details: "",
            usage: "",
            options: &[],
            subcommands: &[],
            positionals: &[],
            parsing: Parsing::Interspersed,
            examples: &[],
            exit_status: &[],
            hidden: false,
            absent: &[],
            action,
        }
    }

    /// Returns advice for a word that it lacks on purpose.
    pub(crate) fn advice(&self, word: &str) -> Option<&'static str> {
        let absent = self.absent.iter().find(|absent| absent.words.contains(&word));
        absent.map(|absent| absent.advice)
    }

    /// Returns its options in the order of the groups, without `--help`.
    pub fn own_options(&self) -> impl Iterator<Item = &'static Opt> + use<> {
        self.options.iter().flat_map(|group| group.options)
    }

    /// Returns every command directly below it.
    pub fn children(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.subcommands
            .iter()
            .flat_map(|section| section.commands)
            .copied()
    }

    /// True if it has commands below it and takes words of its own as well.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        !self.subcommands.is_empty() && !self.positionals.is_empty()
    }

    /// Returns the commands directly below it that lists show.
    pub(crate) fn shown_children(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.children().filter(|command| !command.hidden)
    }

    /// Returns the command with that name or alias directly below it.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&'static Command> {
        self.children()
            .find(|command| command.name == name || command.aliases.contains(&name))
    }

    /// Returns the option with that long name or alias, `--help` included.
    #[must_use]
    pub fn long(&self, name: &str) -> Option<&'static Opt> {
        self.own_options()
            .find(|opt| opt.long == name || opt.aliases.contains(&name))
            .or_else(|| (name == HELP.long).then_some(&HELP))
    }

    /// Returns the option with that letter; `-h` is help unless the command uses it.
    #[must_use]
    pub fn short(&self, letter: char) -> Option<&'static Opt> {
        self.own_options()
            .find(|opt| opt.short == Some(letter))
            .or_else(|| (HELP.short == Some(letter)).then_some(&HELP))
    }

    /// Returns every option with the letter that it has here, `--help` last.
    pub(crate) fn all_options(&self) -> impl Iterator<Item = Opt> + use<> {
        let taken = self.own_options().any(|opt| opt.short == HELP.short);
        let help = Opt {
            short: HELP.short.filter(|_| !taken),
            ..HELP
        };
        self.own_options().copied().chain([help])
    }
}

impl Opt {
    const fn new(long: &'static str, kind: Kind, help: &'static str) -> Self {
        let completes = Completes::None;
        Self {
            long,
            short: None,
            aliases: &[],
            kind,
            default: "",
            env: None,
            help,
            details: "",
            completes,
            names_first: false,
        }
    }

    /// Makes a flag.
    #[must_use]
    pub const fn flag(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Flag, help)
    }

    /// Makes a flag that is carried out in place of the command.
    #[must_use]
    pub const fn halt(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Halt, help)
    }

    /// Makes an option with a value.
    #[must_use]
    pub const fn value(long: &'static str, metavar: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Value { metavar }, help)
    }

    /// Makes an option with a value that may be given any number of times.
    #[must_use]
    pub const fn list(long: &'static str, metavar: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::List { metavar }, help)
    }

    /// Makes an option whose value may be left out and then is `bare`.
    #[must_use]
    pub const fn optional_value(
        long: &'static str,
        metavar: &'static str,
        bare: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(long, Kind::OptionalValue { metavar, bare }, help)
    }

    /// Sets the letter.
    #[must_use]
    pub const fn short(self, letter: char) -> Self {
        Self {
            short: Some(letter),
            ..self
        }
    }

    /// Sets other names.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the default.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets the environment variable.
    #[must_use]
    pub const fn env(self, variable: &'static str) -> Self {
        Self {
            env: Some(variable),
            ..self
        }
    }

    /// Sets further text for the man page.
    #[must_use]
    pub const fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }

    /// Makes it stand for the first positional.
    #[must_use]
    pub const fn names_first(self) -> Self {
        Self {
            names_first: true,
            ..self
        }
    }

    /// Sets the kind of values that shells complete.
    #[must_use]
    pub const fn completes(self, completes: Completes) -> Self {
        Self { completes, ..self }
    }

    /// Returns the name of its value, if it takes one.
    #[must_use]
    pub const fn metavar(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Flag | Kind::Halt => None,
            Kind::Value { metavar } | Kind::List { metavar } | Kind::OptionalValue { metavar, .. } => {
                Some(metavar)
            }
        }
    }

    /// True if the next argument is its value when none is glued on.
    #[must_use]
    pub const fn takes_next(&self) -> bool {
        matches!(self.kind, Kind::Value { .. } | Kind::List { .. })
    }
}

impl Completes {
    /// Returns the word after `__complete` that asks the program for these names, if only the program knows them.
    #[must_use]
    pub const fn live(self) -> Option<&'static str> {
        match self {
            Self::None | Self::File | Self::Dir | Self::Words(_) | Self::Commands => None,
            Self::Containers => Some("containers"),
            Self::Places => Some("places"),
            Self::Images => Some("images"),
            Self::Objects => Some("objects"),
            Self::Networks => Some("networks"),
            Self::Volumes => Some("volumes"),
            Self::Pods => Some("pods"),
            Self::Pools => Some("pools"),
            Self::Signals => Some("signals"),
            Self::Capabilities => Some("capabilities"),
            Self::Environment => Some("environment"),
        }
    }
}

/// Returns the path to the command that these words name, `["image", "ls"]`; `None` if a word is unknown.
#[must_use]
pub fn find(root: &'static Command, words: &[&str]) -> Option<Vec<&'static Command>> {
    let mut path = vec![root];
    let mut at = root;
    for word in words {
        at = at.child(word)?;
        path.push(at);
    }
    Some(path)
}

/// True if the path leads to or through that very command, whatever the names of others.
pub(crate) fn passes(path: &[&'static Command], command: &'static Command) -> bool {
    path.iter().any(|on| std::ptr::eq(*on, command))
}

/// Returns the spelling of a path, `tote image ls`.
pub(crate) fn spelled(path: &[&Command]) -> String {
    path.iter()
        .map(|command| command.name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns every command from `root` down, as paths, parents first.
pub(crate) fn all_paths(root: &'static Command) -> Vec<Vec<&'static Command>> {
    let mut paths = vec![vec![root]];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        let children = path.last().into_iter().flat_map(|command| command.children());
        paths.extend(children.map(|child| path.iter().copied().chain([child]).collect()));
        next += 1;
    }
    paths
}
