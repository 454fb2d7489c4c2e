use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::{Endpoint, path};
use crate::error::Error;
use crate::hash::Hasher;
use crate::http::Call;
use tote_image::media_type::{ACCEPT_MANIFESTS, OCI_MANIFEST};
use tote_image::{
    Algorithm, Descriptor, Digest, Document, DocumentError, Index, MAX_MANIFEST_BYTES, Manifest, Platform,
    Reference,
};
use ureq::http::{Method, header};

/// Maximum depth of nested indexes.
const MAX_DEPTH: usize = 3;

/// A manifest or an index as received from a registry, after its digest was verified.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Digest of [`Self::raw`]: the one that was asked for, else SHA-256.
    pub digest: Digest,
    /// Media type as declared by the registry, or else by the document.
    pub media_type: String,
    /// The parsed document.
    pub document: Document,
    /// The bytes as received.
    pub raw: Vec<u8>,
}

/// An image for one platform.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Digest that the name stands for, as docker prints it: the index's if there is one, else the manifest's.
    pub name_digest: Digest,
    /// The manifest's own digest.
    pub digest: Digest,
    /// The manifest's media type.
    pub media_type: String,
    /// The parsed manifest.
    pub manifest: Manifest,
    /// The manifest as received.
    pub raw: Vec<u8>,
    /// The indexes that led to the manifest, outermost first.
    pub indexes: Vec<Fetched>,
}

impl Client {
    /// Finds the image that a name stands for on a platform.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Platform`], and every failure of a request.
    pub fn resolve(&self, reference: &Reference, platform: &Platform) -> Result<Resolved, Error> {
        let what = format!("manifest of {}", reference.familiar());
        let mut indexes: Vec<Fetched> = Vec::new();
        let mut next = reference.clone();
        while indexes.len() <= MAX_DEPTH {
            let fetched = self.manifest(&next)?;
            if let Some(expected) = indexes.last().and_then(|index| entry(index, &fetched.digest)) {
                check_size(&what, expected.size, &fetched.raw)?;
            }
            match &fetched.document {
                Document::Manifest(manifest) => {
                    return Ok(Resolved {
                        name_digest: indexes.first().map_or(fetched.digest, |index| index.digest),
                        digest: fetched.digest,
                        manifest: manifest.clone(),
                        media_type: fetched.media_type,
                        raw: fetched.raw,
                        indexes,
                    });
                }
                Document::Index(index) => {
                    let chosen = select(&what, index, platform)?;
                    next = reference.with_digest(chosen.digest);
                }
            }
            indexes.push(fetched);
        }
        Err(Error::Protocol {
            what,
            why: format!("more than {MAX_DEPTH} indexes lie in each other"),
        })
    }

    /// Fetches a manifest or an index, by digest if the reference has one, else by tag.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Digest`], [`Error::Document`], and every failure of a request.
    pub fn manifest(&self, reference: &Reference) -> Result<Fetched, Error> {
        self.each_endpoint(reference, |endpoint| self.manifest_at(endpoint, reference))
    }

    /// Asks for the digest that a name stands for now, without fetching the manifest; `None` if the registry does
    /// not say.
    ///
    /// # Errors
    /// [`Error::NotFound`], and every failure of a request.
    pub fn digest(&self, reference: &Reference) -> Result<Option<Digest>, Error> {
        let what = format!("manifest of {}", reference.familiar());
        self.each_endpoint(reference, |endpoint| {
            let uri = self.address(
                endpoint,
                &what,
                &path(reference, "manifests", &reference.version()),
            )?;
            let call =
                Call::new(&what, Method::HEAD, uri).header(header::ACCEPT, ACCEPT_MANIFESTS.join(", "));
            let answer = self.send(endpoint, &Scope::Pull(reference.repository()), call)?;
            match answer.status() {
                200 => Ok(answer
                    .header("docker-content-digest")
                    .and_then(|text| text.parse().ok())),
                _ => Err(answer.refusal(&what, self.is_known(endpoint, reference))),
            }
        })
    }

