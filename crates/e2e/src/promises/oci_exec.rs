//! `tote oci`: processes in an existing container, hooks, and the descriptors for the caller.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::Root;
use crate::processes;
use crate::promise::{Test, test};
use crate::tree;
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::net::UnixListener;

pub(super) const TESTS: &[Test] = &[
    test("oci_exec::exit_codes_streams_and_errors", &[], basics),
    test("oci_exec::it_is_in_the_containers_namespaces", &[], namespaces),
    test(
        "oci_exec::it_enters_a_user_namespace_with_its_keyring",
        &[Root],
        mapped,
    ),
    test("oci_exec::groups_are_kept_by_an_annotation", &[Root], groups),
    test("oci_exec::process_json_is_all_that_counts", &[], process_json),
    test("oci_exec::detached_with_a_pid_file", &[], detached),
    test("oci_exec::a_terminal_of_its_own", &[Root], terminal),
    test(
        "oci_exec::the_console_goes_to_the_socket",
        &[Root],
        console_socket,
    ),
    test(
        "oci_exec::cve_2019_5736_the_executable_is_read_only",
        &[Root],
        executable,
    ),
    test("oci_exec::cve_2024_21626_cwd_outside", &[], cwd_outside),
    test("oci_exec::hooks_of_every_kind_get_the_state", &[Root], hooks),
    test(
        "oci_exec::a_failed_hook_undoes_the_container",
        &[Root],
        failing_hooks,
    ),
    test("oci_exec::a_hook_has_its_time", &[Root], slow_hook),
];

/// Starts a container.
fn running<'a>(cx: &'a Context) -> Result<Bundle<'a>> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    bundle.detached(&["run", "-d", "c"])?.exits(0)?;
    Ok(bundle)
}

/// crun's annotation holds for every process of the container, as with crun.
fn groups(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    for (id, value, groups) in [("kept", "1", "0 4321"), ("not", "0", "0 10")] {
        bundle.change(|spec| {
            spec["annotations"] = json!({ "run.oci.keep_original_groups": value });
            spec["process"]["user"] = json!({ "uid": 0, "gid": 0, "additionalGids": [0, 10] });
        })?;
        bundle.detached(&["run", "-d", id])?.exits(0)?;
        bundle
            .oci(&["exec", id, "grep", "Groups", "/proc/self/status"])
            .under(&["setpriv", "--groups", "0,4321"])
            .output()?
            .prints(&format!("Groups:\t{groups} \n"))?;
        bundle.oci(&["delete", "-f", id]).output()?.exits(0)?;
    }
    bundle.nothing_left()
}

