//! `tote oci`: attributes that the runtime gives a container's process, and the agent for its system calls.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::{Program, Root};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::fd::OwnedFd;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags};
use serde_json::{Value, json};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test(
        "oci_process::processors_are_those_of_the_container",
        &[Program("taskset")],
        processors,
    ),
    test("oci_process::exec_has_its_own_processors", &[], exec_processors),
    test("oci_process::a_session_keyring_of_its_own", &[], keyring),
    test(
        "oci_process::goes_on_without_room_for_a_keyring",
        &[Root, Program("perl")],
        no_room_for_a_keyring,
    ),
    test("oci_process::line_ends_pass_through_a_pipe", &[], line_ends),
    test(
        "oci_process::an_agent_gets_the_listener_of_the_filter",
        &[Root],
        listener,
    ),
    test("oci_process::no_agent_is_an_error", &[Root], no_agent),
    test(
        "oci_process::hooks_of_create_container_begin_in_the_root",
        &[Root],
        hook_directory,
    ),
    test(
        "oci_process::a_poststart_hook_that_fails_ends_a_container_of_1_3",
        &[],
        poststart,
    ),
    test("oci_process::ambient_capabilities_of_exec", &[Root], ambient),
    test("oci_process::a_missing_interpreter_in_one_line", &[], interpreter),
    test("oci_process::help_that_scripts_recognise", &[], help),
    test(
        "oci_process::cve_2019_5736_no_way_to_write_to_the_executable",
        &[Root],
        executable,
    ),
];

const PROCESSORS: &str = "grep Cpus_allowed_list: /proc/self/status";

/// Parses the list of processors in a status.
fn list(status: &str) -> String {
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .unwrap_or_default()
        .to_owned()
}

/// Returns the caller's processors, and the first of them.
fn own_processors() -> Result<(String, String)> {
    let all = list(&fs::read_to_string("/proc/self/status")?);
    let first = all.split([',', '-']).next().unwrap_or_default().to_owned();
    ensure!(!first.is_empty(), "no processor in {all:?}");
    Ok((all, first))
}

fn processors(cx: &Context) -> Result<()> {
    let (all, first) = own_processors()?;
    let bundle = Bundle::new(cx, &["sh", "-c", PROCESSORS])?;
    let kept = ["taskset", "-c", &first];
    let output = bundle.oci(&["run", "c"]).under(&kept).output()?;
    output.exits(0)?;
    ensure!(list(&output.out()) == all, "expected {all}, saw {}", output.out());
    bundle.nothing_left()
}

fn exec_processors(cx: &Context) -> Result<()> {
    let (all, first) = own_processors()?;
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["run", "-d", "c"])?.exits(0)?;
    for (last, expected) in [(first.as_str(), &first), ("", &all)] {
        let process = json!({
            "args": ["sh", "-c", PROCESSORS], "cwd": "/", "env": ["PATH=/bin"],
            "execCPUAffinity": { "initial": first, "final": last },
        });
        let file = cx.file("process.json", &process.to_string())?;
        let output = bundle
            .oci(&["--debug", "exec", "--process", &file, "c"])
            .output()?;
        output.exits(0)?;
        let number: u32 = first.parse()?;
        output.has_err(&format!("affinity: {:#x}\"", 1u128 << number))?;
        ensure!(
            &list(&output.out()) == expected,
            "expected {expected}, saw {}",
            output.out()
        );
    }
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn keyring(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["cat", "/proc/keys"])?;
    bundle.change(|spec| spec["linux"]["maskedPaths"] = json!([]))?;
    // The kernel removes a dead keyring some time later, so each name is used once.
    let [own, other] = ["own", "other"].map(|word| format!("{word}{}", std::process::id()));
    let output = bundle.oci(&["run", &own]).output()?;
    output.exits(0)?.has_out(&format!("_ses.{own}"))?;
    let output = bundle.oci(&["run", "--no-new-keyring", &other]).output()?;
    let name = format!("_ses.{other}");
    output.exits(0)?;
    ensure!(
        !output.out().contains(&name),
        "{name} is there:\n{}",
        output.out()
    );
    bundle.nothing_left()
}

