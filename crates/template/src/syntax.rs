//! Templates as trees.

use crate::function::Function;
use serde_json::Number;

/// Piece of a template.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Text that is output unchanged.
    Text(String),
    /// Action `{{PIPELINE}}`.
    Print(Pipeline),
    /// Conditions `if` and `with`, each with its `else`.
    If(Branch),
    With(Branch),
    Range(Branch),
    Break,
    Continue,
}

/// Parts that `if`, `with` and `range` have in common.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) on: Pipeline,
    pub(crate) then: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

/// Pipeline `$a, $b := COMMAND | COMMAND`.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    /// Variables that it sets, with `$`.
    pub(crate) names: Vec<String>,
    /// True if the variables are new (`:=`), false if they exist (`=`).
    pub(crate) declares: bool,
    /// Commands; the result of each is the last argument of the next.
    pub(crate) commands: Vec<Command>,
}

/// Operand, or a function or method with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) operands: Vec<Operand>,
}

/// Term and the members that are looked up in it: `$x.A.B`.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// Character where it begins.
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
