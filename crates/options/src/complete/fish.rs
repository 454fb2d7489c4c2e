//! Script for fish: a function finds out where on the command line the cursor is, and each option and command has a
//! `complete` with that as its condition.

use super::spelling::{single_quoted, spellings, written};
use crate::table::{Command, Completes, Kind, Opt, Parsing, all_paths};

const HEAD: &str = r#"# fish completion for @program@, written by `@program@ completion fish`

# Whether the option $argv[2] of the command $argv[1] takes the next word.
function __@program@_takes
    switch "$argv[1] $argv[2]"
@takes@    end
    return 1
end

# Prints the command that the cursor is below, then how many positionals stand before it.
function __@program@_place
    set -l words (commandline -opc)
    set -l at @program@
    set -l positionals 0
    set -l expecting 0
    set -l over 0
    for word in $words[2..-1]
        if test $expecting = 1
            set expecting 0
        else if test $over = 0; and test "$word" = --
            set over 1
        else if test $over = 0; and string match -q -- '--*' $word
            __@program@_takes $at $word; and set expecting 1
        else if test $over = 0; and string match -qr -- '^-.' $word
            # Only the last letter of a cluster can want the next word.
            set -l letters (string split '' -- (string sub -s 2 -- $word))
            set -l taken 0
            for letter in $letters[1..-2]
                __@program@_takes $at -$letter; and set taken 1
            end
            test $taken = 0; and __@program@_takes $at -$letters[-1]; and set expecting 1
        else
            switch "$at $word"
@commands@            case '*'
                set positionals (math $positionals + 1)
            end
        end
    end
    echo $at
    echo $positionals
end

# Whether the cursor is below the command $argv[1], at the positional $argv[2] or later where that ends in +.
function __@program@_at
    set -l place (__@program@_place)
    test "$place[1]" = "$argv[1]"; or return 1
    switch "$argv[2]"
        case ''
            return 0
        case '*+'
            test $place[2] -ge (string trim -c + -- $argv[2])
        case '*'
            test $place[2] = "$argv[2]"
    end
end

function __@program@_live
    set -l words (commandline -opc)
    $words[1] __complete $argv[1] 2>/dev/null
end

complete -c @program@ -f
"#;

pub(super) fn script(root: &'static Command) -> String {
    let (mut takes, mut commands, mut completions) = (String::new(), String::new(), String::new());
    for path in all_paths(root) {
        let Some((command, group)) = path.split_last() else {
            continue;
        };
        let name = canonical(&path);
        let taking = command
            .own_options()
            .filter(|opt| opt.takes_next())
            .flat_map(written);
        let taking: Vec<String> = taking.map(|option| quoted(&format!("{name} {option}"))).collect();
        if !taking.is_empty() {
            takes.push_str(&format!(
                "        case {}\n            return 0\n",
                taking.join(" ")
            ));
        }
        if !group.is_empty() {
            let words = spellings(&[*command]);
            let cases: Vec<String> = words
                .iter()
                .map(|word| quoted(&format!("{} {word}", canonical(group))))
                .collect();
            commands.push_str(&format!(
                "            case {}\n                set at {}\n",
                cases.join(" "),
                quoted(&name)
            ));
        }
        completions.push_str(&complete(root, &name, command));
    }
    let script = format!(
        "{}{completions}",
        HEAD.replace("@takes@", &takes).replace("@commands@", &commands)
    );
    script.replace("@program@", root.name)
}

fn canonical(path: &[&'static Command]) -> String {
    path.iter()
        .map(|command| command.name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the `complete` lines of one command: its commands, its options, its positionals.
fn complete(root: &'static Command, name: &str, command: &'static Command) -> String {
    let mut text = String::new();
    let mut line = |condition: &str, rest: &str| {
        let condition = quoted(format!("__{}_at {} {condition}", root.name, quoted(name)).trim_end());
        text.push_str(&format!("complete -c {} -n {condition} {rest}\n", root.name));
    };
    for child in command.shown_children() {
        line("", &format!("-a {} -d {}", child.name, quoted(child.about)));
    }
    // The command's options end where its own arguments begin.
    let before = if command.parsing == Parsing::StopAtFirstPositional {
        "0"
    } else {
        ""
    };
    for opt in command.all_options() {
        line(before, &option(root, &opt));
    }
    for (index, positional) in command.positionals.iter().enumerate() {
        let place = if positional.many {
            format!("{index}+")
        } else {
            index.to_string()
        };
        if let Some(candidates) = candidates(root, positional.completes) {
            line(&place, &candidates);
        }
    }
    text
}

/// Returns the rest of an option's line. fish lists every name that it knows, so aliases are left out.
fn option(root: &'static Command, opt: &Opt) -> String {
    let letter = opt
        .short
        .map(|letter| format!("-s {letter} "))
        .unwrap_or_default();
    let value = match (opt.kind, candidates(root, opt.completes)) {
        (Kind::Flag | Kind::Halt, _) | (Kind::OptionalValue { .. }, None) => String::new(),
        (Kind::OptionalValue { .. }, Some(some)) => format!(" {some}"),
        (Kind::Value { .. } | Kind::List { .. }, Some(some)) => format!(" -r {some}"),
        (Kind::Value { .. } | Kind::List { .. }, None) => " -x".to_owned(),
    };
    format!("{letter}-l {} -d {}{value}", opt.long, quoted(opt.help))
}

/// Returns the part of a `complete` line that names the candidates; `-F` means files, which `complete -c PROGRAM -f`
/// turned off.
fn candidates(root: &'static Command, completes: Completes) -> Option<String> {
    let words = |words: Vec<&str>| Some(format!("-f -a {}", quoted(&words.join(" "))));
    match completes {
        Completes::None => None,
        Completes::File => Some("-F".to_owned()),
        Completes::Places => Some(format!("-F -a '(__{}_live places)'", root.name)),
        Completes::Dir => Some("-f -a '(__fish_complete_directories)'".to_owned()),
        Completes::Words(choices) => words(choices.to_vec()),
        Completes::Commands => words(root.shown_children().map(|child| child.name).collect()),
        names => names
            .live()
            .map(|names| format!("-f -a '(__{}_live {names})'", root.name)),
    }
}

/// Quotes text for fish, which keeps backslashes in single quotes unless they escape a quote or a backslash.
fn quoted(text: &str) -> String {
    single_quoted(&text.replace('\\', "\\\\"), "\\'")
}
