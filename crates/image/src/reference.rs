use crate::digest::{Digest, DigestError};
use crate::text::shown;
use std::fmt;
use std::str::FromStr;

/// Registry of names that do not contain one.
pub const DEFAULT_REGISTRY: &str = "docker.io";

/// Tag of names that have neither tag nor digest.
pub const DEFAULT_TAG: &str = "latest";

/// Docker's prefix for images without a namespace.
const OFFICIAL: &str = "library/";

/// Former name of docker.io, which is still found in configuration files and on command lines.
const LEGACY_REGISTRY: &str = "index.docker.io";

/// Maximum length of a repository in bytes, as registries accept it.
const MAX_REPOSITORY: usize = 255;

/// Maximum length of a tag in bytes.
const MAX_TAG: usize = 128;

/// The name of an image, normalised as docker does: `alpine` is `docker.io/library/alpine:latest`.
///
/// Grammar and rules are those of <https://github.com/distribution/reference>. A digest decides which image is
/// meant; a tag beside it is only informative.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is not the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text is empty.
    #[error("invalid reference: the name is empty")]
    Empty,
    /// Docker refuses such names because they look like an image's id.
    #[error("invalid reference: {0}: 64 hexadecimal digits are an image's id, not a name")]
    Id(String),
    /// The part before the first slash is not `HOST` or `HOST:PORT`.
    #[error("invalid reference: {0}: the registry is not of the form HOST or HOST:PORT")]
    Registry(String),
    /// The path has upper-case letters.
    #[error("invalid reference: {0}: the repository must be in lower case")]
    UpperCase(String),
    /// The path has an empty component, or a character that is not allowed there.
    #[error(
        "invalid reference: {0}: each part of the repository must be letters and digits, \
         joined by one dot, one or two underscores, or dashes"
    )]
    Repository(String),
    /// The repository exceeds the length that registries accept.
    #[error("invalid reference: {0}: the repository is longer than 255 characters")]
    TooLong(String),
    /// The tag does not match `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`.
    #[error("invalid reference: {0}: a tag is up to 128 letters, digits, underscores, dots and dashes")]
    Tag(String),
    /// The part after the `@` is not a digest.
    #[error("invalid reference: {text}")]
    Digest {
        /// The reference as given.
        text: String,
        /// The reason why the digest is refused.
        #[source]
        source: DigestError,
    },
}

