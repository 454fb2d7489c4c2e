//! Why a base image cannot be made of packages.

use std::process::ExitStatus;

/// Why no base image was made.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// mmdebstrap is missing.
    #[error("a base image of packages needs mmdebstrap, which is not installed")]
    NoProgram,
    /// The program cannot be started or waited for.
    #[error("cannot run mmdebstrap")]
    Run(#[source] std::io::Error),
    /// The program failed and printed the reason.
    #[error("mmdebstrap failed ({0})")]
    Failed(ExitStatus),
    /// Not a distribution and a suite.
    #[error("{0:?} is not DISTRIBUTION:SUITE, such as debian:bookworm")]
    What(String),
    /// A word that would mean something else on its command line.
    #[error("{0:?} is not the name of a suite, a variant or a package")]
    Word(String),
}

tote_records::part!(BootstrapError);
impl tote_records::PartError for BootstrapError {
    fn exit_code(&self) -> u8 {
        1
    }

    fn hint(&self) -> Option<String> {
        let text =
            "install it (package mmdebstrap), or import an archive that it made elsewhere: tote import";
        matches!(self, Self::NoProgram).then(|| text.to_owned())
    }
}
