//! A template as a tree.

use crate::function::Function;
use serde_json::Number;

/// A piece of a template.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Text as it is.
    Text(String),
    /// `{{PIPELINE}}`.
    Print(Pipeline),
    /// `if` and `with`, each with its `else`.
    If(Branch),
    With(Branch),
    Range(Branch),
    Break,
    Continue,
}

/// What `if`, `with` and `range` have in common.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) on: Pipeline,
    pub(crate) then: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

/// `$a, $b := COMMAND | COMMAND`.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    /// The variables that it sets, with `$`.
    pub(crate) names: Vec<String>,
    /// Whether the variables are new (`:=`) or there (`=`).
    pub(crate) declares: bool,
    /// The last of each is given to the next.
    pub(crate) commands: Vec<Command>,
}

/// An operand, or a function or method with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) operands: Vec<Operand>,
}

/// A term and the members that are looked up in it: `$x.A.B`.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// The character where it begins.
    pub(crate) at: usize,
    pub(crate) term: Term,
    pub(crate) fields: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text(String),
    Variable(String),
    Function(Function),
    Pipeline(Box<Pipeline>),
}
