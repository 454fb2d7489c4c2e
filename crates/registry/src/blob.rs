use crate::auth::Scope;
use crate::client::Client;
use crate::endpoint::{Endpoint, path};
use crate::error::Error;
use crate::hash::Hasher;
use crate::http::{Answer, Call, failure};
use crate::wait::Retry;
use std::io::{self, Read};
use tote_image::{Descriptor, Digest, Reference};
use ureq::BodyReader;
use ureq::http::{Method, Uri, header};

/// Bytes of progress after which earlier failures are forgotten.
const FORGIVING_BYTES: u64 = 1 << 20;

/// Size of the buffer in which bytes are discarded that a registry sends again because it ignores ranges.
const CHUNK: usize = 64 << 10;

/// Content being received from a registry. A [`Blob`] hashes it on the way, and resumes after the connection broke.
///
/// A [`Blob`] never yields more bytes than its descriptor says, and the last of them only if all of them hash to
/// its digest. An error of [`Read`] contains an [`Error`].
pub struct Blob<'c> {
    client: &'c Client,
    reference: Reference,
    descriptor: Descriptor,
    what: String,
    retry: Retry<'c>,
    body: Option<Body>,
    hasher: Hasher,
    /// Digest of the whole content, once it is complete.
    hash: Option<Digest>,
    received: u64,
    forgiven: u64,
}

struct Body {
    uri: Uri,
    reader: BodyReader<'static>,
}

impl std::fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("what", &self.what)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Starts to fetch a blob of a repository.
    ///
    /// # Errors
    /// [`Error::NotFound`], and every failure of a request. Later failures are reported by [`Read`].
    pub fn blob(&self, reference: &Reference, descriptor: &Descriptor) -> Result<Blob<'_>, Error> {
        let mut blob = Blob {
            client: self,
            reference: reference.clone(),
            descriptor: descriptor.clone(),
            what: format!("blob {} of {}", descriptor.digest, reference.familiar_name()),
            retry: Retry::new(&self.options),
            body: None,
            hasher: Hasher::new(descriptor.digest.algorithm()),
            hash: None,
            received: 0,
            forgiven: 0,
        };
        blob.open()?;
        Ok(blob)
    }

    /// Fetches a whole blob of a repository, if it is not longer than `most` bytes.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Digest`], and those of [`Self::blob`].
    pub fn blob_bytes(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        most: u64,
    ) -> Result<Vec<u8>, Error> {
        if descriptor.size > most {
            return Err(Error::TooLong {
                what: format!("blob {} of {}", descriptor.digest, reference.familiar_name()),
                most,
            });
        }
        let mut blob = self.blob(reference, descriptor)?;
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            match blob.next(&mut chunk)? {
                0 => return Ok(bytes),
                length => bytes.extend_from_slice(&chunk[..length]),
            }
        }
    }

    /// Asks whether a repository has a blob.
    ///
    /// # Errors
    /// Every failure of a request. A missing blob is not an error.
    pub fn has_blob(&self, reference: &Reference, descriptor: &Descriptor) -> Result<bool, Error> {
        self.has_blob_as(&Scope::Pull(reference.repository()), reference, descriptor)
    }

    pub(crate) fn has_blob_as(
        &self,
        scope: &Scope<'_>,
        reference: &Reference,
        descriptor: &Descriptor,
    ) -> Result<bool, Error> {
        let what = format!("blob {} of {}", descriptor.digest, reference.familiar_name());
        let endpoint = Endpoint::of(reference.registry());
        let uri = self.address(
            &endpoint,
            &what,
            &path(reference, "blobs", &descriptor.digest.to_string()),
        )?;
        let answer = self.send(&endpoint, scope, Call::new(&what, Method::HEAD, uri))?;
        match answer.status() {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(answer.refusal(&what, self.is_known(&endpoint, reference))),
        }
    }
}

