//! Docker's `config.json` and podman's `auth.json`. Both have one format; only the parts about credentials are
//! changed.

use super::{Credential, CredentialError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tote_image::DEFAULT_REGISTRY;

/// Docker's name for docker.io in these files.
pub(super) const DOCKER_IO: &str = "https://index.docker.io/v1/";

/// Maximum size of a file in bytes; real ones are far smaller.
const MOST_BYTES: u64 = 4 << 20;

pub(super) struct AuthFile {
    path: PathBuf,
    root: Map<String, Value>,
}

impl AuthFile {
    pub(super) fn empty(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            root: Map::new(),
        }
    }

    /// Reads the file; `None` if it does not exist, or this user may not read it.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, CredentialError> {
        use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => Self::parse(path, &text).map(Some),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
            Err(source) => Err(CredentialError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, CredentialError> {
        if text.trim().is_empty() {
            return Ok(Self::empty(path));
        }
        let root = serde_json::from_str(text).map_err(|source| CredentialError::Parse {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            root,
        })
    }

    /// Returns the credential program of a registry: `NAME` of `docker-credential-NAME`.
    pub(super) fn program(&self, registry: &str) -> Option<String> {
        let of_registry = self
            .root
            .get("credHelpers")
            .and_then(Value::as_object)
            .and_then(|programs| keys(registry).find_map(|key| programs.get(&key)));
        of_registry
            .or_else(|| self.root.get("credsStore"))
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    }

    /// Lists every program that the file names, with the registry that it is for; `None` for the program of all
    /// registries.
    pub(super) fn programs(&self) -> Vec<(String, Option<String>)> {
        let single = self.root.get("credHelpers").and_then(Value::as_object);
        let single = single.into_iter().flatten();
        let single = single.map(|(key, name)| (name, Some(host_of(key).to_owned())));
        let all = self.root.get("credsStore").map(|name| (name, None));
        single
            .chain(all)
            .filter_map(|(name, registry)| Some((name.as_str()?.to_owned(), registry)))
            .filter(|(name, _)| !name.is_empty())
            .collect()
    }

    /// Finds the entry for a repository. podman has entries for namespaces too; the longest match wins.
    pub(super) fn credential(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, CredentialError> {
        let Some(entries) = self.root.get("auths").and_then(Value::as_object) else {
            return Ok(None);
        };
        let mut namespace = repository;
        while !namespace.is_empty() {
            if let Some(entry) = entries.get(&format!("{registry}/{namespace}")) {
                return self.entry(registry, entry);
            }
            namespace = namespace.rsplit_once('/').map_or("", |(above, _)| above);
        }
        let exact = keys(registry).find_map(|key| entries.get(&key));
        let entry = exact.or_else(|| {
            entries
                .iter()
                .find(|(key, _)| host_of(key) == registry)
                .map(|(_, entry)| entry)
        });
        entry.map_or(Ok(None), |entry| self.entry(registry, entry))
    }

    fn entry(&self, registry: &str, entry: &Value) -> Result<Option<Credential>, CredentialError> {
        let text = |name: &str| {
            entry
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        if let Some(token) = text("identitytoken") {
            return Ok(Some(Credential::IdentityToken(token.to_owned())));
        }
        if let Some(token) = text("registrytoken") {
            return Ok(Some(Credential::RegistryToken(token.to_owned())));
        }
        let password = |username: &str, password: &str| Credential::Password {
            username: username.to_owned(),
            password: password.trim_end_matches('\0').to_owned(),
        };
        if let (Some(name), Some(secret)) = (text("username"), text("password")) {
            return Ok(Some(password(name, secret)));
        }
        let Some(encoded) = text("auth") else {
            return Ok(None);
        };
        STANDARD
            .decode(encoded.trim())
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| text.split_once(':').map(|(name, secret)| password(name, secret)))
            .map(Some)
            .ok_or_else(|| CredentialError::Entry {
                path: self.path.clone(),
                registry: registry.to_owned(),
            })
    }

    pub(super) fn insert(&mut self, registry: &str, credential: &Credential) {
        let entry = match credential {
            Credential::Password { username, password } => {
                json!({ "auth": STANDARD.encode(format!("{username}:{password}")) })
            }
            Credential::IdentityToken(token) => {
                json!({ "auth": STANDARD.encode("<token>:"), "identitytoken": token })
            }
            Credential::RegistryToken(token) => json!({ "registrytoken": token }),
        };
        self.remove(registry);
        let key = if registry == DEFAULT_REGISTRY {
            DOCKER_IO
        } else {
            registry
        };
        let entries = self.root.entry("auths").or_insert_with(|| json!({}));
        if !entries.is_object() {
            *entries = json!({});
        }
        entries[key] = entry;
    }

    /// Removes the entry of a registry; returns whether there was one.
    pub(super) fn remove(&mut self, registry: &str) -> bool {
        let Some(entries) = self.root.get_mut("auths").and_then(Value::as_object_mut) else {
            return false;
        };
        let before = entries.len();
        entries.retain(|key, _| host_of(key) != registry || (key.contains('/') && !key.contains("://")));
        entries.len() != before
    }

    /// Removes all entries; returns whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        match self.root.get_mut("auths").and_then(Value::as_object_mut) {
            Some(entries) if !entries.is_empty() => {
                entries.clear();
                true
            }
            _ => false,
        }
    }

    /// Replaces the file atomically, readable for its owner only. If the path is a symbolic link, its target is
    /// replaced.
    pub(super) fn write(&self) -> Result<(), CredentialError> {
        self.replace().map_err(|source| CredentialError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn replace(&self) -> std::io::Result<()> {
        let path = match std::fs::read_link(&self.path) {
            Ok(target) => self.path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => self.path.clone(),
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let new = directory.join(format!(".config.json.{}", std::process::id()));
        let mut text = serde_json::to_vec_pretty(&self.root)?;
        text.push(b'\n');
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| std::fs::rename(&new, &path));
        if written.is_err() {
            // Remove the rest of the failed attempt; its own error is the one to report.
            std::fs::remove_file(&new).ok();
        }
        written
    }
}

/// Returns the keys under which docker and podman have stored a registry, the preferred one first.
fn keys(registry: &str) -> impl Iterator<Item = String> {
    let docker = (registry == DEFAULT_REGISTRY).then(|| DOCKER_IO.to_owned());
    docker.into_iter().chain([
        registry.to_owned(),
        format!("https://{registry}"),
        format!("https://{registry}/v2/"),
        format!("https://{registry}/v1/"),
    ])
}

/// Returns the registry that a key is about.
fn host_of(key: &str) -> &str {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    match rest.split('/').next().unwrap_or_default() {
        "index.docker.io" => DEFAULT_REGISTRY,
        host => host,
    }
}
