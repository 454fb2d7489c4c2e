//! Standard streams of the caller that are files: the container never has them, and no byte that passes is lost.

use super::pool::{eventually, fill, gone, taking};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

pub(super) const TESTS: &[Test] = &[
    test("files::a_containers_log_stays_the_callers", &[], log_of_run),
    test("files::the_log_of_exec_stays_the_callers", &[], log_of_exec),
    test(
        "files::the_log_of_a_pools_run_stays_the_callers",
        &[],
        log_of_pool,
    ),
    test("files::the_log_of_start_stays_the_callers", &[], log_of_start),
    test("files::input_that_is_a_file_stays_the_callers", &[], input),
    test("files::every_byte_passes_both_ways", &[], bytes),
    test("files::both_outputs_in_one_file_keep_their_order", &[], order),
    test("files::two_files_have_a_stream_each", &[], apart),
    test("files::containers_that_share_a_file_share_its_end", &[], shared),
    test("files::pipes_pass_as_they_are_and_sockets_do_not", &[], passed),
    test("files::the_null_device_is_the_containers_own", &[], null),
    test("files::a_full_disk_is_no_success", &[], full),
];

/// Script that tries the operations of a program on a file that it can only append to, and prints its streams.
///
/// It redirects nothing to `/dev/null`, and changes a stream only if that is a pipe: a broken engine must fail the
/// test, but must not change a node of the host.
const PROBE: &str = "readlink /proc/self/fd/1; readlink /proc/self/fd/2; : > /proc/self/fd/1; \
    test -c /proc/$$/fd/1 || chmod 4755 /proc/$$/fd/1; exit 0";

/// Runs the command under a shell with these redirections, in which `$0` is `file`.
fn redirected(command: Invocation, file: &str, how: &str) -> Invocation {
    command.under(&["sh", "-c", &format!("exec \"$@\" {how}"), file])
}

/// Log with an old line, which only its owner may read.
struct Log {
    path: PathBuf,
}

impl Log {
    fn new(cx: &Context) -> Result<Self> {
        let path = PathBuf::from(cx.file("log", "old\n")?);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { path })
    }

    /// Runs the command, and checks the log afterwards.
    fn of(&self, command: Invocation) -> Result<()> {
        let path = self.path.to_str().context("not text")?;
        let output = redirected(command, path, ">> \"$0\" 2>&1").output()?;
        output.exits(0)?;
        let mode = fs::metadata(&self.path)?.mode() & 0o7777;
        ensure!(mode == 0o600, "the log's mode is {mode:o} now");
        let text = fs::read_to_string(&self.path)?;
        let new = text.strip_prefix("old\n").context("the old line is gone")?;
        ensure!(
            new.matches("pipe:[").count() == 2,
            "the container has the file itself, or something else:\n{new}"
        );
        fs::write(&self.path, "old\n")?;
        Ok(())
    }
}

fn log_of_run(cx: &Context) -> Result<()> {
    let log = Log::new(cx)?;
    let image = cx.image();
    log.of(cx.run_command(&[&image, "sh", "-c", PROBE]))?;
    log.of(cx.run_command(&["--init", &image, "sh", "-c", PROBE]))?;
    log.of(cx.tote(&["run", "--name", "kept", &image, "sh", "-c", PROBE]))?;
    cx.tote(&["rm", "kept"]).output()?.exits(0)?;
    Ok(())
}

fn log_of_exec(cx: &Context) -> Result<()> {
    let log = Log::new(cx)?;
    let image = cx.image();
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    log.of(cx.tote(&["exec", "c", "sh", "-c", PROBE]))?;
    log.of(cx.tote(&["exec", "-i", "c", "sh", "-c", PROBE]).input(b"typed\n"))?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}

fn log_of_pool(cx: &Context) -> Result<()> {
    let log = Log::new(cx)?;
    fill(cx, "1", &[])?;
    log.of(taking(cx, &["sh", "-c", PROBE]))?;
    gone(cx)
}

fn log_of_start(cx: &Context) -> Result<()> {
    let log = Log::new(cx)?;
    cx.tote(&["create", "--name", "c", &cx.image(), "sh", "-c", PROBE])
        .output()?
        .exits(0)?;
    log.of(cx.tote(&["start", "-a", "c"]))?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    Ok(())
}

fn input(cx: &Context) -> Result<()> {
    let path = PathBuf::from(cx.file("input", "first\nsecond\n")?);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let script = "readlink /proc/self/fd/0; test -c /proc/$$/fd/0 || chmod 4755 /proc/$$/fd/0; cat";
    let check = |command: Invocation| {
        let out = command.spawn_with(File::open(&path)?)?.finish()?;
        out.exits(0)?.has_out("pipe:[")?.has_out("first\nsecond\n")?;
        let mode = fs::metadata(&path)?.mode() & 0o7777;
        ensure!(mode == 0o600, "the input's mode is {mode:o} now");
        Ok(())
    };
    let image = cx.image();
    check(cx.run_command(&["-i", &image, "sh", "-c", script]))?;
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    check(cx.tote(&["exec", "-i", "c", "sh", "-c", script]))?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    fill(cx, "1", &[])?;
    check(taking(cx, &["-i", "sh", "-c", script]))?;
    // A descriptor of a directory would lead out of the root.
    let out = cx
        .run_command(&["-i", &image, "sh", "-c", "ls /proc/self/fd/0/etc || echo none"])
        .spawn_with(File::open("/")?)?
        .finish()?;
    out.exits(125)?.has_out("none\n")?.has_err("is a directory")?;
    gone(cx)
}

