//! `tote debug`: faults that cntr 2 has, each a test.

use super::exec::{over, running};
use super::{debug, debug_keep, debug_targets};
use crate::context::Context;
use crate::need::Need::{Program, Root, Unprivileged};
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    // cntr has the machine's /proc, by which gdb attaches to other processes and hangs.
    test(
        "debug_faults::a_debugger_stops_the_first_process",
        &[Program("gdb")],
        debug::debugger,
    ),
    // ps of cntr lists the machine's processes, and its shell's `kill` takes the machine's numbers.
    test(
        "debug_faults::ps_and_kill_see_only_the_container",
        &[],
        debug_targets::own_processes,
    ),
    // Links such as /bin are empty files in cntr's view.
    test(
        "debug_faults::a_merged_usr_is_whole",
        &[],
        debug_targets::merged_usr,
    ),
    // The machine's file system is writable in cntr's session, and its devices are there.
    test("debug_faults::the_tools_cannot_be_changed", &[], debug::protected),
    test("debug_faults::devices_are_the_containers", &[], devices),
    // cntr stays in the cgroup of its caller where cgroups of version 1 limit the container, and says nothing. It has no filter, no
    // `no_new_privs` and none of the limits.
    test(
        "debug_faults::cgroup_filter_rights_and_limits_are_the_containers",
        &[],
        debug::surroundings,
    ),
    // cntr leaves the process that maps ids behind.
    test(
        "debug_faults::no_process_stays_after_the_session",
        &[Root],
        debug_keep::no_helper,
    ),
    // cntr prints no warning, and "failed to unshare" to a user who may not.
    test(
        "debug_faults::a_user_is_told_whose_process_it_is",
        &[Unprivileged],
        denied,
    ),
];

fn devices(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let list = "ls /dev | sort";
    let own = cx.tote(&["exec", "c", "sh", "-c", list]).output()?;
    own.exits(0)?;
    for view in ["tools", "target"] {
        let words = ["debug", "--view", view, "c", "sh", "-c", list];
        cx.tote(&words).output()?.prints(&own.out())?;
    }
    // A device of the machine cannot be made either.
    let script =
        "mknod /target/tmp/disk b 8 0 2>/dev/null && cat /target/tmp/disk >/dev/null 2>&1 || echo refused";
    cx.tote(&["debug", "c", "sh", "-c", script])
        .output()?
        .prints("refused\n")?;
    over(container)
}

fn denied(cx: &Context) -> Result<()> {
    // The first process of the machine is root's.
    cx.tote(&["debug", "pid:1", "true"])
        .output()?
        .refuses(126, &["pid:1", "belongs to another user", "run tote as root"])?;
    Ok(())
}
