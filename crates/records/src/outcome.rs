//! Meaning of an error for the caller: an exit code, a missing object, a remedy.

use crate::exec::ExecError;
use crate::{ContainerError, EngineError, ImageFault, RequestError};
use tote_images::ImagesError;
use tote_runtime::RuntimeError;
use tote_state::StateError;
use tote_sys::Errno;

impl EngineError {
    /// docker's exit codes: 127 for a command that is not there, 126 for one that cannot be run, 125 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Run(error) => error.exit_code(),
            // docker's CLI finds the kernel's words for a missing file in the error.
            Self::Request(RequestError::File {
                option:
                    "device"
                    | "device-read-bps"
                    | "device-write-bps"
                    | "device-read-iops"
                    | "device-write-iops"
                    | "blkio-weight-device",
                source,
                ..
            }) if source.kind() == std::io::ErrorKind::NotFound => 127,
            Self::Container(_)
            | Self::Look(_)
            | Self::State(StateError::Record(_) | StateError::Damaged(_))
            | Self::Image(ImageFault::Images(ImagesError::OtherPlatform { .. }))
            | Self::Request(RequestError::NotATerminal | RequestError::Prune(_)) => 1,
            Self::Life(error) => error.exit_code(),
            Self::Pod(error) => error.exit_code(),
            Self::Exec(error) => error.exit_code(),
            Self::Part(part) => part.exit_code(),
            _ => 125,
        }
    }

    /// Name of the program that the container was to run and does not have.
    #[must_use]
    pub fn missing_program(&self) -> Option<&str> {
        match self {
            Self::Run(RuntimeError::Step(step)) | Self::Exec(ExecError::Start(RuntimeError::Step(step)))
                if step.errno == Errno::NOENT =>
            {
                step.program.as_deref()
            }
            _ => None,
        }
    }

    /// True if no container has that name.
    #[must_use]
    pub fn is_missing_container(&self) -> bool {
        matches!(self, Self::Container(ContainerError::NoContainer(_)))
    }

    /// True if no image has that name or id.
    #[must_use]
    pub fn is_missing_image(&self) -> bool {
        matches!(self, Self::Store(tote_store::StoreError::NoImage(_)))
    }

    /// True if the kernel cannot execute a program on this machine.
    #[must_use]
    pub fn is_unexecutable(&self) -> bool {
        let Self::Run(RuntimeError::Step(step)) = self else {
            return false;
        };
        step.program.is_some() && step.errno == Errno::NOEXEC
    }

    /// A remedy, if one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        crate::hint::of(self)
    }
}
