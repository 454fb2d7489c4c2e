/// Why a spec cannot become a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A property that is needed is not there.
    #[error("config.json: {0} is missing")]
    Missing(&'static str),
    /// A text with a NUL byte, which no system call takes.
    #[error("{what} {text:?} contains a NUL byte")]
    Nul {
        /// Which text.
        what: &'static str,
        /// It.
        text: String,
    },
    /// A property whose value means nothing.
    #[error("{property} {value:?} is not {expected}")]
    Value {
        /// Which property.
        property: &'static str,
        /// Its value.
        value: String,
        /// What would be.
        expected: &'static str,
    },
    /// A user or group that the user namespace does not have.
    #[error("{kind} {id} is not mapped into the container's user namespace")]
    Unmapped {
        /// `user` or `group`.
        kind: &'static str,
        /// Its number inside.
        id: u32,
    },
    /// The filter does not compile.
    #[error("cannot apply linux.seccomp")]
    Seccomp(#[source] tote_seccomp::Error),
    /// Properties that contradict the specification or each other. The words are runc's where it has some: callers look
    /// for them.
    #[error("{0}")]
    Invalid(String),
    /// Something that this version does not do yet.
    #[error("{0} is not supported by this version")]
    Unsupported(String),
}
