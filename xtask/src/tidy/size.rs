//! Maximum length of files, and minimum length of a crate's introduction.

use crate::finding::Finding;

/// Maximum number of lines in a file.
const FILE: usize = 500;

/// Minimum number of lines of `//!` that tell what a crate is, its invariants, and what it is not.
const HEADER: usize = 3;

/// Folders of pure tables and of generated text, which people do not read from top to bottom.
const EXEMPT: &[&str] = &["tables", "snapshots", "results"];

/// Files that grow with time, not with complexity.
const GROWING: &[&str] = &["CHANGELOG.md"];

pub(super) fn too_long(path: &str, text: &str) -> Vec<Finding> {
    let written = [".rs", ".md", ".toml", ".sh", ".py", ".js", ".c", ".h"];
    let counts = written.iter().any(|end| path.ends_with(end)) || text.starts_with("#!/");
    let exempt = GROWING.contains(&path) || path.split('/').any(|folder| EXEMPT.contains(&folder));
    let lines = text.lines().count();
    if !counts || exempt || lines <= FILE {
        return Vec::new();
    }
    let message = format!("{lines} lines, more than {FILE}: split by concept");
    vec![Finding::new(path, FILE + 1, message)]
}

/// Finds a crate's root file that does not begin with an introduction.
pub(super) fn short_header(path: &str, text: &str) -> Option<Finding> {
    let root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let header = text.lines().take_while(|line| line.starts_with("//!")).count();
    if !root || header >= HEADER {
        return None;
    }
    let message = format!(
        "begins with {header} lines of //!, not {HEADER}: say what the crate is, its invariants, what it is not"
    );
    Some(Finding::new(path, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let long = "x\n".repeat(FILE + 1);
        for (path, found) in [
            ("src/a.rs", 1),
            ("README.md", 1),
            ("src/tables/a.rs", 0),
            ("src/snapshots/a.snap", 0),
            ("docs/results/a.md", 0),
            ("CHANGELOG.md", 0),
            ("Cargo.lock", 0),
            ("plot.svg", 0),
        ] {
            assert_eq!(too_long(path, &long).len(), found, "{path}");
        }
        assert!(too_long("src/a.rs", &"x\n".repeat(FILE)).is_empty());
    }

    #[test]
    fn headers() {
        let header = "//! A\n//!\n//! B\n\nmod a;\n";
        for (path, text, fine) in [
            ("crates/a/src/lib.rs", header, true),
            ("crates/a/src/main.rs", "//! A\n//! B\nmod a;\n//! C\n", false),
            ("crates/a/src/lib.rs", "mod a;\n", false),
            ("crates/a/src/a.rs", "mod a;\n", true),
        ] {
            assert_eq!(short_header(path, text).is_none(), fine, "{path} {text}");
        }
    }
}