/// A user's quota of keys is used up: a process holds as many as the user may have.
fn no_room_for_a_keyring(cx: &Context) -> Result<()> {
    const SCRIPT: &str = r#"
        my ($add_key, $id, @command) = @ARGV;
        pipe(my $told, my $tell); pipe(my $end, my $hold);
        if (!fork) {
            close $hold;
            $( = $id; $) = "$id $id"; ($<, $>) = ($id, $id);
            my ($kind, $content) = ("user", "x");
            for my $number (1..1000000) {
                my $name = "tote$number";
                last if syscall($add_key + 0, $kind, $name, $content, 1, -2) == -1;
            }
            syswrite $tell, "x"; sysread $end, my $rest, 1; exit;
        }
        close $end; close $tell; sysread $told, my $byte, 1;
        my $status = system @command;
        close $hold; wait; exit $status >> 8;
    "#;
    let add_key = match std::env::consts::ARCH {
        "x86_64" => "248",
        _ => "217",
    };
    let bundle = Bundle::new(cx, &["echo", "runs"])?;
    let id = 1_000_000_000 + std::process::id();
    bundle.maps_ids(id)?;
    bundle
        .oci(&["run", "c"])
        .under(&["perl", "-e", SCRIPT, add_key, &id.to_string()])
        .output()?
        .exits(0)?
        .has_out("runs\n")?
        .has_err("join the session keyring _ses.c: disk quota exceeded: the caller's is shared")?;
    bundle.nothing_left()
}

fn line_ends(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["echo", "one line"])?;
    bundle.change(|spec| spec["process"]["terminal"] = json!(true))?;
    bundle.oci(&["run", "c"]).output()?.prints("one line\n")?;
    bundle.nothing_left()
}

/// Adds a filter that asks the agent at that socket about mkdir(2).
fn notify(bundle: &Bundle<'_>, socket: &str) -> Result<()> {
    bundle.change(|spec| {
        spec["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW", "listenerPath": socket, "listenerMetadata": "for the agent",
            "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY" }],
        });
    })
}

/// Receives the document that comes with a listener, and closes the listener: later calls then fail with ENOSYS.
fn document(listener: &UnixListener) -> Result<Value> {
    ensure!(
        processes::readable(listener, patience())?,
        "nobody has connected to the agent"
    );
    let (text, _fd) = receive(listener)?;
    serde_json::from_str(&text).with_context(|| format!("{text:?} is no JSON"))
}

fn listener(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "mkdir /dev/shm/a; exec sleep 1000"])?;
    let path = cx.path("agent")?;
    let agent = UnixListener::bind(&path)?;
    notify(&bundle, &path)?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    let pid = bundle.pid("c")?;
    let seen = document(&agent)?;
    let good = seen["fds"] == json!(["seccompFd"])
        && seen["pid"] == pid
        && seen["metadata"] == "for the agent"
        && seen["state"]["id"] == "c"
        && seen["state"]["pid"] == pid
        && seen["ociVersion"].is_string();
    ensure!(good, "the agent was told {seen}");
    let command = ["exec", "c", "mkdir", "/dev/shm/b"];
    let exec = bundle.oci(&command).spawn()?;
    let seen = document(&agent)?;
    exec.finish()?.fails()?.has_err("not implemented")?;
    let good = seen["pid"] != pid && seen["state"]["pid"] == pid && seen["state"]["status"] == "running";
    ensure!(good, "of exec the agent was told {seen}");
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn no_agent(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    notify(&bundle, &cx.path("nobody")?)?;
    let words = &["failed to connect with seccomp agent"];
    Bundle::refused(&bundle.detached(&["run", "c"])?, 1, words)?;
    bundle.nothing_left()?;
    Bundle::refused(&bundle.detached(&["create", "c"])?, 1, words)?;
    bundle.nothing_left()
}

/// Receives a descriptor, and its text.
pub(super) fn receive(listener: &UnixListener) -> Result<(String, OwnedFd)> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let (connection, _) = listener.accept()?;
    let mut text = [0; 4096];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [std::io::IoSliceMut::new(&mut text)];
    let message = recvmsg(&connection, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let text = String::from_utf8_lossy(&text[..message.bytes]).into_owned();
    Ok((text, fd.context("no descriptor came")?))
}

fn hook_directory(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["cat", "/made-by-hook"])?;
    bundle.change(|spec| {
        spec["root"]["readonly"] = json!(false);
        spec["hooks"]["createContainer"] =
            json!([{ "path": "/bin/sh", "args": ["sh", "-c", "echo here > ./made-by-hook"] }]);
    })?;
    bundle.oci(&["run", "c"]).output()?.prints("here\n")?;
    ensure!(
        bundle.rootfs().join("made-by-hook").exists(),
        "it was made elsewhere"
    );
    bundle.nothing_left()
}

