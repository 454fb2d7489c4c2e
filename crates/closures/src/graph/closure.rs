//! The image of a closure, and programs of the host.

use super::import::{OfRoot, open_dir};
use super::names::{read_names, scan};
use super::parts::Root;
use super::place::{HostFile, Stamp, StartRecord, graph, lock, path_in, starts_dir};
use super::programs::{find_or_make, is_no_node};
use super::{CLOSURE_LABEL, GraphFault, host_settings, profile};
use crate::apart::among_owners;
use crate::contained::Watched;
use crate::{EngineError, Home, MachineError, open_store};
use rustix::fd::AsFd as _;
use std::path::Path;
use tote_graph::{Graph, Node, NodeId, NodeKind};
use tote_image::{Digest, ImageConfig};
use tote_images::{has_ids, or_nothing};
use tote_needs::{Needs, Reason, Settings, Tree, needs};
use tote_rootfs::HostImage;
use tote_state::record;
use tote_store::{Ingest, Store};

/// Directories of the host's programs, in the order in which they are looked for.
const PROGRAMS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];
/// Directories of the host without anything that a program needs.
const SKIPPED: [&[u8]; 5] = [
    b"usr/share/doc",
    b"usr/share/man",
    b"usr/share/info",
    b"usr/src",
    b"usr/include",
];

/// Beginning of a container of a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosureStart {
    /// Image of the closure.
    pub image: Digest,
    /// Program that was asked for, or that the node is named after.
    pub program: Option<String>,
}

/// Returns the image of a closure, which is made if it is not there: of `profile:NAME`, of a node by name or id, or of
/// a program of the host (`host:PROGRAM`, or a name that no node has). This process must have one thread.
///
/// # Errors
/// [`EngineError`].
pub fn closure_start(home: &Home, text: &str) -> Result<ClosureStart, EngineError> {
    if let Some(name) = text.strip_prefix("profile:") {
        return profile::start(home, name);
    }
    if let Some(start) = remembered(home, text)? {
        return Ok(start);
    }
    if has_ids(home) {
        make(home, text)?;
    } else {
        among_owners(home, || make(home, text).map(|()| Vec::new()))?;
    }
    // A file of the host that was replaced just now is for the next start to notice.
    let record: Option<StartRecord> = record::read(&path_in(starts_dir(home), text))?;
    let record = record.ok_or_else(|| GraphFault::Nothing(text.to_owned()))?;
    Ok(ClosureStart {
        image: record.image,
        program: record.program,
    })
}

/// Looks whether what is known of a text still holds: this is on the way of each start.
fn remembered(home: &Home, text: &str) -> Result<Option<ClosureStart>, EngineError> {
    let Ok(Some(record)) = record::read::<StartRecord>(&path_in(starts_dir(home), text)) else {
        return Ok(None);
    };
    let is_of_nodes = record.node.is_none();
    let holds = record.text == text
        && (is_of_nodes || are_unchanged(home, &record.files)?)
        && tote_images::has_image(home, &record.image.to_string())?;
    Ok(holds.then_some(ClosureStart {
        image: record.image,
        program: record.program,
    }))
}

