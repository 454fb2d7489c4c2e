//! Services of `.network` files.

use super::container::plain;
use super::file::{Quadlet, QuadletError, Surroundings, line, words};
use super::keys::NETWORK;
use crate::syntax::UnitFile;

const SECTION: &str = "Network";

/// Adds the command that makes the network, unless it is there.
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
    create.extend(["network", "create", "--ignore"].map(str::to_owned));
    plain(file, SECTION, NETWORK, &mut create)?;
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
