//! Where a container's standard descriptors lead.

use crate::{EngineError, RequestError};
use tote_bundle::{RunOptions, Stream};
use tote_runtime::{Stdio, StdioMode};
use tote_sandbox::Stdin;

/// The kind of standard input that the options ask for.
pub fn stdin(options: &RunOptions) -> Stdin {
    if options.interactive {
        Stdin::Inherited
    } else {
        Stdin::Null
    }
}

/// Where the standard descriptors of a container in the foreground lead.
pub fn stdio(options: &RunOptions) -> Result<(Stdio, Vec<tote_sys::Op>), EngineError> {
    let mode = StdioMode {
        interactive: options.interactive,
        terminal: options.tty,
        passes_files: false,
        attached: [Stream::Stdin, Stream::Stdout, Stream::Stderr]
            .map(|stream| options.attach.is_empty() || options.attach.contains(&stream)),
        output_limit: options.output_limit,
    };
    Stdio::new(mode).map_err(|source| EngineError::Kernel {
        attempt: "make pipes for the container's output",
        source,
    })
}

/// docker's rule: input from something else than a terminal cannot be given to one.
///
/// # Errors
/// `RequestError::NotATerminal`.
pub fn check_terminal(options: &RunOptions) -> Result<(), EngineError> {
    let fits = !options.tty || !options.interactive || rustix::termios::isatty(rustix::stdio::stdin());
    if fits {
        Ok(())
    } else {
        Err(EngineError::Request(RequestError::NotATerminal))
    }
}
