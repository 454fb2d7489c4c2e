//! `--check`: advice for the author of a Dockerfile, by the rules and names of docker's builder.

use std::collections::BTreeSet;
use tote_dockerfile::{Command, CommandLine, Dockerfile, Instruction, Stage};

/// A warning about something in a Dockerfile that works but is unwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// docker's name of the rule.
    pub rule: &'static str,
    /// Text of the warning, in docker's words.
    pub text: String,
    /// Line number, from 1.
    pub line: usize,
}

/// Words that mark the name of a variable as secret.
const SECRETS: [&str; 10] = [
    "apikey",
    "auth",
    "credential",
    "credentials",
    "key",
    "password",
    "pword",
    "passwd",
    "secret",
    "token",
];

/// Checks a file, whose text is `text`. Rules that its `# check=skip=` names are left out. Warnings are sorted by
/// line.
#[must_use]
pub fn check(file: &Dockerfile, text: &str) -> Vec<Warning> {
    let mut check = Check {
        lines: text.lines().collect(),
        names: BTreeSet::new(),
        warnings: Vec::new(),
    };
    for arg in &file.args {
        let declares = |line: &&str| {
            line.split_ascii_whitespace()
                .any(|word| word.starts_with(&arg.name))
        };
        let line = check.lines.iter().position(declares).map_or(1, |at| at + 1);
        check.secret("ARG", &arg.name, line);
    }
    for stage in &file.stages {
        check.beginning(stage);
        check.instructions(stage);
    }
    check.casing(file);
    let skipped = skipped(file.directives.check.as_deref().unwrap_or_default());
    let mut warnings = check.warnings;
    warnings.retain(|warning| {
        let names = |rule: &&str| *rule == "all" || rule.eq_ignore_ascii_case(warning.rule);
        !skipped.iter().any(names)
    });
    warnings.sort_by_key(|warning| warning.line);
    warnings
}

/// Parses the rules in `skip=A,B;error=true`.
fn skipped(directive: &str) -> Vec<&str> {
    let fields = directive.split(';');
    let rules = fields.filter_map(|field| field.trim().strip_prefix("skip="));
    rules.flat_map(|rules| rules.split(',')).map(str::trim).collect()
}

struct Check<'a> {
    lines: Vec<&'a str>,
    /// Names of the stages so far.
    names: BTreeSet<String>,
    warnings: Vec<Warning>,
}

impl<'a> Check<'a> {
    fn warn(&mut self, rule: &'static str, line: usize, text: String) {
        self.warnings.push(Warning { rule, text, line });
    }

