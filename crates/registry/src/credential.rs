//! Names and passwords, where docker and podman keep them.

mod file;
mod program;

use file::AuthFile;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// What convinces a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password, or an access token in a password's place.
    Password {
        /// The name.
        username: String,
        /// The secret.
        password: String,
    },
    /// A token that a token service exchanges for others (OAuth 2's refresh token).
    IdentityToken(String),
    /// A token that the registry itself takes.
    RegistryToken(String),
}

/// Secrets are not for error messages.
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
    /// There is no place for them.
    #[error("no place for credentials: none of $REGISTRY_AUTH_FILE, $DOCKER_CONFIG and $HOME is set")]
    NoFile,
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("cannot parse {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        source: serde_json::Error,
    },
    /// An entry is not base64 of `NAME:PASSWORD`.
    #[error("cannot parse {path}: the entry of {registry} is damaged")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Whose entry.
        registry: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The configuration names a credential program that is not there.
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
        /// Its own words, or what is wrong with them.
        why: String,
    },
}

/// Where credentials are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Read in this order; those that do not exist are left out.
    pub read: Vec<PathBuf>,
    /// Where `login` writes.
    pub write: Option<PathBuf>,
    /// Where credential programs are looked for: the directories of `$PATH`.
    pub programs: Vec<PathBuf>,
    /// A registry's credential that was given for this once, in place of whatever is kept.
    pub given: Option<(String, Credential)>,
}

impl Credential {
    /// Who it is: the name, or docker's word for who has a token.
    #[must_use]
    pub fn username(&self) -> &str {
        match self {
            Self::Password { username, .. } => username,
            Self::IdentityToken(_) | Self::RegistryToken(_) => program::TOKEN,
        }
    }
}

impl Credentials {
    /// All of them in one file, whether it is there or not.
    #[must_use]
    pub fn in_file(self, file: PathBuf) -> Self {
        Self {
            read: vec![file.clone()],
            write: Some(file),
            ..self
        }
    }

    /// The places that podman and docker look into, from the environment: `$REGISTRY_AUTH_FILE` alone where it is set,
    /// else `containers/auth.json` below `$XDG_RUNTIME_DIR` and `$XDG_CONFIG_HOME`, then docker's `config.json`.
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

    /// The credential for a repository of a registry; `None` where none of the places has one.
    ///
    /// # Errors
    /// [`CredentialError`] of the first place that cannot be understood.
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

    /// Keeps a credential, in the file or with the program that the file names; the path of the file.
    ///
    /// # Errors
    /// [`CredentialError::Write`] and what can go wrong with what is there already.
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

    /// Forgets the credentials of a registry wherever they are; whether there were any.
    ///
    /// # Errors
    /// As [`Self::store`].
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

    /// Forgets the credentials of all registries, wherever they are. What fails keeps nothing else from being forgotten.
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
