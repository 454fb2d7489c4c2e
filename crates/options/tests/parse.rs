//! Command lines and their results.

mod fixture;

use fixture::{BOAT, float, shown};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use tote_options::{Command, Fault, Parsed, Positional, Section, UsageError, parse};

fn parsed(line: &[&str]) -> Result<Parsed, UsageError> {
    parse(&BOAT, line.iter().map(OsString::from))
}

/// Formats a result: `boat run | interactive=true env=X | alpine ls`.
fn summary(parsed: &Parsed) -> String {
    let hint = parsed.too_few_words(0).hint();
    let path = hint.trim_start_matches("see '").trim_end_matches(" --help'");
    let pair = |(opt, value): &(&tote_options::Opt, OsString)| format!("{}={}", opt.long, value.display());
    let values: Vec<String> = parsed.values().iter().map(pair).collect();
    let positionals: Vec<String> = parsed
        .positionals()
        .iter()
        .map(|word| word.display().to_string())
        .collect();
    format!("{path} | {} | {}", values.join(" "), positionals.join(" "))
}

const GOOD: &[(&[&str], &str)] = &[
    (&[], "boat |  | "),
    (&["run", "alpine"], "boat run |  | alpine"),
    (&["--root", "/x", "run", "a"], "boat run | root=/x | a"),
    (&["--root=/x", "image", "ls"], "boat image ls | root=/x | "),
    (&["image"], "boat image |  | "),
    (&["images", "list", "a"], "boat image ls |  | a"),
    (&["remove", "a"], "boat rm |  | a"),
    (&["__secret"], "boat __secret |  | "),
    // Flags cluster, and values may be glued on or not.
    (&["run", "-it", "a"], "boat run | interactive=true tty=true | a"),
    (
        &["run", "-ite", "X=1", "a"],
        "boat run | interactive=true tty=true env=X=1 | a",
    ),
    (
        &["run", "-iteX=1", "a"],
        "boat run | interactive=true tty=true env=X=1 | a",
    ),
    (
        &["run", "-eX=1", "-e=X=2", "-e", "X=3", "a"],
        "boat run | env=X=1 env=X=2 env=X=3 | a",
    ),
    (
        &["run", "--env=X", "--env", "Y=", "a"],
        "boat run | env=X env=Y= | a",
    ),
    (&["run", "--env=", "a"], "boat run | env= | a"),
    (&["run", "-e=", "a"], "boat run | env== | a"),
    (
        &["run", "--net", "none", "--net=host", "a"],
        "boat run | network=none network=host | a",
    ),
    // A value is the next argument, whatever it looks like.
    (&["run", "--name", "--rm", "a"], "boat run | name=--rm | a"),
    (&["run", "--name", "--", "a"], "boat run | name=-- | a"),
    (&["run", "-m", "-1", "a"], "boat run | memory=-1 | a"),
    // Flags with a value need the equals sign.
    (
        &["run", "--rm=false", "--tty=1", "a"],
        "boat run | rm=false tty=true | a",
    ),
    (
        &["run", "-t=false", "-it=F", "a"],
        "boat run | tty=false interactive=true tty=false | a",
    ),
    (&["run", "--rm", "false"], "boat run | rm=true | false"),
    (&["run", "--gpus", "a"], "boat run | gpus=all | a"),
    (
        &["run", "--gpus=one", "-g=two", "-gi", "a"],
        "boat run | gpus=one gpus=two gpus=all interactive=true | a",
    ),
    // Options end here.
    (
        &["run", "a", "--rm", "-z", "--", "x"],
        "boat run |  | a --rm -z -- x",
    ),
    (&["run", "--", "a", "--", "--rm"], "boat run |  | a -- --rm"),
    (&["run", "--", "--rm"], "boat run |  | --rm"),
    (&["run", "-", "--rm"], "boat run |  | - --rm"),
    (&["rm", "a", "--force", "b"], "boat rm | force=true | a b"),
    (&["rm", "a", "--", "-f", "--"], "boat rm |  | a -f --"),
    (&["rm", "-", "-f"], "boat rm | force=true | -"),
    (&["--", "rm", "-f", "a"], "boat rm | force=true | a"),
    (&["run", ""], "boat run |  | "),
    // Help and version replace everything else.
    (&["--version", "nonsense", "--more"], "boat | version=true | "),
    (&["-v"], "boat | version=true | "),
    (&["-h"], "boat | help=true | "),
    (&["run", "--help", "--foo"], "boat run | help=true | "),
    (&["image", "-h"], "boat image | help=true | "),
    (&["rm", "-fh"], "boat rm | force=true help=true | "),
    (&["rm", "--help=false", "a"], "boat rm | help=false | a"),
    (&["run", "-h", "web", "a"], "boat run | hostname=web | a"),
    (&["run", "a", "--help"], "boat run |  | a --help"),
];

