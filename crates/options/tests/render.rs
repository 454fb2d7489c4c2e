//! Output of the renderers, compared with the files in `snapshots/`. `UPDATE=1 cargo test` rewrites those.

mod fixture;

use fixture::{BOAT, float};
use tote_options::{
    Command, Group, Opt, Parsing, Positional, Section, Shell, find, help, man, man_name, table_faults,
};

fn compare(name: &str, rendered: &str, kept: &str) -> std::io::Result<()> {
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(
            format!("{}/tests/snapshots/{name}", env!("CARGO_MANIFEST_DIR")),
            rendered,
        );
    }
    assert_eq!(rendered, kept, "{name} has changed; UPDATE=1 rewrites the file");
    Ok(())
}

#[test]
fn help_texts() {
    let path = |words: &[&str]| find(&BOAT, words).unwrap();
    for (name, words, width, kept) in [
        ("boat.help", &[][..], 80, include_str!("snapshots/boat.help")),
        ("run.help", &["run"], 80, include_str!("snapshots/run.help")),
        (
            "run-narrow.help",
            &["run"],
            50,
            include_str!("snapshots/run-narrow.help"),
        ),
        (
            "tag.help",
            &["image", "tag"],
            80,
            include_str!("snapshots/tag.help"),
        ),
        ("rm.help", &["rm"], 80, include_str!("snapshots/rm.help")),
    ] {
        compare(name, &help(&path(words), width), kept).unwrap();
    }
}

#[test]
fn man_pages() {
    let path = |words: &[&str]| find(&BOAT, words).unwrap();
    compare(
        "boat.1",
        &man(&path(&[]), "1.2"),
        include_str!("snapshots/boat.1"),
    )
    .unwrap();
    compare(
        "boat-run.1",
        &man(&path(&["run"]), "1.2"),
        include_str!("snapshots/boat-run.1"),
    )
    .unwrap();
    assert_eq!(man_name(&path(&["image", "ls"])), "boat-image-ls");
}

#[test]
fn completion_scripts() {
    compare(
        "boat.bash",
        &Shell::Bash.script(&BOAT),
        include_str!("snapshots/boat.bash"),
    )
    .unwrap();
    compare(
        "boat.zsh",
        &Shell::Zsh.script(&BOAT),
        include_str!("snapshots/boat.zsh"),
    )
    .unwrap();
    compare(
        "boat.fish",
        &Shell::Fish.script(&BOAT),
        include_str!("snapshots/boat.fish"),
    )
    .unwrap();
    for name in Shell::NAMES {
        assert!(Shell::named(name).is_some(), "{name}");
    }
}

#[test]
fn help_fits_any_width() {
    for words in [&[][..], &["run"], &["image", "ls"]] {
        for width in [0, 1, 24, 60, 200, usize::MAX] {
            let text = help(&find(&BOAT, words).unwrap(), width);
            assert!(text.starts_with("Usage:  boat") && text.ends_with('\n'));
            assert!(!text.contains(" \n"), "blanks at the end of a line");
        }
    }
    assert_eq!(help(&[], 80), "");
    assert_eq!(man(&[], "1"), "");
}

/// The table of this test is valid, and each fault that a table can have is found.
#[test]
fn faults_are_found() {
    assert_eq!(table_faults(&BOAT), Vec::<String>::new());
    static CHILD: Command = Command {
        usage: "",
        options: &[&Group {
            title: "",
            options: &[
                Opt::flag("root", "Same as its parent's"),
                Opt::flag("top", "An alias that its parent has").aliases(&["deck"]),
                Opt::flag("one", "Twice").short('o'),
                Opt::flag("two", "Twice").short('o').aliases(&["one"]),
                Opt::flag("help", "Everybody has it"),
                Opt::flag("Loud", "Capital"),
                Opt::flag("stop", "Ends with a full stop."),
                Opt::flag("small", "starts small"),
                Opt::flag("lines", "Two\nlines"),
                Opt::flag("default", "A default for nothing").default("1"),
            ],
        }],
        positionals: &[
            Positional {
                name: "A",
                required: false,
                many: true,
                completes: tote_options::Completes::None,
            },
            Positional {
                name: "B",
                required: true,
                many: false,
                completes: tote_options::Completes::None,
            },
        ],
        details: "an odd `backquote",
        ..Command::new("child", "A child", float)
    };
    static OTHER: Command = Command {
        aliases: &["child"],
        parsing: Parsing::StopAtFirstPositional,
        ..Command::new("other", "Another", float)
    };
    static ROOT: Command = Command {
        options: &[&Group {
            title: "",
            options: &[
                Opt::value("root", "DIR", "Directory"),
                Opt::value("deck", "DIR", "Another directory"),
            ],
        }],
        subcommands: &[Section {
            title: "Commands",
            commands: &[&CHILD, &OTHER],
        }],
        ..Command::new("x", "A program", float)
    };
    let expected = "\
x: the command child is there twice
x child: --root is there twice
x child: --one is there twice
x child: -o is there twice
x child: --Loud is not a plain name
x child: --help is there twice
x child: stop: ends with a full stop
x child: small: does not start with a capital
x child: lines: not one line of at most 100 characters
x child: details: not ASCII, or a backquote without its fellow
x child: more of a positional that is not the last
x child: a required positional follows an optional one
x child: usage does not name A
x child: usage does not name B
x child: --default takes no value but has a default
x other: stops at the first positional but has none";
    assert_eq!(table_faults(&ROOT).join("\n"), expected);
}
