//! A container's storage: which driver, and what it is told.

use crate::apart::among_owners;
use crate::container::{LifeError, StartError};
use crate::prepared::Prepared;
use crate::rootfs::{Source, Stored};
use crate::user::Ids;
use crate::{Caller, EngineError, Home, RequestError};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, DISK_SIZE_LABEL, ImageConfig, RunOptions};
use tote_driver::{Beside, Driver, Limit, MountPoint, OwnFiles, Request, Survey};
use tote_images::has_ids;
use tote_rootfs::{OwnTree, Rootfs, Storage};
use tote_sandbox::{MapOrigin, Root};
use tote_spec::IdMapping;
use tote_spec::{NamespaceType, Spec};
use tote_store::Store;

/// Properties that a container's storage depends on.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Options of the request.
    pub options: &'a RunOptions,
    /// Settings of the image.
    pub config: &'a ImageConfig,
    /// Specification.
    pub spec: &'a Spec,
    /// Files of the container's own.
    pub files: &'a [(&'static str, u32, Vec<u8>)],
    /// Ids of the container.
    pub ids: &'a Ids,
    /// True if nothing is made.
    pub dry: bool,
    /// Whether the container is about to run.
    pub runs: bool,
    /// Whether the container may have been there before.
    pub again: bool,
}

impl Prepared {
    /// The limit on its storage, where that is not a mount's.
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        self.beside.limit.as_ref()
    }
}

/// Chooses a driver where none is asked for: what the configuration says, or one that can do what is asked for, by the
/// image unless an option asks for another. It becomes one of the options that were given, so that a later start has the same.
pub fn choose_driver(
    home: &Home,
    config: &ImageConfig,
    options: &mut RunOptions,
    given: &mut Vec<(String, String)>,
) -> Result<(), EngineError> {
    // What keeps a pod's namespaces writes nothing.
    // Neither does the sandbox of a virtual machine.
    if options.driver.is_some() || options.infra || options.vm.is_some() {
        return Ok(());
    }
    if let Some(size) = image_size(options, config)
        && has_sizes(home, options)
    {
        let set = options.set("disk-size", size);
        set.map_err(|source| EngineError::Request(RequestError::ImageDisk(Box::new(source))))?;
        given.push(("disk-size".to_owned(), size.to_owned()));
    }
    // What is kept can be kept to a size only on a disk of its own.
    let sized = options.disk_size.is_some() && !options.rm && home.caller == Caller::Root;
    let driver = if sized {
        Some(Driver::Loop)
    } else {
        home.storage_config()?.driver
    };
    if let Some(driver) = driver {
        given.push(("driver".to_owned(), driver.name().to_owned()));
        options.driver = Some(driver.name().to_owned());
    }
    Ok(())
}

/// The size that an image asks for, unless an option asks for a size or a driver.
fn image_size<'a>(options: &RunOptions, config: &'a ImageConfig) -> Option<&'a str> {
    let asked = options.disk_size.is_some() || options.driver.is_some();
    let size = config.labels.get(DISK_SIZE_LABEL).filter(|_| !asked)?;
    Some(size)
}

/// Whether the container can be kept to a size: on a disk, which is root's to mount, or in memory.
fn has_sizes(home: &Home, options: &RunOptions) -> bool {
    home.caller == Caller::Root || options.rm
}

/// Warning about an image that asks for a size and does not get it.
pub fn without_size(home: &Home, options: &RunOptions, config: &ImageConfig) -> Option<String> {
    let size = image_size(options, config).filter(|_| !has_sizes(home, options) && !options.infra)?;
    Some(format!(
        "the image asks for a disk of {size}, which only root can mount: the container may write more than that \
         (--rm keeps it to that, in memory)"
    ))
}

/// The driver that the options ask for.
///
/// # Errors
/// [`EngineError::Request`] for an unknown name.
fn driver(options: &RunOptions) -> Result<Driver, EngineError> {
    match &options.driver {
        Some(name) => Ok(name.parse()?),
        None => Ok(Driver::default()),
    }
}

/// Makes a container's storage, and its root out of it; and what belongs to that until it is mounted.
pub fn root(
    home: &Home,
    id: &ContainerId,
    source: &Source,
    wanted: &Wanted<'_>,
) -> Result<(Root, Beside), EngineError> {
    if wanted.again
        && let Some((path, place)) = crate::mounted::in_place(home, id)?
    {
        return Ok(mounted(path, place));
    }
    made(home, id, source, wanted)
}

