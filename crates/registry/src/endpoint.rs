use std::net::IpAddr;
use tote_image::{DEFAULT_REGISTRY, Reference};

/// Host of docker.io's registry.
const DOCKER_IO: &str = "registry-1.docker.io";

/// A host that has a repository: a registry, or a mirror of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Name under which credentials are looked up.
    pub(crate) registry: String,
    /// `HOST` or `HOST:PORT` to connect to.
    pub(crate) authority: String,
    /// Path before `/v2/`: empty, or with a slash at its start and none at its end.
    pub(crate) prefix: String,
    /// True if the configuration says that the host speaks plain HTTP.
    pub(crate) plain: bool,
}

impl Endpoint {
    /// Returns the endpoint of the registry itself.
    pub(crate) fn of(registry: &str) -> Self {
        let authority = if registry == DEFAULT_REGISTRY {
            DOCKER_IO
        } else {
            registry
        };
        Self {
            registry: registry.to_owned(),
            authority: authority.to_owned(),
            prefix: String::new(),
            plain: false,
        }
    }

    /// True if the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.authority)
    }
}

/// Parses a mirror of the configuration.
pub(crate) fn mirror(text: &str) -> Endpoint {
    let plain = text.starts_with("http://");
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))
        .unwrap_or(text);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    let path = if path == "v2" {
        ""
    } else {
        path.strip_suffix("/v2").unwrap_or(path)
    };
    Endpoint {
        registry: authority.to_owned(),
        authority: authority.to_owned(),
        prefix: if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        },
        plain,
    }
}

/// True if `HOST` or `HOST:PORT` is this machine.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Builds the path of an object in a repository: `/v2/library/alpine/manifests/latest`.
pub(crate) fn path(reference: &Reference, kind: &str, name: &str) -> String {
    format!("/v2/{}/{kind}/{name}", reference.repository())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors() {
        for (text, authority, prefix, plain) in [
            ("mirror.gcr.io", "mirror.gcr.io", "", false),
            ("https://m:5000/", "m:5000", "", false),
            ("http://10.0.0.7:5000/cache/v2/", "10.0.0.7:5000", "/cache", true),
            ("m/v2", "m", "", false),
            ("m/env2", "m", "/env2", false),
        ] {
            let endpoint = mirror(text);
            assert_eq!(
                (&*endpoint.authority, &*endpoint.prefix, endpoint.plain),
                (authority, prefix, plain)
            );
        }
    }

    #[test]
    fn this_machine() {
        for (authority, loopback) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.8.8.8", true),
            ("[::1]:5000", true),
            ("[::1]", true),
            ("localhost.example.org", false),
            ("127.0.0.1.example.org:80", false),
            ("10.0.0.1", false),
            ("[fe80::1]:5", false),
        ] {
            assert_eq!(is_loopback(authority), loopback, "{authority}");
        }
    }
}
