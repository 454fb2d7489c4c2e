//! The smaller image: which of the image's files are needed, and a layer of them.

use super::layers::{Divided, Links};
use super::report::{Sizes, removed};
use super::run::Recorded;
use super::{SlimProbe, SlimRequest};
use crate::contained::{Contained, Watched};
use crate::rootfs::Source;
use crate::{EngineError, Home, open_store};
use std::os::fd::BorrowedFd;
use tote_archive::{Kind, walk};
use tote_bundle::Image;
use tote_image::{Digest, ImageConfig};
use tote_images::or_nothing;
use tote_needs::{Node, Reason, Settings, Tree, needs};
use tote_slim::Report;
use tote_store::Store;

/// Databases of packages and licences, for `--keep-metadata`.
const METADATA: [&str; 8] = [
    "/var/lib/dpkg/status",
    "/var/lib/dpkg/status.d",
    "/var/lib/dpkg/info",
    "/lib/apk/db",
    "/usr/lib/apk/db",
    "/var/lib/rpm",
    "/usr/lib/sysimage/rpm",
    "/etc/apk",
];

/// Makes the smaller image, without a name, and reports it. This process must have the ids of the image's owners.
///
/// # Errors
/// [`EngineError`].
pub(super) fn make(
    home: &Home,
    id: &Digest,
    request: &SlimRequest,
    recorded: &[Recorded],
) -> Result<Report, EngineError> {
    let store = open_store(home)?;
    or_nothing(&store, add(home, &store, id, request, recorded))
}

fn add(
    home: &Home,
    store: &Store,
    id: &Digest,
    request: &SlimRequest,
    recorded: &[Recorded],
) -> Result<Report, EngineError> {
    let image = store.image(id)?;
    let source = Source::open(home, &Image::Stored(id.to_string()))?;
    let root = source.dir()?;
    let links = store.hard_links(&image)?;
    let (tree, sizes) = names(root, &links)?;
    let view = Watched::new(Contained::new(root));
    let config = image.config.value();
    let settings = settings(config, request);
    let programs = programs(request, recorded, &settings.path);
    let commands = programs.iter().map(|path| (path.as_slice(), Reason::Command));
    let is_directory = |path: &[u8]| {
        let target = tree.target(path);
        target.is_some_and(|target| tree.get(&target) == Some(&Node::Directory))
    };
    let seeds = seeds(request, recorded, &is_directory)
        .into_iter()
        .chain(commands);
    let mut found = needs(&tree, &view, seeds, &settings);
    view.check()
        .map_err(|failure| EngineError::file("read", failure.path)(failure.source))?;
    found
        .kept
        .retain(|path, reason| matches!(reason, Reason::Included(_)) || !is_excluded(path, request));
    let mut report = Report {
        image: request.name_of_image.clone(),
        image_id: id.to_string(),
        size_before: image.record.size,
        ..removed(&tree, &sizes, &found)
    };
    if report.removed.is_empty() {
        (report.slim_id, report.size_after) = (id.to_string(), image.record.size);
        report.reckon();
        return Ok(report);
    }
    let ingest = store.ingest_at_once()?;
    ingest.expect(&image)?;
    let divided = Divided {
        root,
        links: &links,
        found: &found,
        request,
    };
    let halves = divided.add(&ingest, config)?;
    report.slim_id = halves.slim.id.to_string();
    report.size_after = halves.slim.record.size;
    report.fat_id = halves.whole.map(|whole| whole.id.to_string()).unwrap_or_default();
    report.bytes_written = halves.written;
    report.reckon();
    Ok(report)
}

/// Reads the names of an image, and the size of each file under its first name.
fn names(root: BorrowedFd<'_>, links: &Links) -> Result<(Tree, Sizes), EngineError> {
    let (mut tree, mut sizes) = (Tree::default(), Sizes::new());
    for entry in walk(root).without_links() {
        let (entry, _) = entry?;
        let node = match &entry.kind {
            Kind::Directory => Node::Directory,
            Kind::File { size } => {
                let is_first = links.get(&entry.path).is_none_or(|first| *first == entry.path);
                sizes.insert(entry.path.as_bytes().into(), if is_first { *size } else { 0 });
                Node::File(*size)
            }
            Kind::Symlink { target } => Node::Link(target.as_slice().into()),
            _ => Node::Special,
        };
        tree.insert(entry.path.as_bytes(), node);
    }
    Ok((tree, sizes))
}

