//! Errors of templates.

use thiserror::Error;

/// Kind of a value that is null.
pub(crate) const NOTHING: &str = "nothing";

/// Reason why a template is invalid, or cannot be carried out. Characters count from 1.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is too long.
    #[error("the template has more than {most} bytes")]
    Long {
        /// Limit in bytes.
        most: usize,
    },
    /// Actions or brackets are nested too deep.
    #[error("the template is nested deeper than {most}")]
    Deep {
        /// Limit of the depth.
        most: usize,
    },
    /// An action begins with `{{` but has no `}}`.
    #[error("character {at} of the template: {{{{ without }}}}")]
    Unclosed {
        /// Character where it begins.
        at: usize,
    },
    /// A string, comment or block has no end.
    #[error("character {at} of the template: {what} without end")]
    Endless {
        /// Character where it begins.
        at: usize,
        /// Kind: `string`, `comment`, `if` and so on.
        what: &'static str,
    },
    /// A word is in a place where it has no meaning.
    #[error("character {at} of the template: {found} is not expected here")]
    Unexpected {
        /// Character where it is.
        at: usize,
        /// Description of the word.
        found: String,
    },
    /// The function is not defined.
    #[error("character {at} of the template: function {name:?} is not defined")]
    NoFunction {
        /// Character where it is called.
        at: usize,
        /// Name of the function.
        name: String,
    },
    /// The variable is not defined.
    #[error("character {at} of the template: undefined variable {name:?}")]
    NoVariable {
        /// Character where it is used.
        at: usize,
        /// Name of the variable, with `$`.
        name: String,
    },
    /// The value has no such member.
    #[error("there is no field {key:?}")]
    NoField {
        /// Name of the member.
        key: String,
    },
    /// The value cannot have members.
    #[error("{kind} has no field {key:?}{}", if *kind == NOTHING { ": what comes before it in the template is not set here, which {{if}} or {{with}} can ask for" } else { "" })]
    NotAnObject {
        /// Name of the member.
        key: String,
        /// Kind of the value.
        kind: &'static str,
    },
    /// A function cannot handle its arguments.
    #[error("{function}: {reason}")]
    Call {
        /// Name of the function.
        function: &'static str,
        /// Reason.
        reason: String,
    },
    /// The whole rendering took too long or made too much text.
    #[error("the template takes too long or makes too much text")]
    Endlessly,
}
