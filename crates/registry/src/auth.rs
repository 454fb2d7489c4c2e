//! Authorisation at a registry: tokens of the service that it names, or name and password.
//!
//! <https://distribution.github.io/distribution/spec/auth/token/>

use crate::challenge::{Challenge, parse};
use crate::client::Client;
use crate::credential::Credential;
use crate::endpoint::{Endpoint, is_loopback};
use crate::error::Error;
use crate::http::{Answer, Call, Payload, address};
use crate::uri::{form, with_query};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::time::{Duration, Instant};
use ureq::http::{Method, Uri, header};

/// Maximum length of a token service's answer in bytes.
const MAX_TOKEN: u64 = 1 << 20;

/// Seconds for which a token is valid if its service does not say; the specification's default.
const DEFAULT_LIFE: u64 = 60;

/// Longest validity in seconds that is accepted from a service.
const LONGEST_LIFE: u64 = 24 * 3600;

/// Seconds before its end from which on a token is not used any more, so that it does not expire on the way.
const MARGIN: u64 = 5;

/// Value of an `Authorization` header, and the end of its validity.
#[derive(Debug)]
pub(crate) struct Grant {
    header: String,
    until: Option<Instant>,
}

impl Grant {
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Access that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// Proof of the user's identity only.
    Login,
    /// Reading a repository.
    Pull(&'a str),
    /// Writing to a repository, and reading another one to mount blobs from.
    Push(&'a str, Option<&'a str>),
}

impl Scope<'_> {
    /// Returns the scope in the syntax of token services.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Login => Vec::new(),
            Self::Pull(repository) => vec![format!("repository:{repository}:pull")],
            Self::Push(repository, from) => std::iter::once(format!("repository:{repository}:pull,push"))
                .chain(from.map(|from| format!("repository:{from}:pull")))
                .collect(),
        }
    }

    /// Returns the key under which a grant is cached.
    pub(crate) fn key(&self) -> String {
        self.words().join(" ")
    }

    fn repository(&self) -> &str {
        match self {
            Self::Login => "",
            Self::Pull(repository) | Self::Push(repository, _) => repository,
        }
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Client {
    /// Gets the authorisation that a registry demands in a 401, and caches it for this scope.
    pub(crate) fn authorise(
        &self,
        endpoint: &Endpoint,
        scope: &Scope<'_>,
        what: &str,
        answer: &Answer,
    ) -> Result<(), Error> {
        let registry = &endpoint.registry;
        let credential = self
            .options
            .credentials
            .get(registry, scope.repository())
            .map_err(|source| Error::Credentials {
                registry: registry.clone(),
                source,
            })?;
        self.authorise_with(endpoint, scope, what, answer, credential.as_ref())
    }

    /// Does the same as [`Self::authorise`], but with a given credential.
    pub(crate) fn authorise_with(
        &self,
        endpoint: &Endpoint,
        scope: &Scope<'_>,
        what: &str,
        answer: &Answer,
        credential: Option<&Credential>,
    ) -> Result<(), Error> {
        let headers = answer.response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenges: Vec<Challenge> = headers
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(parse)
            .collect();
        let bearer = challenges
            .iter()
            .find(|challenge| matches!(challenge, Challenge::Bearer { .. }));
        let grant = match (bearer.or(challenges.first()), credential) {
            (_, Some(Credential::RegistryToken(token))) => Grant {
                header: format!("Bearer {token}"),
                until: None,
            },
            (
                Some(Challenge::Bearer {
                    realm,
                    service,
                    scope: asked,
                }),
                _,
            ) => {
                let mut words = scope.words();
                if words.is_empty() {
                    words.extend(asked.clone());
                }
                self.token(endpoint, what, realm, service.as_deref(), &words, credential)?
            }
            (Some(Challenge::Basic), Some(Credential::Password { username, password })) => Grant {
                header: basic(username, password),
                until: None,
            },
            _ => {
                return Err(Error::Denied {
                    what: what.to_owned(),
                    detail: String::new(),
                    logged_in: credential.is_some(),
                });
            }
        };
        self.remember_grant(&self.origin(endpoint)?, &scope.key(), grant);
        Ok(())
    }

    /// Asks the token service for a token.
    fn token(
        &self,
        endpoint: &Endpoint,
        what: &str,
        realm: &str,
        service: Option<&str>,
        scopes: &[String],
        credential: Option<&Credential>,
    ) -> Result<Grant, Error> {
        let uri = address(what, realm)?;
        if !self.may_ask(endpoint, &uri) {
            return Err(Error::Protocol {
                what: what.to_owned(),
                why: format!("the registry wants a token from {realm:?}, which is no address with TLS"),
            });
        }
        let mut parameters: Vec<(&str, &str)> =
            service.map(|service| ("service", service)).into_iter().collect();
        let joined = scopes.join(" ");
        let body;
        let mut call = if let Some(Credential::IdentityToken(token)) = credential {
            parameters.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "tote"),
                ("refresh_token", token),
            ]);
            parameters.push(("scope", &joined));
            body = form(&parameters);
            Call::new(what, Method::POST, uri.clone())
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .payload(Payload::Bytes(body.as_bytes()))
        } else {
            parameters.extend(scopes.iter().map(|scope| ("scope", scope.as_str())));
            if let Some(Credential::Password { username, .. }) = credential {
                parameters.push(("account", username));
            }
            Call::new(what, Method::GET, address(what, &with_query(realm, &parameters))?)
        };
        let basic = match credential {
            Some(Credential::Password { username, password }) => Some(basic(username, password)),
            _ => None,
        };
        let answer = self.ask_token(&mut call, basic.as_deref())?;
        if answer.status() != 200 {
            return Err(answer.refusal(what, credential.is_some()));
        }
        grant(what, &answer.bytes(what, MAX_TOKEN)?)
    }

    /// True if a token service may receive a password: over TLS; or over plain HTTP if the registry is allowed
    /// that, and the service is on this machine or the user has turned verification off.
    fn may_ask(&self, endpoint: &Endpoint, service: &Uri) -> bool {
        let authority = service.authority().map_or("", |authority| authority.as_str());
        let plain = service.scheme_str() == Some("http")
            && self.may_be_plain(endpoint)
            && (is_loopback(authority) || !self.is_strict(&endpoint.authority));
        !authority.contains('@') && (plain || service.scheme_str() == Some("https"))
    }

    /// Sends a request to a token service, and repeats it after transient failures. A token service must not
    /// redirect.
    fn ask_token(&self, call: &mut Call<'_>, basic: Option<&str>) -> Result<Answer, Error> {
        let mut retry = crate::wait::Retry::new(&self.options);
        let uri = call.uri.clone();
        loop {
            let again = match self.once(&uri, call, basic) {
                Ok(answer) if matches!(answer.status(), 429 | 500 | 502 | 503 | 504) => {
                    let asked = answer.header("retry-after").and_then(crate::wait::retry_after);
                    (asked, Ok(answer))
                }
                Err(error) if error.is_transient() => (None, Err(error)),
                other => return other,
            };
            if !retry.again(again.0) {
                return again.1;
            }
        }
    }
}

