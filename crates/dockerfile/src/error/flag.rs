//! Errors of the options of instructions, `--NAME`.

/// Why an option of an instruction is refused.
#[expect(missing_docs, reason = "each variant's message is its documentation")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagReason {
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
    #[error("invalid value {value:?} for {key} of --mount")]
    MountValue { key: String, value: String },
    #[error("unexpected key '{name}' in --mount{}", suggestion.map(|word| format!(" (did you mean {word}?)")).unwrap_or_default())]
    MountKey {
        name: String,
        suggestion: Option<&'static str>,
    },
    #[error("'from' doesn't support variable expansion, define alias stage instead")]
    MountFrom,
    #[error(
        "variable expansion is not supported for --from, define a new stage with FROM using ARG from global scope as a workaround"
    )]
    From,
    #[error("{0} is not a network mode: give default, none or host")]
    Network(String),
    #[error("security {0:?} is not valid: give sandbox or insecure")]
    Security(String),
}