fn poststart(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let seen = cx.path("seen")?;
    bundle.change(|spec| {
        let hook = |script: &str| json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        spec["hooks"]["poststart"] = json!([hook("exit 3"), hook(&format!("echo second > {seen}"))]);
    })?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    let output = bundle.oci(&["start", "c"]).output()?;
    Bundle::refused(&output, 1, &["error running poststart hook #0: exit status 3"])?;
    bundle.is("c", "stopped")?;
    bundle.oci(&["delete", "c"]).output()?.exits(0)?;
    ensure!(
        !Path::new(&seen).exists(),
        "the second hook ran after the first had failed"
    );
    // The specification had nothing end before.
    bundle.change(|spec| spec["ociVersion"] = json!("1.2.1"))?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    bundle
        .oci(&["start", "c"])
        .output()?
        .exits(0)?
        .has_err("error running poststart hook #0: exit status 3")?;
    ensure!(
        fs::read_to_string(&seen)? == "second\n",
        "the second hook did not run"
    );
    bundle.is("c", "running")?;
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn ambient(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.change(|spec| {
        spec["process"]["capabilities"] = json!({
            "bounding": ["CAP_CHOWN", "CAP_SYSLOG"], "inheritable": ["CAP_CHOWN", "CAP_SYSLOG"],
        });
    })?;
    bundle.detached(&["run", "-d", "c"])?.exits(0)?;
    let words = [
        "exec",
        "--cap",
        "CAP_SYSLOG",
        "--cap",
        "CAP_KILL",
        "c",
        "grep",
        "Cap",
        "/proc/self/status",
    ];
    let output = bundle.oci(&words).output()?;
    for line in [
        "CapAmb:\t0000000400000000",
        "CapPrm:\t0000000400000020",
        "CapInh:\t0000000400000001",
    ] {
        output.exits(0)?.has_out(line)?;
    }
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn interpreter(cx: &Context) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let bundle = Bundle::new(cx, &["/script"])?;
    let script = bundle.rootfs().join("script");
    fs::write(&script, "#!/no/such/shell\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let log = cx.path("log")?;
    let output = bundle.oci(&["--log", &log, "run", "c"]).output()?;
    output.exits(1)?;
    let seen = output.err();
    ensure!(
        seen == "exec /script: no such file or directory\n",
        "saw {seen:?}"
    );
    let kept = fs::read_to_string(log)?;
    ensure!(
        kept.contains("/no/such/shell"),
        "the log does not name it: {kept}"
    );
    bundle.nothing_left()
}

fn help(cx: &Context) -> Result<()> {
    for command in ["create", "exec", "checkpoint", "restore"] {
        let output = cx.tote(&["oci", command, "-h"]).output()?;
        let text = output.exits(0)?.out();
        let start = format!("NAME:\n   tote oci {command} - ");
        ensure!(text.starts_with(&start), "expected {start:?}, saw {text}");
    }
    let output = cx.tote(&["oci", "--help"]).output()?;
    output
        .exits(0)?
        .has_out(" - Open Container Initiative runtime\n")?;
    let output = cx.tote(&["oci", "foo", "-h"]).output()?;
    output.exits(1)?.has_err("No help topic for 'foo'")?;
    Ok(())
}

/// The container sees this program on a permanently read-only mount: it cannot be remounted or copied.
fn executable(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    let pid = bundle.pid("c")?;
    let held = fs::File::open(format!("/proc/{pid}/exe"))?;
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let remounted = rustix::mount::mount_remount(&path, rustix::mount::MountFlags::BIND, c"");
    ensure!(remounted.is_err(), "it was mounted read-write");
    let shared = rustix::mount::mount_change(&path, MountPropagationFlags::PRIVATE);
    ensure!(shared.is_err(), "its propagation was changed");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let cloned = rustix::mount::open_tree(rustix::fs::CWD, &path, flags);
    ensure!(cloned.is_err(), "another mount was made of it");
    // No mapping of the process leads to the file on its host mount.
    let own = fs::metadata(cx.binary())?;
    let mut seen = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/map_files"))? {
        let path = entry?.path();
        let opened = fs::OpenOptions::new().read(true).open(&path)?;
        if std::os::unix::fs::MetadataExt::ino(&opened.metadata()?)
            == std::os::unix::fs::MetadataExt::ino(&own)
        {
            let found = rustix::fs::fstatvfs(&opened)?;
            let read_only = found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
            ensure!(read_only, "{} can be written to", Path::new(&path).display());
            seen += 1;
        }
    }
    ensure!(seen > 0, "the process is mapped from no file");
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}
