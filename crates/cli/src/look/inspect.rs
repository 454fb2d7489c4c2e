//! `tote inspect`.

use crate::home::home;
use crate::listing::describe_each;
use std::process::ExitCode;
use tote_engine::{EngineError, ObjectKind};
use tote_options::Parsed;

/// Inspects containers, images, networks, volumes and pods.
pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    // Before anything is printed: docker prints not even an empty list for an unknown kind.
    let kind = parsed.value("type").map(|kind| kind.to_string_lossy().parse());
    each(parsed, kind.transpose()?)
}

/// Runs `tote container inspect`.
pub(crate) fn inspect_containers(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    each(parsed, Some(ObjectKind::Container))
}

fn each(parsed: &Parsed, kind: Option<ObjectKind>) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let sizes = parsed.flag("size");
    if sizes {
        tote_engine::enter_ids(&home)?;
    }
    Ok(describe_each(parsed, |wanted| {
        let found = tote_engine::inspect_object(&home, wanted, kind, sizes)?;
        Ok(tote_view::object_details(&home, &found))
    }))
}
