use crate::auth::Grant;
use crate::endpoint::Endpoint;
use crate::error::{Error, Kind};
use crate::options::ClientOptions;
use crate::pace::{LeastPace, PacedConnector};
use crate::resolve::Names;
use crate::tls;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tote_image::Reference;
use ureq::Agent;
use ureq::tls::{Certificate, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;

/// A client of registries. A process needs only one: it caches connections, tokens, and which hosts speak plain
/// HTTP.
pub struct Client {
    pub(crate) options: ClientOptions,
    /// Connections by host, and by whether they are plain HTTP.
    agents: Mutex<HashMap<(String, bool), Agent>>,
    /// Certificates of the machine's authorities, loaded at first use.
    roots: Mutex<Option<Arc<Vec<Certificate<'static>>>>>,
    /// Result of probing a host for plain HTTP, by host.
    plain: Mutex<HashMap<String, bool>>,
    /// Mirrors that did not answer; they are not asked again.
    down: Mutex<HashSet<String>>,
    /// Grants by origin and scope.
    grants: Mutex<HashMap<(String, String), Arc<Grant>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Builds a client; connections are made when they are needed.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        Self {
            options,
            agents: Mutex::default(),
            roots: Mutex::default(),
            plain: Mutex::default(),
            down: Mutex::default(),
            grants: Mutex::default(),
        }
    }

    /// Asks the mirrors of a repository's registry and then the registry itself, until one of them answers. If all
    /// fail, the error is the registry's own.
    pub(crate) fn each_endpoint<T>(
        &self,
        reference: &Reference,
        mut ask: impl FnMut(&Endpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let registry = reference.registry();
        for mirror in self.options.registries.mirrors(registry) {
            if lock(&self.down).contains(mirror) {
                continue;
            }
            match ask(&crate::endpoint::mirror(mirror)) {
                Err(error) if error.kind() == Kind::Unreachable => {
                    lock(&self.down).insert(mirror.clone());
                }
                // The registry may have content that a mirror lacks.
                Err(_) => {}
                answer => return answer,
            }
        }
        ask(&Endpoint::of(registry))
    }

    /// True if TLS is required of the host and its certificates are verified.
    pub(crate) fn is_strict(&self, authority: &str) -> bool {
        match self.options.tls_verify {
            Some(verify) => verify,
            None => !self.options.registries.is_insecure(authority),
        }
    }

    /// True if plain HTTP is allowed with a host.
    pub(crate) fn may_be_plain(&self, endpoint: &Endpoint) -> bool {
        match self.options.tls_verify {
            Some(verify) => !verify,
            None => {
                endpoint.plain
                    || endpoint.is_loopback()
                    || self.options.registries.is_insecure(&endpoint.registry)
            }
        }
    }

    /// Returns the connections to a host, set up with its own certificates.
    pub(crate) fn agent(&self, authority: &str, plain: bool) -> Result<Agent, Error> {
        let key = (authority.to_owned(), plain);
        if let Some(agent) = lock(&self.agents).get(&key) {
            return Ok(agent.clone());
        }
        let options = &self.options;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("tote/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(options.connect_timeout))
            .timeout_per_read(Some(options.silence_timeout))
            .timeout_per_write(Some(options.silence_timeout))
            .max_idle_connections_per_host(8)
            .tls_config(if plain {
                TlsConfig::default()
            } else {
                self.tls(authority)?
            })
            .build();
        let connector = PacedConnector {
            inner: DefaultConnector::default(),
            pace: LeastPace {
                bytes: options.least_pace,
                window: options.pace_window,
            },
        };
        let agent = Agent::with_parts(config, connector, Names::default());
        lock(&self.agents).insert(key, agent.clone());
        Ok(agent)
    }

    fn tls(&self, authority: &str) -> Result<TlsConfig, Error> {
        if !self.is_strict(authority) {
            return tls::config(&self.options, authority, None);
        }
        let mut roots = lock(&self.roots);
        let roots = match &*roots {
            Some(roots) => Arc::clone(roots),
            None => Arc::clone(roots.insert(Arc::new(tls::roots(&self.options)?))),
        };
        tls::config(&self.options, authority, Some(&roots))
    }

    /// Returns whether the host speaks plain HTTP, if it has been probed.
    pub(crate) fn known_plain(&self, authority: &str) -> Option<bool> {
        lock(&self.plain).get(authority).copied()
    }

    pub(crate) fn remember_plain(&self, authority: &str, plain: bool) {
        lock(&self.plain).insert(authority.to_owned(), plain);
    }

    pub(crate) fn grant(&self, origin: &str, scope: &str) -> Option<Arc<Grant>> {
        let key = (origin.to_owned(), scope.to_owned());
        lock(&self.grants)
            .get(&key)
            .filter(|grant| grant.is_fresh())
            .cloned()
    }

    pub(crate) fn remember_grant(&self, origin: &str, scope: &str, grant: Grant) {
        let key = (origin.to_owned(), scope.to_owned());
        lock(&self.grants).insert(key, Arc::new(grant));
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock: a single call changes each map, so its content
/// is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
