//! `search`: repositories of a registry, and tags of a repository.

use super::settings::{Access, Settings};
use crate::ImagesError;
use crate::RemoteError;
use tote_image::{DEFAULT_REGISTRY, Reference};
use tote_registry::FoundRepository;

/// Default number of results; that of docker and podman.
pub const SEARCH_LIMIT: usize = 25;

/// Limit of results: docker's index returns no more at once.
const MOST: usize = 100;

/// Request to search a registry.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    /// Text, or `REGISTRY/TEXT`.
    pub term: String,
    /// Limit of results; [`SEARCH_LIMIT`] by default.
    pub limit: Option<usize>,
    /// Filters `stars=N`, `is-official=BOOL`, `is-automated=BOOL`.
    pub filters: Vec<String>,
    /// Options for the access to the registry.
    pub access: Access,
}

/// Searches one registry, docker.io by default. Results of other registries have full names.
///
/// # Errors
/// [`RemoteError::SearchLimit`], [`RemoteError::SearchFilter`] and [`ImagesError::Registry`].
pub fn search(request: &SearchRequest) -> Result<Vec<FoundRepository>, ImagesError> {
    let limit = request.limit.unwrap_or(SEARCH_LIMIT);
    if limit == 0 || limit > MOST {
        return Err(RemoteError::SearchLimit(limit).into());
    }
    let filters = request.filters.iter().map(|text| Filter::parse(text));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    let (registry, term) = place(&request.term);
    let settings = Settings::read()?;
    let client = settings.client_at(registry, &request.access)?;
    let mut found = client.search(registry, term, limit)?;
    found.retain(|found| filters.iter().all(|filter| filter.fits(found)));
    if registry != DEFAULT_REGISTRY {
        for found in &mut found {
            found.name = format!("{registry}/{}", found.name);
        }
    }
    Ok(found)
}

/// Lists the tags of a repository, in the registry's order. Also returns the repository's full name.
///
/// # Errors
/// [`RemoteError::SearchTag`], [`RemoteError::SearchFilterOfTags`] and [`ImagesError::Registry`].
pub fn list_tags(request: &SearchRequest) -> Result<(String, Vec<String>), ImagesError> {
    if !request.filters.is_empty() {
        return Err(RemoteError::SearchFilterOfTags.into());
    }
    // Only a name with a tag or a digest of its own cannot take another tag.
    if Reference::parse(&format!("{}:any", request.term)).is_err() {
        Reference::parse(&request.term)?;
        return Err(RemoteError::SearchTag(request.term.clone()).into());
    }
    let settings = Settings::read()?;
    let name = settings.reference(&request.term)?;
    let client = settings.client_for(&name, &request.access)?;
    let mut tags = client.tags(&name)?;
    tags.truncate(request.limit.unwrap_or(SEARCH_LIMIT));
    Ok((name.name(), tags))
}

/// Splits a term by docker's rule: a first part that could be a host is one.
fn place(term: &str) -> (&str, &str) {
    match term.split_once('/') {
        Some(("docker.io" | "index.docker.io", rest)) => (DEFAULT_REGISTRY, official(rest)),
        Some((host, rest)) if host == "localhost" || host.contains(['.', ':']) => (host, rest),
        _ => (DEFAULT_REGISTRY, official(term)),
    }
}

/// Strips the prefix of official images, which docker's index leaves out.
fn official(term: &str) -> &str {
    term.strip_prefix("library/").unwrap_or(term)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Stars(u64),
    Official(bool),
    Automated(bool),
}

impl Filter {
    fn parse(text: &str) -> Result<Self, ImagesError> {
        let wrong = || RemoteError::SearchFilter(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let yes = || match value {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(wrong()),
        };
        Ok(match key {
            "stars" => Self::Stars(value.parse().map_err(|_| wrong())?),
            "is-official" => Self::Official(yes()?),
            "is-automated" => Self::Automated(yes()?),
            _ => return Err(wrong().into()),
        })
    }

    fn fits(self, found: &FoundRepository) -> bool {
        match self {
            Self::Stars(least) => found.stars >= least,
            Self::Official(wanted) => found.is_official == wanted,
            Self::Automated(wanted) => found.is_automated == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (term, registry, rest) in [
            ("nginx", "docker.io", "nginx"),
            ("me/app", "docker.io", "me/app"),
            ("library/nginx", "docker.io", "nginx"),
            ("docker.io/library/nginx", "docker.io", "nginx"),
            ("localhost/app", "localhost", "app"),
            ("127.0.0.1:5000/team/app", "127.0.0.1:5000", "team/app"),
            ("quay.io/", "quay.io", ""),
        ] {
            assert_eq!(place(term), (registry, rest), "{term}");
        }
    }

    #[test]
    fn filters() {
        for text in [
            "stars",
            "stars=many",
            "is-official=maybe",
            "stars=-1",
            "name=x",
            "",
        ] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
        let found = FoundRepository {
            stars: 7,
            is_official: true,
            ..FoundRepository::default()
        };
        for (text, fits) in [
            ("stars=7", true),
            ("stars=8", false),
            ("is-official=true", true),
            ("is-official=0", false),
            ("is-automated=true", false),
        ] {
            assert_eq!(Filter::parse(text).unwrap().fits(&found), fits, "{text}");
        }
    }
}
