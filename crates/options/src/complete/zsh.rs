//! Script for zsh: one function for each command, whose table `_arguments` reads.

use super::spelling::{single_quoted, spellings, written};
use crate::table::{Command, Completes, Kind, Opt, Parsing, Positional, all_paths};

const HEAD: &str = r#"#compdef @program@
# zsh completion for @program@, written by `@program@ completion zsh`

# _arguments puts its options for compadd before the kind of names.
_@program@_live() {
    local -a names
    names=(${(f)"$(_call_program $argv[-1] @program@ __complete $argv[-1] 2>/dev/null)"})
    compadd "${(@)argv[1,-2]}" -a names
}

# A container's name and a colon, or a path.
_@program@_places() {
    [[ $PREFIX == [./]* ]] || _@program@_live "$@" -S '' places
    _files "$@"
}
"#;

const TAIL: &str = r#"
# Sourced, the script registers itself; autoloaded from fpath, this file is the function.
if [[ $funcstack[1] == _@program@ ]]; then
    _@program@ "$@"
else
    compdef _@program@ @program@
fi
"#;

pub(super) fn script(root: &'static Command) -> String {
    let mut script = HEAD.to_owned();
    // Commands come before the groups that call them; the root is last, as autoload demands.
    for path in all_paths(root).into_iter().rev() {
        let Some(command) = path.last().copied() else {
            continue;
        };
        script.push_str(&function(root, &path, command));
    }
    script.push_str(TAIL);
    script.replace("@program@", root.name)
}

fn function_name(path: &[&'static Command]) -> String {
    path.iter()
        .fold(String::new(), |name, command| format!("{name}_{}", command.name))
}

fn function(root: &'static Command, path: &[&'static Command], command: &'static Command) -> String {
    let mut text = format!("\n{}() {{\n", function_name(path));
    let stops = command.parsing == Parsing::StopAtFirstPositional || !command.subcommands.is_empty();
    if !command.subcommands.is_empty() {
        text.push_str("    local curcontext=$curcontext state line\n    typeset -A opt_args\n");
    }
    let mut specs: Vec<String> = command
        .all_options()
        .flat_map(|opt| option_specs(root, &opt))
        .collect();
    if command.subcommands.is_empty() {
        specs.extend(
            command
                .positionals
                .iter()
                .map(|positional| positional_spec(root, positional, stops)),
        );
    } else {
        specs.push(single_quoted("1: :->command", QUOTE));
        specs.push(single_quoted("*:: :->rest", QUOTE));
    }
    let until = if stops { " -A '-*'" } else { "" };
    text.push_str(&format!(
        "    _arguments -C -s -S{until} \\\n        {}\n",
        specs.join(" \\\n        ")
    ));
    if !command.subcommands.is_empty() {
        text.push_str(&dispatch(root, path, command));
    }
    text.push_str("}\n");
    text
}

/// Form of a quote within single quotes.
const QUOTE: &str = "'\\''";

/// Lists a group's commands, and calls the function of the one that was typed.
fn dispatch(root: &'static Command, path: &[&'static Command], command: &'static Command) -> String {
    let described =
        |child: &'static Command| single_quoted(&format!("{}:{}", child.name, child.about), QUOTE);
    let list: Vec<String> = command.shown_children().map(described).collect();
    let mut text = String::from("    case $state in\n    command)\n        local -a commands=(\n");
    for entry in list {
        text.push_str(&format!("            {entry}\n"));
    }
    text.push_str("        )\n        _describe command commands\n");
    if let Some(first) = command.positionals.first() {
        text.push_str(&format!("        {}\n", action(root, first.completes)));
    }
    text.push_str("        ;;\n    rest)\n        case $words[1] in\n");
    for child in command.children() {
        let below: Vec<&'static Command> = path.iter().copied().chain([child]).collect();
        let names = spellings(&[child]).join("|");
        text.push_str(&format!("        {names}) {} ;;\n", function_name(&below)));
    }
    text.push_str("        esac\n        ;;\n    esac\n");
    text
}

/// Returns the specifications of an option: one for each spelling; aliases are known but not listed.
fn option_specs(root: &'static Command, opt: &Opt) -> Vec<String> {
    let names = written(opt);
    let prefix = match opt.kind {
        Kind::List { .. } => "*".to_owned(),
        Kind::Halt => "(- *)".to_owned(),
        _ if names.len() > 1 => format!("({})", names.join(" ")),
        _ => String::new(),
    };
    let help = escaped(opt.help);
    let value = opt
        .metavar()
        .map(|metavar| format!("{}:{}", escaped(metavar), action(root, opt.completes)));
    let spec = |name: &String| {
        let hidden = if opt
            .aliases
            .iter()
            .any(|alias| name.strip_prefix("--") == Some(alias))
        {
            "!"
        } else {
            ""
        };
        let (join, value) = match (&value, opt.kind) {
            (Some(value), Kind::OptionalValue { .. }) => ("=-", format!("::{value}")),
            (Some(value), _) if name.starts_with("--") => ("=", format!(":{value}")),
            (Some(value), _) => ("+", format!(":{value}")),
            (None, _) => ("", String::new()),
        };
        single_quoted(&format!("{hidden}{prefix}{name}{join}[{help}]{value}"), QUOTE)
    };
    names.iter().map(spec).collect()
}

fn positional_spec(root: &'static Command, positional: &Positional, stops: bool) -> String {
    let many = match (positional.many, stops) {
        (true, true) => "*::",
        (true, false) => "*:",
        (false, _) if positional.required => ":",
        (false, _) => "::",
    };
    let name = escaped(&positional.name.to_lowercase());
    single_quoted(
        &format!("{many}{name}:{}", action(root, positional.completes)),
        QUOTE,
    )
}

fn action(root: &'static Command, completes: Completes) -> String {
    match completes {
        Completes::None => String::new(),
        Completes::File => "_files".to_owned(),
        Completes::Dir => "_files -/".to_owned(),
        Completes::Places => format!("_{}_places", root.name),
        Completes::Words(words) => format!("({})", escaped(&words.join(" "))),
        Completes::Commands => {
            let names: Vec<&str> = root.shown_children().map(|child| child.name).collect();
            format!("({})", names.join(" "))
        }
        names => names
            .live()
            .map(|names| format!("_{}_live {names}", root.name))
            .unwrap_or_default(),
    }
}

/// Escapes text inside a specification, which brackets and colons would end.
fn escaped(text: &str) -> String {
    let mut spec = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '[' | ']' | ':' | '\\') {
            spec.push('\\');
        }
        spec.push(character);
    }
    spec
}
