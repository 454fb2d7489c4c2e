//! Completion scripts, made from the tables. Scripts ask the program for names that only it knows (of containers and
//! images): `PROGRAM __complete containers` prints one name on each line.

mod bash;
mod fish;
mod spelling;
mod zsh;

use crate::table::Command;

/// Shell that scripts can be made for.
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
    /// Names that [`Shell::named`] takes.
    pub const NAMES: &'static [&'static str] = &["bash", "zsh", "fish"];

    /// Returns the shell with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// Returns the completion script for the program whose table starts at `root`.
    #[must_use]
    pub fn script(self, root: &'static Command) -> String {
        match self {
            Self::Bash => bash::script(root),
            Self::Zsh => zsh::script(root),
            Self::Fish => fish::script(root),
        }
    }
}
