//! First lines of scripts, and the words of those of shells.

use std::collections::BTreeSet;

/// Bytes that the kernel reads to recognise a format (`BINPRM_BUF_SIZE`). A longer `#!` line is cut off here.
pub const FIRST_BYTES: usize = 256;

/// The program of a `#!` line, and the rest of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLine<'a> {
    /// Path as written.
    pub program: &'a [u8],
    /// Its one argument, which may have spaces.
    pub argument: &'a [u8],
}

/// Parses the first bytes of a file. As in the kernel, a line that is cut off inside the name does not count.
#[must_use]
pub fn script_line(first: &[u8]) -> Option<ScriptLine<'_>> {
    let line = first.strip_prefix(b"#!")?;
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let name = &line[start..];
    let end = name
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0));
    let end = match end {
        Some(end) => end,
        None if first.len() < FIRST_BYTES => name.len(),
        None => return None,
    };
    let rest = name[end..].split(|byte| matches!(byte, b'\n' | 0)).next();
    (end > 0).then(|| ScriptLine {
        program: &name[..end],
        argument: rest.unwrap_or_default().trim_ascii(),
    })
}

impl ScriptLine<'_> {
    /// Returns the program that env(1) is to look for, if this line is one of env's.
    pub(crate) fn by_env(&self) -> Option<&[u8]> {
        if self.program.rsplit(|byte| *byte == b'/').next() != Some(b"env") {
            return None;
        }
        let mut words = self
            .argument
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
    }
}

/// Interpreters whose scripts begin programs by writing their names.
const SHELLS: [&[u8]; 7] = [b"sh", b"bash", b"dash", b"ash", b"ksh", b"mksh", b"zsh"];

impl ScriptLine<'_> {
    /// True if the script is one of a shell.
    pub(crate) fn is_of_shell(&self) -> bool {
        let program = self.by_env().unwrap_or(self.program);
        let name = program.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| SHELLS.contains(&name))
    }
}

/// Most different words of a script that count.
const MAX_WORDS: usize = 4096;

/// Returns the words of a shell script that may be programs: names and absolute paths, but no options, variables and comments.
pub(crate) fn shell_words(text: &[u8]) -> BTreeSet<&[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-./".contains(byte);
    let mut words = BTreeSet::new();
    let lines = text.split(|byte| *byte == b'\n');
    for line in lines.filter(|line| !line.trim_ascii_start().starts_with(b"#")) {
        let mut at = 0;
        while let Some(found) = line[at..].iter().position(is_part) {
            let begin = at + found;
            let length = line[begin..].iter().position(|byte| !is_part(byte));
            at = length.map_or(line.len(), |length| begin + length);
            let word = &line[begin..at];
            let before = begin.checked_sub(1).map(|place| line[place]);
            let is_variable = before == Some(b'$') || line[..begin].ends_with(b"${");
            let is_assigned = line.get(at) == Some(&b'=');
            // `$bindir/name` and `${bindir}/name` are programs by their last part, wherever the script looks for them.
            let is_below = is_variable || before == Some(b'}');
            let word = match word.iter().rposition(|byte| *byte == b'/') {
                Some(slash) if is_below => &word[slash + 1..],
                _ if is_variable => continue,
                _ => word,
            };
            let is_path = word.starts_with(b"/");
            let is_name = !word.contains(&b'/') && !word.starts_with(b"-") && !word.starts_with(b".");
            if !word.is_empty() && (is_path || is_name) && !is_assigned && words.len() < MAX_WORDS {
                words.insert(word);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_script() {
        let text = b"#!/bin/sh -e\n# cat is no program here\nrm=\"/bin/rm\"; x=`sed -n \"s/a/b/\"`\n\
            if test -n \"$ls\" -a ${awk:-x}; then /usr/bin/mkdir -p ./here a/b; fi\n\
            \"$bin/ours\" ${bin}/theirs $bin/\n";
        let words: Vec<_> = shell_words(text)
            .into_iter()
            .map(String::from_utf8_lossy)
            .collect();
        for word in [
            "/bin/rm",
            "sed",
            "test",
            "/usr/bin/mkdir",
            "if",
            "fi",
            "ours",
            "theirs",
        ] {
            assert!(words.iter().any(|found| found == word), "{word}: {words:?}");
        }
        for word in ["cat", "rm", "ls", "awk", "-n", "-p", "./here", "a/b", "bin", ""] {
            assert!(!words.iter().any(|found| found == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn shells_are_known() {
        for (line, is_shell) in [
            ("#!/bin/sh\n", true),
            ("#! /usr/bin/env bash\n", true),
            ("#!/usr/bin/perl sh\n", false),
        ] {
            assert_eq!(
                script_line(line.as_bytes()).unwrap().is_of_shell(),
                is_shell,
                "{line}"
            );
        }
    }

    #[test]
    fn env_is_looked_through() {
        for (line, program) in [
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S node --harmony x\n", Some("node")),
            ("#! /bin/env -i A=b perl -w\n", Some("perl")),
            ("#!/bin/env\n", None),
            ("#!/bin/sh env\n", None),
        ] {
            let parsed = script_line(line.as_bytes()).unwrap();
            assert_eq!(parsed.by_env(), program.map(str::as_bytes), "{line}");
        }
    }
}
