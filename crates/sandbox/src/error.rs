/// Reason why a spec cannot become a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A required property is missing.
    #[error("config.json: {0} is missing")]
    Missing(&'static str),
    /// A text with a NUL byte, which no system call takes.
    #[error("{what} {text:?} contains a NUL byte")]
    Nul {
        /// Kind of text.
        what: &'static str,
        /// Text itself.
        text: String,
    },
    /// A property with a meaningless value.
    #[error("{property} {value:?} is not {expected}")]
    Value {
        /// Name of the property.
        property: &'static str,
        /// Its value.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
    /// A user or group that the user namespace does not have.
    #[error("{kind} {id} is not mapped into the container's user namespace")]
    Unmapped {
        /// `user` or `group`.
        kind: &'static str,
        /// Number inside.
        id: u32,
    },
    /// The filter does not compile.
    #[error("cannot apply linux.seccomp")]
    Seccomp(#[source] tote_seccomp::Error),
    /// Properties that contradict the specification or each other. The words are runc's where runc has some: callers
    /// look for them.
    #[error("{0}")]
    Invalid(String),
    /// The plan cannot be handed over to another process.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A feature that this version does not have yet.
    #[error("{0} is not supported by this version")]
    Unsupported(String),
}

/// Reason why bytes are not a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The first line is not the one of this version.
    #[error("cannot read the plan: it was not written by this version of tote")]
    Version,
    /// Bytes are missing at the end.
    #[error("cannot read the plan: it ends too early, at byte {at}")]
    End {
        /// Number of bytes that there are.
        at: usize,
    },
    /// No value has these bytes.
    #[error("cannot read the plan: byte {at} begins no value that belongs there")]
    Value {
        /// Place of the value's first byte.
        at: usize,
    },
    /// The plan ended before its bytes did, or before its descriptors.
    #[error("cannot read the plan: something follows its end")]
    Rest,
    /// A descriptor that the caller did not bring.
    #[error("cannot read the plan: descriptor {index} is missing")]
    Descriptor {
        /// Its place in the list.
        index: usize,
    },
}
