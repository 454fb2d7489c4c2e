use crate::auth::Scope;
use crate::client::Client;
use crate::credential::{Credential, CredentialError};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::http::Call;
use std::path::PathBuf;
use ureq::http::Method;

impl Client {
    /// Tries a credential at a registry, and stores it if the registry accepts it. Returns the path of the file
    /// that holds the credential or the name of the credential program.
    ///
    /// # Errors
    /// [`Error::Login`], [`Error::Credentials`], and every failure of a request.
    pub fn login(&self, registry: &str, credential: &Credential) -> Result<PathBuf, Error> {
        self.try_out(registry, credential).map_err(|error| match error {
            Error::Denied { what, detail, .. } => Error::Login { what, detail },
            error => error,
        })?;
        let stored = self.options.credentials.store(registry, credential);
        stored.map_err(|source| unusable(registry, source))
    }

    fn try_out(&self, registry: &str, credential: &Credential) -> Result<(), Error> {
        let what = format!("login at {registry}");
        let endpoint = Endpoint::of(registry);
        let uri = self.address(&endpoint, &what, "/v2/")?;
        let mut answer = self.once(&uri, &mut Call::new(&what, Method::GET, uri.clone()), None)?;
        if answer.status() == 401 {
            self.authorise_with(&endpoint, &Scope::Login, &what, &answer, Some(credential))?;
            let grant = self.grant(&self.origin(&endpoint)?, &Scope::Login.key());
            let header = grant.as_ref().map(|grant| grant.header());
            answer = self.once(&uri, &mut Call::new(&what, Method::GET, uri.clone()), header)?;
        }
        match answer.status() {
            200 => Ok(()),
            _ => Err(answer.refusal(&what, true)),
        }
    }

    /// Returns the user's name at a registry according to the stored credentials; the registry is not asked.
    ///
    /// # Errors
    /// [`Error::Credentials`].
    pub fn username(&self, registry: &str) -> Result<Option<String>, Error> {
        let known = self.options.credentials.get(registry, "");
        let known = known.map_err(|source| unusable(registry, source))?;
        Ok(known.map(|credential| credential.username().to_owned()))
    }

    /// Removes a registry's credentials; returns whether there were any.
    ///
    /// # Errors
    /// [`Error::Credentials`].
    pub fn logout(&self, registry: &str) -> Result<bool, Error> {
        let erased = self.options.credentials.erase(registry);
        erased.map_err(|source| unusable(registry, source))
    }

    /// Removes the credentials of every registry.
    ///
    /// # Errors
    /// [`Error::Credentials`].
    pub fn logout_everywhere(&self) -> Result<(), Error> {
        let erased = self.options.credentials.erase_all();
        erased.map_err(|source| unusable("all registries", source))
    }
}

fn unusable(registry: &str, source: CredentialError) -> Error {
    Error::Credentials {
        registry: registry.to_owned(),
        source,
    }
}
