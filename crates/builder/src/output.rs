//! `--output`: files of the result, as a directory or an archive.

use super::BuiltImage;
use super::{BuildFault, BuildOptionError};
use crate::changes::ContainerError;
use crate::{EngineError, Home, ImageFault, SaveTarget, WholeFile};
use rustix::fs::{MemfdFlags, OFlags};
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use tote_archive::{
    Change, Entry, EntryPath, ExtractOptions, Kind, Limits, Overwrite, Owner, Reader, WalkError, Writer,
    extract, walk,
};
use tote_images::ArchiveError;
use tote_store::Tree;

/// Size of the write buffer, in bytes.
const BUFFER: usize = 128 << 10;

/// Destination of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildOutput {
    /// Directory for the files, as the caller's own: `type=local`.
    Directory(PathBuf),
    /// Archive of the files: `type=tar`; `-` is standard output.
    Archive(PathBuf),
    /// Archive of the image in the form of docker or OCI: `type=docker` and `type=oci`.
    Image {
        /// True for docker's form.
        docker: bool,
        /// Path of the archive; `-` is standard output.
        path: PathBuf,
    },
    /// Image in the store under further names: `type=image` and `type=registry`.
    Store {
        /// Values of `name=`.
        names: Vec<String>,
        /// True if the image is pushed.
        push: bool,
    },
}

impl BuildOutput {
    /// Parses the value of `--output`: a directory, `-`, `type=local|tar|docker|oci,dest=PATH`, or
    /// `type=image|registry,name=NAME,push=true`. A quoted name can hold several, with commas between.
    ///
    /// # Errors
    /// `BuildOptionError::Output`.
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        let wrong = || BuildFault::Option(BuildOptionError::Output(text.to_owned()));
        if text == "-" {
            return Ok(Self::Archive(PathBuf::from("-")));
        }
        if !text.contains('=') && !text.is_empty() {
            return Ok(Self::Directory(PathBuf::from(text)));
        }
        let (mut kind, mut dest, mut names, mut push) = (None, None, Vec::new(), None);
        for field in fields(text) {
            match field.split_once('=').ok_or_else(wrong)? {
                ("type", value) => kind = Some(value),
                ("dest", value) if !value.is_empty() => dest = Some(PathBuf::from(value)),
                ("name", value) if !value.is_empty() => names.extend(value.split(',').map(str::to_owned)),
                ("push", "true" | "1") => push = Some(true),
                ("push", "false" | "0") => push = Some(false),
                ("rewrite-timestamp", "true" | "1" | "false" | "0") => {}
                _ => return Err(wrong().into()),
            }
        }
        let is_named = !names.is_empty() || push.is_some();
        match (kind, dest) {
            (Some("image"), None) => Ok(Self::Store {
                names,
                push: push == Some(true),
            }),
            (Some("registry"), None) => Ok(Self::Store {
                names,
                push: push != Some(false),
            }),
            _ if is_named => Err(wrong().into()),
            (Some("local"), Some(dest)) if dest != Path::new("-") => Ok(Self::Directory(dest)),
            (Some("tar"), Some(dest)) => Ok(Self::Archive(dest)),
            (Some("tar"), None) => Ok(Self::Archive(PathBuf::from("-"))),
            (Some(kind @ ("docker" | "oci")), Some(path)) => Ok(Self::Image {
                docker: kind == "docker",
                path,
            }),
            (Some("oci"), None) => Ok(Self::Image {
                docker: false,
                path: PathBuf::from("-"),
            }),
            (Some("docker"), None) => Ok(Self::Store { names, push: false }),
            _ => Err(wrong().into()),
        }
    }

    /// True if a value of `--output` says `rewrite-timestamp=true`: files of the result's own layers are no younger than
    /// `SOURCE_DATE_EPOCH`.
    #[must_use]
    pub fn rewrites_timestamps(text: &str) -> bool {
        let mut given = fields(text).into_iter();
        given.any(|field| matches!(field, "rewrite-timestamp=true" | "rewrite-timestamp=1"))
    }

    /// True if the result goes to standard output, to which nothing else may be written then.
    #[must_use]
    pub fn is_stdout(&self) -> bool {
        matches!(self, Self::Archive(path) | Self::Image { path, .. } if path == Path::new("-"))
    }

    /// Writes the image to an archive, if the output is one. The image must have its names.
    pub fn save(&self, home: &Home, built: &BuiltImage) -> Result<(), EngineError> {
        let Self::Image { docker, path } = self else {
            return Ok(());
        };
        let mut wanted: Vec<String> = built.names.iter().map(ToString::to_string).collect();
        if wanted.is_empty() {
            wanted.push(built.id.to_string());
        }
        let save = |out: &mut dyn Write| match docker {
            true => crate::save(home, &wanted, &[], SaveTarget::DockerArchive(out)),
            false => crate::save(home, &wanted, &[], SaveTarget::OciArchive(out)),
        };
        if path == Path::new("-") {
            return Ok(save(&mut std::io::stdout().lock())?);
        }
        Ok(WholeFile::output(path, |file| save(file))?)
    }

    /// True if the output is files of the result, and not the image.
    pub(crate) fn is_files(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::Archive(_))
    }

    /// Writes the files of the images.
    pub(crate) fn write(&self, flats: &[Flat]) -> Result<(), EngineError> {
        match self {
            Self::Image { .. } | Self::Store { .. } => Ok(()),
            Self::Archive(path) if path == Path::new("-") => pack(flats, std::io::stdout().lock()),
            Self::Archive(path) => WholeFile::output(path, |file| pack(flats, file)),
            Self::Directory(path) => {
                for flat in flats {
                    let path = flat
                        .dir
                        .as_ref()
                        .map_or_else(|| path.clone(), |dir| path.join(dir));
                    unpack(flat, &path)?;
                }
                Ok(())
            }
        }
    }
}

