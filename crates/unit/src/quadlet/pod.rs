//! Services of `.pod` files.

use super::container::{networks, plain};
use super::file::{Quadlet, QuadletError, Surroundings, line, words};
use super::keys::POD;
use crate::service::exact;
use crate::syntax::UnitFile;

const SECTION: &str = "Pod";

/// Adds the command that makes the pod, and the watch over the container that keeps its namespaces.
pub(super) fn complete(
    quadlet: &Quadlet,
    around: &Surroundings<'_>,
    unit: &mut UnitFile,
) -> Result<(), QuadletError> {
    let file = &quadlet.file;
    let name = quadlet.object_name();
    let infra = format!("{name}-infra");
    let mut tote = vec![around.program.to_owned()];
    for entry in file.values(SECTION, "GlobalArgs") {
        tote.extend(words(entry)?);
    }
    let with = |words: &[&str]| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        tote.iter().cloned().chain(words).collect()
    };
    let mut create = with(&[
        "pod",
        "create",
        "--name",
        &name,
        "--replace",
        "--infra-name",
        &infra,
    ]);
    plain(file, SECTION, POD, &mut create)?;
    networks(SECTION, (quadlet, around), unit, &mut create)?;
    for key in ["PodmanArgs", "ToteArgs"] {
        for entry in file.values(SECTION, key) {
            create.extend(words(entry)?);
        }
    }
    for service in around.members.get(&quadlet.name).into_iter().flatten() {
        unit.add("Unit", "Wants", &**service);
        unit.add("Unit", "Before", &**service);
    }
    unit.add("Service", "ExecStartPre", line(&create));
    unit.add(
        "Service",
        "ExecStart",
        line(&with(&["start", "--sdnotify=conmon", &exact(&infra)])),
    );
    unit.add(
        "Service",
        "ExecStop",
        line(&with(&["pod", "stop", "--ignore", &exact(&name)])),
    );
    unit.add(
        "Service",
        "ExecStopPost",
        format!(
            "-{}",
            line(&with(&["pod", "rm", "--force", "--ignore", &exact(&name)]))
        ),
    );
    for (key, value) in [
        ("Type", "notify"),
        ("NotifyAccess", "all"),
        ("KillMode", "mixed"),
        ("Delegate", "yes"),
        ("SuccessExitStatus", "143"),
        ("SyslogIdentifier", "%N"),
    ] {
        unit.add_missing("Service", key, value);
    }
    Ok(())
}
