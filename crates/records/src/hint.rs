//! Remedies for errors of the engine: those of errors from the crates below, whose words name commands of this one. An
//! error of the engine's own has its remedy beside its variants.

use crate::EngineError;
use crate::exec::ExecError;
use tote_image::{Reference, ReferenceError};
use tote_state::StateError;
use tote_store::StoreError;

pub(crate) fn of(error: &EngineError) -> Option<String> {
    match error {
        EngineError::Run(error) | EngineError::Exec(ExecError::Start(error)) => error.hint(),
        EngineError::Request(error) => error.hint(),
        EngineError::Machine(error) => error.hint(),
        EngineError::Image(error) => error.hint().map(str::to_owned),
        EngineError::Container(error) => error.hint().map(str::to_owned),
        EngineError::Life(error) => error.hint(),
        EngineError::Pod(error) => error.hint(),
        EngineError::Pool(error) => error.hint(),
        EngineError::Store(error) => for_store(error).map(str::to_owned),
        EngineError::State(StateError::Damaged(damaged)) => Some(damaged.hint()),
        EngineError::State(error) => for_state(error).map(str::to_owned),
        EngineError::Part(part) => part.hint(),
        _ => None,
    }
}

fn for_store(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::NoImage(name) if name.contains("://") => {
            "an image is named without a scheme: REGISTRY/REPOSITORY:TAG"
        }
        StoreError::NoImage(name) if is_capital(name) => {
            "repository name must be lowercase; tags may have capitals"
        }
        StoreError::NoImage(_) => {
            "see 'tote images'; give host for this machine's file system, or rootfs:DIR for an unpacked one"
        }
        StoreError::Lost { .. } | StoreError::LostLayers { .. } | StoreError::Damaged { .. } => {
            "load or pull the image once more: only what is lost is written"
        }
        StoreError::Owner { .. } => {
            "the image has files of more ids than this user's ranges in /etc/subuid and /etc/subgid"
        }
        StoreError::Io { source, .. } => return for_file(source),
        _ => return None,
    })
}

/// Whether a name of an image would be one but for capitals.
fn is_capital(name: &str) -> bool {
    matches!(Reference::parse(name), Err(ReferenceError::UpperCase(_)))
}

fn for_state(error: &StateError) -> Option<&'static str> {
    match error {
        StateError::HomeOwner { .. } | StateError::HomeInUse { .. } => {
            Some("give --root an empty directory of your own, or one that is not there")
        }
        StateError::Home { source, .. } | StateError::File { source, .. } => for_file(source),
        _ => None,
    }
}

fn for_file(source: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
        .then_some("give a directory with room that you can write: --root DIR or TOTE_ROOT")
}
