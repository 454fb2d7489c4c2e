//! Errors of making images smaller.

use tote_sys::Errno;

/// Why an image was not made smaller. No name has changed then.
#[derive(Debug, thiserror::Error)]
pub enum SlimError {
    /// Only images of the store have layers.
    #[error("cannot slim {0}: it is not an image of the store")]
    NotStored(String),
    /// A run of the image itself fails, so it cannot tell what the image needs.
    #[error("cannot slim {image}: {what} in the image itself: {why}")]
    Whole {
        /// The image.
        image: String,
        /// The probe or the command, with a verb.
        what: String,
        /// Its output or the exit code.
        why: String,
    },
    /// The smaller image does not do what the image does.
    #[error("the smaller image of {image} got no name, because {what} in it: {why}")]
    Smaller {
        /// The image.
        image: String,
        /// The probe or the command, with a verb.
        what: String,
        /// Its output or the exit code.
        why: String,
    },
    /// A value of `--http-probe`.
    #[error("cannot use {0:?} as an HTTP probe: give [CODE=]http://localhost[:PORT][/PATH]")]
    Url(String),
    /// A value of `--run-for` or `--probe-timeout`.
    #[error("--{option}: {text:?} is not a time such as 30s or 1m30s")]
    Time {
        /// The option.
        option: &'static str,
        /// The value.
        text: String,
    },
    /// A value of `--exclude-pattern`.
    #[error("cannot use the pattern {text:?}")]
    Pattern {
        /// The pattern.
        text: String,
        /// Why not.
        #[source]
        source: tote_needs::PatternError,
    },
    /// The kernel does not report opened files.
    #[error("cannot watch which files the container opens")]
    Watch(#[source] Errno),
    /// Reports were lost.
    #[error("cannot tell which files the container opened: the kernel dropped reports")]
    Overflow,
    /// This user may not ask the kernel for reports.
    #[error("cannot watch which files the container opens: only root may")]
    NotRoot,
    /// The process that probes.
    #[error("cannot start the process that probes")]
    Prober(#[source] Errno),
    /// Early end of the process that probes, without an answer.
    #[error("cannot tell whether the probes passed: the process that probes ended early")]
    Unanswered,
    /// An answer of the process that makes the image.
    #[error("cannot read the report of the smaller image")]
    Report(#[source] serde_json::Error),
}

impl SlimError {
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Whole { .. } => {
                "tote run shows what the image does; --show-clogs shows the container's output here"
            }
            Self::Smaller { .. } => {
                "--include-path PATH and --include-bin FILE keep files that no run uses; more probes find more of them"
            }
            Self::NotRoot => "run tote slim as root",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