#[test]
fn good_lines() {
    for (line, expected) in GOOD {
        match parsed(line) {
            Ok(parsed) => assert_eq!(summary(&parsed), *expected, "{line:?}"),
            Err(error) => panic!("{line:?}: {error}"),
        }
    }
}

const SEE_RUN: &str = "see 'boat run --help'";
const SEE_RM: &str = "see 'boat rm --help'";

const WRONG: &[(&[&str], &str, &str)] = &[
    (&["run", "--foo", "a"], "unknown flag: --foo", SEE_RUN),
    (&["run", "--foo=bar", "a"], "unknown flag: --foo", SEE_RUN),
    (
        &["run", "--rmm", "a"],
        "unknown flag: --rmm",
        "did you mean --rm? see 'boat run --help'",
    ),
    (
        &["run", "--nmae=x", "a"],
        "unknown flag: --nmae",
        "did you mean --name? see 'boat run --help'",
    ),
    (&["run", "--RM", "a"], "unknown flag: --RM", SEE_RUN),
    (&["run", "--inter", "a"], "unknown flag: --inter", SEE_RUN),
    (
        &["run", "--root", "/x", "a"],
        "unknown flag: --root",
        "--root belongs right after 'boat', before the command. see 'boat run --help'",
    ),
    (&["--rm"], "unknown flag: --rm", "see 'boat --help'"),
    (&["run", "-z"], "unknown shorthand flag: 'z' in -z", SEE_RUN),
    (&["run", "-izt"], "unknown shorthand flag: 'z' in -zt", SEE_RUN),
    (
        &["run", "-rm", "a"],
        "unknown shorthand flag: 'r' in -rm",
        "did you mean --rm? see 'boat run --help'",
    ),
    (&["run", "-t=", "a"], "unknown shorthand flag: '=' in -=", SEE_RUN),
    (
        &["run", "--anchor=2", "a"],
        "unknown flag: --anchor",
        "this boat has no anchor: give --tty. see 'boat run --help'",
    ),
    (
        &["run", "-tA2", "a"],
        "unknown shorthand flag: 'A' in -A2",
        "this boat has no anchor: give --tty. see 'boat run --help'",
    ),
    (
        &["sail"],
        "'sail' is not a boat command.",
        "boats here have motors: see 'boat run'. see 'boat --help'",
    ),
    (&["run", "-é"], "unknown shorthand flag: 'é' in -é", SEE_RUN),
    (&["run", "--=a"], "bad flag syntax: --=a", SEE_RUN),
    (&["run", "---rm"], "bad flag syntax: ---rm", SEE_RUN),
    (&["run", "--name"], "flag needs an argument: --name", SEE_RUN),
    (&["run", "-im"], "flag needs an argument: 'm' in -m", SEE_RUN),
    (
        &["run", "--rm=maybe", "a"],
        "invalid argument \"maybe\" for \"--rm\" flag: expected true or false",
        SEE_RUN,
    ),
    (
        &["run", "-t=foo", "a"],
        "invalid argument \"foo\" for \"-t, --tty\" flag: expected true or false",
        SEE_RUN,
    ),
    (
        &["run", "--rm=", "a"],
        "invalid argument \"\" for \"--rm\" flag: expected true or false",
        SEE_RUN,
    ),
    (&["run"], "\"boat run\" requires at least 1 argument.", SEE_RUN),
    (
        &["run", "--"],
        "\"boat run\" requires at least 1 argument.",
        SEE_RUN,
    ),
    (&["rm", "-f"], "\"boat rm\" requires at least 1 argument.", SEE_RM),
    (
        &["version", "x"],
        "\"boat version\" accepts no arguments.",
        "see 'boat version --help'",
    ),
    (
        &["image", "ls", "a", "b"],
        "\"boat image ls\" requires at most 1 argument.",
        "see 'boat image ls --help'",
    ),
    (
        &["image", "tag", "a"],
        "\"boat image tag\" requires exactly 2 arguments.",
        "see 'boat image tag --help'",
    ),
    (&["foo"], "'foo' is not a boat command.", "see 'boat --help'"),
    (
        &["image", "foo"],
        "'foo' is not a boat image command.",
        "see 'boat image --help'",
    ),
    (
        &["rnu", "a"],
        "'rnu' is not a boat command.",
        "did you mean 'boat run'? see 'boat --help'",
    ),
    (
        &["secret"],
        "'secret' is not a boat command.",
        "see 'boat --help'",
    ),
    // No message may drive a terminal.
    (
        &["\x1b[2J"],
        "'\\u{1b}[2J' is not a boat command.",
        "see 'boat --help'",
    ),
    (&["run", "--a\nb"], "unknown flag: --a\\nb", SEE_RUN),
    (
        &["run", "-\x07"],
        "unknown shorthand flag: '\\u{7}' in -\\u{7}",
        SEE_RUN,
    ),
];

