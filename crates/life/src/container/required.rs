//! Containers that others require: `--requires`, podman's.

use super::error::StartError;
use super::{Container, find, list};
use crate::{EngineError, Home};

/// Options that name another container as `container:ID`.
const JOINING: [&str; 4] = ["network", "ipc", "uts", "pid"];

/// Returns the ids of the containers that a value of the option names.
///
/// # Errors
/// There is no such container.
pub(super) fn required(home: &Home, value: &str) -> Result<String, EngineError> {
    let ids = value
        .split(',')
        .map(|name| Ok(find(home, name)?.container.id.to_string()));
    Ok(ids.collect::<Result<Vec<_>, EngineError>>()?.join(","))
}

/// Starts the containers that another one requires by `start`, unless they run. One that requires others starts those first; a container
/// can only require what was there before it, so there is an end.
///
/// # Errors
/// A container is missing, or cannot be started.
pub fn start_required(
    home: &Home,
    values: &[impl AsRef<str>],
    start: fn(&Home, &str) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    for wanted in values.iter().flat_map(|value| value.as_ref().split(',')) {
        // Without it there is nothing to run.
        let found = find(home, wanted).map_err(|error| {
            EngineError::from(StartError::NoPeer(format!(
                "a required container is missing: {error}"
            )))
        })?;
        if !found.state.runs() {
            start(home, wanted)?;
        }
    }
    Ok(())
}

/// Lists the containers that require one of these or join its namespaces, and what depends on them in turn: each before
/// what it depends on.
///
/// # Errors
/// [`EngineError::State`].
pub fn dependents(home: &Home, wanted: &[String]) -> Result<Vec<String>, EngineError> {
    let all = list(home)?;
    let mut found: Vec<String> = Vec::new();
    for name in wanted {
        // absence: the removal reports a missing one
        if let Ok(entry) = find(home, name) {
            found.push(entry.container.id.to_string());
        }
    }
    let mut at = 0;
    while let Some(id) = found.get(at).cloned() {
        for entry in &all {
            let other = entry.container.id.as_str();
            if depends(&entry.container, &id) && found.iter().all(|found| found != other) {
                found.push(other.to_owned());
            }
        }
        at += 1;
    }
    found.reverse();
    Ok(found)
}

fn depends(container: &Container, on: &str) -> bool {
    let required = container.values("requires");
    let mut required = required.iter().flat_map(|value| value.split(','));
    let joins = |option: &&str| {
        let value = container.option(option).unwrap_or_default();
        value.strip_prefix("container:") == Some(on)
    };
    required.any(|id| id == on) || JOINING.iter().any(joins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::tests::{container, id};

    #[test]
    fn what_depends_comes_first() {
        let dir = std::env::temp_dir().join(format!("tote-required-{}", std::process::id()));
        let home = Home::open(Some(&dir)).unwrap();
        let requires = |byte, name, option: (&str, String)| {
            let mut made = container(&home, byte, name);
            made.options.push((option.0.to_owned(), option.1));
            made.write(&home).unwrap();
        };
        container(&home, 1, "db");
        requires(2, "web", ("requires", id(1).to_string()));
        requires(3, "side", ("network", format!("container:{}", id(2))));
        requires(4, "both", ("requires", format!("{},{}", id(1), id(3))));
        container(&home, 5, "other");
        let found = dependents(&home, &["db".to_owned(), "missing".to_owned()]).unwrap();
        assert_eq!(found.len(), 4, "{found:?}");
        let place = |byte| {
            found
                .iter()
                .position(|found| *found == id(byte).to_string())
                .unwrap()
        };
        assert!(place(2) < place(1) && place(3) < place(2), "{found:?}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
