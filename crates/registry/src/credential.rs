//! Credentials for registries, in the files of docker and podman.

mod file;
mod program;

use file::AuthFile;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password, or an access token in place of a password.
    Password {
        /// The name.
        username: String,
        /// The secret.
        password: String,
    },
    /// A token that a token service exchanges for others (OAuth 2's refresh token).
    IdentityToken(String),
    /// A token that the registry itself accepts.
    RegistryToken(String),
}

/// Omits the secrets, because debug output can end up in error messages.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { username, .. } => write!(f, "Password({username:?}, …)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(…)"),
            Self::RegistryToken(_) => f.write_str("RegistryToken(…)"),
        }
    }
}

/// Why credentials could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The environment names no file for credentials.
    #[error("no place for credentials: none of $REGISTRY_AUTH_FILE, $DOCKER_CONFIG and $HOME is set")]
    NoFile,
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be parsed.
    #[error("cannot parse {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The error of the parser, with its position.
        #[source]
        source: serde_json::Error,
    },
    /// An entry is not base64 of `NAME:PASSWORD`.
    #[error("cannot parse {path}: the entry of {registry} is damaged")]
    Entry {
        /// The file.
        path: PathBuf,
        /// The registry of the entry.
        registry: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The configuration names a credential program that does not exist.
    #[error("cannot run {program}: no directory of $PATH has it")]
    NoProgram {
        /// `docker-credential-NAME`.
        program: String,
    },
    /// A credential program failed.
    #[error("cannot run {program} {action}: {why}")]
    Program {
        /// `docker-credential-NAME`.
        program: String,
        /// `get`, `store`, `erase` or `list`.
        action: &'static str,
        /// The program's own message, or the fault in its answer.
        why: String,
    },
}

/// Places of credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Files to read, in this order; missing ones are skipped.
    pub read: Vec<PathBuf>,
    /// File that `login` writes to.
    pub write: Option<PathBuf>,
    /// Directories in which credential programs are searched: those of `$PATH`.
    pub programs: Vec<PathBuf>,
    /// Credential for a registry that was given for this command only; it replaces the stored one.
    pub given: Option<(String, Credential)>,
}

impl Credential {
    /// Returns the user name, or docker's placeholder for a token.
    #[must_use]
    pub fn username(&self) -> &str {
        match self {
            Self::Password { username, .. } => username,
            Self::IdentityToken(_) | Self::RegistryToken(_) => program::TOKEN,
        }
    }
}

impl Credentials {
    /// Replaces the files by a single one, which need not exist.
    #[must_use]
    pub fn in_file(self, file: PathBuf) -> Self {
        Self {
            read: vec![file.clone()],
            write: Some(file),
            ..self
        }
    }

    /// Collects the places that podman and docker use, from the environment: only `$REGISTRY_AUTH_FILE` if it is
    /// set, else `containers/auth.json` below `$XDG_RUNTIME_DIR` and `$XDG_CONFIG_HOME`, then docker's
    /// `config.json`.
    #[must_use]
    pub fn from_environment(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let directory = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = directory("HOME");
        let programs = get("PATH")
            .map(|path| std::env::split_paths(&path).collect())
            .unwrap_or_default();
        let unknown = Self {
            programs,
            ..Self::default()
        };
        if let Some(file) = directory("REGISTRY_AUTH_FILE") {
            return unknown.in_file(file);
        }
        let containers = |directory: PathBuf| directory.join("containers/auth.json");
        let docker = directory("DOCKER_CONFIG")
            .or_else(|| home.as_ref().map(|home| home.join(".docker")))
            .map(|directory| directory.join("config.json"));
        let config = directory("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
        Self {
            read: directory("XDG_RUNTIME_DIR")
                .map(containers)
                .into_iter()
                .chain(config.map(containers))
                .chain(docker.clone())
                .collect(),
            write: docker,
            ..unknown
        }
    }

    /// Looks up the credential for a repository of a registry; `None` if no place has one.
    ///
    /// # Errors
    /// [`CredentialError`] of the first place that cannot be read.
    pub fn get(&self, registry: &str, repository: &str) -> Result<Option<Credential>, CredentialError> {
        if let Some((_, credential)) = self.given.as_ref().filter(|(whose, _)| whose == registry) {
            return Ok(Some(credential.clone()));
        }
        for path in &self.read {
            let Some(file) = AuthFile::read(path)? else {
                continue;
            };
            if let Some(name) = file.program(registry)
                && let Some(credential) = program::get(&self.programs, &name, registry)?
            {
                return Ok(Some(credential));
            }
            if let Some(credential) = file.credential(registry, repository)? {
                return Ok(Some(credential));
            }
        }
        Ok(None)
    }

    /// Stores a credential, in the file or with the program that the file names. Returns the path of the file.
    ///
    /// # Errors
    /// [`CredentialError::Write`], and those of reading the present file.
    pub fn store(&self, registry: &str, credential: &Credential) -> Result<PathBuf, CredentialError> {
        let path = self.write.as_ref().ok_or(CredentialError::NoFile)?;
        let mut file = AuthFile::read(path)?.unwrap_or_else(|| AuthFile::empty(path));
        match file.program(registry) {
            Some(name) => program::store(&self.programs, &name, registry, credential)?,
            None => {
                file.insert(registry, credential);
                file.write()?;
            }
        }
        Ok(path.clone())
    }

    /// Removes the credentials of a registry from all places; returns whether there were any.
    ///
    /// # Errors
    /// [`CredentialError`] of the first place that cannot be read or written.
    pub fn erase(&self, registry: &str) -> Result<bool, CredentialError> {
        let mut erased = false;
        for path in self.read.iter().chain(&self.write) {
            let Some(mut file) = AuthFile::read(path)? else {
                continue;
            };
            if let Some(name) = file.program(registry) {
                erased |= program::erase(&self.programs, &name, registry)?;
            }
            if file.remove(registry) {
                file.write()?;
                erased = true;
            }
        }
        Ok(erased)
    }

    /// Removes the credentials of all registries from all places. After a failure it goes on with the next place.
    ///
    /// # Errors
    /// The first [`CredentialError`].
    pub fn erase_all(&self) -> Result<(), CredentialError> {
        let mut first = Ok(());
        for path in self.read.iter().chain(&self.write) {
            first = first.and(self.empty(path));
        }
        first
    }

    fn empty(&self, path: &Path) -> Result<(), CredentialError> {
        let Some(mut file) = AuthFile::read(path)? else {
            return Ok(());
        };
        let mut first = if file.clear() { file.write() } else { Ok(()) };
        for (name, registry) in file.programs() {
            first = first.and(match registry {
                Some(registry) => program::erase(&self.programs, &name, &registry).map(drop),
                None => program::erase_all(&self.programs, &name),
            });
        }
        first
    }
}

#[cfg(test)]
mod tests;
