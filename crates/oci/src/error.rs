mod container;
mod group;

pub use container::ContainerError;
pub use group::GroupError;
use std::path::PathBuf;
use tote_runtime::{RuntimeError, Step};
use tote_spec::JsonError;
use tote_sys::Errno;

/// Reason why a command failed. Where callers compare the text, it is runc's.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    /// An argument, or their combination, is invalid.
    #[error("{0}")]
    Usage(String),
    /// A property of `config.json` or `process.json` is invalid.
    #[error("{0}")]
    Property(String),
    /// The bundle has no `config.json`.
    #[error("JSON specification file {} not found", .0.display())]
    NoConfig(PathBuf),
    /// A document is larger than any valid one.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// Limit in bytes.
        limit: u64,
    },
    /// `config.json` is invalid. The text already contains the cause.
    #[error("{0}")]
    Spec(tote_spec::ParseError),
    /// Another document is invalid.
    #[error("cannot read {what}")]
    Json {
        /// Description of the document.
        what: String,
        /// Cause.
        #[source]
        source: JsonError,
    },
    /// A file or directory could not be used.
    #[error("cannot {attempt} {}", path.display())]
    File {
        /// Attempted action.
        attempt: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A system call without a file failed.
    #[error("cannot {attempt}")]
    Kernel {
        /// Attempted action.
        attempt: &'static str,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The spec cannot become a plan.
    #[error(transparent)]
    Plan(#[from] tote_sandbox::PlanError),
    /// A process could not be made.
    #[error("unable to start container process: {0}")]
    Process(String),
    /// A program exists but its interpreter does not: callers know the words, people need the name.
    #[error(
        "unable to start container process: exec {program}: no such file or directory (its interpreter {interpreter} is not there)"
    )]
    Interpreter {
        /// Path of the program.
        program: String,
        /// Interpreter that its first line or header names.
        interpreter: String,
    },
    /// The process could not be watched.
    #[error(transparent)]
    Runtime(RuntimeError),
    /// A hook failed.
    #[error("error running {point} hook #{number}")]
    Hook {
        /// Name of the point, as in `config.json`.
        point: &'static str,
        /// Index in the list, from 0.
        number: usize,
        /// Cause.
        #[source]
        source: tote_runtime::HookError,
    },
    /// A descriptor could not be handed over.
    #[error("cannot send the {what} to {}", socket.display())]
    Send {
        /// Description of the descriptor.
        what: &'static str,
        /// Path of the socket.
        socket: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// The agent that answers for the system call filter could not be reached.
    #[error("failed to connect with seccomp agent at {}", path.display())]
    Agent {
        /// Path of its socket.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// ps(1) could not be run.
    #[error("cannot run ps")]
    Ps(#[source] std::io::Error),
    /// ps(1) failed, or wrote no PID column.
    #[error("ps: {0}")]
    PsOutput(String),
    /// The container is not there, or not in the right state.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The cgroup cannot be used.
    #[error(transparent)]
    Group(#[from] GroupError),
}

/// Makes errors of a part errors of the whole.
macro_rules! parts {
    ($whole:ty { $($source:ty => $part:ident),* $(,)? }) => {
        $(impl From<$source> for $whole {
            fn from(error: $source) -> Self {
                Self::$part(error.into())
            }
        })*
    };
}

parts! {
    OciError {
        tote_cgroup::LayoutError => Group,
        tote_cgroup::PlanError => Group,
        tote_cgroup::PathError => Group,
        tote_cgroup::Error => Group,
    }
}

impl OciError {
    /// Makes an error for a file that could not be used.
    pub(crate) fn file(
        attempt: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            attempt,
            path,
            source,
        }
    }

    /// Makes an error for an invalid document.
    pub(crate) fn json(what: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let what = what.into();
        move |error| Self::Json {
            what,
            source: error.into(),
        }
    }

    /// Makes an error for a system call without a file.
    pub(crate) fn kernel(attempt: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::Kernel { attempt, source }
    }
}

/// Joins an error and its causes, with the kernel's reasons in the words of runc.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    tote_sys::chain_with(error, words_of)
}

/// Returns the kernel's reasons as callers of runc know them: `no such file or directory`, without a number.
fn words_of(error: &(dyn std::error::Error + 'static)) -> String {
    let io = || error.downcast_ref::<std::io::Error>()?.raw_os_error();
    let errno = error.downcast_ref::<Errno>().copied();
    match errno.or_else(|| io().map(Errno::from_raw_os_error)) {
        Some(errno) => tote_sys::reason(errno),
        None => error.to_string(),
    }
}

/// Converts the failure of a birth into runc's words.
pub(crate) fn of_birth(error: RuntimeError) -> OciError {
    match error {
        RuntimeError::Refused(refusal) => match refusal.downcast::<OciError>() {
            Ok(own) => *own,
            Err(other) => OciError::Process(chain(other.as_ref())),
        },
        RuntimeError::Step(Step {
            program: Some(program),
            errno: Errno::NOENT,
            text: interpreter,
            ..
        }) if !interpreter.is_empty() => OciError::Interpreter { program, interpreter },
        RuntimeError::Step(step) => OciError::Process(match &step.mounting {
            Some(mounting) => format!("error during container init: {mounting}: {step}"),
            None => step.to_string(),
        }),
        RuntimeError::Hook { name, errno, .. } if errno == Errno::TIMEDOUT => OciError::Process(format!(
            "error running {name}: it was killed after its time limit"
        )),
        RuntimeError::Hook { name, errno, text } => OciError::Process(format!(
            "error running {name}: {}",
            if text.is_empty() {
                tote_sys::reason(errno)
            } else {
                signal_words(&text)
            }
        )),
        RuntimeError::Tree { .. } => {
            OciError::Process(format!("error during container init: {}", chain(&error)))
        }
        other => OciError::Process(chain(&other)),
    }
}

/// Writes the filter's signal as Go does.
fn signal_words(text: &str) -> String {
    text.replacen("signal 31", "signal: bad system call", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_the_kernel_are_words() {
        let file = OciError::file("read", "/x")(std::io::Error::from_raw_os_error(2));
        let text = chain(&file);
        assert!(text.ends_with(": no such file or directory"), "{text}");
        let text = chain(&OciError::kernel("try")(Errno::PERM));
        assert_eq!(text, "cannot try: operation not permitted");
        let tree = RuntimeError::Tree {
            path: "/x".to_owned(),
            source: Errno::INVAL,
        };
        assert_eq!(
            of_birth(tree).to_string(),
            "unable to start container process: error during container init: \
             error mounting \"/x\": open it for the container: invalid argument"
        );
    }

    #[test]
    fn a_mount_that_fails_is_named_as_callers_look_for_it() {
        let step = Step {
            words: "bind /x on /mnt".to_owned(),
            kind: tote_runtime::StepKind::Bind,
            mounting: Some("error mounting \"/x\" to rootfs at \"/mnt\"".to_owned()),
            errno: Errno::PERM,
            text: String::new(),
            program: None,
        };
        assert_eq!(
            of_birth(RuntimeError::Step(step)).to_string(),
            "unable to start container process: error during container init: \
             error mounting \"/x\" to rootfs at \"/mnt\": cannot bind /x on /mnt: operation not permitted"
        );
    }
}
