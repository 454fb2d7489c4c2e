//! Commands in different time namespaces, which have different clocks since boot, mean the same process.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need::{Kernel, Program, Root};
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test(
        "time_namespaces::commands_reach_each_others_containers",
        &[Root, Kernel(5, 6), Program("unshare")],
        containers,
    ),
    test(
        "time_namespaces::oci_commands_reach_each_others_containers",
        &[Root, Kernel(5, 6), Program("unshare")],
        bundles,
    ),
];

/// Runs the command in a time namespace in which the machine has run for more than a day longer, if wanted.
fn ahead(command: Invocation, is_ahead: bool) -> Invocation {
    match is_ahead {
        true => command.under(&["unshare", "--time", "--fork", "--boottime", "100000"]),
        false => command,
    }
}

fn containers(cx: &Context) -> Result<()> {
    for maker in [true, false] {
        let image = cx.image();
        let run = cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"]);
        ahead(run, maker).output()?.exits(0)?;
        let other = |words: &[&str]| ahead(cx.tote(words), !maker).output();
        other(&["exec", "c", "true"])?.exits(0)?;
        other(&["stop", "-t", "0", "c"])?.exits(0)?;
        for is_ahead in [true, false] {
            let seen = ahead(cx.tote(&["inspect", "-f", "{{.State.Running}}", "c"]), is_ahead).output()?;
            ensure!(seen.exits(0)?.out().trim() == "false", "{}", seen.transcript());
        }
        ahead(cx.tote(&["start", "c"]), maker).output()?.exits(0)?;
        other(&["rm", "-f", "c"])?.exits(0)?;
    }
    cx.nothing_left()
}

fn bundles(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for maker in [true, false] {
        let script = r#"exec "$@" < /dev/null > out 2>&1"#;
        let create = ahead(bundle.oci(&["create", "c"]), maker);
        create.under(&["sh", "-c", script, "sh"]).output()?.exits(0)?;
        let other = |words: &[&str]| ahead(bundle.oci(words), !maker).output();
        other(&["state", "c"])?.has_out(r#""status": "created""#)?;
        other(&["start", "c"])?.exits(0)?;
        other(&["exec", "c", "true"])?.exits(0)?;
        other(&["state", "c"])?.has_out(r#""status": "running""#)?;
        other(&["delete", "-f", "c"])?.exits(0)?;
    }
    bundle.nothing_left()
}