#[test]
fn wrong_lines() {
    for (line, message, hint) in WRONG {
        match parsed(line) {
            Ok(parsed) => panic!("{line:?}: {}", summary(&parsed)),
            Err(error) => assert_eq!(shown(&error), format!("{message} | {hint}"), "{line:?}"),
        }
    }
}

#[test]
fn the_row_of_a_command_is_carried_out() {
    for (line, code) in [
        (&["image", "tag", "a", "b"][..], 2),
        (&["image"], 0),
        (&["images", "ls"], 0),
    ] {
        assert_eq!(parsed(line).unwrap().execute(), ExitCode::from(code), "{line:?}");
    }
}

#[test]
fn errors_know_the_command() {
    let error = parsed(&["--root", "/", "image", "ls", "--foo"]).unwrap_err();
    let ls = BOAT.child("image").and_then(|image| image.child("ls")).unwrap();
    assert!(error.is_below(&BOAT) && error.is_below(ls));
    assert!(!error.is_below(BOAT.child("run").unwrap()));
    assert_eq!(error.usage(), "boat image ls [OPTIONS] [IMAGE]");
    assert_eq!(*error.fault(), Fault::UnknownFlag("--foo".to_owned()));
}

#[test]
fn accessors() {
    let line = [
        "run",
        "--rm",
        "--rm=false",
        "--name=a",
        "--name",
        "b",
        "-e",
        "X=1",
        "-eY",
        "-m",
        "12",
        "img",
    ];
    let parsed = parsed(&line).unwrap();
    assert!(!parsed.flag("rm"), "the last one wins");
    assert!(!parsed.flag("tty"));
    assert!(!parsed.wants_help());
    assert_eq!(parsed.value("name"), Some(OsStr::new("b")));
    assert_eq!(parsed.value("hostname"), None);
    assert_eq!(parsed.texts("env").unwrap(), ["X=1", "Y"]);
    assert_eq!(parsed.number::<u64>("memory").unwrap(), Some(12));
    assert_eq!(parsed.number::<u64>("hostname").unwrap(), None);
    assert_eq!(parsed.positional_text(0).unwrap(), Some("img"));
    assert_eq!(parsed.positional_text(1).unwrap(), None);
    assert_eq!(
        parsed.number::<u64>("name").unwrap_err().to_string(),
        "invalid argument \"b\" for \"--name\" flag: invalid digit found in string"
    );
    assert_eq!(
        parsed.conflict("rm", "name").to_string(),
        "conflicting options: cannot specify both --rm and --name"
    );
    assert_eq!(
        parsed.invalid_positional(0, "not a reference").to_string(),
        "invalid IMAGE \"img\": not a reference"
    );
}

#[test]
fn a_setting_falls_back_to_the_default() {
    let given = parsed(&["--root", "/x", "version"]).unwrap();
    assert_eq!(given.setting("root").as_deref(), Some(OsStr::new("/x")));
    // The variable is not set where tests run, and setting it would race with other tests.
    let absent = parsed(&["version"]).unwrap();
    assert_eq!(
        absent.setting("root").as_deref(),
        Some(OsStr::new("/var/lib/boat"))
    );
    assert_eq!(absent.value("root"), None);
}