/// Before the process changes its ids, it joins the keyring that the first process made as root of the namespace.
fn mapped(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let id = bundle.group();
    bundle.maps_ids(100_000)?;
    bundle.detached(&["run", "-d", &id])?.exits(0)?;
    bundle
        .oci(&[
            "exec",
            &id,
            "sh",
            "-c",
            "id -u; cut -f1 /proc/self/uid_map | tr -s ' '",
        ])
        .output()?
        .prints("0\n 0 100000 65536\n")?;
    bundle.oci(&["delete", "-f", &id]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn over(bundle: &Bundle<'_>) -> Result<()> {
    bundle.oci(&["delete", "-f", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn basics(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    bundle
        .oci(&["exec", "c", "sh", "-c", "cat; exit 5"])
        .input(b"in\n")
        .output()?
        .exits(5)?
        .quietly()?
        .has_out("in\n")?;
    bundle
        .oci(&[
            "exec",
            "-e",
            "A=b",
            "--cwd",
            "/tmp",
            "c",
            "sh",
            "-c",
            "echo $A $HOME; pwd",
        ])
        .output()?
        .prints("b /root\n/tmp\n")?;
    for (command, naming) in [
        ("no-such-program", "executable file not found in $PATH"),
        ("/etc/passwd", "permission denied"),
        ("/no/such", "no such file or directory"),
    ] {
        Bundle::refused(
            &bundle.oci(&["exec", "c", command]).output()?,
            255,
            &[command, naming],
        )?;
    }
    Bundle::refused(
        &bundle.oci(&["exec", "x", "true"]).output()?,
        255,
        &["container does not exist"],
    )?;
    let init = processes::pidfd(bundle.pid("c")?)?;
    bundle.oci(&["kill", "c", "9"]).output()?.exits(0)?;
    processes::wait_end(&init, "the container", patience())?;
    Bundle::refused(
        &bundle.oci(&["exec", "c", "true"]).output()?,
        255,
        &["cannot exec in a stopped container"],
    )?;
    over(&bundle)
}

fn namespaces(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    let pid = bundle.pid("c")?;
    let spec: Value = serde_json::from_str(&fs::read_to_string(bundle.config())?)?;
    let listed = spec["linux"]["namespaces"].as_array().context("no namespaces")?;
    for one in listed {
        let name = match one["type"].as_str().unwrap_or_default() {
            "network" => "net",
            "mount" => "mnt",
            other => other,
        };
        let link = format!("/proc/self/ns/{name}");
        let expected = fs::read_link(format!("/proc/{pid}/ns/{name}"))?;
        let output = bundle.oci(&["exec", "c", "readlink", &link]).output()?;
        output.prints(&format!("{}\n", expected.display()))?;
    }
    over(&bundle)
}

fn process_json(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    let process = json!({
        "args": ["sh", "-c", "id -u; echo $ONLY; pwd; umask"],
        "cwd": "/etc",
        "env": ["PATH=/bin", "ONLY=this"],
        "user": { "uid": 0, "gid": 0, "umask": 0o77 },
    });
    let file = cx.file("process.json", &process.to_string())?;
    bundle
        .oci(&["exec", "--process", &file, "c"])
        .output()?
        .prints("0\nthis\n/etc\n0077\n")?;
    for (bad, naming) in [
        ("{", "process.json"),
        (r#"{"cwd":"/"}"#, "args must not be empty"),
    ] {
        let file = cx.file("process.json", bad)?;
        Bundle::refused(&bundle.oci(&["exec", "-p", &file, "c"]).output()?, 255, &[naming])?;
    }
    over(&bundle)
}

fn detached(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    bundle
        .detached(&["exec", "--detach", "--pid-file", "pid", "c", "sleep", "1000"])?
        .exits(0)?;
    let pid: i32 = fs::read_to_string(bundle.config().with_file_name("pid"))?.parse()?;
    let listed = bundle
        .oci(&["exec", "c", "sh", "-c", "ps | grep -c 'sleep 1000' "])
        .output()?;
    listed.exits(0)?;
    let process = processes::pidfd(pid)?;
    processes::kill(pid, Signal::KILL);
    processes::wait_end(&process, "the process", patience())?;
    // The parent has ended, so this test reaps the process, as init or a shim would: until then the
    // container cannot end.
    let pid = rustix::process::Pid::from_raw(pid);
    rustix::process::waitpid(pid, rustix::process::WaitOptions::empty())?;
    over(&bundle)
}

fn terminal(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    let words = [
        "exec",
        "-t",
        "c",
        "sh",
        "-c",
        "tty; stty size; read line; echo got $line; exit 3",
    ];
    let (mut exec, terminal) = bundle.oci(&words).spawn_in_terminal(33, 77)?;
    exec.expect("/dev/pts/")?;
    exec.expect("33 77")?;
    exec.send(b"abc\n");
    exec.expect("got abc")?;
    let code = exec.wait()?;
    drop(terminal);
    exec.finish()?;
    ensure!(code == 3, "expected exit 3, saw {code}");
    over(&bundle)
}

fn console_socket(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "tty; exec sleep 1000"])?;
    bundle.change(|spec| spec["process"]["terminal"] = json!(true))?;
    Bundle::refused(
        &bundle.detached(&["create", "c"])?,
        1,
        &["setting console socket"],
    )?;
    let path = cx.path("console")?;
    let listener = UnixListener::bind(&path)?;
    bundle
        .detached(&["create", "--console-socket", &path, "c"])?
        .exits(0)?;
    let (_, master) = super::oci_process::receive(&listener)?;
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    ensure!(
        processes::readable(&master, patience())?,
        "nothing came from the console"
    );
    let mut bytes = [0; 64];
    let length = rustix::io::read(&master, &mut bytes)?;
    let seen = String::from_utf8_lossy(&bytes[..length]).into_owned();
    ensure!(seen.starts_with("/dev/pts/"), "the console says {seen:?}");
    over(&bundle)
}

/// The process that waits for the start executes this program, visibly for the container: its file cannot be written
/// through that process.
fn executable(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sleep", "1000"])?;
    let victim = cx.scratch().join("tote");
    fs::copy(cx.binary(), &victim)?;
    let before = tree::digest(&victim)?;
    let script = r#"exec "$@" < /dev/null > /dev/null 2>&1"#;
    bundle
        .oci_of(&victim, &["create", "c"])
        .under(&["sh", "-c", script, "sh"])
        .output()?
        .exits(0)?;
    // The attack comes from the host, where root may do more than a process inside can. It holds the executable open
    // until the program has ended, because a running executable cannot be written anyway.
    let held = fs::File::open(format!("/proc/{}/exe", bundle.pid("c")?))?;
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    let opened = fs::OpenOptions::new().write(true).open(again);
    let refused =
        opened.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::ROFS.raw_os_error()));
    ensure!(
        refused,
        "the executable could be opened for writing, or was refused for another reason"
    );
    ensure!(tree::digest(&victim)? == before, "the executable has changed");
    over(&bundle)
}

/// A host descriptor that is open during the entry must not become the working directory: its parents lead to the
/// host's root.
fn cwd_outside(cx: &Context) -> Result<()> {
    let bundle = running(cx)?;
    let canary = cx.file("canary", "outside")?;
    let script = format!("cat ../../../../../../../../..{canary}");
    for number in 3..=20 {
        let cwd = format!("/proc/self/fd/{number}");
        let output = bundle
            .oci(&["exec", "--cwd", &cwd, "c", "sh", "-c", &script])
            .output()?;
        output.fails()?;
        ensure!(!output.out().contains("outside"), "--cwd {cwd} leads to the host");
    }
    over(&bundle)
}

const POINTS: [&str; 6] = [
    "prestart",
    "createRuntime",
    "createContainer",
    "startContainer",
    "poststart",
    "poststop",
];

fn hooks(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "cat /dev/shm/*"])?;
    let seen = cx.directory("seen")?;
    bundle.change(|spec| {
        for point in POINTS {
            // Only the last hook before the program runs in the container's root.
            let file = if point == "startContainer" { "/dev/shm".to_owned() } else { seen.clone() };
            let script = format!("cat > {file}/{point}; test \"$HOOK\" = {point}");
            spec["hooks"][point] = json!([{
                "path": "/bin/sh", "args": ["sh", "-c", script], "env": [format!("HOOK={point}"), "PATH=/bin:/usr/bin"],
            }]);
        }
    })?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    for point in ["startContainer", "poststart", "poststop"] {
        ensure!(
            !std::path::Path::new(&seen).join(point).exists(),
            "{point} came too early"
        );
    }
    let pid = bundle.pid("c")?;
    let init = processes::pidfd(pid)?;
    bundle.oci(&["start", "c"]).output()?.exits(0)?;
    processes::wait_end(&init, "the container", patience())?;
    bundle.oci(&["delete", "c"]).output()?.exits(0)?.quietly()?;
    for (point, status) in [
        ("prestart", "created"),
        ("createRuntime", "creating"),
        ("createContainer", "creating"),
        ("poststart", "running"),
        ("poststop", "stopped"),
    ] {
        let text = fs::read_to_string(std::path::Path::new(&seen).join(point)).context(point)?;
        check_state(&text, status, pid).context(point)?;
    }
    check_state(&bundle.written()?, "created", pid).context("startContainer")?;
    bundle.nothing_left()
}

