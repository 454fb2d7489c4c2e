//! Man pages, in man(7) macros.

use crate::prose::{Block, blocks};
use crate::table::{Command, Kind, Opt, spelled};

/// Returns the page's name without the section, `tote-image-ls`.
#[must_use]
pub fn man_name(path: &[&'static Command]) -> String {
    path.iter()
        .map(|command| command.name)
        .collect::<Vec<_>>()
        .join("-")
}

/// Returns the man page in section 1 for the last command of `path`, as roff.
///
/// The page carries `version` and no date, so the same tables always give the same bytes. An empty path gives an
/// empty text.
#[must_use]
pub fn man(path: &[&'static Command], version: &str) -> String {
    let (Some(root), Some(command)) = (path.first(), path.last()) else {
        return String::new();
    };
    let name = man_name(path);
    let mut page = Page { text: String::new() };
    page.raw(&format!(
        ".TH {} 1 \"\" \"{} {}\" \"{} manual\"",
        escaped(&name.to_uppercase()),
        escaped(root.name),
        escaped(version),
        escaped(root.name)
    ));
    // Commands and options must not be hyphenated, and ragged lines read better around them.
    page.raw(".nh");
    page.raw(".ad l");
    page.section("NAME");
    page.raw(&format!("{} \\- {}", escaped(&name), escaped(command.about)));
    page.synopsis(path, command);
    page.section("DESCRIPTION");
    page.text(&format!("{}.", command.about));
    page.blocks(command.details);
    page.commands(command);
    page.options(command);
    page.environment(command);
    page.exit_status(command);
    page.examples(command);
    page.see_also(path, command);
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn raw(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.raw(&format!(".SH {title}"));
    }

    /// Adds a line of text with backquoted parts in bold.
    fn text(&mut self, text: &str) {
        let mut line = String::new();
        for (index, piece) in text.split('`').enumerate() {
            let piece = escaped(piece);
            line.push_str(&if index % 2 == 1 {
                format!("\\fB{piece}\\fR")
            } else {
                piece
            });
        }
        self.raw(&guarded(&line));
    }

    fn synopsis(&mut self, path: &[&'static Command], command: &Command) {
        self.section("SYNOPSIS");
        let mut forms: Vec<&str> = command.usage.lines().collect();
        if forms.is_empty() {
            forms.push("");
        }
        for (index, form) in forms.into_iter().enumerate() {
            if index > 0 {
                self.raw(".br");
            }
            self.raw(format!("\\fB{}\\fR {}", escaped(&spelled(path)), escaped(form)).trim_end());
        }
    }

    fn blocks(&mut self, details: &str) {
        for block in blocks(details) {
            match block {
                Block::Paragraph(text) => {
                    self.raw(".PP");
                    self.text(&text);
                }
                Block::Term(term, meaning) => {
                    self.term(&term.replace('`', ""));
                    self.text(&meaning);
                }
                Block::Verbatim(text) => self.verbatim(&text),
            }
        }
    }

    fn term(&mut self, term: &str) {
        self.raw(".TP");
        self.raw(&format!("\\fB{}\\fR", escaped(term)));
    }

    fn verbatim(&mut self, text: &str) {
        self.raw(".PP");
        self.raw(".RS 4");
        self.raw(".nf");
        for line in text.lines() {
            self.raw(&guarded(&escaped(line)));
        }
        self.raw(".fi");
        self.raw(".RE");
    }

    fn commands(&mut self, command: &Command) {
        if command.shown_children().next().is_none() {
            return;
        }
        self.section("COMMANDS");
        for section in command.subcommands {
            let mut shown = section.commands.iter().filter(|child| !child.hidden).peekable();
            if shown.peek().is_some() {
                self.raw(&format!(".SS {}", escaped(section.title)));
            }
            for child in shown {
                self.term(child.name);
                self.text(&format!("{}.", child.about));
            }
        }
    }

    fn options(&mut self, command: &'static Command) {
        self.section("OPTIONS");
        for group in command.options {
            if !group.title.is_empty() {
                self.raw(&format!(".SS {} options", escaped(group.title)));
            }
            group.options.iter().for_each(|opt| self.option(opt));
        }
        // Every command has the help option: it comes last, with the letter that is left for it.
        if let Some(opt) = command.all_options().last() {
            self.option(&opt);
        }
    }

    fn option(&mut self, opt: &Opt) {
        self.raw(".TP");
        let letter = opt
            .short
            .map(|letter| format!("\\fB\\-{}\\fR", escaped(&letter.to_string())));
        let longs = std::iter::once(&opt.long).chain(opt.aliases);
        let longs = longs.map(|long| format!("\\fB\\-\\-{}\\fR", escaped(long)));
        let names = letter.into_iter().chain(longs).collect::<Vec<_>>().join(", ");
        let value = match opt.kind {
            Kind::Flag | Kind::Halt => String::new(),
            Kind::Value { metavar } | Kind::List { metavar } => format!(" \\fI{}\\fR", escaped(metavar)),
            Kind::OptionalValue { metavar, .. } => format!("[=\\fI{}\\fR]", escaped(metavar)),
        };
        self.raw(&format!("{names}{value}"));
        let mut text = format!("{}.", opt.help);
        if matches!(opt.kind, Kind::List { .. }) {
            text.push_str(" May be given more than once.");
        }
        if let Kind::OptionalValue { bare, .. } = opt.kind {
            text.push_str(&format!(" Without a value: `{bare}`."));
        }
        if !opt.default.is_empty() {
            text.push_str(&format!(" Default: `{}`.", opt.default));
        }
        if let Some(variable) = opt.env {
            text.push_str(&format!(" Environment: `{variable}`."));
        }
        self.text(&text);
        if !opt.details.is_empty() {
            // Further paragraphs stay below the option's text.
            self.raw(".RS");
            self.blocks(opt.details);
            self.raw(".RE");
        }
    }

    fn environment(&mut self, command: &Command) {
        let mut opts = command.own_options().filter(|opt| opt.env.is_some()).peekable();
        if opts.peek().is_some() {
            self.section("ENVIRONMENT");
        }
        for opt in opts {
            self.term(opt.env.unwrap_or_default());
            self.text(&format!("Stands for `--{}` where that is not given.", opt.long));
        }
    }

    fn exit_status(&mut self, command: &Command) {
        if !command.exit_status.is_empty() {
            self.section("EXIT STATUS");
        }
        for exit in command.exit_status {
            self.term(exit.status);
            self.text(&format!("{}.", exit.about));
        }
    }

    fn examples(&mut self, command: &Command) {
        if !command.examples.is_empty() {
            self.section("EXAMPLES");
        }
        for example in command.examples {
            self.raw(".PP");
            self.text(&format!("{}:", example.about));
            self.verbatim(example.line);
        }
    }

    /// Names the group above and the commands below.
    fn see_also(&mut self, path: &[&'static Command], command: &Command) {
        let parent = path
            .split_last()
            .map(|(_, parent)| parent)
            .filter(|parent| !parent.is_empty());
        let children = command
            .shown_children()
            .map(|child| format!("{}-{}", man_name(path), child.name));
        let pages: Vec<String> = parent.map(man_name).into_iter().chain(children).collect();
        if pages.is_empty() {
            return;
        }
        self.section("SEE ALSO");
        let pages: Vec<String> = pages
            .iter()
            .map(|page| format!("\\fB{}\\fR(1)", escaped(page)))
            .collect();
        self.raw(&pages.join(",\n"));
    }
}

/// Escapes text for roff: no character is a command, and characters that may be typed come out as ASCII.
fn escaped(text: &str) -> String {
    let mut roff = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            '\'' => roff.push_str("\\(aq"),
            '`' => roff.push_str("\\(ga"),
            '^' => roff.push_str("\\(ha"),
            '~' => roff.push_str("\\(ti"),
            '"' => roff.push_str("\\(dq"),
            other => roff.push(other),
        }
    }
    roff
}

/// Puts an invisible character before a leading dot, which would make the line a request.
fn guarded(line: &str) -> String {
    if line.starts_with('.') {
        format!("\\&{line}")
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_requests() {
        assert_eq!(
            escaped(r#"a\b --c 'd' "e" ~^`"#),
            r"a\eb \-\-c \(aqd\(aq \(dqe\(dq \(ti\(ha\(ga"
        );
        assert_eq!(guarded(".SH x"), "\\&.SH x");
    }
}