fn made(
    home: &Home,
    id: &ContainerId,
    source: &Source,
    wanted: &Wanted<'_>,
) -> Result<(Root, Beside), EngineError> {
    if let Source::Build(_) = source {
        return Ok((of_build(source.rootfs()), Beside::default()));
    }
    let rootfs = source.rootfs_for(home, wanted.ids.shift, wanted.dry)?;
    let driver = driver(wanted.options)?;
    // Only split asks.
    let (writable, mount_points) = match driver {
        Driver::Split => (writable(home, source, wanted)?, mount_points(wanted)),
        _ => (Vec::new(), Vec::new()),
    };
    // Trees of tote's own belong to ids that the user has.
    let maps = match source {
        Source::Directory(_) => maps(wanted.ids),
        _ => None,
    };
    let paths: Vec<&str> = match maps {
        Some(_) => wanted.files.iter().map(|(path, ..)| *path).collect(),
        None => Vec::new(),
    };
    let own_files = maps.as_ref().map(|(uids, gids)| OwnFiles {
        paths: &paths,
        uids,
        gids,
    });
    let mut request = Request {
        layers: &rootfs.lowers,
        own_inodes: rootfs.own_inodes.as_ref(),
        names: rootfs
            .own_inodes
            .as_ref()
            .filter(|own| own.fs.is_none())
            .map(|own| &*own.tree),
        image_links: None,
        privileged: home.caller == Caller::Root,
        key: source.chain(),
        templates: &home.templates(),
        container: &home.container(id),
        rm: wanted.options.rm,
        dry: wanted.dry,
        runs: wanted.runs,
        disk_size: wanted.options.disk_size,
        tmpfs_size: wanted.options.tmpfs_size,
        writable: &writable,
        mount_points: &mount_points,
        own_files,
        owns_root: wanted.ids.shift.is_some(),
        survey: None,
    };
    let (layers, links, names);
    if let Source::Stored(stored) = source {
        if let (Driver::Split, true, None) = (driver, wanted.dry, request.names) {
            names = shown_names(stored)?;
            request.names = names.as_deref();
        }
        if let Some(path) = ordinary_files(home, stored, driver, (&request, wanted))? {
            layers = [path];
            request.layers = &layers;
        }
        if let ([tree], true) = (request.layers, tote_driver::copies_tree(driver, &request)?) {
            links = crate::links::of_image(home, stored.id(), tree)?;
            request.image_links = Some(&links);
        }
    }
    let prepared = prepare(home, driver, &request)?;
    // Root of the machine could read of the host what only root may; a user cannot.
    let private = matches!(source, Source::Host(_)) && home.caller == Caller::Root;
    let root = Root::Stored {
        storage: prepared.storage,
        binds: rootfs.binds,
        private,
        nosuid: takes_rights(source, wanted.ids),
    };
    Ok((root, prepared.beside))
}

/// True for the files of a directory that are the caller's, who is another user than root inside: a set-user-ID program among them
/// would take root's rights away.
fn takes_rights(source: &Source, ids: &Ids) -> bool {
    matches!(source, Source::Directory(_)) && ids.shift.is_some()
}

/// A directory with the names of an image that a dry run of split may look into: no directory is made for it. `None` where
/// `layers` are that.
fn shown_names(stored: &Stored) -> Result<Option<PathBuf>, EngineError> {
    if !stored.is_file() {
        return Ok(None);
    }
    let view = stored.view()?.as_raw_fd();
    Ok(Some(PathBuf::from(format!("/proc/self/fd/{view}"))))
}

/// The root of a container that is mounted already: whatever its driver is, that mount is the root.
fn mounted(path: PathBuf, place: std::fs::File) -> (Root, Beside) {
    let root = Root::Stored {
        storage: Storage::Own(OwnTree { path, copy_of: None }),
        binds: Vec::new(),
        private: false,
        nosuid: false,
    };
    let beside = Beside {
        place: Some(place),
        ..Beside::default()
    };
    (root, beside)
}

/// The root of a step of a build.
fn of_build(rootfs: Rootfs) -> Root {
    Root::Stored {
        storage: Storage::Overlay {
            lowers: rootfs.lowers,
            own_inodes: rootfs.own_inodes,
            upper: rootfs.upper,
            // Leftovers of a killed build are never used again.
            volatile: true,
        },
        binds: Vec::new(),
        private: false,
        nosuid: false,
    }
}

