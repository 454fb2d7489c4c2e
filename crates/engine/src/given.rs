//! Files that options name.

use crate::EngineError;
use std::path::PathBuf;
use tote_bundle::RunOptions;

pub(crate) fn read_env_files(options: &mut RunOptions) -> Result<(), EngineError> {
    for path in options.env_files.clone() {
        options.add_env_file(&read_env_file(&path)?)?;
    }
    Ok(())
}

pub(crate) fn read_env_file(path: &str) -> Result<String, EngineError> {
    std::fs::read_to_string(path).map_err(|source| EngineError::File {
        option: "env-file",
        attempt: "read",
        path: PathBuf::from(path),
        source,
    })
}

pub(crate) fn read_profile(path: PathBuf) -> Result<tote_spec::Seccomp, EngineError> {
    let text = std::fs::read_to_string(&path).map_err(|source| EngineError::File {
        option: "security-opt",
        attempt: "read",
        path: path.clone(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|source| EngineError::Profile { path, source })
}
