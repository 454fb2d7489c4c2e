//! Some programs of a node: `NODE/PROGRAM[,PROGRAM...]`, without the other programs that packages bring along.
//!
//! A package has more than one program needs: tools beside a server, and the tools of packages that it depends on. Here the
//! closure of NODE is only where things are looked for. What these programs need is computed file by file, as for a program of
//! the host, and becomes a node of one layer without references, whose id says as much as that of any other node.

use super::closure::image_of;
use super::names::scan;
use super::parts::Root;
use super::place::find;
use super::{GraphFault, host_settings};
use crate::contained::{Contained, Watched};
use crate::rootfs::Source;
use crate::{EngineError, Home};
use std::collections::BTreeSet;
use tote_bundle::Image;
use tote_graph::{BASE, Graph, GraphError, Node, NodeId, NodeKind};
use tote_needs::{Reason, Settings, Tree, needs};
use tote_store::Store;

/// Directories of packages without anything that a program reads.
const DOCUMENTATION: [&str; 11] = [
    "/usr/share/doc/",
    "/usr/share/doc-base/",
    "/usr/share/man/",
    "/usr/share/info/",
    "/usr/share/lintian/",
    "/usr/share/bug/",
    "/usr/share/bash-completion/",
    "/usr/share/zsh/",
    "/usr/include/",
    "/usr/src/",
    "/usr/lib/debug/",
];

/// Finds a node by its name or id, or makes the node of some programs of a node. This process must have the ids of the
/// files' owners.
///
/// # Errors
/// [`GraphError::NoNode`] of the whole text, and others.
pub(super) fn find_or_make(
    home: &Home,
    store: &Store,
    graph: &mut Graph,
    text: &str,
) -> Result<NodeId, EngineError> {
    let is_directory = text.starts_with("dir:")
        && match find(home, graph, text) {
            Err(error) if is_no_node(&error) => false,
            found => found.map(|_| true)?,
        };
    let parts = text.rsplit_once('/').filter(|_| !is_directory);
    let Some((node, programs)) = parts.filter(|(node, programs)| !node.is_empty() && !programs.is_empty())
    else {
        return find(home, graph, text);
    };
    let id = match find(home, graph, node) {
        Err(error) if is_no_node(&error) => {
            return Err(GraphFault::Graph(GraphError::NoNode(text.to_owned())).into());
        }
        found => found?,
    };
    let chosen = Chosen::new(graph, id, programs)?;
    let made = chosen.add(home, store, graph)?;
    let ingest = store.ingest_at_once()?;
    let id = ingest.node(&made.to_json())?;
    graph.insert(id, made);
    Ok(id)
}

/// True if a path is that of a shared library or a module.
fn is_loaded(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.") && !name.starts_with(b"ld.so")
}

/// True if the error says that no node has a name.
pub(super) fn is_no_node(error: &EngineError) -> bool {
    matches!(error.part(), Some(GraphFault::Graph(GraphError::NoNode(_))))
}

/// Programs of the closure of a node.
struct Chosen {
    node: NodeId,
    /// Their paths.
    programs: Vec<String>,
    /// The nodes that have them.
    owners: BTreeSet<NodeId>,
}

impl Chosen {
    /// Looks for programs by their names, separated by commas: in the node itself first.
    fn new(graph: &Graph, node: NodeId, names: &str) -> Result<Self, EngineError> {
        let mut places = vec![node];
        places.extend(graph.closure(&[node]).map_err(GraphFault::from)?);
        let mut chosen = Self {
            node,
            programs: Vec::new(),
            owners: BTreeSet::from([node]),
        };
        for name in names.split(',') {
            let found = places.iter().find_map(|id| {
                let program = graph.get(id)?.program_named(name)?;
                Some((*id, program.to_owned()))
            });
            let (owner, program) = found.ok_or_else(|| GraphFault::NoProgram {
                node: graph.title(&node),
                program: name.to_owned(),
            })?;
            chosen.owners.insert(owner);
            chosen.programs.push(program);
        }
        Ok(chosen)
    }

