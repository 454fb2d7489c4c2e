//! Errors in a Dockerfile, in docker's words.

/// A Dockerfile that cannot be parsed, and the line on which the wrong instruction begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("dockerfile parse error on line {line}: {reason}")]
pub struct ParseError {
    /// Line number, counted from 1.
    pub line: usize,
    /// The reason.
    pub reason: Reason,
}

/// Why an instruction is refused. The texts are docker's, so that users find help about them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its documentation")]
pub enum Reason {
    #[error("file with no instructions")]
    Empty,
    #[error("invalid ESCAPE '{0}'. Must be ` or \\")]
    Escape(String),
    #[error("only one {0} parser directive can be used")]
    DuplicateDirective(String),
    #[error("unterminated heredoc")]
    Heredoc,
    #[error("unknown instruction: {name}{}", suggestion.map(|word| format!(" (did you mean {word}?)")).unwrap_or_default())]
    Unknown {
        name: String,
        suggestion: Option<&'static str>,
    },
    #[error("no build stage in current context")]
    NoStage,
    #[error("unknown flag: --{name}{}", suggestion.map(|word| format!(" (did you mean --{word}?)")).unwrap_or_default())]
    UnknownFlag {
        name: String,
        suggestion: Option<&'static str>,
    },
    #[error("duplicate flag specified: {0}")]
    DuplicateFlag(String),
    #[error("missing a value on flag: {0}")]
    FlagValue(String),
    #[error("expecting boolean value for flag {0}, not: {1}")]
    FlagBoolean(String, String),
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
    #[error("invalid name for build stage: {0:?}, name can't start with a number or contain symbols")]
    StageName(String),
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
    #[error("HEALTHCHECK NONE takes no arguments")]
    HealthNone,
    #[error("Missing command after HEALTHCHECK CMD")]
    HealthCommand,
    #[error("Unknown type {0:?} in HEALTHCHECK (try CMD)")]
    HealthType(String),
    #[error("time: invalid duration {0:?}")]
    Duration(String),
    #[error("Interval {0:?} cannot be less than 1ms")]
    ShortInterval(&'static str),
    #[error("--retries must be a number that is not negative: {0:?}")]
    Retries(String),
    #[error("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")]
    OnbuildChain,
    #[error("{0} isn't allowed as an ONBUILD trigger")]
    OnbuildTrigger(String),
    #[error("invalid value {value:?} for {key} of --mount")]
    MountValue { key: String, value: String },
    #[error("unexpected key '{name}' in --mount{}", suggestion.map(|word| format!(" (did you mean {word}?)")).unwrap_or_default())]
    MountKey {
        name: String,
        suggestion: Option<&'static str>,
    },
    #[error("'from' doesn't support variable expansion, define alias stage instead")]
    MountFrom,
    #[error("{0} is not a network mode: give default, none or host")]
    Network(String),
    #[error("security {0:?} is not valid: give sandbox or insecure")]
    Security(String),
    #[error(
        "a quoted name of {0} ends at a blank: write its arguments as a JSON array, {0} [\"a b\", \"/c\"]"
    )]
    QuotedBlank(&'static str),
    #[error("here-documents cannot be the destination of {0}")]
    HeredocDestination(&'static str),
}
