//! Script for bash: one `case` holds the tables, a loop finds out where on the command line the cursor is.

use super::spelling::{single_quoted, spellings, written};
use crate::table::{Command, Completes, Opt, Parsing, all_paths};

const SCRIPT: &str = r#"# bash completion for @program@, written by `@program@ completion bash`

# The tables: sets what the command $1 ("@program@ run") has.
_@program@_table() {
    commands= options= taking= letters= stops=
    case $1 in
@tables@    *) return 1 ;;
    esac
}

# What value the option $2 of the command $1 takes.
_@program@_value() {
    case "$1 $2" in
@values@    esac
}

# What the positional number $2 of the command $1 is.
_@program@_positional() {
    case "$1 $2" in
@positionals@    esac
}

_@program@_words() {
    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
    # After `container:` the word goes on.
    [[ ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace 2>/dev/null
}
_@program@_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); }
_@program@_dirs() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); }
_@program@_live() {
    local name
    while IFS= read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <("${words[@]:0:globals}" __complete "$1" 2>/dev/null)
}

# A container's name and a colon, or a path.
_@program@_places() {
    [[ $cur == [./]* ]] || _@program@_live places
    if [[ ${#COMPREPLY[@]} == 0 ]]; then
        _@program@_files
    else
        compopt -o nospace 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}

_@program@() {
    local words=() word piece= line=$COMP_LINE i
    COMPREPLY=()
    # bash splits words at = and : too; what has no space between belongs together.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $piece && $word && $line == "$word"* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${line#*"$word"}
        piece=$word
    done
    [[ $piece == [=:] ]] && piece=

    # Where the cursor is: below which command, after which option, at which positional.
    local cur=${words[${#words[@]} - 1]} whole path=@program@ expecting= over= positional=1 globals=1 letter
    local commands options taking letters stops
    whole=$cur
    _@program@_table "$path"
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ $expecting ]]; then
            expecting=
        elif [[ ! $over && $word == -- ]]; then
            over=1
        elif [[ ! $over && $word == --* ]]; then
            [[ $word != *=* && " $taking " == *" $word "* ]] && expecting=$word
        elif [[ ! $over && $word == -?* ]]; then
            for ((letter = 1; letter < ${#word}; letter++)); do
                if [[ $letters == *"${word:letter:1}"* ]]; then
                    ((letter == ${#word} - 1)) && expecting=-${word:letter:1}
                    break
                fi
            done
        elif [[ $commands && $positional == 1 ]] && _@program@_table "$path $word"; then
            [[ $path == @program@ ]] && globals=$i
            path+=" $word" over=
        else
            _@program@_table "$path" || return
            ((positional++))
            [[ $stops ]] && over=1
        fi
    done
    [[ $path == @program@ ]] && globals=$i

    if [[ $expecting ]]; then
        _@program@_value "$path" "$expecting"
    elif [[ ! $over && $cur == --*=* ]]; then
        word=${cur%%=*} cur=${cur#*=}
        _@program@_value "$path" "$word"
    elif [[ ! $over && $cur == -* ]]; then
        _@program@_words "$options"
    elif [[ $commands && $positional == 1 ]]; then
        # A command may have both; the second one adds to the first.
        _@program@_words "$commands"
        _@program@_positional "$path" "$positional"
    else
        _@program@_positional "$path" "$positional"
    fi

    # bash replaces only what follows the last = or :.
    word=${whole%"$piece"}
    [[ $whole != "$cur" ]] && word=${word#"${whole%"$cur"}"}
    COMPREPLY=("${COMPREPLY[@]#"$word"}")
}

complete -F _@program@ @program@
"#;

pub(super) fn script(root: &'static Command) -> String {
    let (mut tables, mut values, mut positionals) = (String::new(), String::new(), String::new());
    for path in all_paths(root) {
        let Some(command) = path.last().copied() else {
            continue;
        };
        let ways = spellings(&path);
        table(&mut tables, &ways, command);
        for opt in command.own_options() {
            let Some(action) = action(root, opt.completes) else {
                continue;
            };
            let names = written(opt);
            let patterns = ways
                .iter()
                .flat_map(|way| names.iter().map(move |name| format!("{way} {name}")));
            push_case(
                &mut values,
                patterns.map(|pattern| format!("{pattern:?}")),
                &action,
            );
        }
        for (index, positional) in command.positionals.iter().enumerate() {
            let Some(action) = action(root, positional.completes) else {
                continue;
            };
            // Only the last positional may be repeated: its pattern comes after those of the others.
            let number = if positional.many {
                "*".to_owned()
            } else {
                (index + 1).to_string()
            };
            push_case(
                &mut positionals,
                ways.iter().map(|way| format!("{way:?}\\ {number}")),
                &action,
            );
        }
    }
    SCRIPT
        .replace("@tables@", &tables)
        .replace("@values@", &values)
        .replace("@positionals@", &positionals)
        .replace("@program@", root.name)
}

fn push_case(cases: &mut String, patterns: impl Iterator<Item = String>, action: &str) {
    let patterns: Vec<String> = patterns.collect();
    cases.push_str(&format!("    {}) {action} ;;\n", patterns.join(" | ")));
}

/// Returns the shell command that completes such a value, if it can be completed.
fn action(root: &'static Command, completes: Completes) -> Option<String> {
    let program = root.name;
    let words = |words: Vec<&str>| format!("_{program}_words {}", single_quoted(&words.join(" "), "'\\''"));
    match completes {
        Completes::None => None,
        Completes::File => Some(format!("_{program}_files")),
        Completes::Dir => Some(format!("_{program}_dirs")),
        Completes::Places => Some(format!("_{program}_places")),
        Completes::Words(choices) => Some(words(choices.to_vec())),
        Completes::Commands => Some(words(root.shown_children().map(|child| child.name).collect())),
        names => names.live().map(|names| format!("_{program}_live {names}")),
    }
}

fn table(tables: &mut String, ways: &[String], command: &'static Command) {
    let patterns: Vec<String> = ways.iter().map(|way| format!("{way:?}")).collect();
    let commands: Vec<&str> = command.shown_children().map(|child| child.name).collect();
    let long_and_letter = |opt: Opt| {
        [
            Some(format!("--{}", opt.long)),
            opt.short.map(|letter| format!("-{letter}")),
        ]
    };
    let options: Vec<String> = command
        .all_options()
        .flat_map(long_and_letter)
        .flatten()
        .collect();
    let taking = || command.own_options().filter(|opt| opt.takes_next());
    let letters: String = taking().filter_map(|opt| opt.short).collect();
    let stops = if command.parsing == Parsing::StopAtFirstPositional {
        "1"
    } else {
        ""
    };
    tables.push_str(&format!("    {})\n", patterns.join(" | ")));
    for (variable, content) in [
        ("commands", commands.join(" ")),
        ("options", options.join(" ")),
        ("taking", taking().flat_map(written).collect::<Vec<_>>().join(" ")),
        ("letters", letters),
        ("stops", stops.to_owned()),
    ] {
        if !content.is_empty() {
            tables.push_str(&format!(
                "        {variable}={}\n",
                single_quoted(&content, "'\\''")
            ));
        }
    }
    tables.push_str("        ;;\n");
}
