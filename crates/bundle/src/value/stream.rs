use std::str::FromStr;

/// A standard stream, as `--attach` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Why a text is not a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("valid streams are STDIN, STDOUT and STDERR")]
pub struct StreamError;

impl FromStr for Stream {
    type Err = StreamError;

    fn from_str(text: &str) -> Result<Self, StreamError> {
        match text.to_ascii_lowercase().as_str() {
            "stdin" => Ok(Self::Stdin),
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            _ => Err(StreamError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stream, StreamError};

    #[test]
    fn streams() {
        assert_eq!("STDIN".parse(), Ok(Stream::Stdin));
        assert_eq!("stderr".parse(), Ok(Stream::Stderr));
        assert_eq!("stdall".parse::<Stream>(), Err(StreamError));
    }
}
