//! Sockets and named pipes of the caller: a container gets a pipe in their place, and the data still passes.

use crate::context::Context;
use crate::exchange::patience;
use crate::invocation::Invocation;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("second_attack_streams::sockets_are_relayed", &[], sockets),
    test(
        "second_attack_streams::sockets_of_exec_are_relayed",
        &[],
        sockets_of_exec,
    ),
    test("second_attack_streams::named_pipes_are_relayed", &[], named_pipes),
    test(
        "second_attack_streams::named_pipes_of_exec_are_relayed",
        &[],
        named_pipes_of_exec,
    ),
    test(
        "second_attack_streams::input_from_a_named_pipe_is_relayed",
        &[],
        named_pipe_as_input,
    ),
];

/// Makes a named pipe that others may not use.
pub(super) fn named_pipe(path: &Path) -> Result<()> {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .with_context(|| format!("make {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}

/// Opens both ends, which never blocks.
pub(super) fn both_ends(path: &Path) -> Result<File> {
    let opened = rustix::fs::open(
        path,
        OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    );
    Ok(File::from(
        opened.with_context(|| format!("open {}", path.display()))?,
    ))
}

/// Runs a command whose input and output are one socket: sent bytes come back, and no socket is inside.
fn echoed(command: Invocation) -> Result<()> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let running = command
        .under(&["sh", "-c", "exec \"$@\" >&0", "sh"])
        .spawn_with(theirs)?;
    ours.write_all(b"there and back\n")?;
    ours.shutdown(Shutdown::Write)?;
    ours.set_read_timeout(Some(patience()))?;
    let mut seen = String::new();
    ours.read_to_string(&mut seen)?;
    let output = running.finish()?;
    output.exits(0)?;
    ensure!(
        seen == "there and back\n",
        "saw {seen:?}: {}",
        output.transcript()
    );
    ensure!(
        output.err().matches("pipe:[").count() == 2,
        "the container has the socket itself: {}",
        output.transcript()
    );
    Ok(())
}

const ECHO: &str = "readlink /proc/$$/fd/0 >&2; readlink /proc/$$/fd/1 >&2; cat";

fn sockets(cx: &Context) -> Result<()> {
    let image = cx.image();
    echoed(cx.run_command(&["-i", &image, "sh", "-c", ECHO]))?;
    echoed(cx.tote(&["run", "-i", "--name", "kept", &image, "sh", "-c", ECHO]))?;
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

fn sockets_of_exec(cx: &Context) -> Result<()> {
    cx.tote(&["run", "-d", "--name", "c", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    let outcome = echoed(cx.tote(&["exec", "-i", "c", "sh", "-c", ECHO]));
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    outcome
}

/// Runs a command whose output is a named pipe to which the container has no access.
fn into_named_pipe(cx: &Context, command: Invocation) -> Result<()> {
    let path = cx.scratch().join("named");
    named_pipe(&path)?;
    let mut ends = both_ends(&path)?;
    let output = command
        .under(&["sh", "-c", "exec \"$@\" > \"$0\"", &cx.path("named")?])
        .output()?;
    output.exits(0)?;
    let found = fs::metadata(&path)?;
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        found.mode() & 0o7777 == 0o600 && found.uid() == own,
        "the named pipe has mode {:o} and belongs to {} now",
        found.mode(),
        found.uid()
    );
    let mut text = [0; 512];
    let length = ends.read(&mut text).context("read the named pipe")?;
    let text = String::from_utf8_lossy(&text[..length]);
    ensure!(
        text.starts_with("pipe:[") && text.ends_with("through\n"),
        "saw {text:?}: {}",
        output.transcript()
    );
    Ok(fs::remove_file(&path)?)
}

/// Script that tries to change a named pipe behind its output.
const OPEN_OUTPUT: &str =
    "readlink /proc/$$/fd/1; chmod 666 /proc/$$/fd/1; chown 1:1 /proc/$$/fd/1; echo through";

fn named_pipes(cx: &Context) -> Result<()> {
    into_named_pipe(cx, cx.run_command(&[&cx.image(), "sh", "-c", OPEN_OUTPUT]))
}

fn named_pipes_of_exec(cx: &Context) -> Result<()> {
    cx.tote(&["run", "-d", "--name", "c", &cx.image(), "sleep", "1000"])
        .output()?
        .exits(0)?;
    let outcome = into_named_pipe(cx, cx.tote(&["exec", "c", "sh", "-c", OPEN_OUTPUT]));
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    outcome
}

fn named_pipe_as_input(cx: &Context) -> Result<()> {
    let path = cx.scratch().join("input");
    named_pipe(&path)?;
    let mut ends = both_ends(&path)?;
    ends.write_all(b"typed\n")?;
    let input = OwnedFd::from(File::open(&path)?);
    let script = "readlink /proc/$$/fd/0; chmod 666 /proc/$$/fd/0; head -n 1";
    let running = cx
        .run_command(&["-i", &cx.image(), "sh", "-c", script])
        .spawn_with(input)?;
    running
        .finish()?
        .exits(0)?
        .has_out("pipe:[")?
        .has_out("typed\n")?;
    let mode = fs::metadata(&path)?.mode() & 0o7777;
    ensure!(mode == 0o600, "the named pipe's mode is {mode:o} now");
    Ok(())
}
