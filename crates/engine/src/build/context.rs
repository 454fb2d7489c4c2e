//! The directory that a build is given, and its Dockerfile.

use super::workspace::{Workspace, make_dir};
use super::{BuildFault, BuildRequest};
use crate::EngineError;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_archive::{Compression, Decoder, Expansion, ExtractOptions, Limits, Owner, Reader, extract};
use tote_build::Origin;
use tote_dockerfile::Ignore;

/// The most of a Dockerfile or a `.dockerignore` that is read, in bytes.
const LIMIT: u64 = 16 << 20;
/// As much of a stream as says whether it is an archive: a header of tar.
const HEADER: usize = 512;

/// Where the files of a build are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildContext {
    /// A directory.
    Directory(PathBuf),
    /// Standard input: an archive, or a Dockerfile and no files at all.
    Stdin,
}

impl BuildContext {
    /// The directory, or `-`.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Stdin => Path::new("-"),
        }
    }
}

/// A directory that a build was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) root: OwnedFd,
    pub(crate) ignore: Ignore,
    /// Whether there are patterns at all.
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

/// The files of a build.
#[derive(Debug)]
pub(crate) struct Files {
    context: Given,
    /// `--build-context`, by name.
    named: BTreeMap<String, Given>,
    pub(crate) dockerfile: String,
}

impl Files {
    /// What was given under that name.
    pub(crate) fn given(&self, origin: &Origin) -> Result<&Given, BuildFault> {
        match origin {
            Origin::Named(name) => (self.named.get(name)).ok_or_else(|| BuildFault::NoContext(name.clone())),
            Origin::Context | Origin::Layers(_) => Ok(&self.context),
        }
    }
}

/// Opens the context and reads the Dockerfile: that of the path, or `Dockerfile` in the context; `-` is standard input.
pub(crate) fn open(request: &BuildRequest, workspace: &Workspace) -> Result<Files, EngineError> {
    let (context, dockerfile) = (&request.context, request.dockerfile.as_deref());
    let on_stdin = dockerfile == Some(Path::new("-"));
    let mut given = None;
    let dir = match context {
        BuildContext::Directory(dir) => dir.clone(),
        BuildContext::Stdin if on_stdin => return Err(BuildFault::Stdin.into()),
        BuildContext::Stdin => {
            let dir = workspace.path().join("context");
            make_dir(&dir, 0o700)?;
            given = from_stdin(&dir)?;
            dir
        }
    };
    let root = directory(&dir)?;
    let (path, text) = match (given, dockerfile) {
        (Some(text), _) => (None, text),
        (None, Some(_)) if on_stdin => (None, read("-", std::io::stdin().lock())?),
        (None, Some(path)) if *context != BuildContext::Stdin => {
            let file = std::fs::File::open(path).map_err(no_dockerfile(path))?;
            (Some(path.to_owned()), read(&path.to_string_lossy(), file)?)
        }
        (None, path) => {
            let path = path.unwrap_or(Path::new("Dockerfile"));
            let found = in_context(&root, path)?;
            let text = found.ok_or_else(|| no_dockerfile(path)(std::io::ErrorKind::NotFound.into()))?;
            (Some(path.to_owned()), text)
        }
    };
    let patterns = match &request.ignore_file {
        None => ignore(&root, path.as_deref())?,
        Some(path) => Some(given_ignore(path)?),
    };
    let mut named = BTreeMap::new();
    for (name, dir) in &request.contexts {
        let root = directory(dir)?;
        let patterns = ignore(&root, None)?;
        named.insert(name.clone(), Given::new(root, patterns));
    }
    Ok(Files {
        context: Given::new(root, patterns),
        named,
        dockerfile: text,
    })
}

/// Opens a directory that the caller names, by a link as well.
fn directory(path: &Path) -> Result<OwnedFd, BuildFault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| BuildFault::Context {
        path: path.to_owned(),
        source: errno.into(),
    })
}

fn no_dockerfile(path: &Path) -> impl FnOnce(std::io::Error) -> BuildFault {
    let path = path.to_owned();
    move |source| BuildFault::Dockerfile { path, source }
}

/// Extracts an archive; what is none is a Dockerfile.
fn from_stdin(dir: &Path) -> Result<Option<String>, EngineError> {
    let mut input = std::io::stdin().lock();
    let mut start = Vec::new();
    let taken = input.by_ref().take(HEADER as u64).read_to_end(&mut start);
    taken.map_err(no_dockerfile(Path::new("-")))?;
    let is_archive = Compression::sniff(&start) != Compression::None || start.get(257..262) == Some(b"ustar");
    let input = Cursor::new(start).chain(input);
    if !is_archive {
        return read("-", input).map(Some);
    }
    let failed = |source| BuildFault::Context {
        path: PathBuf::from("-"),
        source,
    };
    let decoder = Decoder::new(input, Expansion::default()).map_err(failed)?;
    let mut reader = Reader::new(decoder, Limits::default()).without_whiteouts();
    let options = ExtractOptions {
        owner: Owner::Process,
        ..ExtractOptions::default()
    };
    let root = super::view::open(dir, OFlags::RDONLY).map_err(|errno| failed(errno.into()))?;
    extract(&mut reader, std::os::fd::AsFd::as_fd(&root), &options).map_err(BuildFault::Extract)?;
    Ok(None)
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
    let bytes = tote_rootfs::read_in_root(root, path, limit).map_err(BuildFault::ContextFile)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// What the file says that was named for it.
fn given_ignore(path: &Path) -> Result<Ignore, EngineError> {
    let failed = |source| EngineError::File {
        option: "ignorefile",
        attempt: "read",
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let text = read(&path.to_string_lossy(), file)?;
    Ok(Ignore::parse(&text).map_err(BuildFault::Ignore)?)
}

/// What the file beside the Dockerfile says, or else the context's own.
fn ignore(root: &OwnedFd, dockerfile: Option<&Path>) -> Result<Option<Ignore>, EngineError> {
    let mut text = None;
    if let Some(path) = dockerfile {
        let mut beside = path.to_owned().into_os_string();
        beside.push(".dockerignore");
        text = match std::fs::File::open(&beside) {
            Ok(file) if path.is_absolute() || path.components().count() > 1 => {
                Some(read(&beside.to_string_lossy(), file)?)
            }
            _ => in_context(root, Path::new(&beside))?,
        };
    }
    let text = match text {
        Some(text) => Some(text),
        None => in_context(root, Path::new(".dockerignore"))?,
    };
    let parsed = text.map(|text| Ignore::parse(&text)).transpose();
    Ok(parsed.map_err(BuildFault::Ignore)?)
}