/// The image as files that have their contents, where a driver does not mount it in the way that finds these elsewhere; `None`
/// where it does, or need not look.
fn ordinary_files(
    home: &Home,
    stored: &Stored,
    driver: Driver,
    (request, wanted): (&Request<'_>, &Wanted<'_>),
) -> Result<Option<PathBuf>, EngineError> {
    let Some(own) = request.own_inodes else {
        return Ok(None);
    };
    // As the plan of a container's root has it: elsewhere the files would be zeros.
    let has_namespace = wanted.spec.namespace(NamespaceType::User).is_some();
    let is_shown = own.user_namespace == (has_namespace || home.caller != Caller::Root);
    let mounts = matches!(driver, Driver::Overlay | Driver::Loop | Driver::LoopXfs);
    if mounts && is_shown {
        return Ok(None);
    }
    let reads = wanted.dry || mounts || tote_driver::reads_contents(driver, request)?;
    match wanted.ids.shift {
        _ if !reads => Ok(None),
        Some(shift) => stored.shifted_copies(home, shift, wanted.dry).map(Some),
        None if wanted.dry => Ok(Some(stored.links_path())),
        None => stored.links(home).map(Some),
    }
}

/// Lets the driver make the storage. Where the owner of a directory of the image, another of the caller's ids, has closed it, a
/// process that is root among them looks for what split asks.
fn prepare(home: &Home, driver: Driver, request: &Request<'_>) -> Result<tote_driver::Prepared, EngineError> {
    match tote_driver::prepare(driver, request) {
        Err(error) if driver == Driver::Split && error.is_denied() && !has_ids(home) => {
            let seen = among_owners(home, || Ok(Survey::of(request)?.to_bytes()))?;
            let survey = Survey::parse(&seen).ok_or(LifeError::Start(StartError::Unanswered))?;
            let survey = Some(&survey);
            Ok(tote_driver::prepare(driver, &Request { survey, ..*request })?)
        }
        prepared => Ok(prepared?),
    }
}

/// The ids of a container's user namespace; none where it makes none.
fn maps(ids: &Ids) -> Option<(Vec<IdMapping>, Vec<IdMapping>)> {
    match (&ids.maps, ids.mapping) {
        (Some(maps), _) => Some((maps.uid.clone(), maps.gid.clone())),
        (None, MapOrigin::Own(own)) => {
            let line = |(inside, outside)| vec![IdMapping::new(inside, outside, 1)];
            Some((line(own.uid), line(own.gid)))
        }
        (None, _) => None,
    }
}

/// The paths that a container has copies of on disk under split.
pub fn copies(root: &Root) -> Vec<String> {
    match root {
        Root::Stored {
            storage: Storage::Split(split),
            ..
        } if split.copies.is_some() => {
            let paths = split.writable.iter();
            paths.map(|path| path.display().to_string()).collect()
        }
        _ => Vec::new(),
    }
}

/// Writable paths: those of the options, those that tracing noted with the image, and the image's working directory.
fn writable(home: &Home, source: &Source, wanted: &Wanted<'_>) -> Result<Vec<PathBuf>, EngineError> {
    let noted = match source {
        Source::Stored(stored) => Store::writable_below(&home.store(), stored.id())?,
        _ => Vec::new(),
    };
    let working_dir = Some(&wanted.config.working_dir).filter(|dir| dir.starts_with('/') && *dir != "/");
    let paths = wanted.options.writable.iter().chain(&noted).chain(working_dir);
    Ok(paths.map(PathBuf::from).collect())
}

/// Paths that must be in the root before mounts of the specification cover it.
fn mount_points(wanted: &Wanted<'_>) -> Vec<MountPoint> {
    let mounts = wanted.spec.mounts.iter().map(|mount| {
        let binds = mount.kind.as_deref() == Some("bind");
        let file = match (mount.source.as_deref().filter(|_| binds), &mount.subpath) {
            (Some(source), Some(subpath)) => crate::volume::subpath::is_file(Path::new(source), subpath),
            (source, _) => source.is_some_and(is_file),
        };
        MountPoint {
            path: PathBuf::from(&mount.destination),
            file,
            covers: true,
        }
    });
    let files = wanted.files.iter().map(|(path, ..)| MountPoint {
        path: Path::new("/").join(path),
        file: true,
        covers: false,
    });
    let process = wanted.spec.process.iter();
    let working_dir = process
        .filter(|process| process.cwd != "/")
        .map(|process| MountPoint {
            path: PathBuf::from(&process.cwd),
            file: false,
            covers: false,
        });
    mounts.chain(files).chain(working_dir).collect()
}

fn is_file(path: &str) -> bool {
    // absence: the mount of it reports the reason
    std::fs::metadata(path).is_ok_and(|found| !found.is_dir())
}
