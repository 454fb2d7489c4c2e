//! `cargo xtask tidy`: the house rules that a program can check.
//!
//! Every rule is a pure function from a path and a text to findings; only this file reads the disk. The checked
//! files are those that git would commit. Remove a rule here if readers do not profit from it, rather than work
//! around it elsewhere.

mod absence;
mod bans;
mod dispatch;
mod english;
mod functions;
mod links;
mod names;
mod processes;
mod prose;
mod size;
mod source;
mod variants;

use crate::finding::{Finding, report};
use crate::program::{program, read};
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::Path;

use source::Source;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let list = std::fs::read_to_string(workspace.root.join(bans::LIST))?;
    let refused = std::fs::read_to_string(workspace.root.join(bans::REFUSED))?;
    let mut findings = bans::untried(&list, &refused);
    let mut named = processes::Named::default();
    for path in files(&workspace.root)? {
        // The file is gone from the work tree but not yet from the index, or is not a text.
        let Ok(text) = std::fs::read_to_string(workspace.root.join(&path)) else {
            continue;
        };
        findings.extend(check(&path, &text, &|path| {
            workspace.root.join(path).try_exists().unwrap_or(false)
        }));
        if bans::is_list(&path) {
            findings.extend(bans::differing(&path, &text, &list));
        }
        if is_rust(&path) {
            let source = Source::parse(&text);
            named.look(&path, &source);
            for note in functions::notes(&path, &source) {
                println!("note: {note}");
            }
        }
    }
    let table = std::fs::read_to_string(workspace.root.join(processes::TABLE))?;
    findings.extend(named.compare(&table));
    report("tidy", findings)
}

/// Lists the files that git tracks or would add, relative to the root.
fn files(root: &Path) -> Result<Vec<String>> {
    // A checkout may belong to another user than the one who checks it: reading its list of files is harmless.
    let mut git = program("git");
    git.current_dir(root).args(["-c", "safe.directory=*"]);
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = read(&mut git)?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

/// Applies all rules for a file; `exists` answers for paths relative to the root.
fn check(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = size::too_long(path, text);
    findings.extend(prose::trailing_space(path, text));
    findings.extend(names::of_file(path));
    if is_rust(path) {
        let source = Source::parse(text);
        findings.extend(absence::taken_from_errors(path, &source));
        findings.extend(functions::too_long(path, &source));
        findings.extend(dispatch::by_name(path, &source));
        findings.extend(names::of_types(path, &source));
        findings.extend(variants::too_many(path, &source));
        findings.extend(prose::check(path, &source.comments));
        findings.extend(english::of_comments(path, &source.comments));
        findings.extend(english::of_errors(path, text));
        findings.extend(size::short_header(path, text));
    } else if has_hash_comments(path, text) {
        findings.extend(prose::check(path, &source::hash_comments(text)));
    } else if path.ends_with(".md") {
        findings.extend(prose::machine_paths(path, text));
        findings.extend(links::broken(path, text, exists));
    }
    findings
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn has_hash_comments(path: &str, text: &str) -> bool {
    [".toml", ".sh", ".py"].iter().any(|end| path.ends_with(end)) || text.starts_with("#!/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_gets_its_rules() {
        let broken = |path: &str, text: &str| check(path, text, &|_| false).len();
        assert_eq!(broken("a.rs", "// TODO\n"), 1);
        assert_eq!(broken("a.rs", "const A: &str = \"// TODO\";\n"), 0);
        assert_eq!(broken("a.toml", "a = \"TODO\" # FIXME\n"), 1);
        assert_eq!(broken("run", "#!/bin/sh\n# step 1: do\n"), 1);
        assert_eq!(broken("a.md", "[x](y.md) and TODO\n"), 1);
        assert_eq!(broken("a.txt", "# TODO\n"), 0);
    }
}