#[test]
#[should_panic(expected = "no table on the path has --rmm")]
fn asking_for_an_unknown_option_is_a_bug() {
    let _flag = parsed(&["run", "a"]).unwrap().flag("rmm");
}

fn bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[test]
fn bytes_that_are_not_text() {
    let path = bytes(b"/a\xff");
    for line in [
        vec!["run".into(), "--name".into(), path.clone(), "i".into()],
        vec!["run".into(), bytes(b"--name=/a\xff"), "i".into()],
    ] {
        let parsed = parse(&BOAT, line).unwrap();
        assert_eq!(parsed.value("name"), Some(path.as_os_str()));
        assert_eq!(
            parsed.text("name").unwrap_err().to_string(),
            "invalid argument \"/a\u{fffd}\" for \"--name\" flag: not valid UTF-8"
        );
    }
    let parsed = parse(
        &BOAT,
        ["run".into(), bytes(b"-m/a\xff"), path.clone(), path.clone()],
    )
    .unwrap();
    assert_eq!(parsed.value("memory"), Some(path.as_os_str()));
    assert_eq!(parsed.positionals(), [path.clone(), path.clone()]);
    assert!(parsed.positional_text(0).is_err());
    for (word, message) in [
        (bytes(b"--na\xff"), "unknown flag: --na\u{fffd}"),
        (bytes(b"-\xff"), "unknown shorthand flag: '\u{fffd}' in -\u{fffd}"),
        (
            bytes(b"--rm=\xff"),
            "invalid argument \"\u{fffd}\" for \"--rm\" flag: expected true or false",
        ),
    ] {
        assert_eq!(
            parse(&BOAT, ["run".into(), word]).unwrap_err().to_string(),
            message
        );
    }
    assert_eq!(
        parse(&BOAT, [bytes(b"\xff")]).unwrap_err().to_string(),
        "'\u{fffd}' is not a boat command."
    );
}

/// Every line of up to four words from a nasty vocabulary is parsed or refused; none of them panics.
#[test]
fn no_line_panics() {
    let words: Vec<OsString> = [
        &b"run"[..],
        b"image",
        b"rm",
        b"a",
        b"",
        b"-",
        b"--",
        b"---",
        b"--=",
        b"-=",
        b"-e",
        b"-e=",
        b"--env",
        b"--env=",
        b"-it",
        b"-t=",
        b"-g",
        b"--gpus=",
        b"-h",
        b"--help",
        b"--help=",
        b"-\xff",
        b"--\xff=",
        b"\xff",
    ]
    .into_iter()
    .map(bytes)
    .collect();
    let mut accepted = 0;
    let mut lines: Vec<Vec<OsString>> = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |line: &Vec<OsString>| {
            words
                .iter()
                .map(|word| line.iter().cloned().chain([word.clone()]).collect())
                .collect::<Vec<_>>()
        };
        lines = lines.iter().flat_map(longer).collect();
        for line in &lines {
            match parse(&BOAT, line.clone()) {
                Ok(_) => accepted += 1,
                Err(error) => assert!(!shown(&error).contains('\n'), "{line:?}"),
            }
        }
    }
    assert!(accepted > 1000, "{accepted} lines were accepted");
}

static ADD: Command = Command {
    positionals: &[WORD],
    ..Command::new("add", "Add a port", float)
};
static PORT: Command = Command {
    positionals: &[
        WORD,
        Positional {
            required: false,
            ..WORD
        },
    ],
    subcommands: &[Section {
        title: "Commands",
        commands: &[&ADD],
    }],
    ..Command::new("port", "List ports", float)
};
const WORD: Positional = Positional {
    name: "WORD",
    required: true,
    many: false,
    completes: tote_options::Completes::None,
};

#[test]
fn a_command_may_take_words_beside_its_commands() {
    let words = |line: &[&str]| parse(&PORT, line.iter().map(OsString::from));
    for (line, expected) in [
        (&["web", "add"][..], "port |  | web add"),
        (&["add", "web"], "port add |  | web"),
        (&["--", "add"], "port |  | add"),
    ] {
        assert_eq!(summary(&words(line).unwrap()), expected);
    }
    for line in [&[][..], &["add"], &["a", "b", "c"]] {
        assert!(words(line).is_err(), "{line:?}");
    }
}
