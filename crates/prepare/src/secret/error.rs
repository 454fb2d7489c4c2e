//! Errors of secrets.

use std::path::PathBuf;

/// Error of the work with secrets, in podman's words.
#[derive(Debug, thiserror::Error)]
pub enum SecretFault {
    /// Name or id of a missing secret.
    // podman's words.
    #[error("no secret with name or id {0:?}: no such secret")]
    Missing(String),
    /// Secret of a new container that is missing.
    // podman's words.
    #[error("no secret with name or id {0:?}: no such secret: 'tote secret ls' shows what there is")]
    Unknown(String),
    /// Beginning of an id that several secrets have.
    // podman's words.
    #[error("more than one result secret with prefix {0:?}: give more of the id, or the name")]
    Ambiguous(String),
    /// Name of an existing secret.
    // podman's words.
    #[error("{0}: secret name in use: remove it with 'tote secret rm {0}', or give --replace")]
    Taken(String),
    /// Invalid name.
    // podman's words.
    #[error(
        "invalid secret name {0:?}: give letters, digits, '_', '-' and '.', at most 200, with a letter or digit first"
    )]
    Name(String),
    /// Too many bytes, or none.
    // podman's words.
    #[error("secret data must be larger than 0 and less than 512000 bytes: {0} bytes were given")]
    Size(usize),
    /// Driver other than the only one.
    // podman's words.
    #[error("unsupported driver {0:?}: only file is supported")]
    Driver(String),
    /// Secret that is not text and cannot be a variable.
    #[error(
        "cannot make the secret {0} a variable: its bytes contain a NUL or are not UTF-8: leave out type=env"
    )]
    NotText(String),
    /// User or group that has no number on the machine.
    #[error(
        "cannot give the secret {name} to user {uid} with group {gid}: the container does not have them on this machine"
    )]
    NoId {
        /// Name of the secret.
        name: String,
        /// User in the container.
        uid: u32,
        /// Group in the container.
        gid: u32,
    },
    /// File with the bytes of a secret.
    #[error("cannot {attempt} the secret in {}", .path.display())]
    File {
        /// Verb.
        attempt: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Copy of a secret for a container that cannot be made or read.
    #[error("cannot copy the secret to {}", .path.display())]
    Copy {
        /// Path of the copy.
        path: PathBuf,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Invalid filter.
    // podman's words.
    #[error("invalid filter {0:?}: give name=PATTERN or id=PREFIX")]
    Filter(String),
}

impl SecretFault {
    /// True for what keeps a container from its secrets.
    const fn is_of_a_container(&self) -> bool {
        matches!(
            self,
            Self::Unknown(_) | Self::NotText(_) | Self::NoId { .. } | Self::Copy { .. }
        )
    }
}

tote_records::part!(SecretFault);
impl tote_records::PartError for SecretFault {
    fn exit_code(&self) -> u8 {
        if self.is_of_a_container() { 125 } else { 1 }
    }
}
