//! Any text as a Dockerfile and as a `.dockerignore`: no panic, lines that are in the file, and errors of one short line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_dockerfile::{Dockerfile, Ignore, expand, expand_words};

fuzz_target!(|text: &str| {
    match Dockerfile::parse(text) {
        Ok(file) => {
            let count = text.lines().count();
            for stage in &file.stages {
                for instruction in &stage.instructions {
                    let lines = instruction.lines;
                    assert!(1 <= lines.first && lines.first <= lines.last && lines.last <= count, "{lines:?} of {count}");
                    // Whatever the words mean, replacing variables in them ends.
                    let variable = |name: &str| (name.len() % 2 == 0).then(|| name.to_owned());
                    let escape = file.directives.escape;
                    let _ = expand(&instruction.text, escape, &variable);
                    let _ = expand_words(&instruction.text, escape, &variable);
                }
            }
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
    if let Ok(ignore) = Ignore::parse(text) {
        for path in text.lines().take(8) {
            let _ = ignore.excludes(path);
        }
    }
});
