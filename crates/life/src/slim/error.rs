//! Errors of making images smaller.

use tote_sys::Errno;

/// Why an image was not made smaller. No name has changed then.
#[derive(Debug, thiserror::Error)]
pub enum SlimError {
    /// Only images of the store have layers.
    #[error("cannot slim {0}: it is not an image of the store")]
    NotStored(String),
    /// The image is not a part of another one.
    #[error(
        "cannot find the whole image of {0}: 'tote slim' has not made it, or was told not to keep the rest"
    )]
    NoWhole(String),
    /// The image with everything is not in the store.
    #[error("cannot find the whole image of {image}: {whole} is not here")]
    WholeGone {
        /// The smaller image.
        image: String,
        /// Id of the whole.
        whole: String,
    },
    /// The kernel of a virtual machine reports nothing here.
    #[error("cannot note misses with --isolation vm: the kernel of the machine reports no calls")]
    Machine,
    /// Nothing was missed.
    #[error("cannot learn from misses of {0}: none is noted")]
    NoMisses(String),
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
    /// Reports were lost, or there is no room for all of them.
    #[error(
        "cannot tell which files the container opened: their names take more than 16 MiB, or the kernel dropped reports"
    )]
    Overflow,
    /// A listener of the container's calls was not answered.
    #[error("cannot tell which files the container opened: its calls could not be listened to")]
    Listen(#[source] Errno),
    /// No memory for a profile.
    #[error("cannot keep the seccomp profile for the smaller image's runs")]
    Profile(#[source] Errno),
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

tote_records::part!(SlimError);
impl tote_records::PartError for SlimError {
    fn exit_code(&self) -> u8 {
        1
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Whole { .. } => {
                "tote run shows what the image does; --show-clogs shows the container's output here"
            }
            Self::Smaller { .. } => {
                "--include-path PATH and --include-bin FILE keep files that no run uses; more probes find more of them"
            }
            Self::WholeGone { .. } => {
                "the image was made as one of a pair: load or pull the one whose name ends with -fat as well"
            }
            Self::NoMisses(_) => "tote run --slim-fallback IMAGE notes the files that the image lacks",
            _ => return None,
        };
        Some(text.to_owned())
    }
}