impl Reference {
    /// Parses a reference and adds the parts that docker would: the registry, `library/` and the tag.
    ///
    /// # Errors
    /// [`ReferenceError`] names the wrong part.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if is_id(text) {
            return Err(ReferenceError::Id(shown(text)));
        }
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => {
                let digest = digest.parse().map_err(|source| ReferenceError::Digest {
                    text: shown(text),
                    source,
                })?;
                (name, Some(digest))
            }
        };
        let (registry, rest) = split_registry(name);
        let (path, tag) = match rest.split_once(':') {
            None => (rest, None),
            Some((path, tag)) => (path, Some(tag)),
        };
        let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') {
            format!("{OFFICIAL}{path}")
        } else {
            path.to_owned()
        };
        if !is_registry(registry) {
            return Err(ReferenceError::Registry(shown(text)));
        }
        check_repository(&repository, text)?;
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(shown(text)));
        }
        let tag = match (tag, &digest) {
            (None, None) => Some(DEFAULT_TAG),
            (tag, _) => tag,
        };
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag: tag.map(str::to_owned),
            digest,
        })
    }

    /// Parses a reference as [`Self::parse`] does, but looks up a name without a registry among short names first:
    /// `alias` gets the part before tag and digest, and returns a name that has a registry.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn parse_with_aliases(
        text: &str,
        alias: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ReferenceError> {
        let short = text.split('@').next().unwrap_or_default();
        let names_registry = short
            .split_once('/')
            .is_some_and(|(first, _)| looks_like_registry(first));
        if names_registry {
            return Self::parse(text);
        }
        let short = short.split(':').next().unwrap_or_default();
        match alias(short) {
            Some(name) => Self::parse(&format!("{name}{}", &text[short.len()..])),
            None => Self::parse(text),
        }
    }

    /// Returns the registry: `HOST` or `HOST:PORT`, as in `docker.io` or `localhost:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the path at the registry, as in `library/alpine`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag; `None` only if a digest was given without a tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if one was given.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns registry and repository, without tag and digest.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// Formats [`Self::name`] as people write it: `alpine`, `user/app`, `ghcr.io/user/app`.
    #[must_use]
    pub fn familiar_name(&self) -> String {
        if self.registry != DEFAULT_REGISTRY {
            return self.name();
        }
        match self.repository.strip_prefix(OFFICIAL) {
            // The rest must not itself need the prefix, nor look like a registry.
            Some(short) if !short.contains('/') => short.to_owned(),
            _ => match self.repository.split_once('/') {
                Some((first, _)) if looks_like_registry(first) => self.name(),
                _ => self.repository.clone(),
            },
        }
    }

    /// Formats the whole reference as people write it: `alpine:3.20`.
    #[must_use]
    pub fn familiar(&self) -> String {
        self.suffixed(self.familiar_name())
    }

    /// Returns the version to ask a registry for: the digest if there is one, else the tag.
    #[must_use]
    pub fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => DEFAULT_TAG.to_owned(),
        }
    }

    /// Returns the image's name with this tag and without a digest.
    ///
    /// # Errors
    /// [`ReferenceError::Tag`].
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        if !is_tag(tag) {
            return Err(ReferenceError::Tag(shown(tag)));
        }
        Ok(Self {
            tag: Some(tag.to_owned()),
            digest: None,
            ..self.clone()
        })
    }

    /// Returns the identity of the image: a tag beside a digest is dropped.
    #[must_use]
    pub fn canonical(&self) -> Self {
        match self.digest {
            Some(digest) => self.with_digest(digest),
            None => self.clone(),
        }
    }

    /// Returns the name of the content with this digest in the same repository, without a tag.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    fn suffixed(&self, mut text: String) -> String {
        if let Some(tag) = &self.tag {
            text.push(':');
            text.push_str(tag);
        }
        if let Some(digest) = &self.digest {
            text.push('@');
            text.push_str(&digest.to_string());
        }
        text
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::parse(text)
    }
}

/// Formats the whole reference without leaving parts out: parsing it gives the same value.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.suffixed(self.name()))
    }
}

/// Splits off the registry by docker's rule: a dot, a colon, an upper-case letter or the word `localhost` before
/// the first slash make it a registry; otherwise it is the first part of a path on docker.io.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((LEGACY_REGISTRY, rest)) => (DEFAULT_REGISTRY, rest),
        Some((first, rest)) if looks_like_registry(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    }
}

fn looks_like_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.contains(|c: char| c.is_ascii_uppercase())
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_registry(text: &str) -> bool {
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let Some((address, after)) = bracketed.split_once(']') else {
            return false;
        };
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return false;
        }
        match after.strip_prefix(':') {
            Some(port) => ("ipv6", Some(port)),
            None if after.is_empty() => ("ipv6", None),
            None => return false,
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port_is_number = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host.len() <= 255 && host.split('.').all(is_host_part) && port.is_none_or(port_is_number)
}

fn is_host_part(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('-')
        && !part.ends_with('-')
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn check_repository(repository: &str, text: &str) -> Result<(), ReferenceError> {
    if repository.contains(|c: char| c.is_ascii_uppercase()) {
        Err(ReferenceError::UpperCase(shown(text)))
    } else if !repository.split('/').all(is_path_part) {
        Err(ReferenceError::Repository(shown(text)))
    } else if repository.len() > MAX_REPOSITORY {
        Err(ReferenceError::TooLong(shown(text)))
    } else {
        Ok(())
    }
}

/// True if `part` matches `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_path_part(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends_well =
        part.bytes().next().is_some_and(alphanumeric) && part.bytes().next_back().is_some_and(alphanumeric);
    ends_well
        && part
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|separator| {
                matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
            })
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

#[cfg(test)]
mod tests;
