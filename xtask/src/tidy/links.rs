//! Links between the documents of this repository.

use crate::finding::Finding;

/// Finds relative links of a Markdown text that lead nowhere; text in code spans and fenced blocks is ignored.
pub(super) fn broken(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(text)) {
            let file = target.split('#').next().unwrap_or_default();
            let missing = resolve(folder, file).is_none_or(|file| !exists(&file));
            if is_relative(&target) && missing {
                let message = format!("the link to {target} leads nowhere: no such file");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// True unless the target is on another site or in the same document.
fn is_relative(target: &str) -> bool {
    !target.starts_with('#') && !target.starts_with("mailto:") && !target.contains("://")
}

/// Joins lexically; `None` if the path leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Removes the code: every odd piece between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Finds the targets of `[text](target "title")` and `[label]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (at, mark) in line.match_indices("](") {
        let rest = &line[at + mark.len()..];
        let end = rest.find([')', ' ']).unwrap_or(rest.len());
        targets.push(rest[..end].trim_matches(['<', '>']).to_owned());
    }
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    if let Some((_, target)) = definition {
        let target = target.split_whitespace().next().unwrap_or_default();
        targets.push(target.trim_matches(['<', '>']).to_owned());
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_is() {
        for (line, expected) in [
            ("a [b](c.md) d ![e](f/g.svg \"title\")", &["c.md", "f/g.svg"][..]),
            ("[label]: docs/x.md#part", &["docs/x.md#part"]),
            ("code `[a](b)` and [c](<d>)", &["d"]),
            ("an array[0](x)? yes, Markdown says so", &["x"]),
            ("nothing", &[]),
        ] {
            assert_eq!(targets(&without_code(line)), expected, "{line}");
        }
    }

    #[test]
    fn only_relative_links_must_exist() {
        let exists = |path: &str| path == "docs/b.md" || path == "README.md" || path == "docs";
        for (link, found) in [
            ("b.md", 0),
            ("b.md#part", 0),
            ("../README.md", 0),
            ("../docs/", 0),
            ("c.md", 1),
            ("../../outside.md", 1),
            ("/absolute.md", 1),
            ("https://example.org/x", 0),
            ("#here", 0),
        ] {
            let text = format!("x\n[a]({link})\n");
            let findings = broken("docs/a.md", &text, &exists);
            assert_eq!(findings.len(), found, "{link}");
            assert!(findings.iter().all(|finding| finding.line == 2));
        }
    }

    #[test]
    fn fenced_blocks_are_skipped() {
        let text = "```\n[a](b)\n```\n[c](d)\n";
        let findings = broken("a.md", text, &|_| false);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 4);
    }
}
