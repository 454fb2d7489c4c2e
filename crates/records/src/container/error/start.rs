//! Errors of a start: its options, and the monitor.

use tote_sys::Errno;

/// Reason why a container does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Failed start, in the words of the monitor.
    #[error("{text}")]
    Launch {
        /// Error text, in one line.
        text: String,
        /// Suggested remedy.
        hint: Option<String>,
        /// Exit code of docker.
        code: u8,
    },
    /// Monitor that died before the program ran.
    #[error("the container's monitor was killed before the program ran")]
    Unborn,
    /// Killed process for actions that only the owners of an image's files can do.
    #[error("the process that prepares the image's files was killed")]
    Unanswered,
    /// Failed system call for the monitor.
    #[error("cannot {attempt} the container's monitor")]
    Monitor {
        /// Attempted action.
        attempt: &'static str,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Error within the monitor.
    #[error(transparent)]
    Watch(#[from] tote_monitor::MonitorError),
    /// Missing descriptor to pass on.
    #[error(
        "file descriptor {missing} is not open: LISTEN_FDS and --preserve-fds pass on {count}, from 3 on"
    )]
    Descriptor {
        /// Requested number of descriptors from 3 on.
        count: u32,
        /// First missing descriptor.
        missing: u32,
    },
    /// Notification of health without a health check; podman's words.
    #[error("sdnotify policy \"healthy\" requires a healthcheck to be set")]
    Unchecked,
    /// Invalid value of `--log-opt tag`.
    #[error("log opt tag={tag}")]
    Tag {
        /// Value as given.
        tag: String,
        /// Reason of the failure.
        #[source]
        source: tote_template::TemplateError,
    },
    /// Invalid value of `--log-opt labels-regex` or `env-regex`.
    #[error(
        "cannot read the pattern of the log opt {option}={text}: patterns have ^ $ . * + ? [a-z] [^a] \\x and |"
    )]
    LogPattern {
        /// Name of the option.
        option: &'static str,
        /// Value as given.
        text: String,
    },
    /// Use of both `--restart` and `--rm`.
    #[error("conflicting options: --restart and --rm")]
    RestartAndRm,
    /// A container whose namespaces are to be joined, and that cannot be found: without it there is nothing to run.
    #[error("{0}")]
    NoPeer(String),
    /// A link to another container that cannot be; docker's words.
    #[error("{0}")]
    Link(String),
}

impl StartError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Launch { code, .. } => *code,
            Self::RestartAndRm
            | Self::Unborn
            | Self::Unanswered
            | Self::Unchecked
            | Self::Descriptor { .. }
            | Self::NoPeer(_)
            | Self::Link(_) => 125,
            Self::Monitor { .. } | Self::Watch(_) | Self::Tag { .. } | Self::LogPattern { .. } => 1,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Launch { hint, .. } => hint.clone(),
            _ => None,
        }
    }
}
