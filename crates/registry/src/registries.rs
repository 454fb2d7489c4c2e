use serde::Deserialize;
use std::collections::BTreeMap;

/// The configuration of registries, file `registries.json`.
///
/// ```json
/// {
///   "registries": {
///     "docker.io": { "mirrors": ["mirror.gcr.io", "http://10.0.0.7:5000/cache"] },
///     "registry.lan:5000": { "insecure": true }
///   },
///   "aliases": { "fedora": "quay.io/fedora/fedora" }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Registries {
    /// Registries by `HOST` or `HOST:PORT`.
    pub registries: BTreeMap<String, Registry>,
    /// Short names of images, and the full names they stand for.
    pub aliases: BTreeMap<String, String>,
}

/// The configuration of a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Registry {
    /// Mirrors to ask first, in this order: `HOST[:PORT][/PATH]`, with `http://` in front for a mirror without TLS.
    pub mirrors: Vec<String>,
    /// True if certificates are not verified and plain HTTP is allowed.
    pub insecure: bool,
}

/// Why a text is not a configuration of registries.
#[derive(Debug, thiserror::Error)]
pub enum RegistriesError {
    /// The text is not JSON, or has an unknown property.
    #[error("cannot parse the configuration of registries")]
    Json(#[source] serde_json::Error),
    /// A mirror has the wrong form.
    #[error(
        "the mirror {0:?} is not of the form HOST[:PORT][/PATH], with http:// or https:// before it or without"
    )]
    Mirror(String),
}

impl Registries {
    /// Parses a configuration.
    ///
    /// # Errors
    /// [`RegistriesError`] holds the cause.
    pub fn parse(text: &str) -> Result<Self, RegistriesError> {
        let registries: Self = serde_json::from_str(text).map_err(RegistriesError::Json)?;
        for mirror in registries
            .registries
            .values()
            .flat_map(|registry| &registry.mirrors)
        {
            let host = crate::endpoint::mirror(mirror).authority;
            if host.is_empty() || format!("https://{host}/").parse::<ureq::http::Uri>().is_err() {
                return Err(RegistriesError::Mirror(mirror.clone()));
            }
        }
        Ok(registries)
    }

    /// Returns the full name that a short one stands for.
    #[must_use]
    pub fn alias(&self, short: &str) -> Option<String> {
        self.aliases.get(short).cloned()
    }

    pub(crate) fn mirrors(&self, registry: &str) -> &[String] {
        self.registries
            .get(registry)
            .map_or(&[], |registry| &registry.mirrors)
    }

    pub(crate) fn is_insecure(&self, host: &str) -> bool {
        self.registries
            .get(host)
            .is_some_and(|registry| registry.insecure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_refused() {
        let text = r#"{"registries":{"docker.io":{"mirrors":["http://m:5000/c","n"]},"r":{"insecure":true}},"aliases":{"a":"b/c"}}"#;
        let registries = Registries::parse(text).unwrap();
        assert_eq!(registries.mirrors("docker.io"), ["http://m:5000/c", "n"]);
        assert!(registries.is_insecure("r") && !registries.is_insecure("docker.io"));
        assert_eq!(registries.alias("a").as_deref(), Some("b/c"));
        assert!(registries.mirrors("ghcr.io").is_empty());
        for text in [
            "",
            r#"{"registry":{}}"#,
            r#"{"registries":{"x":{"mirrors":["https://"]}}}"#,
            r#"{"registries":{"x":{"mirrors":["a b"]}}}"#,
            r#"{"registries":{"x":{"insecure":1}}}"#,
        ] {
            assert!(Registries::parse(text).is_err(), "{text}");
        }
    }
}
