//! Search in registries: the interface of docker's index, and the catalog of registries without a search.
//!
//! <https://docs.docker.com/reference/api/registry/>, and the first version of the protocol, of which only the
//! search is left.

use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::{Error, Kind};
use crate::http::Call;
use crate::tags::{MAX_PAGE, MAX_PAGES, next_page};
use crate::uri::{join, same_origin, with_query};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tote_image::DEFAULT_REGISTRY;
use ureq::http::{Method, Uri};

/// Host that answers searches of docker.io.
const DOCKER_INDEX: &str = "index.docker.io";

/// A repository found by a search. Its texts are a single line each, without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRepository {
    /// The registry's name for it.
    pub name: String,
    /// The owner's description; may be empty.
    pub description: String,
    /// Number of users who have starred it.
    pub stars: u64,
    /// True if it is one of docker's official images.
    pub is_official: bool,
    /// True if a service built it.
    pub is_automated: bool,
}

#[derive(Deserialize)]
struct Page {
    results: Option<Vec<Found>>,
}

#[derive(Deserialize)]
struct Found {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    star_count: i64,
    #[serde(default)]
    is_official: bool,
    #[serde(default)]
    is_automated: bool,
}

#[derive(Deserialize)]
struct Catalog {
    repositories: Option<Vec<String>>,
}

impl Client {
    /// Searches a registry; returns at most `most` results in its own order.
    ///
    /// A registry without a search is asked for its catalog, which is filtered by names that contain the term. An
    /// exact match comes first.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::NotFound`], and every failure of a request.
    pub fn search(&self, registry: &str, term: &str, most: usize) -> Result<Vec<FoundRepository>, Error> {
        let what = format!("search {registry}");
        if registry == DEFAULT_REGISTRY {
            let index = Endpoint {
                authority: DOCKER_INDEX.to_owned(),
                ..Endpoint::of(registry)
            };
            return self.index(&index, &what, term, most);
        }
        let endpoint = Endpoint::of(registry);
        if !term.is_empty() {
            match self.index(&endpoint, &what, term, most) {
                Err(error) if !matches!(error.kind(), Kind::Unreachable | Kind::Insecure) => {}
                answer => return answer,
            }
        }
        self.catalog(&endpoint, &what, term, most)
    }

    fn index(
        &self,
        endpoint: &Endpoint,
        what: &str,
        term: &str,
        most: usize,
    ) -> Result<Vec<FoundRepository>, Error> {
        let path = with_query("/v1/search", &[("q", term), ("n", &most.to_string())]);
        let uri = self.address(endpoint, what, &path)?;
        let (page, _): (Page, _) = self.page(endpoint, what, uri)?;
        let found = page.results.unwrap_or_default().into_iter();
        let found = found.filter_map(|found| {
            Some(FoundRepository {
                name: one_line(&found.name?),
                description: one_line(&found.description.unwrap_or_default()),
                stars: found.star_count.try_into().unwrap_or_default(),
                is_official: found.is_official,
                is_automated: found.is_automated,
            })
        });
        Ok(found.take(most).collect())
    }

    fn catalog(
        &self,
        endpoint: &Endpoint,
        what: &str,
        term: &str,
        most: usize,
    ) -> Result<Vec<FoundRepository>, Error> {
        let mut next = Some(self.address(endpoint, what, "/v2/_catalog?n=1000")?);
        let mut found: Vec<FoundRepository> = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(uri) = next else {
                break;
            };
            let (page, following): (Catalog, _) = self.page(endpoint, what, uri)?;
            for name in page.repositories.unwrap_or_default() {
                let repository = FoundRepository {
                    name: one_line(&name),
                    ..FoundRepository::default()
                };
                if name == term {
                    found.insert(0, repository);
                } else if name.contains(term) {
                    found.push(repository);
                }
                if found.len() >= most {
                    return Ok(found);
                }
            }
            next = following;
        }
        Ok(found)
    }

    /// Fetches a page of an answer; returns its content and the address of the next page.
    fn page<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        what: &str,
        uri: Uri,
    ) -> Result<(T, Option<Uri>), Error> {
        let answer = self.send(endpoint, &Scope::Login, Call::new(what, Method::GET, uri.clone()))?;
        if answer.status() != 200 {
            let known = self.options.credentials.get(&endpoint.registry, "");
            return Err(answer.refusal(what, matches!(known, Ok(Some(_)))));
        }
        let next = answer
            .header("link")
            .and_then(next_page)
            .and_then(|link| join(&uri, link))
            .filter(|next| same_origin(next, &uri) && *next != uri);
        let bytes = answer.bytes(what, MAX_PAGE)?;
        let page = serde_json::from_slice(&bytes).map_err(|_| Error::Protocol {
            what: what.to_owned(),
            why: "the answer is no list of repositories".to_owned(),
        })?;
        Ok((page, next))
    }
}

/// Replaces control characters by spaces: a stranger's text must not control the terminal.
fn one_line(text: &str) -> String {
    let clean = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter });
    clean.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(one_line(" a\x1b[31mb\r\nc\u{9b}d\x07 "), "a [31mb  c d");
    }
}
