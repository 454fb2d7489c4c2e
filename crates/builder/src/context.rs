//! Build context, and its Dockerfile.

use super::attest::Material;
use super::checkout::Fetcher;
use super::request::{BuildContext, BuildRequest};
use super::workspace::{Workspace, make_dir};
use super::{BuildFault, BuildOptionError, ContextError};
use crate::{EngineError, RequestError};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_archive::{Change, Compression, Decoder, Expansion, ExtractOptions, Limits, Owner, Reader, extract};
use tote_build::Origin;
use tote_dockerfile::Ignore;
use tote_image::Algorithm;
use tote_registry::Hasher;

/// Limit of a Dockerfile or a `.dockerignore`, in bytes.
const LIMIT: u64 = 16 << 20;
/// Default names of a Dockerfile, docker's before podman's.
const DOCKERFILES: [&str; 3] = ["Dockerfile", "dockerfile", "Containerfile"];
/// Suffixes of the files that exclude parts of a context, docker's before podman's.
const IGNORE_FILES: [&str; 2] = [".dockerignore", ".containerignore"];
/// Length of the start of a stream that shows whether it is an archive: a header of tar.
const HEADER: usize = 512;

/// Directory that was given to a build.
#[derive(Debug)]
pub(crate) struct Given {
    pub root: OwnedFd,
    pub ignore: Ignore,
    /// True if there are patterns at all.
    pub(crate) has_ignore: bool,
}

impl Given {
    fn new(root: OwnedFd, patterns: Option<Ignore>) -> Self {
        Self {
            root,
            has_ignore: patterns.is_some(),
            ignore: patterns.unwrap_or_default(),
        }
    }
}

/// Files of a build.
#[derive(Debug)]
pub(crate) struct Files {
    context: Given,
    /// Values of `--build-context`, by name.
    named: BTreeMap<String, Given>,
    pub(crate) dockerfile: String,
    /// Path of the Dockerfile: in the context, or the name of one of the caller's files.
    pub path: String,
    /// Context as a material, and as the source of the build, unless it is on this machine.
    pub source: Option<(Material, Material)>,
}

impl Files {
    /// Returns the directory that was given under that name.
    pub(crate) fn given(&self, origin: &Origin) -> Result<&Given, BuildFault> {
        match origin {
            Origin::Named(name) => (self.named.get(name))
                .ok_or_else(|| BuildFault::Context(ContextError::NoContext(name.clone()))),
            Origin::Context | Origin::Layers(_) => Ok(&self.context),
        }
    }
}

/// Opens the context and reads the Dockerfile: that of the path, or the first of [`DOCKERFILES`] in the context; `-`
/// is standard input.
pub(crate) fn open(request: &BuildRequest, workspace: &Workspace) -> Result<Files, EngineError> {
    let (context, dockerfile) = (&request.context, request.dockerfile.as_deref());
    let on_stdin = dockerfile == Some(Path::new("-"));
    if let BuildContext::Archive(path) = context
        && dockerfile.is_none()
        && !has_dockerfile(path)?
    {
        return root_file_system(request, path, workspace);
    }
    let OpenedContext {
        root,
        dockerfile: given,
        source,
    } = match context {
        BuildContext::Stdin if on_stdin => return Err(BuildFault::Option(BuildOptionError::Stdin).into()),
        context => opened(request, context, workspace)?,
    };
    // The path is the caller's own for a directory; otherwise it is inside the context.
    let is_own = matches!(context, BuildContext::Directory(_));
    let (path, text) = match (given, dockerfile) {
        (_, Some(_)) if on_stdin => (None, read("-", std::io::stdin().lock())?),
        (Some(text), _) => (None, text),
        (None, Some(path)) if is_own => {
            let file = std::fs::File::open(path).map_err(no_dockerfile(path))?;
            (Some(path.to_owned()), read(&path.to_string_lossy(), file)?)
        }
        (None, Some(path)) => {
            let found = in_context(&root, path)?;
            let text = found.ok_or_else(|| no_dockerfile(path)(std::io::ErrorKind::NotFound.into()))?;
            (Some(path.to_owned()), text)
        }
        (None, None) => {
            let (path, text) = own_dockerfile(&root, context.path())?;
            (Some(path), text)
        }
    };
    let patterns = match &request.ignore_file {
        None => ignore(&root, path.as_deref(), is_own)?,
        Some(path) => Some(given_ignore(path)?),
    };
    let shown = match &path {
        Some(path) if is_own => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        Some(path) => Some(path.to_string_lossy().into_owned()),
        None => None,
    };
    let shown = shown.unwrap_or_else(|| DOCKERFILES[0].to_owned());
    Ok(Files {
        context: Given::new(root, patterns),
        named: named(request, workspace)?,
        dockerfile: text,
        path: shown,
        source,
    })
}

/// Opened context.
struct OpenedContext {
    root: OwnedFd,
    /// Text of the Dockerfile, if the context is a Dockerfile without files.
    dockerfile: Option<String>,
    /// Source as in [`Files`].
    source: Option<(Material, Material)>,
}

