//! Rules for every table.

use crate::table::{Command, Opt, Parsing, all_paths, spelled};

const LONGEST_HELP: usize = 100;

/// Returns the faults of the tables from `root` down, one line each; empty for valid ones. For tests.
#[must_use]
pub fn table_faults(root: &'static Command) -> Vec<String> {
    let mut faults = Vec::new();
    for path in all_paths(root) {
        let Some((command, group)) = path.split_last() else {
            continue;
        };
        let name = spelled(&path);
        let mut add = |fault: String| faults.push(format!("{name}: {fault}"));
        names(command, group, &mut add);
        texts(command, &mut add);
        shape(command, &mut add);
        absent(command, &mut add);
    }
    faults
}

/// Finds names that appear twice, in the command or in one before it, since values are looked up by name. An alias may be a name of
/// an earlier command's: behind the command's word it is the command's, and its value has another name.
fn names(command: &'static Command, group: &[&'static Command], add: &mut impl FnMut(String)) {
    let inherited: Vec<&str> = group
        .iter()
        .flat_map(|earlier| earlier.own_options())
        .flat_map(longs)
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    let mut letters: Vec<char> = Vec::new();
    // Help's letter is only a fallback, so only its long name must be unique.
    for opt in command.own_options().chain([&crate::HELP]) {
        for long in longs(opt) {
            if seen.contains(&long) || long == opt.long && inherited.contains(&long) {
                add(format!("--{long} is there twice"));
            }
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if long.is_empty() || long.starts_with('-') || !long.bytes().all(is_plain) {
                add(format!("--{long} is not a plain name"));
            }
            seen.push(long);
        }
        if let Some(letter) = opt.short.filter(|_| opt != &crate::HELP) {
            if letters.contains(&letter) {
                add(format!("-{letter} is there twice"));
            }
            if !letter.is_ascii_alphanumeric() {
                add(format!("-{letter} is not a plain letter"));
            }
            letters.push(letter);
        }
    }
    let mut words: Vec<&str> = Vec::new();
    for child in command.children() {
        for word in std::iter::once(&child.name).chain(child.aliases) {
            if words.contains(word) {
                add(format!("the command {word} is there twice"));
            }
            words.push(word);
        }
    }
}

fn longs(opt: &'static Opt) -> impl Iterator<Item = &'static str> {
    std::iter::once(opt.long).chain(opt.aliases.iter().copied())
}

/// Finds lines that are too long, not ASCII, or sentences.
fn texts(command: &Command, add: &mut impl FnMut(String)) {
    let helps = command.own_options().map(|opt| (opt.long, opt.help));
    let examples = command.examples.iter().map(|example| ("example", example.about));
    let exits = command.exit_status.iter().map(|exit| (exit.status, exit.about));
    for (of, line) in helps
        .chain(examples)
        .chain(exits)
        .chain([("about", command.about)])
    {
        if line.is_empty() || line.contains('\n') || line.chars().count() > LONGEST_HELP {
            add(format!("{of}: not one line of at most {LONGEST_HELP} characters"));
        }
        if line.ends_with('.') {
            add(format!("{of}: ends with a full stop"));
        }
        if !line.starts_with(|first: char| first.is_ascii_uppercase()) {
            add(format!("{of}: does not start with a capital"));
        }
    }
    let prose = command
        .own_options()
        .map(|opt| opt.details)
        .chain([command.details, command.usage]);
    if prose
        .into_iter()
        .any(|text| !text.is_ascii() || text.matches('`').count() % 2 == 1)
    {
        add("details: not ASCII, or a backquote without its fellow".to_owned());
    }
}

/// Finds words that are called absent although the command has them.
fn absent(command: &'static Command, add: &mut impl FnMut(String)) {
    for absent in command.absent {
        for word in absent.words {
            let mut letter = word.chars().skip(1);
            let is_there = match (word.strip_prefix("--"), letter.next(), letter.next()) {
                (Some(long), ..) => command.long(long).is_some(),
                (None, Some(letter), None) if word.starts_with('-') => command.short(letter).is_some(),
                _ => command.child(word).is_some(),
            };
            if is_there {
                add(format!("{word} is called absent, and is there"));
            }
        }
        if !absent.advice.ends_with('.') {
            add(format!("{:?}: the advice is no sentence", absent.words));
        }
    }
}

/// Finds positionals that cannot be counted, and usage that does not name them.
fn shape(command: &Command, add: &mut impl FnMut(String)) {
    let table = command.positionals;
    if command.is_mixed() && command.parsing == Parsing::StopAtFirstPositional {
        add("has commands, and stops at the first positional".to_owned());
    }
    if table.iter().rev().skip(1).any(|positional| positional.many) {
        add("more of a positional that is not the last".to_owned());
    }
    if table.windows(2).any(|pair| !pair[0].required && pair[1].required) {
        add("a required positional follows an optional one".to_owned());
    }
    for positional in table {
        if !command.usage.contains(positional.name) {
            add(format!("usage does not name {}", positional.name));
        }
    }
    if command.parsing == Parsing::StopAtFirstPositional && table.is_empty() {
        add("stops at the first positional but has none".to_owned());
    }
    for opt in command.own_options() {
        let is_value = opt.metavar().is_some();
        if !is_value && (!opt.default.is_empty() || opt.env.is_some()) {
            add(format!("--{} takes no value but has a default", opt.long));
        }
    }
}
