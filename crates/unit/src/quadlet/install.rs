//! Links of `[Install]`, which `systemctl enable` would make: it does not do so for generated units.

use super::file::{QuadletError, words, wrong};
use crate::syntax::UnitFile;

/// Symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Path of the link, below the directory of the units.
    pub path: String,
    /// Target of the link.
    pub target: String,
}

/// Returns the links for a unit of this name.
pub(super) fn links(file: &UnitFile, unit: &str) -> Result<Vec<Installed>, QuadletError> {
    let mut links = Vec::new();
    for entry in file.values("Install", "Alias") {
        for alias in words(entry)? {
            if alias.contains('/') || alias.starts_with('.') {
                return Err(wrong(entry, "not the name of a unit"));
            }
            links.push(Installed {
                path: alias,
                target: unit.to_owned(),
            });
        }
    }
    let default = file.value("Install", "DefaultInstance");
    // A template is started through its instances only.
    let wanted = match (unit.split_once("@."), default) {
        (Some((name, ending)), Some(instance)) => {
            if instance.value.contains('/') {
                return Err(wrong(instance, "not the name of an instance"));
            }
            Some(format!("{name}@{}.{ending}", instance.value))
        }
        (Some(_), None) => None,
        (None, _) => Some(unit.to_owned()),
    };
    let Some(wanted) = wanted else { return Ok(links) };
    for (key, dir) in [
        ("WantedBy", "wants"),
        ("RequiredBy", "requires"),
        ("UpheldBy", "upholds"),
    ] {
        for entry in file.values("Install", key) {
            for by in words(entry)? {
                if by.contains('/') || by.starts_with('.') {
                    return Err(wrong(entry, "not the name of a unit"));
                }
                links.push(Installed {
                    path: format!("{by}.{dir}/{wanted}"),
                    target: format!("../{unit}"),
                });
            }
        }
    }
    Ok(links)
}
