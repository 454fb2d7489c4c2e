//! Errors of virtual machine monitors.

use tote_channel::ChannelError;
use tote_sys::Errno;

/// Why a machine cannot run, or has ended before its container.
#[derive(Debug, thiserror::Error)]
pub enum VmmError {
    /// The VMM cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// Path of the program.
        program: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A call to the kernel failed.
    #[error("cannot {attempt}")]
    Kernel {
        /// The attempt.
        attempt: &'static str,
        /// The cause.
        #[source]
        source: Errno,
    },
    /// The VMM says that it cannot do something.
    #[error("the virtual machine monitor cannot {attempt}: {reason}")]
    Refused {
        /// The attempt.
        attempt: &'static str,
        /// Words of the VMM.
        reason: String,
    },
    /// The VMM says something that is not QMP.
    #[error("the virtual machine monitor does not answer as QMP says: {0}")]
    Qmp(String),
    /// The machine has another attendant.
    #[error("cannot change a virtual machine that another process attends")]
    Elsewhere,
    /// The guest broke the rules of the channel.
    #[error("the guest was ended, because it sent what no guest of tote sends")]
    Channel(#[from] ChannelError),
    /// The guest did not come up.
    #[error("the guest did not answer within {seconds} seconds{last}")]
    Silent {
        /// The time.
        seconds: u64,
        /// Last words of console and VMM, with a separator.
        last: String,
    },
    /// The server of shared directories ended.
    #[error("the server of the directories that the guest shares ended before the container did{last}")]
    Server {
        /// Its last words, with a separator.
        last: String,
    },
    /// The machine ended before it was saved.
    #[error("the virtual machine ended before it was saved{last}")]
    Unsaved {
        /// Last words of console and VMM, with a separator.
        last: String,
    },
    /// The machine ended before its container did.
    #[error("the virtual machine ended before the container did{last}")]
    Ended {
        /// Last words of console and VMM, with a separator.
        last: String,
    },
}

impl VmmError {
    pub(crate) fn kernel(attempt: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::Kernel { attempt, source }
    }
}
