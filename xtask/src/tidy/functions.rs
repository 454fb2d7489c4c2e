//! Length of functions.

use super::source::{Source, is_word};
use crate::finding::Finding;

/// Number of lines, from `fn` to the closing brace, above which a function is mentioned.
const NOTED: usize = 60;

/// Number of lines above which a function is refused.
const REFUSED: usize = 80;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

pub(super) fn too_long(path: &str, source: &Source) -> Vec<Finding> {
    let long = functions(&source.code)
        .into_iter()
        .filter(|function| function.lines > REFUSED);
    long.map(|function| finding(path, &function, REFUSED)).collect()
}

/// Lists functions that are long, but not refused.
pub(super) fn notes(path: &str, source: &Source) -> Vec<Finding> {
    let long = functions(&source.code)
        .into_iter()
        .filter(|function| (NOTED + 1..=REFUSED).contains(&function.lines));
    long.map(|function| finding(path, &function, NOTED)).collect()
}

fn finding(path: &str, function: &Function, limit: usize) -> Finding {
    let Function { name, line, lines } = function;
    Finding::new(
        path,
        *line,
        format!("fn {name} has {lines} lines, more than {limit}: it does more than one thing"),
    )
}

/// Finds every function in a text without comments and literals, nested ones included.
fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = &code[at + "fn ".len()..];
        let name: String = rest.trim_start().chars().take_while(|c| is_word(*c)).collect();
        if name.is_empty() {
            continue;
        }
        if let Some(length) = extent(rest) {
            found.push(Function {
                name,
                line: 1 + code[..at].matches('\n').count(),
                lines: 1 + rest[..length].matches('\n').count(),
            });
        }
    }
    found
}

/// Returns the length up to the brace that closes the body; `None` for a declaration, which ends with a semicolon.
fn extent(rest: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return Some(at),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lines_and_lengths() {
        let code = "trait T { fn declared(&self, x: [u8; 4]); }\n\npub fn outer<T>() -> [u8; 2]\nwhere T: X {\n\
            \x20   fn inner() {}\n    let f: fn(u8) = g;\n}\nlet often fn_x;\n";
        let found = functions(code);
        let outer = Function {
            name: "outer".to_owned(),
            line: 3,
            lines: 5,
        };
        let inner = Function {
            name: "inner".to_owned(),
            line: 5,
            lines: 1,
        };
        assert_eq!(found, [outer, inner]);
    }

    #[test]
    fn the_limits() {
        for (lines, noted, refused) in [(60, 0, 0), (61, 1, 0), (80, 1, 0), (81, 0, 1)] {
            let text = format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
            let source = Source::parse(&text);
            assert_eq!(notes("a.rs", &source).len(), noted, "{lines}");
            assert_eq!(too_long("a.rs", &source).len(), refused, "{lines}");
        }
    }
}
