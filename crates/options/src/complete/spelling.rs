//! Commands and options as they are written on a command line and in a script.

use crate::table::{Command, Opt};

/// Returns every spelling of a path, aliases included: `tote image ls`, `tote image list`.
pub(super) fn spellings(path: &[&'static Command]) -> Vec<String> {
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

/// Returns every spelling of an option: `--env` and `-e`.
pub(super) fn written(opt: &Opt) -> Vec<String> {
    let longs = std::iter::once(&opt.long)
        .chain(opt.aliases)
        .map(|long| format!("--{long}"));
    longs
        .chain(opt.short.map(|letter| format!("-{letter}")))
        .collect()
}

/// Quotes text as one word of a shell, in single quotes. `escape` is the shell's form of a quote inside.
pub(super) fn single_quoted(text: &str, escape: &str) -> String {
    format!("'{}'", text.replace('\'', escape))
}