    /// Splits a line into words, as written.
    fn words(&self, line: usize) -> Vec<&'a str> {
        let line = self.lines.get(line.saturating_sub(1)).copied();
        line.unwrap_or_default().split_ascii_whitespace().collect()
    }

    /// Checks a `FROM`.
    fn beginning(&mut self, stage: &Stage) {
        let (line, Some(name)) = (stage.lines.first, &stage.name) else {
            return;
        };
        if !self.names.insert(name.clone()) {
            let text = format!("Duplicate stage name {name:?}, stage names should be unique");
            self.warn("DuplicateStageName", line, text);
        }
        if matches!(&**name, "scratch" | "context") {
            let text = format!("Stage name should not use the same name as reserved stage {name:?}");
            self.warn("ReservedStageName", line, text);
        }
        let [from, .., keyword, written] = self.words(line)[..] else {
            return;
        };
        if !keyword.eq_ignore_ascii_case("as") {
            return;
        }
        if is_upper(from) != is_upper(keyword) {
            let text = format!("'{keyword}' and '{from}' keywords' casing do not match");
            self.warn("FromAsCasing", line, text);
        }
        if written.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let text = format!("Stage name '{written}' should be lowercase");
            self.warn("StageNameCasing", line, text);
        }
    }

    fn instructions(&mut self, stage: &Stage) {
        let (mut has_shell, mut has_workdir) = (false, false);
        let mut last = [("CMD", None), ("ENTRYPOINT", None), ("HEALTHCHECK", None)];
        for instruction in &stage.instructions {
            let line = instruction.lines.first;
            let only_last = match &instruction.command {
                Command::Cmd(_) => Some(0),
                Command::Entrypoint(_) => Some(1),
                Command::Healthcheck(_) => Some(2),
                _ => None,
            };
            if let Some((name, before)) = only_last.map(|at| &mut last[at])
                && let Some(before) = before.replace(line)
            {
                let text = format!(
                    "Multiple {name} instructions should not be used in the same stage because only the last one will be used"
                );
                self.warn("MultipleInstructionsDisallowed", before, text);
            }
            match &instruction.command {
                Command::Shell(_) => has_shell = true,
                Command::Cmd(CommandLine::Shell(text)) if !has_shell && !text.is_empty() => {
                    self.no_json("CMD", line);
                }
                Command::Entrypoint(CommandLine::Shell(_)) if !has_shell => self.no_json("ENTRYPOINT", line),
                Command::Workdir(path) => {
                    let is_absolute = path.starts_with(['/', '$']);
                    if !is_absolute && !has_workdir {
                        let text = format!(
                            "Relative workdir {path:?} can have unexpected results if the base image changes"
                        );
                        self.warn("WorkdirRelativePath", line, text);
                    }
                    has_workdir |= is_absolute;
                }
                Command::Maintainer(_) => {
                    let text = "Maintainer instruction is deprecated in favor of using label";
                    self.warn("MaintainerDeprecated", line, text.to_owned());
                }
                _ => self.variables(instruction),
            }
        }
    }

    fn no_json(&mut self, name: &str, line: usize) {
        let text = format!(
            "JSON arguments recommended for {name} to prevent unintended behavior related to OS signals"
        );
        self.warn("JSONArgsRecommended", line, text);
    }

    /// Checks `ENV`, `LABEL` and `ARG`.
    fn variables(&mut self, instruction: &Instruction) {
        let line = instruction.lines.first;
        let (verb, pairs) = match &instruction.command {
            Command::Env(pairs) => ("ENV", pairs),
            Command::Label(pairs) => ("LABEL", pairs),
            Command::Arg(args) => {
                for arg in args {
                    self.secret("ARG", &arg.name, line);
                }
                return;
            }
            _ => return,
        };
        let first = instruction.text.split_ascii_whitespace().nth(1);
        if first.is_some_and(|word| !word.contains('=')) {
            let text =
                format!("\"{verb} key=value\" should be used instead of legacy \"{verb} key value\" format");
            self.warn("LegacyKeyValueFormat", line, text);
        }
        if verb == "ENV" {
            for (name, _) in pairs {
                self.secret(verb, name, line);
            }
        }
    }

    fn secret(&mut self, verb: &str, name: &str, line: usize) {
        let lower = name.to_ascii_lowercase();
        let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
        let is_secret = words.clone().any(|word| SECRETS.contains(&word));
        if is_secret && !words.any(|word| word == "public") {
            let text = format!("Do not use ARG or ENV instructions for sensitive data ({verb} {name:?})");
            self.warn("SecretsUsedInArgOrEnv", line, text);
        }
    }

    /// Warns of instruction names in another case than that of the majority.
    fn casing(&mut self, file: &Dockerfile) {
        let lines = file.stages.iter().flat_map(|stage| {
            let instructions = stage
                .instructions
                .iter()
                .map(|instruction| instruction.lines.first);
            std::iter::once(stage.lines.first).chain(instructions)
        });
        let named: Vec<(usize, &str)> = lines
            .filter_map(|line| Some((line, *self.words(line).first()?)))
            .collect();
        let upper = named.iter().filter(|(_, name)| is_upper(name)).count();
        let most_are_upper = upper * 2 >= named.len();
        for (line, name) in named {
            let expected = match most_are_upper {
                true => name.to_ascii_uppercase(),
                false => name.to_ascii_lowercase(),
            };
            if name != expected {
                let case = if most_are_upper { "uppercase" } else { "lowercase" };
                let text = format!("Command '{name}' should match the case of the command majority ({case})");
                self.warn("ConsistentInstructionCasing", line, text);
            }
        }
    }
}

fn is_upper(word: &str) -> bool {
    !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::check;
    use tote_dockerfile::Dockerfile;

    fn rules(text: &str) -> Vec<(usize, &'static str)> {
        let file = Dockerfile::parse(text).unwrap();
        let found = check(&file, text);
        found
            .into_iter()
            .map(|warning| (warning.line, warning.rule))
            .collect()
    }

    #[test]
    fn what_is_unwise() {
        let text = "ARG API_TOKEN\nFROM scratch as Build\nWORKDIR w\nWORKDIR /w\nWORKDIR x\nENV A b\nENV PUBLIC_KEY=x DB_PASSWORD=y\n\
            CMD a\nCMD [\"b\"]\nFROM build AS build\nMAINTAINER me\nRUN true\nRUN true\ncopy a b\nFROM build AS scratch\n\
            SHELL [\"x\"]\nENTRYPOINT y\n";
        assert_eq!(
            rules(text),
            [
                (1, "SecretsUsedInArgOrEnv"),
                (2, "FromAsCasing"),
                (2, "StageNameCasing"),
                (3, "WorkdirRelativePath"),
                (6, "LegacyKeyValueFormat"),
                (7, "SecretsUsedInArgOrEnv"),
                (8, "JSONArgsRecommended"),
                (8, "MultipleInstructionsDisallowed"),
                (10, "DuplicateStageName"),
                (11, "MaintainerDeprecated"),
                (14, "ConsistentInstructionCasing"),
                (15, "ReservedStageName"),
            ]
        );
    }

    #[test]
    fn what_may_be_left_out() {
        let body = "FROM scratch as a\nCMD a\n";
        assert_eq!(rules(body).len(), 2);
        let skipped = rules(&format!("# check=skip=FromAsCasing,other;error=true\n{body}"));
        assert_eq!(skipped, [(3, "JSONArgsRecommended")]);
        assert!(rules(&format!("# check=skip=all\n{body}")).is_empty());
        assert!(rules("FROM scratch\nCOPY a /b\n").is_empty());
    }
}
