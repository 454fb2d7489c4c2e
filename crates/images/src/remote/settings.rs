//! Client of registries, with the settings of the machine and of the user.

use crate::ImagesError;
use crate::RemoteError;
use std::path::{Path, PathBuf};
use tote_image::Reference;
use tote_registry::{Client, ClientOptions, Credential, Credentials, Registries};
use tote_state::config;

/// Path of the configuration below the configuration directories.
const FILE: &str = "tote/registries.json";

/// Path of further certificates, below `$XDG_CONFIG_HOME` or `~/.config`.
const CERTIFICATES: &str = "containers/certs.d";

/// Command-line options for the access to registries; unset ones leave the choice to the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// True to demand TLS and valid certificates.
    pub tls_verify: Option<bool>,
    /// File of credentials: `--authfile`.
    pub authfile: Option<PathBuf>,
    /// Directory with docker's file of credentials: `--config`.
    pub docker_config: Option<PathBuf>,
    /// Credentials for the image's registry, for this command only: `--creds`.
    pub creds: Option<Credential>,
    /// Directory of certificates, instead of each host's own directory: `--cert-dir`.
    pub cert_dir: Option<PathBuf>,
}

/// Configuration for all commands that access registries.
pub(super) struct Settings {
    pub(super) registries: Registries,
    config_home: Option<PathBuf>,
}

impl Settings {
    /// Reads `registries.json`.
    pub(super) fn read() -> Result<Self, ImagesError> {
        Ok(Self {
            registries: config::read(FILE, Registries::parse)?.unwrap_or_default(),
            config_home: config::home(),
        })
    }

    /// Parses the name of an image; the configuration resolves short names.
    pub(super) fn reference(&self, text: &str) -> Result<Reference, ImagesError> {
        Ok(Reference::parse_with_aliases(text, &|short| {
            self.registries.alias(short)
        })?)
    }

    /// Makes a client for any registry; it does not send credentials that were given for one registry.
    pub(super) fn client(self, access: &Access) -> Result<Client, ImagesError> {
        self.client_with(access, None)
    }

    /// Makes a client for the registry of an image.
    pub(super) fn client_for(self, name: &Reference, access: &Access) -> Result<Client, ImagesError> {
        self.client_at(name.registry(), access)
    }

    /// Makes a client for that registry.
    pub(super) fn client_at(self, registry: &str, access: &Access) -> Result<Client, ImagesError> {
        let given = access.creds.clone();
        self.client_with(access, given.map(|given| (registry.to_owned(), given)))
    }

    fn client_with(
        self,
        access: &Access,
        given: Option<(String, Credential)>,
    ) -> Result<Client, ImagesError> {
        if let Some(file) = &access.authfile {
            check(file)?;
        }
        Ok(self.unchecked(access, given))
    }

    /// Makes a client whose file of credentials need not exist.
    pub(super) fn unchecked(self, access: &Access, given: Option<(String, Credential)>) -> Client {
        let mut credentials = Credentials::from_environment(&|name| std::env::var_os(name));
        let of_docker = access.docker_config.as_ref();
        let of_docker = of_docker.map(|directory| directory.join("config.json"));
        if let Some(file) = access.authfile.clone().or(of_docker) {
            credentials = credentials.in_file(file);
        }
        let mut options = ClientOptions {
            registries: self.registries,
            credentials: Credentials { given, ..credentials },
            tls_verify: access.tls_verify,
            cert_dir: access.cert_dir.clone(),
            ..ClientOptions::default()
        };
        if let Some(file) = config::directory("SSL_CERT_FILE") {
            options.roots.insert(0, file);
        }
        if let Some(config) = self.config_home {
            options.certificates.insert(0, config.join(CERTIFICATES));
        }
        Client::new(options)
    }
}

/// Checks that a file that the user names is readable.
pub(super) fn check(file: &Path) -> Result<(), ImagesError> {
    Ok(
        rustix::fs::access(file, rustix::fs::Access::READ_OK).map_err(|errno| RemoteError::AuthFile {
            path: file.to_owned(),
            source: errno.into(),
        })?,
    )
}

impl Access {
    /// Checks that the file of `--authfile` can be read, also where no registry is asked.
    ///
    /// # Errors
    /// [`RemoteError::AuthFile`].
    pub fn check(&self) -> Result<(), ImagesError> {
        self.authfile.as_deref().map_or(Ok(()), check)
    }
}

/// Makes a client for downloads from places other than registries.
pub fn web_client(access: &Access) -> Result<Client, ImagesError> {
    Settings::read()?.client(access)
}

/// Makes a client, and parses the name of an image at a registry.
pub fn registry_client(text: &str, access: &Access) -> Result<(Client, Reference), ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(text)?;
    Ok((settings.client_for(&name, access)?, name))
}
