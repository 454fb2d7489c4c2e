//! Errors of the parts of the engine above this crate.

use std::any::Any;
use std::error::Error;
use std::fmt;

/// Error of a part of the engine that this crate does not know. It brings along what the error means for the caller.
pub trait PartError: Error + Any + Send + Sync {
    /// docker's exit code.
    fn exit_code(&self) -> u8 {
        125
    }

    /// A remedy, if one is known.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// Error of one of these parts.
#[derive(Debug)]
pub struct Part(Box<dyn PartError>);

impl Part {
    pub(crate) fn exit_code(&self) -> u8 {
        self.0.exit_code()
    }

    pub(crate) fn hint(&self) -> Option<String> {
        self.0.hint()
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Part {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl super::EngineError {
    /// The error of a part.
    pub fn of_part(error: impl PartError) -> Self {
        Self::Part(Part(Box::new(error)))
    }

    /// The error of a part, if it is one of that type.
    #[must_use]
    pub fn part<T: PartError>(&self) -> Option<&T> {
        let Self::Part(Part(error)) = self else {
            return None;
        };
        let error: &dyn Any = &**error;
        error.downcast_ref()
    }
}

/// Makes an error of a part, and errors that become it, errors of the engine.
#[macro_export]
macro_rules! part {
    ($part:ty $(, $source:ty)* $(,)?) => {
        impl From<$part> for $crate::EngineError {
            fn from(error: $part) -> Self {
                Self::of_part(error)
            }
        }
        $(impl From<$source> for $crate::EngineError {
            fn from(error: $source) -> Self {
                Self::of_part(<$part>::from(error))
            }
        })*
    };
}