fn bytes(cx: &Context) -> Result<()> {
    let mut random = vec![0; 32 << 20];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let from = cx.path("from")?;
    fs::write(&from, &random)?;
    for how in ["> \"$0\"", ">> \"$0\""] {
        let to = cx.file("to", "")?;
        let command = cx.run_command(&["-i", &cx.image(), "cat"]);
        let running = redirected(command, &to, how).spawn_with(File::open(&from)?)?;
        running.finish()?.exits(0)?.quietly()?;
        ensure!(fs::read(&to)? == random, "{how}: something else has arrived");
    }
    Ok(())
}

/// Script that prints numbered lines on both streams.
const LINES: &str = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done";

fn order(cx: &Context) -> Result<()> {
    let expected: String = (0..20000).map(|number| format!("{number}\n")).collect();
    for how in ["> \"$0\" 2>&1", ">> \"$0\" 2>> \"$0\""] {
        let log = cx.file("log", "")?;
        let command = cx.run_command(&[&cx.image(), "sh", "-c", LINES]);
        redirected(command, &log, how).output()?.exits(0)?;
        let seen = fs::read_to_string(&log)?;
        let differs = seen.lines().zip(expected.lines()).position(|(a, b)| a != b);
        ensure!(
            seen == expected,
            "{how}: {} bytes, line {differs:?} differs",
            seen.len()
        );
    }
    Ok(())
}

fn apart(cx: &Context) -> Result<()> {
    let (out, err) = (cx.file("out", "")?, cx.file("err", "")?);
    let command = cx.run_command(&[&cx.image(), "sh", "-c", LINES]);
    redirected(command, &out, &format!("> \"$0\" 2> {err}"))
        .output()?
        .exits(0)?;
    for (path, first) in [(out, 0), (err, 1)] {
        let expected: String = (first..20000)
            .step_by(2)
            .map(|number| format!("{number}\n"))
            .collect();
        ensure!(fs::read_to_string(&path)? == expected, "{path} has other lines");
    }
    Ok(())
}

/// Two commands share the offset of an open file: neither overwrites the other's output.
fn shared(cx: &Context) -> Result<()> {
    let log = cx.file("log", "")?;
    let command = cx.run_command(&[&cx.image(), "sh", "-c", "head -c 8000000 /dev/zero"]);
    let both = "(\"$@\" & \"$@\"; wait) > \"$0\"";
    let out = command.under(&["sh", "-c", both, &log]).output()?;
    out.exits(0)?.quietly()?;
    let length = fs::metadata(&log)?.len();
    ensure!(
        length == 16_000_000,
        "{length} bytes of twice eight million have arrived"
    );
    Ok(())
}

fn passed(cx: &Context) -> Result<()> {
    let show = "readlink /proc/self/fd/1; readlink /proc/self/fd/2 >&2";
    let command = cx.run_command(&[&cx.image(), "sh", "-c", show]);
    let out = command
        .under(&["sh", "-c", &format!("{show}; exec \"$@\""), "sh"])
        .output()?;
    let twice = |text: String| {
        let mut lines = text.lines();
        let (outside, inside) = (lines.next(), lines.next());
        outside.is_some_and(|line| line.starts_with("pipe:[")) && outside == inside
    };
    ensure!(twice(out.out()) && twice(out.err()), "{}", out.transcript());
    // A socket would give access to the network namespace in which it was made.
    let (ours, theirs) = UnixStream::pair()?;
    let running = cx
        .run_command(&["-i", &cx.image(), "readlink", "/proc/self/fd/0"])
        .spawn_with(theirs)?;
    drop(ours);
    running.finish()?.exits(0)?.has_out("pipe:[")?;
    Ok(())
}

/// The host's node would come with its mode, which root of the container could change.
fn null(cx: &Context) -> Result<()> {
    // The descriptor was opened through a mount of the container's own.
    let script = "id=$(sed -n 's/^mnt_id:[^0-9]*//p' /proc/$$/fdinfo/1); \
        grep \"^$id \" /proc/self/mountinfo | grep -c ' /dev/null ' >&2";
    let image = cx.image();
    let to_null = |command| redirected(command, "sh", "> /dev/null").output();
    to_null(cx.run_command(&[&image, "sh", "-c", script]))?
        .exits(0)?
        .has_err("1\n")?;
    fill(cx, "1", &[])?;
    to_null(taking(cx, &["sh", "-c", script]))?
        .exits(0)?
        .has_err("1\n")?;
    gone(cx)?;
    cx.tote(&["run", "-d", "--name", "c", &image, "sleep", "1000"])
        .output()?
        .exits(0)?;
    to_null(cx.tote(&["exec", "c", "sh", "-c", script]))?
        .exits(0)?
        .has_err("1\n")?;
    let answer = script.trim_end_matches(" >&2");
    let detached = format!("{answer} > /answer; mv /answer /detached; exec sleep 1000");
    cx.tote(&["exec", "-d", "c", "sh", "-c", &detached])
        .output()?
        .exits(0)?;
    eventually("the detached one has looked", || {
        let look = cx.tote(&["exec", "c", "cat", "/detached"]).output()?;
        Ok(look.out() == "1\n")
    })?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    Ok(())
}

fn full(cx: &Context) -> Result<()> {
    let image = cx.image();
    let on_full = |words: &[&str]| redirected(cx.run_command(words), "log", "> /dev/full").output();
    on_full(&[&image, "echo", "lost"])?
        .exits(125)?
        .has_err("tote: cannot write the standard output of the container: no space left on device")?;
    // Failed writes are reported as for a reader that is gone.
    let out = on_full(&[&image, "sh", "-c", "yes 2>/dev/null; echo over >&2; exit 3"])?;
    out.exits(3)?
        .has_err("over\n")?
        .has_err("no space left on device")?;
    Ok(())
}
