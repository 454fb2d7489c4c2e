//! docs/from-docker.md: what `inspect` gives of each option.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("from_docker::inspect_gives_each_option", &[], fields),
    test("from_docker::the_command_has_the_others", &[], commands),
    test("from_docker::no_option_is_missing", &[], complete),
];

/// The page whose tables are tried.
const PAGE: &str = include_str!("../../../../docs/from-docker.md");

/// Lists the rows of the page's tables with that many cells, without the backticks.
fn rows(cells: usize) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = PAGE.lines().filter(|line| line.starts_with("| `--"));
    let rows = lines.map(|line| {
        let inner = line.trim_start_matches("| ").trim_end_matches(" |");
        let cells = inner.split(" | ").map(|cell| cell.trim_matches('`'));
        cells.collect::<Vec<_>>()
    });
    rows.filter(move |row| row.len() == cells)
}

/// Splits an option's words as a shell does; blanks may stand in single quotes.
fn words(text: &str) -> Vec<String> {
    let parts = text.split('\'').enumerate();
    parts
        .flat_map(|(place, part)| match place % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(ToOwned::to_owned).collect(),
        })
        .collect()
}

/// Creates a container with the options of a row, and returns what `inspect` prints of a field.
fn field(cx: &Context, options: &str, field: &str) -> Result<String> {
    let image = cx.image();
    let given = words(options);
    let name = given.iter().position(|word| word == "--name");
    let name = name
        .and_then(|place| given.get(place + 1))
        .map_or("x", String::as_str);
    let mut line = vec!["create", "--name", name];
    line.extend(given.iter().map(String::as_str));
    line.extend([image.as_str(), "true"]);
    cx.tote(&line).output()?.exits(0)?;
    let template = format!("{{{{json {field}}}}}");
    let shown = cx.tote(&["inspect", "-f", &template, name]).output()?;
    let shown = shown.exits(0)?.out().trim_end().to_owned();
    cx.tote(&["rm", name]).output()?.exits(0)?;
    Ok(shown)
}

/// Makes what the rows name.
fn prepare(cx: &Context) -> Result<()> {
    let mut secret = cx.tote(&["secret", "create", "word", "-"]);
    secret = secret.input(b"x");
    secret.output()?.exits(0)?;
    let image = cx.image();
    let other = ["run", "-d", "--name", "other", &image, "sleep", "1000"];
    cx.tote(&other).output()?.exits(0)?;
    Ok(())
}

fn over(cx: &Context) -> Result<()> {
    cx.tote(&["rm", "-f", "-t", "0", "other"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn fields(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let mut wrong = Vec::new();
    for row in rows(3) {
        let [options, path, expected] = row[..] else {
            continue;
        };
        let shown = field(cx, options, path).with_context(|| options.to_owned())?;
        if shown != expected {
            wrong.push(format!(
                "{options}: {path} is {shown}, and the page says {expected}"
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    over(cx)
}

fn commands(cx: &Context) -> Result<()> {
    let mut tried = 0;
    for row in rows(2) {
        let [options, expected] = row[..] else { continue };
        let shown = field(cx, options, ".Config.CreateCommand").with_context(|| options.to_owned())?;
        ensure!(
            shown.contains(&format!("\"{expected}\"")),
            "{options}: {expected} is not in {shown}"
        );
        tried += 1;
    }
    ensure!(tried > 0, "the page has no such rows");
    cx.nothing_left()
}

/// Each option of `create` is on the page.
fn complete(cx: &Context) -> Result<()> {
    let help = cx.tote(&["create", "--help"]).output()?.exits(0)?.out();
    let options = help.lines().filter_map(|line| {
        let (_, rest) = line.strip_prefix("  ")?.split_once("--")?;
        let name: String = rest
            .chars()
            .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let is_at_the_beginning = line.find("--").is_some_and(|place| place <= 6);
        (is_at_the_beginning && !name.is_empty() && name != "help").then(|| format!("--{name}"))
    });
    let options: Vec<_> = options.collect();
    ensure!(options.len() > 100, "few options in the help: {options:?}");
    let is_there = |option: &String| {
        PAGE.match_indices(option.as_str()).any(|(place, _)| {
            let next = PAGE[place + option.len()..].chars().next();
            !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == '-')
        })
    };
    let missing: Vec<_> = options.iter().filter(|option| !is_there(option)).collect();
    ensure!(
        missing.is_empty(),
        "docs/from-docker.md does not say what `inspect` gives of {missing:?}"
    );
    cx.nothing_left()
}
