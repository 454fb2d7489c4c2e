//! From words to a tree.

use crate::TemplateError;
use crate::function::Function;
use crate::scan::{Piece, Token, Word, scan};
use crate::syntax::{Branch, Command, Node, Operand, Pipeline, Term};
use std::collections::VecDeque;

/// Deepest nesting of blocks and brackets, which bounds the recursion of parsing and rendering.
const DEEPEST: usize = 50;

/// Parses a template.
pub(crate) fn parse(template: &str) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser {
        pieces: scan(template)?.into(),
        variables: vec!["$".to_owned()],
        depth: 0,
        loops: 0,
    };
    let (nodes, end) = parser.block()?;
    match end {
        None => Ok(nodes),
        Some(end) => Err(unexpected(end.at, format!("{{{{{}}}}}", end.keyword))),
    }
}

/// End of a block: `end` or `else`, with the words after it.
struct End {
    at: usize,
    keyword: &'static str,
    rest: Vec<Token>,
}

struct Parser {
    pieces: VecDeque<Piece>,
    /// Variables that are defined at this point.
    variables: Vec<String>,
    depth: usize,
    loops: usize,
}

fn unexpected(at: usize, found: impl Into<String>) -> TemplateError {
    TemplateError::Unexpected {
        at,
        found: found.into(),
    }
}

