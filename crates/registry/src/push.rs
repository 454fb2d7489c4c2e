use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::{Endpoint, path};
use crate::error::Error;
use crate::hash::Hasher;
use crate::http::{Answer, Call, Payload, address};
use crate::options::Progress;
use crate::uri::with_query;
use crate::wait::Retry;
use std::io::{self, Read};
use tote_image::{Descriptor, Digest, Reference};
use ureq::http::{Method, Uri, header};

/// Size in bytes of the pieces for registries that do not accept a whole blob; one piece is in memory at a time.
const CHUNK: u64 = 16 << 20;

/// Largest piece in bytes that a registry may ask for.
const LARGEST_CHUNK: u64 = 256 << 20;

/// Callback that opens the content from its start; it is called again if the transfer must start again.
pub type Source<'a> = dyn FnMut() -> io::Result<Box<dyn Read>> + 'a;

/// How content came into a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The repository had it already.
    Existed,
    /// The registry mounted it from the other repository.
    Mounted,
    /// The client sent it.
    Uploaded,
}

/// Target of an upload.
struct Upload<'a> {
    endpoint: Endpoint,
    scope: Scope<'a>,
    what: String,
    reference: &'a Reference,
    descriptor: &'a Descriptor,
}

/// An upload session that the registry has opened.
struct Session {
    location: Uri,
    /// Size of the pieces in bytes, if the content is sent in pieces.
    piece: u64,
}

/// Answer to the content of a blob.
enum Sent {
    /// The registry has it.
    Stored,
    /// The registry asks for credentials: a token has ended since the session was opened.
    Unauthorised(Box<Answer>),
}

