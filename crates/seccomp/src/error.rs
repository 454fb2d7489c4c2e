/// Reason why a profile cannot become a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The specification does not have this architecture.
    #[error("cannot compile the seccomp profile: unknown architecture {0:?}")]
    Architecture(String),
    /// The specification does not have this flag.
    #[error("cannot compile the seccomp profile: unknown flag {0:?}")]
    Flag(String),
    /// The flag is about a listener, but no rule needs one; the kernel refuses that.
    #[error("cannot compile the seccomp profile: {0} needs a rule with SCMP_ACT_NOTIFY")]
    FlagWithoutNotify(String),
    /// The default action notifies, so the listener could not be handed over.
    #[error("cannot compile the seccomp profile: SCMP_ACT_NOTIFY cannot be used as default action")]
    DefaultNotify,
    /// The runtime hands the listener over with this call.
    #[error("cannot compile the seccomp profile: SCMP_ACT_NOTIFY cannot be used for the write syscall")]
    NotifyWrite,
    /// The index is out of range: calls have six arguments.
    #[error(
        "cannot compile the seccomp profile: rule for {call:?}: argument {index} does not exist: give 0 to 5"
    )]
    Argument {
        /// Name of the first call of the rule.
        call: String,
        /// Index in the rule.
        index: u32,
    },
    /// The errno is too large: the kernel keeps 16 bits of it.
    #[error("cannot compile the seccomp profile: errno {0} does not fit into 16 bits")]
    Errno(u32),
    /// The program needs more instructions than the kernel takes (`BPF_MAXINSNS`).
    #[error("cannot compile the seccomp profile: it needs more than {limit} instructions", limit = crate::MAX_INSTRUCTIONS)]
    TooLong,
}
