//! Options about a registry.

use crate::tell::failure;
use std::path::PathBuf;
use std::process::ExitCode;
use tote_engine::{Access, EngineError};
use tote_options::Parsed;

/// Parses the options about the connection to registries.
pub(crate) fn access(parsed: &Parsed) -> Access {
    Access {
        tls_verify: parsed.value("tls-verify").map(|_| parsed.flag("tls-verify")),
        authfile: parsed.value("authfile").map(PathBuf::from),
        docker_config: parsed.value("config").map(PathBuf::from),
        cert_dir: parsed.value("cert-dir").map(PathBuf::from),
        creds: None,
    }
}

/// Parses the same options with `--creds`, a name and a password for this command only.
pub(crate) fn access_with_creds(parsed: &Parsed) -> Result<Access, EngineError> {
    let creds = parsed.value("creds").map(|given| {
        let ask = || tote_engine::ask_secret("Password: ");
        tote_engine::parse_creds(&given.to_string_lossy(), ask)
    });
    Ok(Access {
        creds: creds.transpose()?,
        ..access(parsed)
    })
}

pub(crate) fn name(parsed: &Parsed) -> String {
    let first = parsed.positionals().first();
    first
        .map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Reports an error of the command line that the tables cannot express.
pub(crate) fn usage(text: &str, hint: &str) -> ExitCode {
    failure(text, Some(hint), 1)
}