fn opened(
    request: &BuildRequest,
    context: &BuildContext,
    workspace: &Workspace,
) -> Result<OpenedContext, EngineError> {
    let (mut dockerfile, mut source) = (None, None);
    let root = match context {
        BuildContext::Directory(dir) => directory(dir)?,
        BuildContext::Archive(path) => {
            let dir = room(workspace)?;
            extract_into(&dir, path, archive(path)?)?;
            directory(&dir)?
        }
        BuildContext::Stdin => {
            let dir = room(workspace)?;
            dockerfile = from_stream(&dir, Path::new("-"), std::io::stdin().lock())?;
            directory(&dir)?
        }
        BuildContext::Address(url) => {
            let dir = room(workspace)?;
            let client = tote_images::web_client(&request.access)?;
            let answer = client.download(url).map_err(|error| BuildFault::Download {
                url: tote_build::redacted(url),
                source: Box::new(error.into()),
            })?;
            let mut answer = Hashed {
                inner: answer,
                hasher: Hasher::new(Algorithm::Sha256),
            };
            dockerfile = from_stream(&dir, Path::new(url), &mut answer)?;
            // Bytes behind the archive's end belong to the download's hash, too.
            std::io::copy(&mut answer, &mut std::io::sink()).map_err(no_context(Path::new(url)))?;
            let material = Material::new(tote_build::redacted(url), &answer.hasher.finish());
            source = Some((material.clone(), material));
            directory(&dir)?
        }
        BuildContext::Repository(repository) => {
            let fetcher = Fetcher::new(request, workspace)?;
            let found = fetcher.find(repository)?;
            let checkout = fetcher.fetch(repository, &found)?;
            let whole = Material::commit(repository.to_string(), &checkout.commit);
            let mut material = (**repository).clone();
            material.subdir.clear();
            let material = Material::commit(material.to_string(), &checkout.commit);
            source = Some((material, whole));
            checkout.root
        }
    };
    Ok(OpenedContext {
        root,
        dockerfile,
        source,
    })
}

/// Reader that hashes its bytes.
struct Hashed<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// Makes a new directory for the files of a context.
fn room(workspace: &Workspace) -> Result<PathBuf, EngineError> {
    let all = workspace.path().join("contexts");
    make_dir(&all, 0o700)?;
    let dir = super::workspace::next_in(&all)?;
    make_dir(&dir, 0o700)?;
    Ok(dir)
}

/// Finds the Dockerfile of a context by its default names.
fn own_dockerfile(root: &OwnedFd, context: &Path) -> Result<(PathBuf, String), EngineError> {
    for name in DOCKERFILES.map(Path::new) {
        if let Some(text) = in_context(root, name)? {
            return Ok((name.to_owned(), text));
        }
    }
    Err(BuildFault::Context(ContextError::NoDockerfile(context.to_owned())).into())
}

/// Opens the directories of `--build-context`.
fn named(request: &BuildRequest, workspace: &Workspace) -> Result<BTreeMap<String, Given>, EngineError> {
    let mut named = BTreeMap::new();
    for (name, context) in &request.contexts {
        let OpenedContext { root, dockerfile, .. } = opened(request, context, workspace)?;
        if dockerfile.is_some() {
            return Err(BuildFault::Context(ContextError::NoArchive(context.path().to_owned())).into());
        }
        let patterns = ignore(&root, None, false)?;
        named.insert(name.clone(), Given::new(root, patterns));
    }
    Ok(named)
}

/// Builds from the archive of a root file system: an image with a single layer.
fn root_file_system(
    request: &BuildRequest,
    path: &Path,
    workspace: &Workspace,
) -> Result<Files, EngineError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(name)) = (path.parent(), name) else {
        return Err(no_context(path)(std::io::ErrorKind::InvalidFilename.into()).into());
    };
    let words = serde_json::json!([literally(name), "/"]);
    Ok(Files {
        context: Given::new(directory(dir)?, None),
        named: named(request, workspace)?,
        path: DOCKERFILES[0].to_owned(),
        source: None,
        dockerfile: format!("FROM scratch\nADD {words}\n"),
    })
}

/// Escapes a name for use as a literal in an `ADD`: once for the pattern, and once for the word.
fn literally(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if "*?[]\\".contains(letter) {
            word += "\\\\";
        }
        if "\\$\"'".contains(letter) {
            word.push('\\');
        }
        word.push(letter);
    }
    word
}

