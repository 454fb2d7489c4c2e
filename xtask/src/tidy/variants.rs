//! Size of public error enums: a reader who matches on one has to know all of its variants.

use super::source::{Source, is_word};
use crate::finding::Finding;

/// Maximum number of variants.
const MOST: usize = 20;

/// An error enum.
#[derive(Debug, PartialEq, Eq)]
struct ErrorEnum {
    name: String,
    line: usize,
    variants: usize,
}

pub(super) fn too_many(path: &str, source: &Source) -> Vec<Finding> {
    let larger = error_enums(&source.code)
        .into_iter()
        .filter(|found| found.variants > MOST);
    let finding = |ErrorEnum { name, line, variants }| {
        let message = format!(
            "{name} has {variants} variants, more than {MOST}: group them by subject, each group an enum of its own"
        );
        Finding::new(path, line, message)
    };
    larger.map(finding).collect()
}

/// Finds the public enums in a text without comments and literals that derive `Error`.
fn error_enums(code: &str) -> Vec<ErrorEnum> {
    let mut found = Vec::new();
    for (at, keyword) in code.match_indices("pub enum ") {
        let before = code[..at].rfind(['}', ';']).unwrap_or(0);
        let is_error = code[before..at].split("derive(").skip(1).any(|derived| {
            let list = derived.split(')').next().unwrap_or_default();
            list.split([',', ':']).any(|word| word.trim() == "Error")
        });
        let rest = &code[at + keyword.len()..];
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        if let (true, Some(begin)) = (is_error, rest.find('{')) {
            found.push(ErrorEnum {
                name,
                line: 1 + code[..at].matches('\n').count(),
                variants: variants(&rest[begin + 1..]),
            });
        }
    }
    found
}

/// Counts the variants up to the brace that closes the enum.
fn variants(body: &str) -> usize {
    let (mut depth, mut count, mut is_new) = (0_usize, 0, true);
    for c in body.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_new = true,
            c if depth == 0 && is_new && is_word(c) => {
                count += 1;
                is_new = false;
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize)> {
        let enums = error_enums(&Source::parse(text).code);
        enums
            .into_iter()
            .map(|found| (found.name, found.variants))
            .collect()
    }

    #[test]
    fn variants_of_error_enums_are_counted() {
        let text = "
            use thiserror::Error;
            /// An error, of { two kinds
            #[derive(Debug, thiserror::Error)]
            #[expect(missing_docs, reason = \"} none\")]
            pub enum Two<E: Debug> {
                #[error(\"a {b}, {c}\")]
                One { a: String, b: Vec<(u8, u8)> },
                #[error(transparent)]
                Other(#[from] Map<A, B>)
            }
            #[derive(Debug)]
            pub enum NoError { A, B, C }
            #[derive(Error)] pub enum None {}
            pub enum Plain { A }
        ";
        assert_eq!(found(text), [("Two".to_owned(), 2), ("None".to_owned(), 0)]);
    }

    #[test]
    fn large_ones_are_refused() {
        for (variants, findings) in [(MOST, 0), (MOST + 1, 1)] {
            let text = format!("#[derive(Error)] pub enum Large {{ {} }}", "A, ".repeat(variants));
            assert_eq!(
                too_many("a.rs", &Source::parse(&text)).len(),
                findings,
                "{variants}"
            );
        }
    }
}
