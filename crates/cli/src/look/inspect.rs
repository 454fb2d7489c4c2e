//! `tote inspect`.

use crate::home::home;
use crate::listing::describe_each;
use std::process::ExitCode;
use tote_engine::EngineError;
use tote_options::Parsed;

/// Inspects containers, images, networks, volumes and pods.
pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let kind = parsed
        .value("type")
        .map(|kind| kind.to_string_lossy().into_owned());
    each(parsed, kind.as_deref())
}

/// Runs `tote container inspect`.
pub(crate) fn inspect_containers(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    each(parsed, Some("container"))
}

fn each(parsed: &Parsed, kind: Option<&str>) -> Result<ExitCode, EngineError> {
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
