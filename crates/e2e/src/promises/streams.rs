//! Standard input, output and error without a terminal: every byte, on its own stream, and nothing else.

use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs::File;
use std::io::Read as _;

pub(super) const TESTS: &[Test] = &[
    test(
        "streams::a_mebibyte_passes_unchanged_both_ways",
        &[],
        binary_clean,
    ),
    test("streams::stdout_and_stderr_are_separate", &[], separate),
    test("streams::stdin_is_empty_without_i", &[], empty_stdin),
    test(
        "streams::input_that_nobody_reads_does_not_block",
        &[],
        unread_input,
    ),
    test("streams::output_ends_when_the_command_does", &[], half_close),
];

fn binary_clean(cx: &Context) -> Result<()> {
    let mut random = vec![0; 1024 * 1024];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    // The bytes that are most at risk are certainly among them.
    random[..6].copy_from_slice(b"\r\n\0\x04\x1a\xff");
    let out = cx
        .run_command(&["-i", &cx.image(), "cat"])
        .input(&random)
        .output()?;
    out.exits(0)?.quietly()?;
    ensure!(
        out.stdout == random,
        "stdin to stdout: {}",
        difference(&random, &out.stdout)
    );
    let out = cx
        .run_command(&["-i", &cx.image(), "sh", "-c", "exec cat >&2"])
        .input(&random)
        .output()?;
    out.exits(0)?;
    ensure!(
        out.stderr == random,
        "stdin to stderr: {}",
        difference(&random, &out.stderr)
    );
    ensure!(out.stdout.is_empty(), "{} bytes on stdout", out.stdout.len());
    Ok(())
}

fn difference(sent: &[u8], seen: &[u8]) -> String {
    let at = sent.iter().zip(seen).position(|(a, b)| a != b);
    format!(
        "sent {} bytes, saw {}, first difference at {at:?}",
        sent.len(),
        seen.len()
    )
}

fn separate(cx: &Context) -> Result<()> {
    let out = cx.shell(&[], "echo out; echo err >&2")?;
    out.prints("out\n")?;
    ensure!(
        out.stderr == b"err\n",
        "expected err on stderr, saw:\n{}",
        out.transcript()
    );
    Ok(())
}

fn empty_stdin(cx: &Context) -> Result<()> {
    let script = "readlink /proc/self/fd/0; wc -c";
    let out = cx
        .run_command(&[&cx.image(), "sh", "-c", script])
        .input(b"not for you")
        .output()?;
    out.prints("/dev/null\n0\n")?;
    Ok(())
}

/// The input is larger than a pipe, and the command reads none of it.
fn unread_input(cx: &Context) -> Result<()> {
    let out = cx
        .run_command(&["-i", &cx.image(), "echo", "done"])
        .input(&vec![b'x'; 1 << 20])
        .output()?;
    out.prints("done\n")?;
    Ok(())
}

/// The end of standard input reaches the command while its output stays open.
fn half_close(cx: &Context) -> Result<()> {
    let mut running = cx
        .run_command(&["-i", &cx.image(), "sh", "-c", "cat; echo end; exit 5"])
        .spawn()?;
    running.send(b"one\n");
    running.expect("one\n")?;
    running.send(b"two\n");
    running.expect("two\n")?;
    let out = running.finish()?;
    out.exits(5)?.has_out("one\ntwo\nend\n")?;
    Ok(())
}
