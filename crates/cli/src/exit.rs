//! Exit codes of commands: which errors end with which code. The groups differ, because docker and podman do.

use crate::tell::{engine_error, refusal};
use std::process::ExitCode;
use tote_engine::EngineError;

/// Ends with the error's own code.
pub(crate) fn own(done: Result<ExitCode, EngineError>) -> ExitCode {
    done.unwrap_or_else(|error| engine_error(&error))
}

/// Ends with 1 where the error's own code is 125: docker's daemon finds these errors.
pub(crate) fn refused(done: Result<ExitCode, EngineError>) -> ExitCode {
    done.unwrap_or_else(|error| refusal(&error))
}

/// Ends with 1 for every error.
pub(crate) fn one(done: Result<ExitCode, EngineError>) -> ExitCode {
    done.unwrap_or_else(|error| {
        engine_error(&error);
        ExitCode::from(1)
    })
}

/// Ends with 125 for mistakes of the command line, and with 1 for every other error.
pub(crate) fn image(done: Result<ExitCode, EngineError>) -> ExitCode {
    done.unwrap_or_else(|error| {
        let code = engine_error(&error);
        if matches!(error, EngineError::Usage(_)) {
            code
        } else {
            ExitCode::from(1)
        }
    })
}

/// Ends with 1 for errors about networks, which docker's daemon finds, and otherwise with the error's own code.
pub(crate) fn network(done: Result<ExitCode, EngineError>) -> ExitCode {
    done.unwrap_or_else(|error| {
        let code = engine_error(&error);
        if error.part::<tote_engine::NetworkFault>().is_some() {
            ExitCode::FAILURE
        } else {
            code
        }
    })
}
