//! HTTP requests: authorisation, redirects, repeated attempts, and error messages.

use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::{Error, TrustError};
use crate::pace::TooSlow;
use crate::uri::{join, same_origin};
use crate::wait::{Retry, retry_after};
use serde::Deserialize;
use std::io::Read;
use ureq::http::{Method, Request, Response, Uri, header};
use ureq::{Body, SendBody};

/// Maximum number of redirects in a row.
const MAX_REDIRECTS: usize = 8;

/// Maximum length in bytes of an answer that explains a failure.
const MAX_REFUSAL: u64 = 64 << 10;

/// Body of a request.
pub(crate) enum Payload<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// A stream with its length in bytes; it cannot be sent twice.
    Stream(&'a mut dyn Read, u64),
}

/// A request, which may be sent several times.
pub(crate) struct Call<'a> {
    /// Name of the object in errors, such as `manifest of ghcr.io/x/y:z`.
    pub(crate) what: &'a str,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: Vec<(header::HeaderName, String)>,
    pub(crate) payload: Payload<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(what: &'a str, method: Method, uri: Uri) -> Self {
        Self {
            what,
            method,
            uri,
            headers: Vec::new(),
            payload: Payload::Nothing,
        }
    }

    pub(crate) fn header(mut self, name: header::HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn payload(mut self, payload: Payload<'a>) -> Self {
        self.payload = payload;
        self
    }
}

/// An answer, with the address that it came from after all redirects.
pub(crate) struct Answer {
    pub(crate) uri: Uri,
    pub(crate) response: Response<Body>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Returns the address in `Location`.
    pub(crate) fn location(&self, what: &str) -> Result<Uri, Error> {
        let location = self.header("location").unwrap_or_default();
        join(&self.uri, location)
            .filter(|_| !location.is_empty())
            .ok_or_else(|| Error::Protocol {
                what: what.to_owned(),
                why: format!("the registry points to {location:?}, which is no address of HTTP"),
            })
    }

    /// Reads the body, if it is not longer than `most` bytes.
    pub(crate) fn bytes(self, what: &str, most: u64) -> Result<Vec<u8>, Error> {
        let too_long = || Error::TooLong {
            what: what.to_owned(),
            most,
        };
        let body = self.response.into_body();
        if body.content_length().is_some_and(|length| length > most) {
            return Err(too_long());
        }
        let mut bytes = Vec::new();
        let read = body.into_reader().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| failure(&self.uri, error.into()))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
            Ok(bytes)
        } else {
            Err(too_long())
        }
    }

    /// Converts an unexpected status into an error.
    pub(crate) fn refusal(self, what: &str, logged_in: bool) -> Error {
        let what = what.to_owned();
        let status = self.status();
        let detail = self.detail();
        match status {
            404 => Error::NotFound { what, detail },
            401 | 403 => Error::Denied {
                what,
                detail,
                logged_in,
            },
            429 => Error::TooMany { what, detail },
            _ => Error::Status { what, status, detail },
        }
    }

    /// Returns the registry's message about a failure, with `: ` before it.
    fn detail(self) -> String {
        #[derive(Deserialize)]
        struct Refusal {
            #[serde(default)]
            errors: Vec<Reason>,
            details: Option<String>,
            message: Option<String>,
        }
        #[derive(Deserialize)]
        struct Reason {
            #[serde(default)]
            code: String,
            message: Option<String>,
        }
        let mut bytes = Vec::new();
        let read = self
            .response
            .into_body()
            .into_reader()
            .take(MAX_REFUSAL)
            .read_to_end(&mut bytes);
        let Some(refusal) = read
            .ok()
            .and_then(|_| serde_json::from_slice::<Refusal>(&bytes).ok())
        else {
            return String::new();
        };
        let reason = refusal.errors.into_iter().next();
        let reason = reason.map(|reason| reason.message.unwrap_or(reason.code));
        let words = reason.or(refusal.details).or(refusal.message).unwrap_or_default();
        let words: String = words
            .chars()
            .take(300)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if words.is_empty() {
            words
        } else {
            format!(": {words}")
        }
    }
}

