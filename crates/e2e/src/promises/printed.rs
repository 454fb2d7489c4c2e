//! Printed text reaches its reader, and cannot control a terminal.

use super::stored::archive;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("printed::a_terminal_is_not_steered", &[], steered),
    test("printed::a_full_output_is_told", &[], full),
];

/// Escape sequence that sets the title of a terminal.
const TITLE: &str = "\x1b]0;hostile\x07";

fn steered(cx: &Context) -> Result<()> {
    let (archive, label) = (archive(cx, "plain")?, format!("LABEL a={TITLE}"));
    let words = ["import", "-m", TITLE, "-c", &label, &archive, "it"];
    cx.tote(&words).output()?.exits(0)?;
    let history = cx.tote(&["history", "it"]).output()?;
    history.exits(0)?.has_out("]0;hostile")?;
    ensure!(!history.out().contains('\x1b'), "{:?}", history.out());
    let labels = ["image", "inspect", "-f", "{{.Config.Labels}}", "it"];
    // A program that reads the output gets the bytes unchanged.
    cx.tote(&labels).output()?.exits(0)?.has_out(TITLE)?;
    let (mut running, terminal) = cx.tote(&labels).spawn_in_terminal(24, 80)?;
    let code = running.wait()?;
    drop(terminal);
    let seen = running.finish()?.out();
    ensure!(code == 0, "it ended with {code}: {seen}");
    ensure!(
        seen.contains(r"\u{1b}]0;hostile\u{7}") && !seen.contains('\x1b'),
        "{seen:?}"
    );
    cx.tote(&["rmi", "it"]).output()?.exits(0)?;
    Ok(())
}

fn full(cx: &Context) -> Result<()> {
    let full = |words: &[&str]| {
        let redirected = ["sh", "-c", "exec \"$@\" > /dev/full", "sh"];
        cx.tote(words).under(&redirected).output()
    };
    for words in [["ps", "-a"], ["images", "-a"]] {
        full(&words)?.refuses(1, &["cannot write to standard output", "No space left"])?;
    }
    let image = cx.image();
    let told = full(&["run", "-d", "--name", "c", &image, "sleep", "1000"])?;
    let inspected = cx
        .tote(&["inspect", "-f", "{{.Id}} {{.State.Status}}", "c"])
        .output()?;
    let inspected = inspected.exits(0)?.out();
    let (id, status) = inspected.trim_end().split_once(' ').unwrap_or_default();
    ensure!(status == "running", "it is {status}");
    told.refuses(1, &[&format!("the container runs as {id}")])?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}
