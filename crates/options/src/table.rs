//! The vocabulary of the tables; everything here can be written in a `static`.

/// A command, or a group of commands such as `tote image`.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The word that is typed.
    pub name: &'static str,
    /// Other words for the same.
    pub aliases: &'static [&'static str],
    /// One line, starting with a verb, without a full stop.
    pub about: &'static str,
    /// Long text for help and the man page; may be empty. Blank lines part paragraphs; lines that start with two spaces
    /// are kept as they are; `TERM` followed by a line that starts with `: ` is an entry of a list of terms; backquotes
    /// mark what is typed literally.
    pub details: &'static str,
    /// What follows the command's name, in docker's style: `[OPTIONS] IMAGE [COMMAND] [ARG...]`. One line for each form.
    pub usage: &'static str,
    /// Its options, without `--help`, in groups that commands may share.
    pub options: &'static [&'static Group],
    /// The commands below it. A command has either these or positionals.
    pub subcommands: &'static [Section],
    /// What it takes besides options, in order.
    pub positionals: &'static [Positional],
    /// Whether options may follow positionals.
    pub parsing: Parsing,
    /// Command lines to copy.
    pub examples: &'static [Example],
    /// What its exit statuses mean.
    pub exit_status: &'static [ExitStatus],
    /// Works, but is in no list.
    pub hidden: bool,
    /// Words that people bring along from other programs and that are unknown here.
    pub absent: &'static [Absent],
}

/// Options or subcommands that another program has and this one lacks, with what to do in their place.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// As they are typed: `--publish`, `-p`, `compose`.
    pub words: &'static [&'static str],
    /// One sentence with its full stop; the hint of the error begins with it.
    pub advice: &'static str,
}

/// Options that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// A word or two, `Resource`, which help shows as `Resource options:`; empty for just `Options:`.
    pub title: &'static str,
    /// In the order in which help shows them.
    pub options: &'static [Opt],
}

/// Commands that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The heading in help, `Image commands`.
    pub title: &'static str,
    /// In the order in which help shows them.
    pub commands: &'static [&'static Command],
}

/// An option. Built with [`Opt::flag`] and its siblings, then refined: `Opt::list("env", …).short('e')`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The name after `--`; it is also the name in [`crate::Parsed`]'s accessors.
    pub long: &'static str,
    /// The letter after `-`, ASCII.
    pub short: Option<char>,
    /// Other long names for the same; help does not show them, the man page does.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// What stands for it when it is absent, as text; empty for nothing.
    pub default: &'static str,
    /// The environment variable that stands for it when it is absent.
    pub env: Option<&'static str>,
    /// One line in plain words, at most 100 characters, without a full stop.
    pub help: &'static str,
    /// More for the man page, in the form of [`Command::details`]; may be empty.
    pub details: &'static str,
    /// What its value is, for completion.
    pub completes: Completes,
    /// Whether a flag stands for the first positional, which the program then puts there: [`crate::Parsed::put_first`].
    pub names_first: bool,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing; on when given. `--rm=false` turns it off again.
    Flag,
    /// A value; the last one given wins.
    Value {
        /// What the value is called in help: `NAME`.
        metavar: &'static str,
    },
    /// A value, any number of times.
    List {
        /// What each value is called in help.
        metavar: &'static str,
    },
    /// A value that may be left out, so it must be glued on: `--gpus` or `--gpus=all`.
    OptionalValue {
        /// What the value is called in help.
        metavar: &'static str,
        /// The value that the bare option stands for.
        bare: &'static str,
    },
    /// A flag that is done in place of the command, `--version`: parsing ends there and nothing can be missing.
    Halt,
}

/// What a value is, for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completes {
    /// Nothing that could be completed.
    None,
    /// A path.
    File,
    /// A directory's path.
    Dir,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Containers, whatever their state.
    Containers,
    /// A path, of this machine or behind a container's name and a colon.
    Places,
    /// Images in the store.
    Images,
    /// Whatever has a name: containers, images, volumes and pods.
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

/// One of the words that a command takes besides options.
#[derive(Clone, Copy, Debug)]
pub struct Positional {
    /// In capitals, as in [`Command::usage`].
    pub name: &'static str,
    /// Whether it must be there. What follows an optional one is optional.
    pub required: bool,
    /// Whether there may be more of it; only the last can.
    pub many: bool,
    /// What it is, for completion.
    pub completes: Completes,
}

/// Whether options may follow positionals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsing {
    /// `rm web --force` is `rm --force web`.
    Interspersed,
    /// `run alpine ls -l`: what follows the image is the container's.
    StopAtFirstPositional,
}

/// A command line to copy.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// What it does, one line without a full stop.
    pub about: &'static str,
    /// The line, from the program's name on.
    pub line: &'static str,
}

