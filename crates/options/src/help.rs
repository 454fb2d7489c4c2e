//! Output of `--help`, in docker's layout.

use crate::parsed::Parsed;
use crate::prose::{Block, blocks, filled};
use crate::table::{Command, HELP, Kind, Opt, spelled};

/// Last column in which the text may start; a longer option has its text on the next line.
const LAST_COLUMN: usize = 34;
/// Narrowest width of the text, whatever the terminal.
const NARROWEST: usize = 24;

/// Returns the help text for the last command of `path`, filled to `width` columns, with a newline at the end.
///
/// An empty path gives an empty text.
#[must_use]
pub fn help(path: &[&'static Command], width: usize) -> String {
    let Some(command) = path.last() else {
        return String::new();
    };
    let mut page = Page {
        text: String::new(),
        width,
    };
    page.usage(path, command);
    page.commands(command);
    page.options(command);
    page.details(command.details);
    page.exit_status(command);
    page.examples(command);
    if command.shown_children().next().is_some() {
        page.heading(&format!(
            "Run '{} COMMAND --help' for more information on a command.",
            spelled(path)
        ));
    }
    page.text
}

impl Parsed {
    /// Returns the help text for the command, as [`help`] does.
    #[must_use]
    pub fn help(&self, width: usize) -> String {
        help(&self.path, width)
    }
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds a line after a blank one.
    fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.line(heading);
    }

    fn usage(&mut self, path: &[&'static Command], command: &Command) {
        let name = spelled(path);
        let mut forms = command.usage.lines();
        self.line(&format!("Usage:  {name} {}", forms.next().unwrap_or_default()));
        for form in forms {
            self.line(&format!("        {name} {form}"));
        }
        self.text.push('\n');
        for line in filled(command.about, self.width) {
            self.line(&line);
        }
        if !command.aliases.is_empty() {
            let group = spelled(path.split_last().map_or(&[], |(_, group)| group));
            let names = std::iter::once(&command.name).chain(command.aliases);
            let names: Vec<String> = names.map(|name| format!("{group} {name}")).collect();
            self.heading("Aliases:");
            self.line(&format!("  {}", names.join(", ")));
        }
    }

    fn commands(&mut self, command: &Command) {
        let longest = command
            .shown_children()
            .map(|child| child.name.len())
            .max()
            .unwrap_or_default();
        for section in command.subcommands {
            let mut shown = section.commands.iter().filter(|child| !child.hidden).peekable();
            if shown.peek().is_some() {
                self.heading(&format!("{}:", section.title));
            }
            for child in shown {
                self.entry(&format!("  {}", child.name), longest + 5, child.about);
            }
        }
    }

    fn options(&mut self, command: &'static Command) {
        let labels = || command.all_options().map(|opt| label(&opt).chars().count() + 3);
        let column = labels()
            .filter(|end| *end <= LAST_COLUMN)
            .max()
            .unwrap_or(LAST_COLUMN);
        for (index, group) in command.options.iter().enumerate() {
            self.heading(&heading_of(group.title));
            for opt in group.options {
                self.entry(&label(opt), column, &explained(opt));
            }
            if index + 1 == command.options.len() {
                self.help_option(command, column);
            }
        }
        if command.options.is_empty() {
            self.heading("Options:");
            self.help_option(command, column);
        }
    }

    fn help_option(&mut self, command: &'static Command, column: usize) {
        if let Some(opt) = command.all_options().last() {
            self.entry(&label(&opt), column, HELP.help);
        }
    }

    fn details(&mut self, details: &str) {
        let mut after_term = false;
        for block in blocks(details) {
            if !(after_term && matches!(block, Block::Term(..))) {
                self.text.push('\n');
            }
            after_term = matches!(block, Block::Term(..));
            match block {
                Block::Paragraph(text) => {
                    for line in filled(&quoted(&text), self.width) {
                        self.line(&line);
                    }
                }
                Block::Term(term, meaning) => {
                    self.entry(&format!("  {}", bare(&term)), 16, &quoted(&meaning))
                }
                Block::Verbatim(text) => text.lines().for_each(|line| self.line(&format!("  {line}"))),
            }
        }
    }

    fn exit_status(&mut self, command: &Command) {
        if !command.exit_status.is_empty() {
            self.heading("Exit status:");
        }
        for exit in command.exit_status {
            self.entry(&format!("  {}", exit.status), 10, exit.about);
        }
    }

    fn examples(&mut self, command: &Command) {
        for (index, example) in command.examples.iter().enumerate() {
            if index == 0 {
                self.heading("Examples:");
            }
            self.line(&format!("  # {}", example.about));
            self.line(&format!("  {}", example.line));
        }
    }

    /// Adds a label and its text from `column` on.
    fn entry(&mut self, label: &str, column: usize, text: &str) {
        let mut lines = filled(text, self.width.saturating_sub(column).max(NARROWEST)).into_iter();
        if label.chars().count() + 2 <= column {
            self.line(&format!("{label:column$}{}", lines.next().unwrap_or_default()));
        } else {
            self.line(label);
        }
        for line in lines {
            self.line(&format!("{:column$}{line}", ""));
        }
    }
}

fn heading_of(title: &str) -> String {
    if title.is_empty() {
        "Options:".to_owned()
    } else {
        format!("{title} options:")
    }
}

/// Formats the label of an option, `  -e, --env NAME=VALUE...`.
fn label(opt: &Opt) -> String {
    let letter = opt
        .short
        .map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    let value = match opt.kind {
        Kind::Flag | Kind::Halt => String::new(),
        Kind::Value { metavar } => format!(" {metavar}"),
        Kind::List { metavar } => format!(" {metavar}..."),
        Kind::OptionalValue { metavar, .. } => format!("[={metavar}]"),
    };
    format!("  {letter}--{}{value}", opt.long)
}

fn explained(opt: &Opt) -> String {
    let mut text = opt.help.to_owned();
    if !opt.default.is_empty() {
        text.push_str(&format!(" (default {})", opt.default));
    }
    if let Some(variable) = opt.env {
        text.push_str(&format!(" [env {variable}]"));
    }
    text
}

/// Replaces backquotes by quotes.
fn quoted(text: &str) -> String {
    text.replace('`', "'")
}

/// Removes backquotes.
fn bare(text: &str) -> String {
    text.replace('`', "")
}