/// Files of one image.
pub(crate) struct Flat {
    /// Directory of the image's files, if there are several images.
    pub dir: Option<String>,
    pub tree: Tree,
    /// Further files beside the image's: names and contents.
    pub beside: Vec<(&'static str, Vec<u8>)>,
}

fn unpack(flat: &Flat, path: &Path) -> Result<(), EngineError> {
    let failed = |attempt| tote_images::failed_output(attempt, path);
    std::fs::create_dir_all(path).map_err(failed("make"))?;
    let target = super::view::open(path, OFlags::RDONLY);
    let target = target.map_err(|errno| failed("open")(errno.into()))?;
    let (reader, writer) = std::io::pipe().map_err(ImageFault::LayerOutput)?;
    std::thread::scope(|scope| {
        let packing = std::thread::Builder::new()
            .spawn_scoped(scope, || {
                let archive = Writer::new(BufWriter::with_capacity(BUFFER, writer));
                super::layer::pack(archive, below(flat)?)
            })
            .map_err(ContainerError::Thread)?;
        let input = BufReader::with_capacity(BUFFER, reader);
        let mut reader = Reader::new(input, Limits::default()).without_whiteouts();
        let options = ExtractOptions {
            owner: Owner::Caller,
            overwrite: Overwrite::SameKind,
            keep_root: true,
            ..ExtractOptions::default()
        };
        let extracted = extract(&mut reader, target.as_fd(), &options);
        drop(reader);
        let packed = packing.join();
        extracted.map_err(BuildFault::Extract)?;
        packed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Splits a text at commas; a quoted field may contain commas.
fn fields(text: &str) -> Vec<&str> {
    let mut quoted = false;
    let fields = text.split(|letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    fields.map(|field| field.trim_matches('"')).collect()
}

/// File or directory of a tree, with its content if it has one.
type Packed = Result<(Change, Option<File>), WalkError>;

/// Lists everything below the root of an image's tree, and the files beside it.
fn below(flat: &Flat) -> Result<impl Iterator<Item = Packed>, EngineError> {
    let kernel = |attempt| move |source| EngineError::Kernel { attempt, source };
    let root = flat.tree.view()?;
    let mut beside: Vec<Packed> = Vec::new();
    for (name, content) in &flat.beside {
        let path = EntryPath::parse(name.as_bytes()).map_err(ArchiveError::SavePath)?;
        let size = content.len() as u64;
        let memory = rustix::fs::memfd_create(*name, MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.map_err(kernel("keep a statement in memory"))?);
        let written = file.write_all(content).and_then(|()| file.rewind());
        written.map_err(ImageFault::LayerOutput)?;
        let entry = Entry::new(path, Kind::File { size });
        beside.push(Ok((Change::Add(entry), Some(file))));
    }
    let entries = walk(root.as_fd());
    let entries = entries.map(|found| found.map(|(entry, content)| (Change::Add(entry), content)));
    let entries = entries.filter(|found| !found.as_ref().is_ok_and(|(change, _)| change.path().is_root()));
    Ok(entries.chain(beside))
}

/// Writes an archive of all images' files, each image in its directory if it has one.
fn pack(flats: &[Flat], out: impl Write) -> Result<(), EngineError> {
    let archive = Writer::new(BufWriter::with_capacity(BUFFER, out));
    let mut all: Vec<Box<dyn Iterator<Item = Packed>>> = Vec::new();
    for flat in flats {
        let entries = below(flat)?;
        match &flat.dir {
            None => all.push(Box::new(entries)),
            Some(dir) => {
                let dir = EntryPath::parse(dir.as_bytes()).map_err(ArchiveError::SavePath)?;
                let mut root = Entry::new(dir.clone(), Kind::Directory);
                root.mode = 0o755;
                all.push(Box::new(std::iter::once(Ok((Change::Add(root), None)))));
                all.push(Box::new(entries.map(move |found| {
                    found.map(|(change, content)| (inside(&dir, change), content))
                })));
            }
        }
    }
    super::layer::pack(archive, all.into_iter().flatten())
}

/// Moves an entry into a directory. A path that would become too long stays unchanged.
fn inside(dir: &EntryPath, change: Change) -> Change {
    let Change::Add(mut entry) = change else {
        return change;
    };
    let moved = |path: &EntryPath| {
        let path = [dir.as_bytes(), b"/", path.as_bytes()].concat();
        EntryPath::parse(&path).ok()
    };
    if let Some(path) = moved(&entry.path) {
        entry.path = path;
    }
    if let Kind::Hardlink { target } = &mut entry.kind
        && let Some(path) = moved(target)
    {
        *target = path;
    }
    Change::Add(entry)
}

#[cfg(test)]
mod tests {
    use super::BuildOutput;

    #[test]
    fn outputs() {
        let directory = |path: &str| BuildOutput::Directory(path.into());
        let archive = |path: &str| BuildOutput::Archive(path.into());
        let image = |docker, path: &str| BuildOutput::Image {
            docker,
            path: path.into(),
        };
        let store = |names: &[&str], push| BuildOutput::Store {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            push,
        };
        for (text, output) in [
            ("out", directory("out")),
            ("-", archive("-")),
            ("type=local,dest=out", directory("out")),
            ("type=tar,dest=o.tar", archive("o.tar")),
            ("type=tar", archive("-")),
            ("dest=-,type=tar", archive("-")),
            ("type=docker", store(&[], false)),
            ("type=image", store(&[], false)),
            ("type=image,name=a:1,push=true", store(&["a:1"], true)),
            ("type=registry", store(&[], true)),
            ("type=registry,\"name=a,b/c\"", store(&["a", "b/c"], true)),
            ("type=image,push=false", store(&[], false)),
            ("type=image,rewrite-timestamp=true", store(&[], false)),
            ("type=docker,dest=o.tar", image(true, "o.tar")),
            ("type=oci,dest=o.tar", image(false, "o.tar")),
            ("type=oci", image(false, "-")),
        ] {
            assert_eq!(BuildOutput::parse(text).unwrap(), output, "{text}");
        }
        for bad in [
            "",
            "type=local",
            "type=local,dest=-",
            "type=registry,dest=x",
            "type=image,push=maybe",
            "type=tar,push=true",
            "type=docker,name=a",
            "type=image,dest=x",
            "type=tar,x",
            "type=oci,rewrite-timestamp=maybe",
            "dest=a",
        ] {
            assert!(BuildOutput::parse(bad).is_err(), "{bad}");
        }
    }
}
