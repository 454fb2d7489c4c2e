//! Whatever has a name.

use super::LookError;
use crate::container::find;
use crate::{ContainerError, EngineError, Home, VolumeFault};
use serde_json::Value;
use tote_store::StoreError;

/// A container, or else an image, or else a volume, as docker's `inspect` shows it, or else a pod; `kind` says which of them it must
/// be. `sizes` counts what a container wrote.
///
/// # Errors
/// In docker's words: [`LookError::Nothing`], or those of the kind.
pub fn inspect_object(
    home: &Home,
    wanted: &str,
    kind: Option<&str>,
    sizes: bool,
) -> Result<Value, EngineError> {
    let container = || super::inspect_container(home, wanted, sizes);
    let image = || crate::inspect_image(home, wanted, &[]);
    let volume = || crate::inspect_volume(home, wanted);
    let pod = || Ok(crate::pod::inspect(home, &crate::pod::find(home, wanted)?));
    match kind {
        Some("pod") => return pod(),
        Some("container") => return container(),
        Some("image") => return image(),
        Some("volume") => return volume(),
        Some(other) => return Err(LookError::Kind(other.to_owned()).into()),
        None => {}
    }
    let all: [&dyn Fn() -> Result<Value, EngineError>; 4] = [&container, &image, &volume, &pod];
    for look in all {
        match look() {
            Err(error) if is_missing(&error) => {}
            other => return other,
        }
    }
    Err(LookError::Nothing(wanted.to_owned()).into())
}

fn is_missing(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Container(ContainerError::NoContainer(_))
            | EngineError::Store(StoreError::NoImage(_))
            | EngineError::Volume(VolumeFault::Missing(_))
            | EngineError::Pod(crate::pod::PodError::Missing(_))
    )
}

/// The ports of a container that are published, a line each; with `port` only where that one leads.
///
/// # Errors
/// [`LookError::NoPort`] where that one is not published; none is as yet: the networks are none and host, and neither
/// forwards.
pub fn ports(home: &Home, wanted: &str, port: Option<&str>) -> Result<Vec<String>, EngineError> {
    let container = find(home, wanted)?.container;
    let Some(port) = port else {
        return Ok(Vec::new());
    };
    let (number, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let is_port = number.parse::<u16>().is_ok_and(|number| number > 0);
    if !is_port || !matches!(protocol, "tcp" | "udp" | "sctp") {
        return Err(LookError::Port(port.to_owned()).into());
    }
    Err(LookError::NoPort {
        container: container.display().to_owned(),
        port: format!("{number}/{protocol}"),
    }
    .into())
}