/// Returns the paths of an image's files and links.
pub(super) fn files(source: &Source) -> Result<Vec<String>, EngineError> {
    let mut files = Vec::new();
    for entry in walk(source.dir()?).without_links() {
        let (entry, _) = entry?;
        if entry.kind != Kind::Directory {
            files.push(entry.path.to_string());
        }
    }
    Ok(files)
}

/// Returns the places where the programs of runs and probes may be. A listener does not see where tote itself begins one.
fn programs(request: &SlimRequest, recorded: &[Recorded], path: &[u8]) -> Vec<Vec<u8>> {
    let probes = request.probes.iter().filter_map(|probe| match probe {
        SlimProbe::Exec(_) => Some(("/bin/sh", "/")),
        SlimProbe::Health(command) => command.first().map(|program| (program.as_str(), "/")),
        SlimProbe::Http(_) | SlimProbe::Command(_) => None,
    });
    let runs = recorded
        .iter()
        .map(|run| (run.program.0.as_str(), run.program.1.as_str()));
    let mut places = Vec::new();
    for (program, cwd) in runs.chain(probes).filter(|(program, _)| !program.is_empty()) {
        let place = |dir: &[u8]| [dir, b"/", program.as_bytes()].concat();
        match program {
            absolute if absolute.starts_with('/') => places.push(absolute.as_bytes().to_vec()),
            relative if relative.contains('/') => places.push(place(cwd.as_bytes())),
            _ => places.extend(path.split(|byte| *byte == b':').map(place)),
        }
    }
    places
}

/// The files that are known to be needed.
fn seeds<'a>(
    request: &'a SlimRequest,
    recorded: &'a [Recorded],
    is_directory: &dyn Fn(&[u8]) -> bool,
) -> Vec<(&'a [u8], Reason)> {
    let mut seeds: Vec<(&[u8], Reason)> = Vec::new();
    for run in recorded {
        seeds.extend(
            run.uses
                .iter()
                .map(|(path, how)| (path.as_slice(), Reason::Used(how.clone()))),
        );
    }
    for (paths, origin) in [
        (
            &request.learned.before,
            "the smaller image that misses were noted of",
        ),
        (&request.learned.missed, "--from-misses"),
    ] {
        // A link such as `/bin` stays anyway, and as a seed it would mean everything in the directory that it leads to.
        let paths = paths
            .iter()
            .map(String::as_bytes)
            .filter(|path| !is_directory(path));
        seeds.extend(paths.map(|path| (path, Reason::Included(origin.into()))));
    }
    let included = |paths: &'a [String], option: &'static str| {
        let paths = paths.iter();
        paths.map(move |path| (path.as_bytes(), Reason::Included(option.into())))
    };
    seeds.extend(included(&request.include_paths, "--include-path"));
    seeds.extend(included(&request.include_bins, "--include-bin"));
    seeds.extend(included(&request.include_from, "--include-from"));
    if request.include_shell {
        let shell = ["/bin/sh", "/bin/bash", "/bin/ash", "/bin/dash", "/bin/busybox"];
        seeds.extend(shell.map(|path| (path.as_bytes(), Reason::Included("--include-shell".into()))));
    }
    if request.keep_metadata {
        seeds.extend(METADATA.map(|path| (path.as_bytes(), Reason::Included("--keep-metadata".into()))));
    }
    seeds
}

fn settings(config: &ImageConfig, request: &SlimRequest) -> Settings {
    let value = |name: &str| {
        let given = request.given.iter().filter(|(option, _)| option == "env");
        let lines = given
            .map(|(_, line)| line)
            .rev()
            .chain(config.config.env.iter().rev());
        let found = lines
            .filter_map(|line| line.split_once('='))
            .find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let path = match value("PATH") {
        path if path.is_empty() => tote_bundle::DEFAULT_PATH.to_owned(),
        path => path,
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(value);
    let is_other = |name: &&String| {
        !name.is_empty() && !matches!(&name.to_uppercase()[..], "C" | "POSIX" | "C.UTF-8" | "C.UTF8")
    };
    Settings {
        path: path.into_bytes(),
        library_path: value("LD_LIBRARY_PATH").into_bytes(),
        zone: value("TZ").into_bytes(),
        locale: locale.iter().any(|name| is_other(&name)),
        only_needed: false,
        // The runs have begun what scripts begin.
        shell_words: false,
    }
}

pub(super) fn is_excluded(path: &[u8], request: &SlimRequest) -> bool {
    request.excludes.iter().any(|pattern| pattern.matches(path))
}