fn check_state(text: &str, status: &str, pid: i32) -> Result<()> {
    let state: Value = serde_json::from_str(text).with_context(|| format!("{text:?} is no JSON"))?;
    let pid = if status == "stopped" {
        Value::Null
    } else {
        json!(pid)
    };
    let good = state["id"] == "c" && state["status"] == status && state["pid"] == pid;
    ensure!(good, "expected {status} and {pid}, saw {state}");
    Ok(())
}

fn failing_hooks(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "echo ran"])?;
    for point in POINTS {
        bundle.change(|spec| {
            let hook = |script: &str| json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
            spec["hooks"] = json!({ point: [hook("exit 0"), hook("echo why >&2; exit 3")] });
        })?;
        let output = bundle.detached(&["run", "c"])?;
        if point == "poststop" {
            // The container is already gone, so the failure is only a warning.
            output.exits(0)?.has_err("error running poststop hook #1")?;
        } else {
            let words = format!("error running {point} hook #1: exit status 3");
            Bundle::refused(&output, 1, &[&words, "why"])?;
            let ran = bundle.written()?.contains("ran");
            ensure!(
                point == "poststart" || !ran,
                "the program ran after {point} had failed"
            );
        }
        bundle.nothing_left()?;
    }
    // Engines create and start, and want the same reason.
    bundle.change(|spec| {
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", "echo why >&2; exit 3"] });
        spec["hooks"] = json!({ "startContainer": [hook] });
    })?;
    bundle.detached(&["create", "c"])?.exits(0)?;
    let output = bundle.oci(&["start", "c"]).output()?;
    Bundle::refused(
        &output,
        1,
        &["error running startContainer hook: exit status 3", "why"],
    )?;
    bundle.oci(&["delete", "c"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn slow_hook(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    for point in ["createRuntime", "createContainer", "startContainer"] {
        bundle.change(|spec| {
            let hook = json!([{ "path": "/bin/sleep", "args": ["sleep", "1000"], "timeout": 1 }]);
            spec["hooks"] = json!({ point: hook });
        })?;
        let output = bundle.detached(&["run", "c"])?;
        Bundle::refused(&output, 1, &[point, "its time limit"])?;
        bundle.nothing_left()?;
    }
    Ok(())
}
