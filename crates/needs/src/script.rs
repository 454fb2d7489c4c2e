//! First lines of scripts.

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

#[cfg(test)]
mod tests {
    use super::*;

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
