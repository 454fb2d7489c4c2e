//! Completion scripts, made from the tables. What only the program knows at the time (names of containers and images)
//! the scripts ask it for: `PROGRAM __complete containers` prints one name on each line.

mod bash;
mod fish;
mod zsh;

use crate::table::{Command, Opt};

/// A shell that scripts can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash 4.4 or newer, with or without the bash-completion package.
    Bash,
    /// zsh 5.
    Zsh,
    /// fish 3.
    Fish,
}

impl Shell {
    /// The names that [`Shell::named`] takes.
    pub const NAMES: &'static [&'static str] = &["bash", "zsh", "fish"];

    /// The shell of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// The completion script for the program whose table starts at `root`.
    #[must_use]
    pub fn script(self, root: &'static Command) -> String {
        match self {
            Self::Bash => bash::script(root),
            Self::Zsh => zsh::script(root),
            Self::Fish => fish::script(root),
        }
    }
}

/// Every way to write a path, aliases included: `tote image ls`, `tote image list`.
fn spellings(path: &[&'static Command]) -> Vec<String> {
    let mut spelled = vec![String::new()];
    for command in path {
        let words = || std::iter::once(&command.name).chain(command.aliases);
        spelled = spelled
            .iter()
            .flat_map(|before| words().map(move |word| format!("{before} {word}").trim_start().to_owned()))
            .collect();
    }
    spelled
}

/// `--env` and `-e`: every way to write an option.
fn written(opt: &Opt) -> Vec<String> {
    let longs = std::iter::once(&opt.long)
        .chain(opt.aliases)
        .map(|long| format!("--{long}"));
    longs
        .chain(opt.short.map(|letter| format!("-{letter}")))
        .collect()
}

/// The text as one word of a shell, in single quotes. `escape` is what the shell writes for a quote inside.
fn single_quoted(text: &str, escape: &str) -> String {
    format!("'{}'", text.replace('\'', escape))
}