fn are_unchanged(home: &Home, files: &[HostFile]) -> Result<bool, EngineError> {
    let skeleton = HostImage::prepare(&home.host_images()).map_err(MachineError::HostImage)?;
    for file in files {
        if file_stamp(&skeleton, &file.path)? != Some(file.stamp) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// State of a file of the host, or of what the host image has in its place.
fn file_stamp(skeleton: &HostImage, path: &str) -> Result<Option<Stamp>, EngineError> {
    if !path.starts_with("/usr/")
        && let Some(stamp) = Stamp::at(skeleton.layer(), path.trim_start_matches('/'))?
    {
        return Ok(Some(stamp));
    }
    Stamp::of(path)
}

fn make(home: &Home, text: &str) -> Result<(), EngineError> {
    let _lock = lock(home)?;
    let store = open_store(home)?;
    let name = text.strip_prefix("host:");
    let found = match name {
        None => {
            let mut graph = graph(&store)?;
            match or_nothing(&store, find_or_make(home, &store, &mut graph, text)) {
                Ok(id) => Some((graph, id)),
                Err(error) if is_no_node(&error) => None,
                Err(error) => return Err(error),
            }
        }
        Some(_) => None,
    };
    let record = match found {
        Some((graph, id)) => {
            let image = or_nothing(&store, image_of(&store, &graph, &[id]))?;
            let program = graph.program(&id).map_err(GraphFault::from)?;
            StartRecord {
                text: text.to_owned(),
                image,
                program: program.map(str::to_owned),
                node: None,
                files: Vec::new(),
            }
        }
        None => {
            let program = name.unwrap_or(text);
            let mut record = or_nothing(&store, of_host(home, &store, program))?;
            text.clone_into(&mut record.text);
            record
        }
    };
    let path = path_in(starts_dir(home), text);
    record::clear(&path)?;
    record::write(&path, &record)?;
    Ok(())
}

/// Makes the image of a closure of nodes.
pub(super) fn image_of(store: &Store, graph: &Graph, nodes: &[NodeId]) -> Result<Digest, EngineError> {
    let ingest = store.ingest_at_once()?;
    image_with(&ingest, graph, nodes, ImageConfig::default())
}

/// Makes the image of a closure of nodes with this configuration. It depends on nothing else, so that it has the same id
/// on every machine.
pub(super) fn image_with(
    ingest: &Ingest<'_>,
    graph: &Graph,
    nodes: &[NodeId],
    mut config: ImageConfig,
) -> Result<Digest, EngineError> {
    let closure = graph.closure(nodes).map_err(GraphFault::from)?;
    let mut layers: Vec<Digest> = Vec::new();
    for id in &closure {
        if let Some(node) = graph.get(id)
            && !layers.contains(&node.layer)
        {
            layers.push(node.layer);
        }
    }
    let ids: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    fill(&mut config, layers, &ids.join(" "));
    Ok(ingest.image(&config.to_json(), None)?.id)
}

fn fill(config: &mut ImageConfig, layers: Vec<Digest>, label: &str) {
    let platform = tote_image::Platform::host();
    config.architecture = platform.architecture.clone();
    config.os = platform.os.clone();
    config.rootfs.diff_ids = layers;
    if !config.config.env.iter().any(|line| line.starts_with("PATH=")) {
        let path = format!("PATH={}", tote_bundle::DEFAULT_PATH);
        config.config.env.insert(0, path);
    }
    let label = (CLOSURE_LABEL.to_owned(), label.to_owned());
    config.config.labels.extend([label]);
}

/// Finds a program of the host by its path or its name, among the names that containers may have.
fn program_of_host(tree: &Tree, text: &str) -> Result<String, GraphFault> {
    let places: Vec<String> = match text.starts_with('/') {
        true => vec![text.to_owned()],
        false if text.contains('/') || text.is_empty() => Vec::new(),
        false => PROGRAMS.iter().map(|dir| format!("{dir}/{text}")).collect(),
    };
    let is_shared = |place: &String| {
        tree.target(place.as_bytes()).is_some_and(|real| {
            real.starts_with(b"usr/") && matches!(tree.get(&real), Some(tote_needs::Node::File(_)))
        })
    };
    let found = places.into_iter().find(is_shared);
    found.ok_or_else(|| match text.starts_with('/') {
        true => GraphFault::NotShared(text.to_owned()),
        false => GraphFault::Nothing(text.to_owned()),
    })
}

/// Computes what a program of the host needs.
fn needs_of_host(
    root: Root<'_>,
    skeleton: &HostImage,
    text: &str,
) -> Result<(String, Tree, Needs), EngineError> {
    let mut tree = Tree::default();
    let listed = scan(
        skeleton.layer(),
        "",
        &[b"usr", b"proc", b"sys", b"dev"],
        &mut tree,
    );
    listed.map_err(EngineError::file("list", "/etc"))?;
    tree.insert_unread(b"usr");
    let settings = Settings {
        only_needed: true,
        ..host_settings()
    };
    // Of some ten thousand directories few count: those are read that the search asks for.
    loop {
        let found = program_of_host(&tree, text).map(|program| {
            let seeds = [(program.as_bytes(), Reason::Command)];
            let contents = Watched::new(OfRoot::new(root));
            let found = needs(&tree, &contents, seeds, &settings);
            (program, found, contents.check())
        });
        let asked = tree.take_asked();
        if asked.is_empty() {
            let (program, found, check) = found?;
            check.map_err(|failure| GraphFault::of("host", failure))?;
            return Ok((program, tree, found));
        }
        for dir in asked.iter().filter(|dir| !SKIPPED.contains(&&***dir)) {
            let read = read_names(root.files, dir, &mut tree);
            read.map_err(EngineError::file("list", "/usr"))?;
        }
    }
}

/// Makes the image of a program of the host, of copies of its files that share blocks with them where the file system can.
fn of_host(home: &Home, store: &Store, text: &str) -> Result<StartRecord, EngineError> {
    let skeleton = HostImage::prepare(&home.host_images()).map_err(MachineError::HostImage)?;
    let dir = open_dir(Path::new("/"))?;
    let root = Root {
        files: dir.as_fd(),
        before: Some(skeleton.layer()),
        is_host: true,
        keeps_times: true,
    };
    let (program, tree, found) = needs_of_host(root, &skeleton, text)?;
    let mut paths: Vec<Box<[u8]>> = found.kept.keys().cloned().collect();
    // States before the files are read: what changes meanwhile is noticed by the next start.
    let files = paths
        .iter()
        .map(|path| format!("/{}", String::from_utf8_lossy(path)));
    let files = files.filter_map(|path| {
        let stamp = file_stamp(&skeleton, &path).transpose()?;
        Some(stamp.map(|stamp| HostFile { path, stamp }))
    });
    let files: Vec<HostFile> = files.collect::<Result<_, _>>()?;
    for dir in ["tmp", "root", "run", "var/tmp"] {
        if tree.get(dir.as_bytes()).is_some() {
            paths.push(dir.as_bytes().into());
        }
    }
    let ingest = store.ingest_at_once()?;
    let made = root.add(&ingest, &paths, true)?;
    let node = Node {
        name: format!("host:{program}"),
        version: String::new(),
        kind: NodeKind::Program,
        layer: made.layer.diff_id,
        size: made.layer.sizes.size,
        files: made.layer.sizes.files,
        programs: vec![program.clone()],
        references: Vec::new(),
        within: Vec::new(),
        cycle: None,
    };
    let mut config = ImageConfig::default();
    fill(&mut config, vec![node.layer], &node.name);
    let image = ingest.image(&config.to_json(), None)?.id;
    Ok(StartRecord {
        text: String::new(),
        image,
        program: Some(program),
        node: Some(node),
        files,
    })
}