impl Blob<'_> {
    /// Returns the descriptor of the content.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Reads as [`Read::read`] does, but with this crate's errors.
    ///
    /// # Errors
    /// [`Error::Digest`], [`Error::Size`], or the last one of several failures of the network.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            let left = self.descriptor.size - self.received;
            if left == 0 {
                self.verify()?;
                return Ok(0);
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            if most == 0 {
                return Ok(0);
            }
            let Some(body) = &mut self.body else {
                self.open()?;
                continue;
            };
            match body.reader.read(&mut buffer[..most]) {
                Ok(0) => self.broken(None)?,
                Ok(length) => {
                    self.took(&buffer[..length])?;
                    return Ok(length);
                }
                Err(error) => {
                    let error = failure(&body.uri, error.into());
                    self.broken(Some(error))?;
                }
            }
        }
    }

    /// Hashes and counts received bytes, and compares the digest once all have arrived.
    fn took(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.received += bytes.len() as u64;
        self.hasher.update(bytes);
        if self.received - self.forgiven >= FORGIVING_BYTES {
            self.forgiven = self.received;
            self.retry.progressed();
        }
        if self.received == self.descriptor.size {
            self.ended()?;
            self.verify()?;
        }
        if let Some(progress) = &self.client.options.progress {
            progress(&self.descriptor.digest, self.received);
        }
        Ok(())
    }

    /// Reads to the end of the body. This also frees the connection for the next request.
    fn ended(&mut self) -> Result<(), Error> {
        let Some(mut body) = self.body.take() else {
            return Ok(());
        };
        match body.reader.read(&mut [0]) {
            Ok(1..) => Err(self.wrong_size(self.descriptor.size.saturating_add(1))),
            // The content is complete, so an error at the end of the connection does not matter.
            Ok(0) | Err(_) => Ok(()),
        }
    }

    /// Compares the digest with the descriptor's. A caller that reads on after a failure gets the failure again.
    fn verify(&mut self) -> Result<(), Error> {
        let actual = *self.hash.get_or_insert_with(|| self.hasher.clone().finish());
        if actual == self.descriptor.digest {
            return Ok(());
        }
        Err(Error::Digest {
            what: self.what.clone(),
            expected: Box::new(self.descriptor.digest),
            actual: Box::new(actual),
        })
    }

    fn wrong_size(&self, actual: u64) -> Error {
        Error::Size {
            what: self.what.clone(),
            expected: self.descriptor.size,
            actual,
        }
    }

    /// Prepares to resume after the connection broke, unless that has happened too often.
    fn broken(&mut self, error: Option<Error>) -> Result<(), Error> {
        self.body = None;
        let error = error.unwrap_or_else(|| self.wrong_size(self.received));
        if self.retry.again(None) {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Requests the content from the first missing byte on.
    fn open(&mut self) -> Result<(), Error> {
        let (mut body, mut skip) = self
            .client
            .each_endpoint(&self.reference, |endpoint| self.open_at(endpoint))?;
        // A registry that ignores ranges sends the content from the start.
        let mut chunk = vec![0; if skip > 0 { CHUNK } else { 0 }];
        while skip > 0 {
            let most = usize::try_from(skip).unwrap_or(CHUNK).min(CHUNK);
            match body.reader.read(&mut chunk[..most]) {
                Ok(0) => return self.broken(None),
                Ok(length) => skip -= length as u64,
                Err(error) => return self.broken(Some(failure(&body.uri, error.into()))),
            }
        }
        self.body = Some(body);
        Ok(())
    }

    /// Requests the content at one endpoint. Returns the body, and the number of its bytes to discard because they
    /// were received before.
    fn open_at(&self, endpoint: &Endpoint) -> Result<(Body, u64), Error> {
        let reference = &self.reference;
        let name = self.descriptor.digest.to_string();
        let uri = self
            .client
            .address(endpoint, &self.what, &path(reference, "blobs", &name))?;
        let mut call = Call::new(&self.what, Method::GET, uri);
        if self.received > 0 {
            call = call.header(header::RANGE, format!("bytes={}-", self.received));
        }
        let answer = self
            .client
            .send(endpoint, &Scope::Pull(reference.repository()), call)?;
        let (skip, start) = match answer.status() {
            200 => (self.received, 0),
            206 if starts_at(&answer) == Some(self.received) => (0, self.received),
            206 => {
                return Err(Error::Protocol {
                    what: self.what.clone(),
                    why: format!(
                        "the registry sends another range than the one from {}",
                        self.received
                    ),
                });
            }
            _ => return Err(answer.refusal(&self.what, self.client.is_known(endpoint, reference))),
        };
        if let Some(length) = answer.response.body().content_length()
            && start.saturating_add(length) != self.descriptor.size
        {
            return Err(self.wrong_size(start.saturating_add(length)));
        }
        let body = Body {
            uri: answer.uri,
            reader: answer.response.into_body().into_reader(),
        };
        Ok((body, skip))
    }
}

/// Parses the first byte's position out of `Content-Range: bytes 7-9/10`.
fn starts_at(answer: &Answer) -> Option<u64> {
    let range = answer
        .header("content-range")?
        .strip_prefix("bytes")?
        .trim_start();
    range.split('-').next()?.parse().ok()
}

impl Read for Blob<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.next(buffer).map_err(io::Error::other)
    }
}
