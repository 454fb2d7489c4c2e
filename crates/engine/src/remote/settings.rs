//! The client of registries, as the machine and the user want it.

use crate::{EngineError, config};
use std::path::PathBuf;
use tote_image::Reference;
use tote_registry::{Client, ClientOptions, Credentials, Progress, Registries};

/// Below the directories of configuration.
const FILE: &str = "tote/registries.json";

/// Where further certificates are, below `$XDG_CONFIG_HOME` or `~/.config`.
const CERTIFICATES: &str = "containers/certs.d";

/// What concerns every command that speaks with a registry.
pub(super) struct Settings {
    pub(super) registries: Registries,
    config_home: Option<PathBuf>,
}

impl Settings {
    /// Reads `registries.json`.
    pub(super) fn read() -> Result<Self, EngineError> {
        Ok(Self {
            registries: config::read(FILE, Registries::parse)?.unwrap_or_default(),
            config_home: config::home(),
        })
    }

    /// The image that a text names, short names being what the configuration says.
    pub(super) fn reference(&self, text: &str) -> Result<Reference, EngineError> {
        Ok(Reference::parse_with_aliases(text, &|short| {
            self.registries.alias(short)
        })?)
    }

    pub(super) fn client(self, tls_verify: Option<bool>, progress: Option<Progress>) -> Client {
        let mut options = ClientOptions {
            registries: self.registries,
            credentials: Credentials::from_environment(&|name| std::env::var_os(name)),
            tls_verify,
            progress,
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

/// A client for files that are at no registry.
pub(crate) fn web_client(tls_verify: Option<bool>) -> Result<Client, EngineError> {
    Ok(Settings::read()?.client(tls_verify, None))
}

/// A client, and what a text names at a registry.
pub(crate) fn registry_client(
    text: &str,
    tls_verify: Option<bool>,
) -> Result<(Client, Reference), EngineError> {
    let settings = Settings::read()?;
    let name = settings.reference(text)?;
    Ok((settings.client(tls_verify, None), name))
}
