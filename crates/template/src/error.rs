//! What can be wrong with a template.

use thiserror::Error;

/// Why a template is none, or cannot be carried out. Characters count from 1.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The text is too long.
    #[error("the template has more than {most} bytes")]
    Long {
        /// The limit, in bytes.
        most: usize,
    },
    /// Actions or brackets in one another.
    #[error("the template is nested deeper than {most}")]
    Deep {
        /// The limit.
        most: usize,
    },
    /// `{{` without `}}`.
    #[error("character {at} of the template: {{{{ without }}}}")]
    Unclosed {
        /// Where it begins.
        at: usize,
    },
    /// A string or a comment without an end.
    #[error("character {at} of the template: {what} without end")]
    Endless {
        /// Where it begins.
        at: usize,
        /// `string`, `comment`, `if` and so on.
        what: &'static str,
    },
    /// Something where it has no meaning.
    #[error("character {at} of the template: {found} is not expected here")]
    Unexpected {
        /// Where it is.
        at: usize,
        /// What it is.
        found: String,
    },
    /// There is no function of that name.
    #[error("character {at} of the template: function {name:?} is not defined")]
    NoFunction {
        /// Where it is called.
        at: usize,
        /// The name.
        name: String,
    },
    /// There is no variable of that name.
    #[error("character {at} of the template: undefined variable {name:?}")]
    NoVariable {
        /// Where it is used.
        at: usize,
        /// The name, with `$`.
        name: String,
    },
    /// The value has no such member.
    #[error("there is no field {key:?}")]
    NoField {
        /// The name.
        key: String,
    },
    /// A member of what has none.
    #[error("{kind} has no field {key:?}")]
    NotAnObject {
        /// The name.
        key: String,
        /// What it was asked of.
        kind: &'static str,
    },
    /// A function cannot do what it is asked.
    #[error("{function}: {reason}")]
    Call {
        /// The function.
        function: &'static str,
        /// Why not.
        reason: String,
    },
    /// All of it together took too long or made too much.
    #[error("the template takes too long or makes too much text")]
    Endlessly,
}
