//! Prompt of the caller's shell, for the shell of a session.
//!
//! Only the prompt comes along: the caller's other settings may have secrets, and processes of the container can look into the session.

use std::path::{Path, PathBuf};
use tote_sandbox::WrittenFile;

/// File that bash reads at its start, after which the prompt is the caller's.
const BASH: &str = "/.tote/prompt.bash";

/// File with the caller's function `fish_prompt`.
const FISH: &str = "/.tote/prompt.fish";

/// Size of the longest such function that is read, in bytes.
const LONGEST: u64 = 64 << 10;

/// Prompt of a caller.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    /// Value of `PS1`, where the caller exports it.
    text: Option<String>,
    /// The function of fish.
    function: Option<Vec<u8>>,
}

impl Prompt {
    /// Looks for the prompt in the environment and in the caller's settings of fish.
    pub(super) fn of_caller() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let settings = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let function = settings.and_then(|settings| read(&settings.join("fish/functions/fish_prompt.fish")));
        Self::of(std::env::var("PS1").ok(), function)
    }

    pub(super) fn of(text: Option<String>, function: Option<Vec<u8>>) -> Self {
        Self { text, function }
    }

    /// Returns the options by which a shell has the prompt.
    pub(super) fn options(&self, shell: &str) -> Vec<String> {
        match shell {
            "bash" if self.text.is_some() => vec!["--rcfile".to_owned(), BASH.to_owned()],
            "fish" if self.function.is_some() => vec!["-C".to_owned(), format!("source {FISH}")],
            _ => Vec::new(),
        }
    }

    /// Returns the variable of the session, which shells other than bash and fish read.
    pub(super) fn variable(&self) -> Option<String> {
        Some(format!("PS1={}", self.text.as_ref()?))
    }

    /// Returns the files of the session that the options name.
    pub(super) fn files(self) -> Vec<WrittenFile> {
        // What Debian and its kin do for every shell sets a prompt of its own.
        let bash = self.text.map(|text| {
            let own = "for file in /etc/bash.bashrc ~/.bashrc; do [ ! -r \"$file\" ] || . \"$file\"; done\n";
            (BASH, format!("{own}PS1={}\n", quoted(&[text])).into_bytes())
        });
        let fish = self.function.map(|function| (FISH, function));
        let files = bash.into_iter().chain(fish);
        files
            .map(|(path, content)| WrittenFile {
                path: path.to_owned(),
                mode: 0o644,
                content,
            })
            .collect()
    }
}

/// Reads a small regular file, if there is one.
fn read(path: &Path) -> Option<Vec<u8>> {
    // absence: the prompt is the usual one
    let found = path.metadata().ok()?;
    let is_small = found.is_file() && found.len() <= LONGEST;
    // absence: the prompt is the usual one
    is_small.then(|| std::fs::read(path).ok()).flatten()
}

/// Quotes words for a shell.
pub(super) fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// True for a character by which a text could control a terminal.
fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
}

/// Quotes words for a person to read and to type: a word with control characters as bash has it, `$'\x1b[2J'`.
pub(super) fn shown(words: &[String]) -> String {
    let show = |word: &String| {
        if !word.contains(steers) {
            return quoted(std::slice::from_ref(word));
        }
        let mut text = "$'".to_owned();
        for letter in word.chars() {
            match letter {
                '\'' | '\\' => text.extend(['\\', letter]),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                letter if letter.is_control() => {
                    let mut bytes = [0; 4];
                    let bytes = letter.encode_utf8(&mut bytes).bytes();
                    text.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
                }
                letter => text.push(letter),
            }
        }
        text + "'"
    };
    words.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// Escapes the control characters of a line.
pub(super) fn visible(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            letter if letter.is_control() => text.extend(letter.escape_default()),
            letter => text.push(letter),
        }
    }
    text
}