    fn manifest_at(&self, endpoint: &Endpoint, reference: &Reference) -> Result<Fetched, Error> {
        let what = format!("manifest of {}", reference.familiar());
        let uri = self.address(
            endpoint,
            &what,
            &path(reference, "manifests", &reference.version()),
        )?;
        let call = Call::new(&what, Method::GET, uri).header(header::ACCEPT, ACCEPT_MANIFESTS.join(", "));
        let answer = self.send(endpoint, &Scope::Pull(reference.repository()), call)?;
        if answer.status() != 200 {
            return Err(answer.refusal(&what, self.is_known(endpoint, reference)));
        }
        let declared = answer.header("content-type").map(str::to_owned);
        let named: Option<Digest> = answer
            .header("docker-content-digest")
            .and_then(|text| text.parse().ok());
        let raw = answer.bytes(&what, MAX_MANIFEST_BYTES as u64)?;
        // The content must match the digest that was asked for, and also the one that the registry claims.
        let document = Document::read(&raw, declared.as_deref());
        let is_schema_1 = matches!(document, Err(DocumentError::Schema1));
        for expected in reference.digest().into_iter().chain(&named) {
            // The digest of a schema 1 manifest leaves out its signatures. Such a document is refused below.
            if !is_schema_1 {
                check_digest(&what, expected, &raw)?;
            }
        }
        let digest = reference
            .digest()
            .copied()
            .unwrap_or_else(|| Hasher::digest(Algorithm::Sha256, &raw));
        let document = document.map_err(|source| Error::Document { what, source })?;
        let inside = match &document {
            Document::Manifest(manifest) => manifest.media_type.as_deref(),
            Document::Index(index) => index.media_type.as_deref(),
        };
        let declared = declared
            .as_deref()
            .map(|text| text.split(';').next().unwrap_or_default().trim());
        let media_type = inside.or(declared.filter(|text| ACCEPT_MANIFESTS.contains(text)));
        Ok(Fetched {
            digest,
            media_type: media_type.unwrap_or(default_type(&document)).to_owned(),
            document,
            raw,
        })
    }

    /// True if there are credentials for a repository; decides the hint in an error.
    pub(crate) fn is_known(&self, endpoint: &Endpoint, reference: &Reference) -> bool {
        let credentials = &self.options.credentials;
        matches!(
            credentials.get(&endpoint.registry, reference.repository()),
            Ok(Some(_))
        )
    }
}

fn default_type(document: &Document) -> &'static str {
    match document {
        Document::Manifest(_) => OCI_MANIFEST,
        Document::Index(_) => tote_image::media_type::OCI_INDEX,
    }
}

fn select<'a>(what: &str, index: &'a Index, platform: &Platform) -> Result<&'a Descriptor, Error> {
    index.select(platform).map_err(|source| Error::Platform {
        what: what.to_owned(),
        source,
    })
}

fn entry<'a>(index: &'a Fetched, digest: &Digest) -> Option<&'a Descriptor> {
    match &index.document {
        Document::Index(index) => index.manifests.iter().find(|entry| entry.digest == *digest),
        Document::Manifest(_) => None,
    }
}

fn check_digest(what: &str, expected: &Digest, bytes: &[u8]) -> Result<(), Error> {
    let actual = Hasher::digest(expected.algorithm(), bytes);
    if actual == *expected {
        return Ok(());
    }
    Err(Error::Digest {
        what: what.to_owned(),
        expected: Box::new(*expected),
        actual: Box::new(actual),
    })
}

fn check_size(what: &str, expected: u64, bytes: &[u8]) -> Result<(), Error> {
    let actual = bytes.len() as u64;
    if actual == expected {
        return Ok(());
    }
    Err(Error::Size {
        what: what.to_owned(),
        expected,
        actual,
    })
}