    /// Adds the layer, and makes the document.
    fn add(&self, home: &Home, store: &Store, graph: &Graph) -> Result<Node, EngineError> {
        let image = image_of(store, graph, &[self.node])?;
        let source = Source::open(home, &Image::Stored(image.to_string()))?;
        let root = source.dir()?;
        let mut tree = Tree::default();
        let listed = scan(root, "", &[b"proc", b"sys", b"dev"], &mut tree);
        listed.map_err(EngineError::file("list", "/"))?;
        let mut kept = self.own_files(store, graph, &tree)?;
        let seeds = self
            .programs
            .iter()
            .map(|program| (program.as_bytes(), Reason::Command));
        // A directory, or a link to one such as `/lib`, would mean everything that the whole closure has in it.
        let is_directory = |path: &[u8]| {
            let target = tree.target(path);
            target.is_some_and(|target| tree.get(&target) == Some(&tote_needs::Node::Directory))
        };
        let own = kept
            .iter()
            .filter(|path| !is_directory(path))
            .map(|path| (&**path, Reason::Included("the package".into())));
        let settings = Settings {
            only_needed: true,
            ..host_settings()
        };
        let contents = Watched::new(Contained::new(root));
        let found = needs(&tree, &contents, seeds.chain(own), &settings);
        contents
            .check()
            .map_err(|failure| GraphFault::of(&graph.title(&self.node), failure))?;
        kept.extend(found.kept.into_keys());
        let files = Root {
            files: root,
            before: None,
            is_host: false,
            keeps_times: true,
        };
        let paths: Vec<Box<[u8]>> = kept.into_iter().collect();
        let ingest = store.ingest_at_once()?;
        ingest.expect(&store.image(&image)?)?;
        let made = files.add(&ingest, &paths, true)?;
        let (name, version) = match graph.get(&self.node) {
            Some(node) => (node.name.as_str(), node.version.clone()),
            None => ("", String::new()),
        };
        let names: Vec<&str> = self
            .programs
            .iter()
            .filter_map(|path| path.rsplit('/').next())
            .collect();
        Ok(Node {
            name: format!("{name}/{}", names.join(",")),
            version,
            kind: NodeKind::Program,
            layer: made.layer.diff_id,
            size: made.layer.sizes.size,
            files: made.layer.sizes.files,
            programs: made.programs,
            references: Vec::new(),
            within: Vec::new(),
            cycle: None,
        })
    }

    /// The files that packages have for their programs: of the node, of those with the programs, and of those with data alone
    /// that these reference. No other program is among them, and no documentation.
    fn own_files(
        &self,
        store: &Store,
        graph: &Graph,
        tree: &Tree,
    ) -> Result<BTreeSet<Box<[u8]>>, EngineError> {
        let (mut kept, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut queue: Vec<NodeId> = self.owners.iter().copied().collect();
        while let Some(id) = queue.pop() {
            let Some(node) = graph.get(&id).filter(|_| seen.insert(id)) else {
                continue;
            };
            let is_wanted = self.owners.contains(&id) || node.name == BASE;
            let paths = store.layer_paths(&node.layer)?;
            if !is_wanted && (!node.programs.is_empty() || paths.iter().any(|path| is_loaded(path))) {
                continue;
            }
            let references = graph.references(&id).map_err(GraphFault::from)?;
            queue.extend(references.into_iter().map(|(to, _)| to));
            kept.extend(paths.into_iter().filter(|path| {
                let name = format!("/{}", String::from_utf8_lossy(path));
                let is_told = DOCUMENTATION
                    .iter()
                    .any(|dir| name.starts_with(dir) || format!("{name}/") == *dir);
                !node.programs.contains(&name) && !is_told && tree.get(path).is_some()
            }));
        }
        Ok(kept)
    }
}