fn grant(what: &str, bytes: &[u8]) -> Result<Grant, Error> {
    let malformed = || Error::Protocol {
        what: what.to_owned(),
        why: "the answer of the token service has no token".to_owned(),
    };
    let answer: Token = serde_json::from_slice(bytes).map_err(|_| malformed())?;
    let token = answer
        .token
        .or(answer.access_token)
        // A token that is not valid as a header's value would make the next request fail instead of this one.
        .filter(|token| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()))
        .ok_or_else(malformed)?;
    let life = answer
        .expires_in
        .unwrap_or(DEFAULT_LIFE)
        .clamp(MARGIN + 1, LONGEST_LIFE);
    Ok(Grant {
        header: format!("Bearer {token}"),
        until: Instant::now().checked_add(Duration::from_secs(life - MARGIN)),
    })
}

fn basic(username: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{username}:{password}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_token_services() {
        for (answer, header) in [
            (r#"{"token":"a","access_token":"b"}"#, Some("Bearer a")),
            (
                r#"{"access_token":"b","expires_in":300,"issued_at":"x"}"#,
                Some("Bearer b"),
            ),
            (r#"{"token":"a b"}"#, None),
            ("{\"token\":\"a\\r\\nX: y\"}", None),
            (r#"{"token":""}"#, None),
            (r#"{"token":7}"#, None),
            ("{}", None),
            ("", None),
        ] {
            let got = grant("x", answer.as_bytes()).ok();
            assert_eq!(got.as_ref().map(Grant::header), header, "{answer}");
            assert!(got.is_none_or(|grant| grant.is_fresh()));
        }
    }

    #[test]
    fn scopes() {
        assert_eq!(Scope::Pull("a/b").key(), "repository:a/b:pull");
        assert_eq!(
            Scope::Push("a", Some("b")).key(),
            "repository:a:pull,push repository:b:pull"
        );
        assert_eq!(
            basic("Aladdin", "open sesame"),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
    }
}
