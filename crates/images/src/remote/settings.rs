//! The client of registries, as the machine and the user want it.

use crate::ImagesError;
use crate::RemoteError;
use std::path::{Path, PathBuf};
use tote_image::Reference;
use tote_registry::{Client, ClientOptions, Credential, Credentials, Registries};
use tote_state::config;

/// Below the directories of configuration.
const FILE: &str = "tote/registries.json";

/// Where further certificates are, below `$XDG_CONFIG_HOME` or `~/.config`.
const CERTIFICATES: &str = "containers/certs.d";

/// How registries are spoken to, as far as options say: where they do not, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether to demand TLS and good certificates.
    pub tls_verify: Option<bool>,
    /// `--authfile`: the one file of credentials.
    pub authfile: Option<PathBuf>,
    /// `--creds`: who one is at the registry of the image, this once.
    pub creds: Option<Credential>,
    /// `--cert-dir`: certificates, in place of each host's own directory of them.
    pub cert_dir: Option<PathBuf>,
}

/// What concerns every command that speaks with a registry.
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

    /// The image that a text names, short names being what the configuration says.
    pub(super) fn reference(&self, text: &str) -> Result<Reference, ImagesError> {
        Ok(Reference::parse_with_aliases(text, &|short| {
            self.registries.alias(short)
        })?)
    }

    /// A client that is nobody's in particular: what was given for one registry is not shown to it.
    pub(super) fn client(self, access: &Access) -> Result<Client, ImagesError> {
        self.client_with(access, None)
    }

    /// A client for what is done at the registry of an image.
    pub(super) fn client_for(self, name: &Reference, access: &Access) -> Result<Client, ImagesError> {
        self.client_at(name.registry(), access)
    }

    /// A client for what is done at that registry.
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

    /// A client whose file of credentials need not be there yet.
    pub(super) fn unchecked(self, access: &Access, given: Option<(String, Credential)>) -> Client {
        let mut credentials = Credentials::from_environment(&|name| std::env::var_os(name));
        if let Some(file) = &access.authfile {
            credentials = credentials.in_file(file.clone());
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

/// A file that somebody names is to be there.
pub(super) fn check(file: &Path) -> Result<(), ImagesError> {
    Ok(
        rustix::fs::access(file, rustix::fs::Access::READ_OK).map_err(|errno| RemoteError::AuthFile {
            path: file.to_owned(),
            source: errno.into(),
        })?,
    )
}

/// A client for files that are at no registry.
pub fn web_client(access: &Access) -> Result<Client, ImagesError> {
    Settings::read()?.client(access)
}

/// A client, and what a text names at a registry.
pub fn registry_client(text: &str, access: &Access) -> Result<(Client, Reference), ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(text)?;
    Ok((settings.client_for(&name, access)?, name))
}
