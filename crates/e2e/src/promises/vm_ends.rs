//! Attaching to containers in virtual machines, and ends of all kinds at any moment.

use super::vm::{QEMU, detach, prepare, prepare_template};
use crate::context::Context;
use crate::exchange::{patience, scaled};
use crate::need::Need;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::Result;
use rustix::process::Signal;
use std::time::Duration;

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel];

pub(super) const TESTS: &[Test] = &[
    test("vm::attach_has_the_streams_of_the_guest", NEEDS, attach).slow(4),
    test("vm::kills_at_any_moment_leave_nothing", NEEDS, kills).slow(12),
];

fn attach(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let script = "while read line; do echo \"got $line\"; echo \"err $line\" >&2; [ \"$line\" != end ] || exit 3; done";
    detach(cx, &["-i"], &["sh", "-c", script])?;
    let mut one = cx.tote(&["attach", "vm"]).spawn()?;
    one.send(b"1\n");
    one.expect("got 1\n")?;
    let mut two = cx.tote(&["attach", "vm"]).spawn()?;
    two.send(b"2\n");
    two.expect("got 2\n")?;
    one.expect("got 2\n")?;
    one.send(b"end\n");
    for running in [one, two] {
        running.finish()?.exits(3)?.has_err("err end")?;
    }
    cx.tote(&["rm", "vm"]).output()?.exits(0)?;
    detach(cx, &["-it"], &["sh"])?;
    let (mut inside, _terminal) = cx.tote(&["attach", "vm"]).spawn_in_terminal(33, 77)?;
    inside.send(b"stty size; echo $((40 + 2))\n");
    inside.expect("33 77")?;
    inside.expect("42")?;
    // Ctrl-P, Ctrl-Q: it goes on without this command.
    inside.send(b"\x10\x11");
    inside.expect("read escape sequence")?;
    inside.wait()?;
    cx.tote(&["exec", "vm", "true"]).output()?.exits(0)?;
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// Starts that are killed after different times: the command, the attendant of its machine, or QEMU. Root's are killed at every second
/// time, and those of a user at the others: each start takes its processor a second.
fn kills(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let first = u64::from(!crate::need::is_root());
    for number in (first..24).step_by(2) {
        let words = ["--isolation", "vm", "--network", "none", "app", "true"];
        let mut running = cx.run_command(&words).spawn()?;
        let command = processes::pidfd(running.pid())?;
        // Its end is waited for; a start that is quicker than that is one that ends by itself.
        let limit = scaled(Duration::from_millis(70 * number));
        let ended = processes::readable(&command, limit)?;
        let all = processes::descendants(running.pid());
        let held = all.iter().filter_map(|one| processes::pidfd(one.pid).ok());
        let held: Vec<_> = held.collect();
        let depth = usize::try_from(number % 3)?;
        match all.get(depth.wrapping_sub(1)) {
            _ if ended => {}
            Some(process) => processes::kill(process.pid, Signal::KILL),
            None => running.signal(Signal::KILL)?,
        }
        running.wait()?;
        for process in &held {
            processes::wait_end(process, "a process of a machine", patience())?;
        }
    }
    // The next container finds what is left.
    cx.run(&["--network", "none", "app", "true"])?.exits(0)?;
    cx.nothing_left()
}
