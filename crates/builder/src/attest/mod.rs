//! Attestations: statements of a build about the image that it has made.

mod option;
mod provenance;
mod scan;
mod spdx;
mod statement;

pub use option::{Attestations, ProvenanceMode, ProvenanceVersion};
pub(crate) use provenance::Material;

use super::BuildContext;
use super::worker::Building;
use crate::EngineError;
use provenance::{Instruction, Provenance};
use statement::{Predicate, package_of};
use std::collections::BTreeMap;
use std::time::Duration;
use tote_dockerfile::{Command, Dockerfile, Network};
use tote_image::media_type::OCI_CONFIG;
use tote_image::{ATTESTATION, Descriptor, Digest, Platform, REFERENCE_DIGEST, REFERENCE_TYPE, Reference};
use tote_state::new_id;
use tote_store::Image;

/// Statements about an image, and the files that hold them.
#[derive(Debug)]
pub(crate) struct Attested {
    /// Statements as files: names and contents.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// Entry of the manifest of statements in an index.
    pub entry: Descriptor,
    /// Manifest of statements, and its blobs.
    pub(crate) documents: Vec<Vec<u8>>,
}

impl Attested {
    /// Makes the requested attestations. `began` is the time since 1970 at which the build began.
    pub(crate) fn of(
        building: &Building<'_>,
        file: &Dockerfile,
        (image, names): (&Image, &[Reference]),
        began: Duration,
    ) -> Result<Self, EngineError> {
        let request = building.request;
        let mut predicates = Vec::new();
        let now = tote_calendar::now();
        if request.attestations.sbom {
            let tree = building.flat(image.layers())?;
            let root = tree.view()?;
            let name = names
                .first()
                .map_or_else(|| image.id.to_string(), Reference::familiar);
            predicates.push(scan::scan(&root)?.predicate(&name, &image.id, now));
        }
        if let Some(mode) = request.attestations.provenance {
            predicates.push(provenance_of(building, file, (began, now))?.predicate(mode));
        }
        let platform = image.config.value().platform();
        let mut subjects: Vec<(String, Digest)> = (names.iter())
            .map(|name| (package_of(name, None, &platform), image.id))
            .collect();
        if subjects.is_empty() {
            subjects.push(("_".to_owned(), image.id));
        }
        let statements: Vec<_> = predicates
            .iter()
            .map(|predicate| (predicate, predicate.statement(&subjects)))
            .collect();
        // The index of the store uses the image's id; statements that leave the store name the
        // image's manifest there.
        let subject = Descriptor::new(OCI_CONFIG, image.id, image.config.bytes().len() as u64);
        let (mut entry, documents) = statement::manifest(&statements, subject);
        let file = |(predicate, statement): &(&Predicate, serde_json::Value)| {
            (predicate.file, format!("{statement:#}\n").into_bytes())
        };
        entry.platform = Some(Platform::of("unknown", "unknown", ""));
        for (key, value) in [
            (REFERENCE_TYPE, ATTESTATION.to_owned()),
            (REFERENCE_DIGEST, image.id.to_string()),
        ] {
            entry.annotations.insert(key.to_owned(), value);
        }
        Ok(Self {
            files: statements.iter().map(file).collect(),
            entry,
            documents,
        })
    }
}

fn provenance_of(
    building: &Building<'_>,
    file: &Dockerfile,
    times: (Duration, Duration),
) -> Result<Provenance, EngineError> {
    let request = building.request;
    let files = building.files;
    let commands = || file.stages.iter().flat_map(|stage| &stage.instructions);
    let is_on_host = |command: &Command| matches!(command, Command::Run(run) if run.network == Network::Host);
    let is_local = !matches!(
        request.context,
        BuildContext::Repository(_) | BuildContext::Address(_)
    );
    let mut locals = Vec::new();
    if is_local {
        locals.extend(["context".to_owned(), "dockerfile".to_owned()]);
    }
    let directories = request.contexts.iter();
    let directories = directories.filter(|(_, context)| matches!(context, BuildContext::Directory(_)));
    locals.extend(directories.map(|(name, _)| name.clone()));
    let mut materials = base_images(building)?;
    materials.extend(files.source.clone().map(|(source, _)| source));
    for (repository, found) in &building.commits {
        let mut repository = repository.clone();
        repository.subdir.clear();
        materials.push(Material::commit(repository.to_string(), &found.commit));
    }
    materials.extend(building.downloaded.iter().cloned());
    let mut known: Vec<Material> = Vec::new();
    for material in materials {
        if !known.contains(&material) {
            known.push(material);
        }
    }
    Ok(Provenance {
        materials: known,
        source: files.source.clone().map(|(_, source)| source),
        path: files.path.clone(),
        args: arguments(building),
        secrets: request.secrets.keys().cloned().collect(),
        agents: request.agents.keys().cloned().collect(),
        locals,
        platform: Platform::host().to_string(),
        dockerfile: files.dockerfile.clone(),
        instructions: instructions(file),
        invocation: new_id()?.to_string(),
        times,
        has_network: request.network()? != "none"
            || commands().any(|instruction| is_on_host(&instruction.command)),
    })
}

/// Lists the images that the build began with or copied from, by the digest of the manifest that a registry sent,
/// otherwise by their ids.
fn base_images(building: &Building<'_>) -> Result<Vec<Material>, EngineError> {
    let mut images = Vec::new();
    for ((name, _), built) in &building.bases {
        let platform = built.config.platform();
        let manifest = building.store.manifest(&built.id)?;
        let digest = manifest.map_or(built.id, |manifest| tote_store::sha256(manifest.bytes()));
        let uri = match Reference::parse(name) {
            Ok(reference) => package_of(&reference, Some(&digest), &platform),
            Err(_) => name.clone(),
        };
        images.push(Material::new(uri, &digest));
    }
    images.sort_by(|one, other| one.uri.cmp(&other.uri));
    Ok(images)
}

/// Lists the build's options under BuildKit's names.
fn arguments(building: &Building<'_>) -> BTreeMap<String, String> {
    let request = building.request;
    let options = &request.options;
    let mut arguments = BTreeMap::new();
    for (kind, values) in [("build-arg", &options.args), ("label", &options.labels)] {
        arguments.extend(
            values
                .iter()
                .map(|(name, value)| (format!("{kind}:{name}"), value.clone())),
        );
    }
    arguments.extend(options.target.clone().map(|target| ("target".to_owned(), target)));
    if options.no_cache {
        arguments.insert("no-cache".to_owned(), String::new());
    }
    for (name, context) in &request.contexts {
        let shown = match context {
            BuildContext::Repository(repository) => repository.to_string(),
            BuildContext::Address(url) => tote_build::redacted(url),
            _ => format!("local:{name}"),
        };
        arguments.insert(format!("context:{name}"), shown);
    }
    arguments
}

fn instructions(file: &Dockerfile) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for (number, stage) in file.stages.iter().enumerate() {
        let name = stage
            .name
            .as_ref()
            .map(|name| format!(" AS {name}"))
            .unwrap_or_default();
        instructions.push(Instruction {
            stage: number,
            line: stage.lines.first,
            text: format!("FROM {}{name}", stage.base),
        });
        instructions.extend(stage.instructions.iter().map(|instruction| Instruction {
            stage: number,
            line: instruction.lines.first,
            text: instruction.text.clone(),
        }));
    }
    instructions
}