impl Client {
    /// Sends a request to a registry, authorised as needed, and repeats it where that may help.
    ///
    /// The answer may have any status except those that are handled here: redirects of requests that only read, and
    /// the first 401 of the registry itself. A 401 of a host that the registry redirects to is returned as it is,
    /// because that host must not name a token service.
    pub(crate) fn send(
        &self,
        endpoint: &Endpoint,
        scope: &Scope<'_>,
        mut call: Call<'_>,
    ) -> Result<Answer, Error> {
        let mut retry = Retry::new(&self.options);
        let mut authorised = false;
        loop {
            let repeatable = !matches!(call.payload, Payload::Stream(..));
            match self.follow(endpoint, scope, &mut call) {
                Ok(answer) => match answer.status() {
                    401 if !authorised && repeatable && self.is_home(endpoint, &answer.uri)? => {
                        self.authorise(endpoint, scope, call.what, &answer)?;
                        authorised = true;
                    }
                    429 | 500 | 502 | 503 | 504 if repeatable => {
                        let asked = answer.header("retry-after").and_then(retry_after);
                        if !retry.again(asked) {
                            return Ok(answer);
                        }
                    }
                    _ => return Ok(answer),
                },
                Err(error) if repeatable && error.is_transient() => {
                    if !retry.again(None) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request, and follows redirects if the request only reads.
    ///
    /// Credentials are sent only to the registry's own origin. After a redirect to another origin, even to another
    /// port of the same host, they are left out: the address itself authorises the request there.
    fn follow(&self, endpoint: &Endpoint, scope: &Scope<'_>, call: &mut Call<'_>) -> Result<Answer, Error> {
        let mut uri = call.uri.clone();
        let reads = call.method == Method::GET || call.method == Method::HEAD;
        for _ in 0..=MAX_REDIRECTS {
            let grant = if self.is_home(endpoint, &uri)? {
                self.grant(&self.origin(endpoint)?, &scope.key())
            } else {
                None
            };
            let answer = self.once(&uri, call, grant.as_ref().map(|grant| grant.header()))?;
            if !reads || !matches!(answer.status(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let next = answer.location(call.what)?;
            self.check_step(endpoint, call.what, &uri, &next)?;
            uri = next;
        }
        Err(Error::Protocol {
            what: call.what.to_owned(),
            why: format!("the registry redirects more than {MAX_REDIRECTS} times"),
        })
    }

    /// True if an address has the origin of an endpoint: scheme, host and port. Only this origin receives the
    /// endpoint's credentials, and only its challenges are obeyed.
    fn is_home(&self, endpoint: &Endpoint, uri: &Uri) -> Result<bool, Error> {
        Ok(same_origin(uri, &address("registry", &self.origin(endpoint)?)?))
    }

    /// Refuses a redirect from an address with TLS to one without.
    pub(crate) fn check_step(
        &self,
        endpoint: &Endpoint,
        what: &str,
        from: &Uri,
        to: &Uri,
    ) -> Result<(), Error> {
        let leaves_tls = from.scheme_str() == Some("https") && to.scheme_str() != Some("https");
        if leaves_tls && self.is_strict(&endpoint.authority) {
            return Err(Error::Protocol {
                what: what.to_owned(),
                why: format!("the registry leads from TLS to {to}"),
            });
        }
        Ok(())
    }

    /// Sends a request once to one address.
    pub(crate) fn once(&self, uri: &Uri, call: &mut Call<'_>, grant: Option<&str>) -> Result<Answer, Error> {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let agent = self.agent(authority, uri.scheme_str() == Some("http"))?;
        let mut request = Request::builder().method(call.method.clone()).uri(uri.clone());
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        if let Some(grant) = grant {
            request = request.header(header::AUTHORIZATION, grant);
        }
        let sent = match &mut call.payload {
            Payload::Nothing => request.body(SendBody::none()).map(|request| agent.run(request)),
            Payload::Bytes(bytes) => request.body(*bytes).map(|request| agent.run(request)),
            Payload::Stream(reader, size) => request
                .header(header::CONTENT_LENGTH, *size)
                .body(SendBody::from_reader(reader))
                .map(|request| agent.run(request)),
        };
        let response = sent
            .map_err(ureq::Error::from)
            .flatten()
            .map_err(|error| failure(uri, error))?;
        Ok(Answer {
            uri: uri.clone(),
            response,
        })
    }

    /// Returns `https://HOST/PREFIX` of an endpoint.
    pub(crate) fn base(&self, endpoint: &Endpoint) -> Result<String, Error> {
        Ok(format!("{}{}", self.origin(endpoint)?, endpoint.prefix))
    }

    /// Returns `https://HOST` of an endpoint. A host that is allowed to speak plain HTTP is probed once for what it
    /// speaks.
    pub(crate) fn origin(&self, endpoint: &Endpoint) -> Result<String, Error> {
        let authority = &endpoint.authority;
        let plain = match self.known_plain(authority) {
            _ if !self.may_be_plain(endpoint) => false,
            Some(plain) => plain,
            None if endpoint.plain => true,
            None => self.probe(authority)?,
        };
        let scheme = if plain { "http" } else { "https" };
        Ok(format!("{scheme}://{authority}"))
    }

    /// Probes whether a host speaks plain HTTP. A host that speaks TLS, even with an invalid certificate, does not.
    fn probe(&self, authority: &str) -> Result<bool, Error> {
        let ask = |scheme: &str| {
            let uri = address("registry", &format!("{scheme}://{authority}/v2/"))?;
            self.once(&uri, &mut Call::new("registry", Method::GET, uri.clone()), None)
        };
        let plain = match ask("https") {
            Ok(_) => false,
            Err(error @ (Error::Trust(TrustError::Certificate { .. }) | Error::NoHost { .. })) => {
                return Err(error);
            }
            Err(error) => match (ask("http"), error) {
                (Ok(_), _) => true,
                // TLS was not even tried, or the host refused it.
                (
                    Err(error),
                    Error::Trust(TrustError::NoRoots { .. }) | Error::Trust(TrustError::PlainHttp { .. }),
                ) => return Err(error),
                (Err(_), error) => return Err(error),
            },
        };
        self.remember_plain(authority, plain);
        Ok(plain)
    }

    /// Builds the address of a path at an endpoint.
    pub(crate) fn address(&self, endpoint: &Endpoint, what: &str, path: &str) -> Result<Uri, Error> {
        address(what, &format!("{}{path}", self.base(endpoint)?))
    }
}

pub(crate) fn address(what: &str, text: &str) -> Result<Uri, Error> {
    text.parse().map_err(|_| Error::Protocol {
        what: what.to_owned(),
        why: format!("{text:?} is no address of HTTP"),
    })
}

/// Converts a failure of the connection into this crate's error.
pub(crate) fn failure(uri: &Uri, error: ureq::Error) -> Error {
    let host = uri
        .authority()
        .map_or("", |authority| authority.as_str())
        .to_owned();
    match error {
        ureq::Error::HostNotFound => Error::NoHost { host },
        ureq::Error::Timeout(_) => Error::Timeout { host },
        ureq::Error::Rustls(source) => tls_failure(host, source),
        ureq::Error::Io(source) => match source.downcast::<rustls::Error>() {
            Ok(source) => tls_failure(host, source),
            Err(source) if is_lookup(&source) => Error::NoHost { host },
            Err(source) if source.get_ref().is_some_and(|inner| inner.is::<TooSlow>()) => {
                Error::Slow { host, source }
            }
            Err(source) => Error::Connection { host, source },
        },
        other => Error::Http {
            host,
            why: other.to_string(),
        },
    }
}

/// True if a name did not resolve; the standard library has no kind for that, so the text is compared.
fn is_lookup(error: &std::io::Error) -> bool {
    error
        .to_string()
        .starts_with("failed to lookup address information")
}

fn tls_failure(host: String, source: rustls::Error) -> Error {
    match source {
        rustls::Error::InvalidMessage(_) => Error::Trust(TrustError::PlainHttp { host }),
        source @ rustls::Error::InvalidCertificate(_) => Error::Trust(TrustError::Certificate {
            host,
            source: Box::new(source),
        }),
        source => Error::Connection {
            host,
            source: std::io::Error::other(source),
        },
    }
}