/// True if an archive has a Dockerfile, so that it is a context.
fn has_dockerfile(path: &Path) -> Result<bool, EngineError> {
    let mut reader = archive(path)?;
    while let Some(change) = reader.next_change().map_err(|error| unreadable(path, error))? {
        if let Change::Add(entry) = change
            && DOCKERFILES
                .iter()
                .any(|name| entry.path.as_bytes() == name.as_bytes())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

type Archive = Reader<Decoder<std::fs::File>>;

fn archive(path: &Path) -> Result<Archive, EngineError> {
    let file = std::fs::File::open(path).map_err(no_context(path))?;
    let decoder = Decoder::new(file, Expansion::default()).map_err(no_context(path))?;
    Ok(Reader::new(decoder, Limits::default()).without_whiteouts())
}

fn unreadable(path: &Path, error: tote_archive::ReadError) -> EngineError {
    no_context(path)(std::io::Error::other(error)).into()
}

fn no_context(path: &Path) -> impl FnOnce(std::io::Error) -> BuildFault {
    let path = path.to_owned();
    move |source| BuildFault::Context(ContextError::Context { path, source })
}

/// Opens a directory that the caller names, and follows links.
fn directory(path: &Path) -> Result<OwnedFd, BuildFault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
        BuildFault::Context(ContextError::Context {
            path: path.to_owned(),
            source: errno.into(),
        })
    })
}

fn no_dockerfile(path: &Path) -> impl FnOnce(std::io::Error) -> BuildFault {
    let path = path.to_owned();
    move |source| BuildFault::Context(ContextError::Dockerfile { path, source })
}

/// Extracts an archive; any other stream is a Dockerfile, and its text is returned.
fn from_stream(dir: &Path, path: &Path, mut input: impl Read) -> Result<Option<String>, EngineError> {
    let mut start = Vec::new();
    let taken = input.by_ref().take(HEADER as u64).read_to_end(&mut start);
    taken.map_err(no_dockerfile(path))?;
    let is_archive = Compression::sniff(&start) != Compression::None || start.get(257..262) == Some(b"ustar");
    let input = Cursor::new(start).chain(input);
    if !is_archive {
        return read(&path.to_string_lossy(), input).map(Some);
    }
    let decoder = Decoder::new(input, Expansion::default()).map_err(no_context(path))?;
    let reader = Reader::new(decoder, Limits::default()).without_whiteouts();
    extract_into(dir, path, reader)?;
    Ok(None)
}

fn extract_into(dir: &Path, path: &Path, mut reader: Reader<impl Read>) -> Result<(), EngineError> {
    let options = ExtractOptions {
        owner: Owner::Process,
        ..ExtractOptions::default()
    };
    let root = super::view::open(dir, OFlags::RDONLY).map_err(|errno| no_context(path)(errno.into()))?;
    extract(&mut reader, std::os::fd::AsFd::as_fd(&root), &options).map_err(BuildFault::Extract)?;
    Ok(())
}

fn read(name: &str, input: impl Read) -> Result<String, EngineError> {
    let failed = no_dockerfile(Path::new(name));
    let mut text = String::new();
    match input.take(LIMIT + 1).read_to_string(&mut text) {
        Ok(count) if count as u64 <= LIMIT => Ok(text),
        Ok(_) => Err(failed(std::io::ErrorKind::FileTooLarge.into()).into()),
        Err(error) => Err(failed(error).into()),
    }
}

fn in_context(root: &OwnedFd, path: &Path) -> Result<Option<String>, EngineError> {
    let limit = usize::try_from(LIMIT).unwrap_or(usize::MAX);
    let bytes = tote_rootfs::read_in_root(root, path, limit).map_err(ContextError::ContextFile)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads the file of `--ignorefile`.
fn given_ignore(path: &Path) -> Result<Ignore, EngineError> {
    let failed = |source| {
        EngineError::Request(RequestError::File {
            option: "ignorefile",
            attempt: "read",
            path: path.to_owned(),
            source,
        })
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let text = read(&path.to_string_lossy(), file)?;
    Ok(Ignore::parse(&text).map_err(ContextError::Ignore)?)
}

/// Reads the ignore file beside the Dockerfile, otherwise the context's own. `is_own` is true if the Dockerfile's
/// path is the caller's, and not one inside the context.
fn ignore(root: &OwnedFd, dockerfile: Option<&Path>, is_own: bool) -> Result<Option<Ignore>, EngineError> {
    let mut text = None;
    for ending in IGNORE_FILES {
        let Some(path) = dockerfile.filter(|_| text.is_none()) else {
            break;
        };
        let mut beside = path.to_owned().into_os_string();
        beside.push(ending);
        let is_path = path.is_absolute() || path.components().count() > 1;
        let file = Some(&beside).filter(|_| is_own && is_path);
        text = match file.map(std::fs::File::open) {
            Some(Ok(file)) => Some(read(&beside.to_string_lossy(), file)?),
            _ => in_context(root, Path::new(&beside))?,
        };
    }
    for name in IGNORE_FILES {
        if text.is_none() {
            text = in_context(root, Path::new(name))?;
        }
    }
    let parsed = text.map(|text| Ignore::parse(&text)).transpose();
    Ok(parsed.map_err(ContextError::Ignore)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_itself() {
        for name in ["rootfs.tar", "a b$c", "*[x]?\\", "it's \"one\"", "${HOME}", "ü"] {
            let word = tote_dockerfile::expand(&literally(name), '\\', &|_| None).unwrap();
            assert!(tote_build::matches(&word, name).unwrap(), "{name}: {word}");
        }
    }
}
