//! Reasons for the end of a machine.

use tote_channel::ChannelError;
use tote_sys::Errno;

/// Why process 1 cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// A call to the kernel failed.
    #[error("cannot {attempt} {object}")]
    Kernel {
        attempt: &'static str,
        object: String,
        #[source]
        source: Errno,
    },
    /// A file of the initramfs cannot be read.
    #[error("cannot read {path}")]
    Read {
        path: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// A device did not appear in time.
    #[error("device {0} did not appear")]
    NoDevice(&'static str),
    /// The process that another one is to join has ended, or has not begun.
    #[error("process {0} of the virtual machine does not run")]
    NoProcess(u16),
    /// The host sent something else than messages.
    #[error("cannot understand the host")]
    Channel(#[from] ChannelError),
}

impl GuestError {
    pub(crate) fn kernel(attempt: &'static str, object: impl Into<String>) -> impl FnOnce(Errno) -> Self {
        let object = object.into();
        move |source| Self::Kernel {
            attempt,
            object,
            source,
        }
    }
}
