//! Services of `.volume` files.

use super::file::{Quadlet, QuadletError, Surroundings, line, words};
use crate::syntax::UnitFile;

const SECTION: &str = "Volume";

/// Adds the command that makes the volume.
pub(super) fn complete(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    unit: &mut UnitFile,
) -> Result<(), QuadletError> {
    let file = &quadlet.file;
    let mut create = vec![around.program.to_owned()];
    for entry in file.values(SECTION, "GlobalArgs") {
        create.extend(words(entry)?);
    }
    create.extend(["volume".to_owned(), "create".to_owned()]);
    for entry in file.values(SECTION, "Label") {
        for word in words(entry)? {
            create.extend(["--label".to_owned(), word]);
        }
    }
    if let Some(entry) = file.value(SECTION, "Driver") {
        create.extend(["--driver".to_owned(), entry.value.clone()]);
    }
    for (key, option) in [("Type", "type"), ("Device", "device")] {
        if let Some(entry) = file.value(SECTION, key) {
            create.extend(["--opt".to_owned(), format!("{option}={}", entry.value)]);
        }
    }
    let mut options = Vec::new();
    for (key, option) in [("Options", ""), ("User", "uid="), ("Group", "gid=")] {
        if let Some(entry) = file.value(SECTION, key) {
            options.push(format!("{option}{}", entry.value));
        }
    }
    if !options.is_empty() {
        create.extend(["--opt".to_owned(), format!("o={}", options.join(","))]);
    }
    for key in ["PodmanArgs", "ToteArgs"] {
        for entry in file.values(SECTION, key) {
            create.extend(words(entry)?);
        }
    }
    create.push(quadlet.object_name());
    unit.add("Service", "ExecStart", line(&create));
    for (key, value) in [
        ("Type", "oneshot"),
        ("RemainAfterExit", "yes"),
        ("SyslogIdentifier", "%N"),
    ] {
        unit.add_missing("Service", key, value);
    }
    Ok(())
}
