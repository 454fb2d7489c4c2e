//! Trusted certificates: those of the machine's authorities, and further ones for single hosts.

use crate::error::{Error, TrustError};
use crate::options::ClientOptions;
use std::fs::ReadDir;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Files with the certificates of authorities in different distributions, the common ones first.
pub(crate) const ROOT_FILES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
];

/// Maximum size of a file of certificates in bytes; real ones are smaller.
const MOST_BYTES: u64 = 16 << 20;

/// Loads the certificates of the machine's authorities; an empty list if none of the files exists.
pub(crate) fn roots(options: &ClientOptions) -> Result<Vec<Certificate<'static>>, Error> {
    // absence: the file is read, which reports the error
    match options
        .roots
        .iter()
        .find(|path| path.try_exists().unwrap_or(true))
    {
        Some(file) => certificates(file, &read(file)?),
        None => Ok(Vec::new()),
    }
}

/// Builds the TLS configuration for a host. Its certificate is verified by `roots` and the host's own authorities;
/// without `roots` it is not verified.
pub(crate) fn config(
    options: &ClientOptions,
    host: &str,
    roots: Option<&[Certificate<'static>]>,
) -> Result<TlsConfig, Error> {
    let own = for_host(options, host)?;
    let builder = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .client_cert(own.client);
    let Some(roots) = roots else {
        return Ok(builder
            .disable_verification(true)
            .root_certs(specific(Vec::new()))
            .build());
    };
    let roots = [roots, &own.authorities].concat();
    if roots.is_empty() {
        return Err(Error::Trust(TrustError::NoRoots {
            host: host.to_owned(),
        }));
    }
    Ok(builder.root_certs(specific(roots)).build())
}

fn specific(roots: Vec<Certificate<'static>>) -> RootCerts {
    RootCerts::Specific(Arc::new(roots))
}

#[derive(Default)]
struct Own {
    authorities: Vec<Certificate<'static>>,
    client: Option<ClientCert>,
}

/// Loads the certificates for a host: `DIRECTORY/HOST:PORT/*.crt` are authorities, `NAME.cert` with `NAME.key` is
/// the client's certificate. A directory given by option contains these files itself, and must exist.
fn for_host(options: &ClientOptions, host: &str) -> Result<Own, Error> {
    let mut own = Own::default();
    if let Some(directory) = &options.cert_dir {
        let entries = std::fs::read_dir(directory).map_err(|error| unusable(directory, error))?;
        own.add(directory, entries)?;
        return Ok(own);
    }
    // The host may come from a registry's `Location`; it must not lead out of the directory.
    if host.contains('/') || host.starts_with('.') {
        return Ok(own);
    }
    for directory in &options.certificates {
        let directory = directory.join(host);
        match std::fs::read_dir(&directory) {
            Ok(entries) => own.add(&directory, entries)?,
            // As with podman: a directory of root's is not for other users.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied
                ) => {}
            Err(error) => return Err(unusable(&directory, error)),
        }
    }
    Ok(own)
}

impl Own {
    fn add(&mut self, directory: &Path, entries: ReadDir) -> Result<(), Error> {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths
            .collect::<Result<Vec<PathBuf>, _>>()
            .map_err(|error| unusable(directory, error))?;
        paths.sort();
        for path in &paths {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("crt") => self.authorities.extend(certificates(path, &read(path)?)?),
                Some("cert") => self.client = Some(client(path)?),
                // docker refuses this too: the user believes in a certificate that is never shown.
                Some("key") if !paths.contains(&path.with_extension("cert")) => {
                    let name = path.with_extension("cert");
                    let name = name.file_name().unwrap_or_default().display();
                    return Err(unusable(
                        path,
                        format!("missing client certificate {name} for this key"),
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn client(path: &Path) -> Result<ClientCert, Error> {
    let chain = certificates(path, &read(path)?)?;
    let key_path = path.with_extension("key");
    let key = PrivateKey::from_pem(&read(&key_path)?).map_err(|error| unusable(&key_path, error))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<Certificate<'static>>, Error> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| unusable(path, error))? {
            found.push(certificate);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| unusable(path, error))?;
    Ok(bytes)
}

fn unusable(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Trust(TrustError::CertificateFile {
        path: path.to_owned(),
        why: error.to_string(),
    })
}
