/// Why a profile cannot become a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name that the specification does not have.
    #[error("cannot compile the seccomp profile: unknown architecture {0:?}")]
    Architecture(String),
    /// A flag that the specification does not have.
    #[error("cannot compile the seccomp profile: unknown flag {0:?}")]
    Flag(String),
    /// A flag about a listener where no rule needs one; the kernel refuses that.
    #[error("cannot compile the seccomp profile: {0} needs a rule with SCMP_ACT_NOTIFY")]
    FlagWithoutNotify(String),
    /// Then nothing could hand the listener over.
    #[error("cannot compile the seccomp profile: SCMP_ACT_NOTIFY cannot be used as default action")]
    DefaultNotify,
    /// With this call the runtime hands the listener over.
    #[error("cannot compile the seccomp profile: SCMP_ACT_NOTIFY cannot be used for the write syscall")]
    NotifyWrite,
    /// Calls have six arguments.
    #[error(
        "cannot compile the seccomp profile: rule for {call:?}: argument {index} does not exist: give 0 to 5"
    )]
    Argument {
        /// The first call that the rule names.
        call: String,
        /// The index asked for.
        index: u32,
    },
    /// The kernel keeps 16 bits of it.
    #[error("cannot compile the seccomp profile: errno {0} does not fit into 16 bits")]
    Errno(u32),
    /// More decisions than the kernel takes (`BPF_MAXINSNS`).
    #[error("cannot compile the seccomp profile: it needs more than {limit} instructions", limit = crate::MAX_INSTRUCTIONS)]
    TooLong,
}
