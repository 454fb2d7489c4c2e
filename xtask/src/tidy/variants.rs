//! Size of public error enums: a reader who matches on one has to know all of its variants.

use super::source::{Source, is_word};
use crate::finding::Finding;

/// Maximum number of variants.
const MOST: usize = 20;

/// Enums that were larger when this began to be checked, with their files and sizes. A number can only become smaller.
const LARGER: &[(&str, &str, usize)] = &[("crates/engine/src/network/error.rs", "NetworkFault", 47)];

/// An error enum.
#[derive(Debug, PartialEq, Eq)]
struct ErrorEnum {
    name: String,
    line: usize,
    variants: usize,
}

pub(super) fn too_many(path: &str, source: &Source) -> Vec<Finding> {
    compare(path, &error_enums(&source.code), LARGER)
}

fn compare(path: &str, enums: &[ErrorEnum], larger: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for found in enums {
        let ErrorEnum { name, line, variants } = found;
        let row = larger.iter().find(|row| (row.0, row.1) == (path, name));
        let allowed = row.map_or(MOST, |row| row.2);
        if *variants > allowed {
            let message = format!(
                "{name} has {variants} variants, more than {allowed}: group them by subject, each group an enum of its own"
            );
            findings.push(Finding::new(path, *line, message));
        } else if row.is_some() && *variants < allowed {
            let message =
                format!("{name} has {variants} variants: lower or remove its row in the list of larger ones");
            findings.push(Finding::new(path, *line, message));
        }
    }
    for (_, name, _) in larger.iter().filter(|row| row.0 == path) {
        if !enums.iter().any(|found| found.name == *name) {
            let message = format!("{name} is not there: remove its row in the list of larger ones");
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
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
    fn large_ones_are_refused_and_rows_only_shrink() {
        let of = |variants| {
            [ErrorEnum {
                name: "Large".to_owned(),
                line: 7,
                variants,
            }]
        };
        let rows = [("a.rs", "Large", 30)];
        for (path, variants, findings) in [
            ("a.rs", 31, 1),
            ("a.rs", 30, 0),
            ("a.rs", 29, 1),
            ("b.rs", MOST, 0),
            ("b.rs", MOST + 1, 1),
        ] {
            assert_eq!(
                compare(path, &of(variants), &rows).len(),
                findings,
                "{path} {variants}"
            );
        }
        assert_eq!(compare("a.rs", &[], &rows).len(), 1, "a row without an enum");
    }
}