/// An exit status and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct ExitStatus {
    /// The number, or a formula such as `128+N`.
    pub status: &'static str,
    /// When it comes, one line without a full stop.
    pub about: &'static str,
}

/// The option that every command has. Its letter is the command's own where the command uses it, as `run -h NAME` does.
pub static HELP: Opt = Opt {
    short: Some('h'),
    ..Opt::new("help", Kind::Halt, "Print this help")
};

impl Command {
    /// A command without options; for `..Command::new(…)` below the fields that matter.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str) -> Self {
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
        }
    }

    /// What to do in place of a word that it lacks on purpose.
    pub(crate) fn advice(&self, word: &str) -> Option<&'static str> {
        let absent = self.absent.iter().find(|absent| absent.words.contains(&word));
        absent.map(|absent| absent.advice)
    }

    /// Its options in the order of the groups, without `--help`.
    pub fn own_options(&self) -> impl Iterator<Item = &'static Opt> + use<> {
        self.options.iter().flat_map(|group| group.options)
    }

    /// Every command right below it.
    pub fn children(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.subcommands
            .iter()
            .flat_map(|section| section.commands)
            .copied()
    }

    /// The commands right below it that lists show.
    pub(crate) fn shown_children(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.children().filter(|command| !command.hidden)
    }

    /// The command of that name or alias right below it.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&'static Command> {
        self.children()
            .find(|command| command.name == name || command.aliases.contains(&name))
    }

    /// The option of that long name or alias; `--help` included.
    #[must_use]
    pub fn long(&self, name: &str) -> Option<&'static Opt> {
        self.own_options()
            .find(|opt| opt.long == name || opt.aliases.contains(&name))
            .or_else(|| (name == HELP.long).then_some(&HELP))
    }

    /// The option of that letter; `-h` is help where the command does not use it.
    #[must_use]
    pub fn short(&self, letter: char) -> Option<&'static Opt> {
        self.own_options()
            .find(|opt| opt.short == Some(letter))
            .or_else(|| (HELP.short == Some(letter)).then_some(&HELP))
    }

    /// Every option with the letter that it has here, `--help` last.
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

    /// An option that takes nothing.
    #[must_use]
    pub const fn flag(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Flag, help)
    }

    /// An option that is done in place of the command.
    #[must_use]
    pub const fn halt(long: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Halt, help)
    }

    /// An option with a value.
    #[must_use]
    pub const fn value(long: &'static str, metavar: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::Value { metavar }, help)
    }

    /// An option with a value, any number of times.
    #[must_use]
    pub const fn list(long: &'static str, metavar: &'static str, help: &'static str) -> Self {
        Self::new(long, Kind::List { metavar }, help)
    }

    /// An option whose value may be left out and then is `bare`.
    #[must_use]
    pub const fn optional_value(
        long: &'static str,
        metavar: &'static str,
        bare: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(long, Kind::OptionalValue { metavar, bare }, help)
    }

    /// The same with a letter.
    #[must_use]
    pub const fn short(self, letter: char) -> Self {
        Self {
            short: Some(letter),
            ..self
        }
    }

    /// The same with other names.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// The same with a default.
    #[must_use]
    pub const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// The same with an environment variable behind it.
    #[must_use]
    pub const fn env(self, variable: &'static str) -> Self {
        Self {
            env: Some(variable),
            ..self
        }
    }

    /// The same with more for the man page.
    #[must_use]
    pub const fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }

    /// The same, standing for the first positional.
    #[must_use]
    pub const fn names_first(self) -> Self {
        Self {
            names_first: true,
            ..self
        }
    }

    /// The same with values that shells can complete.
    #[must_use]
    pub const fn completes(self, completes: Completes) -> Self {
        Self { completes, ..self }
    }

    /// The name of its value, where it has one.
    #[must_use]
    pub const fn metavar(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Flag | Kind::Halt => None,
            Kind::Value { metavar } | Kind::List { metavar } | Kind::OptionalValue { metavar, .. } => {
                Some(metavar)
            }
        }
    }

    /// Whether the next argument is its value when none is glued on.
    #[must_use]
    pub const fn takes_next(&self) -> bool {
        matches!(self.kind, Kind::Value { .. } | Kind::List { .. })
    }
}

impl Completes {
    /// The word after `__complete` that asks the program for these names, where only the program knows them.
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

/// The path to the command that these words name, `["image", "ls"]`; `None` where one of them names nothing.
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

/// `tote image ls`.
pub(crate) fn spelled(path: &[&Command]) -> String {
    path.iter()
        .map(|command| command.name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Every command from `root` down, as paths, parents first.
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