impl Parser {
    fn deeper(&mut self) -> Result<(), TemplateError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(TemplateError::Deep { most: DEEPEST });
        }
        Ok(())
    }

    /// Parses the nodes up to the `end` or `else` of this block, or up to the end of the text.
    fn block(&mut self) -> Result<(Vec<Node>, Option<End>), TemplateError> {
        self.deeper()?;
        let mut nodes = Vec::new();
        let mut end = None;
        while let Some(piece) = self.pieces.pop_front() {
            let (at, mut words) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(at, words) => (at, words),
            };
            let keyword = match words.first().map(|token| &token.word) {
                Some(Word::Name(name)) => keyword(name),
                _ => None,
            };
            let Some(keyword) = keyword else {
                nodes.push(Node::Print(self.whole_pipeline(at, words)?));
                continue;
            };
            let rest = words.split_off(1);
            match keyword {
                "end" | "else" => {
                    end = Some(End { at, keyword, rest });
                    break;
                }
                "break" | "continue" => nodes.push(self.jump(at, keyword, &rest)?),
                _ => nodes.push(self.branch(at, keyword, rest)?),
            }
        }
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn jump(&self, at: usize, keyword: &'static str, rest: &[Token]) -> Result<Node, TemplateError> {
        match (keyword, rest, self.loops) {
            (_, _, 0) | (_, [_, ..], _) => Err(unexpected(at, format!("{{{{{keyword}}}}}"))),
            ("break", ..) => Ok(Node::Break),
            _ => Ok(Node::Continue),
        }
    }

    /// Parses `if`, `with` or `range`, up to its `end`.
    fn branch(&mut self, at: usize, keyword: &'static str, on: Vec<Token>) -> Result<Node, TemplateError> {
        self.deeper()?;
        let variables = self.variables.len();
        let on = self.whole_pipeline(at, on)?;
        if on.names.len() > 1 && keyword != "range" {
            return Err(unexpected(at, "a second variable"));
        }
        let is_loop = usize::from(keyword == "range");
        self.loops += is_loop;
        let outer = self.variables.len();
        let (then, end) = self.block()?;
        self.variables.truncate(outer);
        self.loops -= is_loop;
        let endless = || TemplateError::Endless { at, what: keyword };
        let mut end = end.ok_or_else(endless)?;
        let mut otherwise = Vec::new();
        if end.keyword == "else" {
            (otherwise, end) = self.otherwise(end, keyword, endless)?;
        }
        if end.keyword != "end" || !end.rest.is_empty() {
            return Err(unexpected(end.at, format!("{{{{{}}}}}", end.keyword)));
        }
        self.variables.truncate(variables);
        self.depth -= 1;
        let branch = Branch { on, then, otherwise };
        Ok(match keyword {
            "range" => Node::Range(branch),
            "with" => Node::With(branch),
            _ => Node::If(branch),
        })
    }

    /// Parses the nodes after an `else`, and the `end` of all; `else if` is an `if` within the `else`, with the same
    /// `end`.
    fn otherwise(
        &mut self,
        mut from: End,
        keyword: &'static str,
        endless: impl Fn() -> TemplateError,
    ) -> Result<(Vec<Node>, End), TemplateError> {
        if from.rest.is_empty() {
            let (nodes, end) = self.block()?;
            return Ok((nodes, end.ok_or_else(endless)?));
        }
        let again = matches!(&from.rest[0].word, Word::Name(name) if name == keyword && keyword != "range");
        if !again {
            return Err(unexpected(from.at, "{{else}} with more"));
        }
        let on = from.rest.split_off(1);
        let at = from.at;
        let nested = self.branch(at, keyword, on)?;
        let end = End {
            at,
            keyword: "end",
            rest: Vec::new(),
        };
        Ok((vec![nested], end))
    }

    fn whole_pipeline(&mut self, at: usize, words: Vec<Token>) -> Result<Pipeline, TemplateError> {
        let mut words = words.into_iter().peekable();
        let pipeline = self.pipeline(at, &mut words)?;
        match words.next() {
            None => Ok(pipeline),
            Some(token) => Err(unexpected(token.at, describe(&token.word))),
        }
    }

    /// Parses commands between `|`, up to a closing bracket or the end.
    fn pipeline(&mut self, at: usize, words: &mut Words) -> Result<Pipeline, TemplateError> {
        self.deeper()?;
        let (names, declares) = self.binding(words)?;
        let mut commands = vec![self.command(at, words)?];
        while let Some(pipe) = words.next_if(|token| token.word == Word::Pipe) {
            let command = self.command(pipe.at, words)?;
            if !matches!(command.operands[0].term, Term::Function(_) | Term::Dot) {
                return Err(unexpected(
                    command.operands[0].at,
                    "a value that cannot take what is piped to it",
                ));
            }
            commands.push(command);
        }
        // A variable is defined only after its value.
        if declares {
            self.variables.extend(names.iter().cloned());
        }
        self.depth -= 1;
        Ok(Pipeline {
            names,
            declares,
            commands,
        })
    }

    /// Parses `$a := ` or `$a, $b := ` or `$a = `, if the pipeline begins with one.
    fn binding(&self, words: &mut Words) -> Result<(Vec<String>, bool), TemplateError> {
        let mut ahead = words.clone();
        let mut names = Vec::new();
        loop {
            let Some(Token {
                word: Word::Variable(name),
                at,
                ..
            }) = ahead.next()
            else {
                return Ok((Vec::new(), false));
            };
            names.push(name.clone());
            match ahead.next().map(|token| token.word) {
                Some(Word::Comma) if names.len() == 1 => {}
                Some(Word::Declare) => {
                    *words = ahead;
                    return Ok((names, true));
                }
                Some(Word::Assign) => {
                    for name in &names {
                        self.known(at, name)?;
                    }
                    *words = ahead;
                    return Ok((names, false));
                }
                _ => return Ok((Vec::new(), false)),
            }
        }
    }

    fn known(&self, at: usize, name: &str) -> Result<(), TemplateError> {
        if self.variables.iter().any(|known| known == name) {
            return Ok(());
        }
        let name = name.to_owned();
        Err(TemplateError::NoVariable { at, name })
    }

    fn command(&mut self, at: usize, words: &mut Words) -> Result<Command, TemplateError> {
        let mut operands = Vec::new();
        while let Some(token) = words.next_if(|token| !matches!(token.word, Word::Pipe | Word::Close)) {
            operands.push(self.operand(token, words)?);
        }
        if operands.is_empty() {
            return Err(unexpected(at, "a missing value"));
        }
        Ok(Command { operands })
    }

    /// Parses a term and the fields directly after it.
    fn operand(&mut self, token: Token, words: &mut Words) -> Result<Operand, TemplateError> {
        let at = token.at;
        let mut fields = Vec::new();
        let term = match token.word {
            Word::Dot => Term::Dot,
            Word::Field(name) => {
                fields.push(name);
                Term::Dot
            }
            Word::Text(text) => Term::Text(text),
            Word::Number(number) => Term::Number(number),
            Word::Variable(name) => {
                self.known(at, &name)?;
                Term::Variable(name)
            }
            Word::Open => {
                let pipeline = self.pipeline(at, words)?;
                if words.next_if(|token| token.word == Word::Close).is_none() {
                    return Err(TemplateError::Endless { at, what: "bracket" });
                }
                Term::Pipeline(Box::new(pipeline))
            }
            Word::Name(name) => match name.as_str() {
                "true" => Term::Bool(true),
                "false" => Term::Bool(false),
                "nil" => Term::Nil,
                _ => Term::Function(Function::named(&name).ok_or(TemplateError::NoFunction { at, name })?),
            },
            other => return Err(unexpected(at, describe(&other))),
        };
        while let Some(token) = words.next_if(|token| token.close && matches!(token.word, Word::Field(_))) {
            if let Word::Field(name) = token.word {
                fields.push(name);
            }
        }
        if !fields.is_empty() && !matches!(term, Term::Dot | Term::Variable(_) | Term::Pipeline(_)) {
            return Err(unexpected(at, format!(".{} of a constant", fields[0])));
        }
        Ok(Operand { at, term, fields })
    }
}

type Words = std::iter::Peekable<std::vec::IntoIter<Token>>;

fn keyword(name: &str) -> Option<&'static str> {
    ["if", "with", "range", "else", "end", "break", "continue"]
        .into_iter()
        .find(|keyword| *keyword == name)
}

fn describe(word: &Word) -> String {
    match word {
        Word::Dot => "\".\"".to_owned(),
        Word::Field(name) => format!("{:?}", format!(".{name}")),
        Word::Variable(name) | Word::Name(name) => format!("{name:?}"),
        Word::Text(text) => format!("the string {text:?}"),
        Word::Number(number) => format!("the number {number}"),
        Word::Open => "\"(\"".to_owned(),
        Word::Close => "\")\"".to_owned(),
        Word::Pipe => "\"|\"".to_owned(),
        Word::Comma => "\",\"".to_owned(),
        Word::Declare => "\":=\"".to_owned(),
        Word::Assign => "\"=\"".to_owned(),
    }
}
