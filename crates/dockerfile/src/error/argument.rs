//! Errors of the arguments of instructions.

/// Why the arguments of an instruction are refused.
#[expect(missing_docs, reason = "each variant's message is its documentation")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentReason {
    #[error("{0} requires exactly one argument")]
    ExactlyOne(&'static str),
    #[error("{0} requires at least one argument")]
    AtLeastOne(&'static str),
    #[error(
        "{0} requires at least two arguments, but only one was provided. Destination could not be determined"
    )]
    NoDestination(&'static str),
    #[error("FROM requires either one or three arguments")]
    From,
    #[error("{0} must have two arguments")]
    TwoArguments(&'static str),
    #[error("{0} names can not be blank")]
    BlankName(&'static str),
    #[error("Syntax error - can't find = in {0:?}. Must be of the form: name=value")]
    NoEquals(String),
    #[error("when using JSON array syntax, arrays must be comprised of strings only")]
    NotStrings,
    #[error("SHELL requires the arguments to be in JSON form")]
    ShellForm,
    #[error("VOLUME specified can not be an empty string")]
    EmptyVolume,
    #[error(
        "a quoted name of {0} ends at a blank: write its arguments as a JSON array, {0} [\"a b\", \"/c\"]"
    )]
    QuotedBlank(&'static str),
    #[error("here-documents cannot be the destination of {0}")]
    HeredocDestination(&'static str),
}