impl Client {
    /// Brings a blob into a repository. The content is sent from `source` only if neither the repository nor, at
    /// the same registry, the repository `from` has it.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Source`], and every failure of a request.
    pub fn push_blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        from: Option<&Reference>,
        source: &mut Source<'_>,
    ) -> Result<Pushed, Error> {
        let from = from
            .filter(|from| {
                from.registry() == reference.registry() && from.repository() != reference.repository()
            })
            .map(Reference::repository);
        let upload = Upload {
            endpoint: Endpoint::of(reference.registry()),
            scope: Scope::Push(reference.repository(), from),
            what: format!("blob {} of {}", descriptor.digest, reference.familiar_name()),
            reference,
            descriptor,
        };
        if self.has_blob_as(&upload.scope, reference, descriptor)? {
            return Ok(Pushed::Existed);
        }
        let mut retry = Retry::new(&self.options);
        let (mut in_pieces, mut was_asked) = (false, false);
        loop {
            let Some(session) = self.begin(&upload, from)? else {
                return Ok(Pushed::Mounted);
            };
            let sent = if in_pieces {
                self.send_pieces(&upload, session, source)
            } else {
                self.send_whole(&upload, &session.location, source)
            };
            match sent {
                Ok(Sent::Stored) => return Ok(Pushed::Uploaded),
                // A stream is not sent twice by one request, as others are. The request for the next session gets a new token.
                Ok(Sent::Unauthorised(_)) if !was_asked => was_asked = true,
                Ok(Sent::Unauthorised(answer)) => return Err(self.refused(&upload, *answer)),
                // Some registries stand behind a proxy that limits the size of a request.
                Err(Error::Status { status: 413, .. }) if !in_pieces => in_pieces = true,
                Err(error) if is_worth_another(&error) && retry.again(None) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores a manifest or an index under the reference's tag or digest.
    ///
    /// # Errors
    /// [`Error::Digest`] if the registry computed another digest, and every failure of a request.
    pub fn push_manifest(
        &self,
        reference: &Reference,
        media_type: &str,
        raw: &[u8],
    ) -> Result<Digest, Error> {
        let what = format!("manifest of {}", reference.familiar());
        let endpoint = Endpoint::of(reference.registry());
        // The tag is used even if there is a digest too: a manifest that is pushed by digest has no name.
        let name = reference.tag().map_or_else(|| reference.version(), str::to_owned);
        let uri = self.address(&endpoint, &what, &path(reference, "manifests", &name))?;
        let call = Call::new(&what, Method::PUT, uri)
            .header(header::CONTENT_TYPE, media_type)
            .payload(Payload::Bytes(raw));
        let answer = self.send(&endpoint, &Scope::Push(reference.repository(), None), call)?;
        if !matches!(answer.status(), 200..=202) {
            return Err(answer.refusal(&what, self.is_known(&endpoint, reference)));
        }
        let named: Option<Digest> = answer
            .header("docker-content-digest")
            .and_then(|text| text.parse().ok());
        let algorithm = named.map_or(tote_image::Algorithm::Sha256, |digest| digest.algorithm());
        let digest = Hasher::digest(algorithm, raw);
        match named {
            Some(named) if named != digest => Err(Error::Digest {
                what,
                expected: Box::new(digest),
                actual: Box::new(named),
            }),
            _ => Ok(digest),
        }
    }

    /// Mounts a blob from another repository of the same registry. Returns whether the registry did so; it does not
    /// if that repository lacks the blob or must not be read.
    ///
    /// # Errors
    /// Every failure of a request.
    pub fn mount_blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        from: &Reference,
    ) -> Result<bool, Error> {
        let upload = Upload {
            endpoint: Endpoint::of(reference.registry()),
            scope: Scope::Push(reference.repository(), Some(from.repository())),
            what: format!("blob {} of {}", descriptor.digest, reference.familiar_name()),
            reference,
            descriptor,
        };
        let Some(session) = self.begin(&upload, Some(from.repository()))? else {
            return Ok(true);
        };
        // The registry has opened an upload session instead, which is not needed. If it does not understand DELETE,
        // the session times out there.
        let call = Call::new(&upload.what, Method::DELETE, session.location);
        drop(self.send(&upload.endpoint, &upload.scope, call));
        Ok(false)
    }

    /// Opens a session; `None` if the registry mounted the content from the other repository.
    fn begin(&self, upload: &Upload<'_>, from: Option<&str>) -> Result<Option<Session>, Error> {
        let base = self.address(
            &upload.endpoint,
            &upload.what,
            &path(upload.reference, "blobs", "uploads/"),
        )?;
        let digest = upload.descriptor.digest.to_string();
        let uri = match from {
            Some(from) => address(
                &upload.what,
                &with_query(&base.to_string(), &[("mount", &digest), ("from", from)]),
            )?,
            None => base,
        };
        let call = Call::new(&upload.what, Method::POST, uri).payload(Payload::Bytes(&[]));
        let answer = self.send(&upload.endpoint, &upload.scope, call)?;
        match answer.status() {
            201 if from.is_some() => Ok(None),
            202 => Ok(Some(Session {
                location: self.next_location(upload, &answer)?,
                piece: answer
                    .header("oci-chunk-min-length")
                    .and_then(|least| least.parse().ok())
                    .map_or(CHUNK, |least: u64| least.clamp(CHUNK, LARGEST_CHUNK)),
            })),
            _ => Err(self.refused(upload, answer)),
        }
    }

    fn send_whole(
        &self,
        upload: &Upload<'_>,
        location: &Uri,
        source: &mut Source<'_>,
    ) -> Result<Sent, Error> {
        let size = upload.descriptor.size;
        let mut reader = self.open(upload, source)?;
        let call = Call::new(&upload.what, Method::PUT, self.closing(upload, location)?)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .payload(Payload::Stream(&mut reader, size));
        let answer = self.send(&upload.endpoint, &upload.scope, call);
        if let Some(source) = reader.failed {
            return Err(self.source_error(upload, source));
        }
        self.closed(upload, answer?)
    }

    fn send_pieces(
        &self,
        upload: &Upload<'_>,
        session: Session,
        source: &mut Source<'_>,
    ) -> Result<Sent, Error> {
        let size = upload.descriptor.size;
        let Session { mut location, piece } = session;
        let mut reader = self.open(upload, source)?;
        let mut start = 0;
        while start < size {
            let mut bytes = Vec::new();
            let read = (&mut reader)
                .take(piece.min(size - start))
                .read_to_end(&mut bytes);
            read.map_err(|source| self.source_error(upload, source))?;
            if bytes.is_empty() {
                return Err(self.source_error(upload, io::ErrorKind::UnexpectedEof.into()));
            }
            let end = start + bytes.len() as u64;
            let call = Call::new(&upload.what, Method::PATCH, location.clone())
                .header(header::CONTENT_TYPE, "application/octet-stream")
                .header(header::CONTENT_RANGE, format!("{start}-{}", end - 1))
                .payload(Payload::Bytes(&bytes));
            let mut answer = self.send(&upload.endpoint, &upload.scope, call)?;
            if answer.status() == 416 {
                // An answer was lost, and the piece was sent twice: ask the session how far it is.
                let call = Call::new(&upload.what, Method::GET, location.clone());
                answer = self.send(&upload.endpoint, &upload.scope, call)?;
            }
            if !matches!(answer.status(), 202 | 204) || received(&answer) != Some(end) {
                return Err(self.refused(upload, answer));
            }
            location = self.next_location(upload, &answer)?;
            start = end;
        }
        let call = Call::new(&upload.what, Method::PUT, self.closing(upload, &location)?)
            .payload(Payload::Bytes(&[]));
        let answer = self.send(&upload.endpoint, &upload.scope, call)?;
        self.closed(upload, answer)
    }

    fn open(&self, upload: &Upload<'_>, source: &mut Source<'_>) -> Result<Counted, Error> {
        Ok(Counted {
            reader: source().map_err(|source| self.source_error(upload, source))?,
            digest: upload.descriptor.digest,
            passed: 0,
            progress: self.options.progress.clone(),
            failed: None,
        })
    }

    /// Builds the address that completes a session.
    fn closing(&self, upload: &Upload<'_>, location: &Uri) -> Result<Uri, Error> {
        let digest = upload.descriptor.digest.to_string();
        address(
            &upload.what,
            &with_query(&location.to_string(), &[("digest", &digest)]),
        )
    }

    fn closed(&self, upload: &Upload<'_>, answer: Answer) -> Result<Sent, Error> {
        match answer.status() {
            200..=204 => Ok(Sent::Stored),
            401 => Ok(Sent::Unauthorised(Box::new(answer))),
            _ => Err(self.refused(upload, answer)),
        }
    }

    fn next_location(&self, upload: &Upload<'_>, answer: &Answer) -> Result<Uri, Error> {
        let location = answer.location(&upload.what)?;
        self.check_step(&upload.endpoint, &upload.what, &answer.uri, &location)?;
        Ok(location)
    }

    fn refused(&self, upload: &Upload<'_>, answer: Answer) -> Error {
        answer.refusal(&upload.what, self.is_known(&upload.endpoint, upload.reference))
    }

    fn source_error(&self, upload: &Upload<'_>, source: io::Error) -> Error {
        Error::Source {
            what: upload.what.clone(),
            source,
        }
    }
}

/// Returns the number of bytes that a session has: the end of `Range: 0-1023`, plus one.
fn received(answer: &Answer) -> Option<u64> {
    let range = answer.header("range")?;
    let (_, last) = range.trim_start_matches("bytes=").split_once('-')?;
    last.trim().parse::<u64>().ok()?.checked_add(1)
}

/// True if a new session may succeed where this one failed.
fn is_worth_another(error: &Error) -> bool {
    match error {
        Error::Status { status, .. } => matches!(status, 404 | 416 | 500 | 502 | 503 | 504),
        Error::TooMany { .. } => true,
        other => other.is_transient(),
    }
}

/// A reader that reports its progress and keeps its error, which the connection's error would hide.
struct Counted {
    reader: Box<dyn Read>,
    digest: Digest,
    passed: u64,
    progress: Option<Progress>,
    failed: Option<io::Error>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer) {
            Ok(length) => {
                self.passed += length as u64;
                if let Some(progress) = &self.progress {
                    progress(&self.digest, self.passed);
                }
                Ok(length)
            }
            Err(error) => {
                let kind = error.kind();
                if kind != io::ErrorKind::Interrupted {
                    self.failed = Some(error);
                }
                Err(kind.into())
            }
        }
    }
}
