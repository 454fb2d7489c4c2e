//! `tote exec`: processes in a running container.

use crate::context::Context;
use crate::exchange::{Running, patience};
use crate::invocation::Invocation;
use crate::need::Need::{ManyIds, Program, Root, Unprivileged};
use crate::processes;
use crate::promise::{Test, test};
use crate::terminal::Terminal;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("exec::exit_codes_are_dockers", &[], exit_codes),
    test("exec::streams_are_separate_and_input_ends", &[], streams),
    test("exec::the_environment_is_the_containers", &[], environment),
    test("exec::users_are_the_containers_own", &[ManyIds], users),
    test("exec::it_is_where_the_container_is", &[], namespaces),
    test("exec::it_may_what_the_container_may", &[], confined),
    test("exec::its_cgroup_is_the_containers", &[Root], cgroup),
    test("exec::a_terminal_of_its_own", &[], terminal),
    test("exec::the_detach_keys_leave_it_alone", &[], detach_keys),
    test("exec::detached_it_is_reaped_by_its_parent", &[], detached),
    test(
        "exec::no_zombie_of_a_detached_process_keeps_a_container",
        &[Root, Program("unshare"), Program("python3")],
        no_zombie,
    ),
    test("exec::signals_are_passed_on", &[], signals),
    test("exec::twenty_at_once", &[], many),
    test("exec::descriptors_are_passed_on", &[], descriptors),
    test("exec::what_does_not_run_cannot_be_joined", &[], not_running),
    test("exec::one_id_is_all_there_is", &[Unprivileged], one_id),
];

/// Starts a container `c` that runs until its input ends.
pub(super) fn running(cx: &Context, options: &[&str]) -> Result<Running> {
    running_from(cx, options, &cx.image())
}

fn running_from(cx: &Context, options: &[&str], image: &str) -> Result<Running> {
    let words = [
        &["-i", "--name", "c"],
        options,
        &[image, "sh", "-c", "echo up; cat"],
    ]
    .concat();
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("up\n")?;
    Ok(running)
}

pub(super) fn over(running: Running) -> Result<()> {
    running.finish()?.exits(0)?;
    Ok(())
}

fn exit_codes(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let exec = |words: &[&str]| cx.tote(&[&["exec"], words].concat()).output();
    exec(&["c", "true"])?.prints("")?.quietly()?;
    exec(&["c", "sh", "-c", "exit 7"])?.exits(7)?.quietly()?;
    exec(&["c", "sh", "-c", "kill -9 $$"])?.exits(137)?.quietly()?;
    exec(&["c", "nope"])?
        .refuses(127, &["nope", "executable file not found in $PATH"])?
        .has_err("nope is not in the container c, or not on its PATH")?;
    exec(&["c", "ls -l"])?
        .refuses(127, &["\"ls -l\"", "executable file not found in $PATH"])?
        .has_err("the quotes make one word of the program and its arguments")?;
    exec(&["c", "/nope"])?.refuses(127, &["no such file or directory"])?;
    exec(&["c", "/etc/passwd"])?.refuses(126, &["permission denied"])?;
    exec(&["-w", "/nope", "c", "true"])?.refuses(127, &["/nope", "no such file or directory"])?;
    exec(&["-u", "nobody-knows", "c", "true"])?.refuses(126, &["unable to find user nobody-knows"])?;
    exec(&["-w", "here", "c", "true"])?.refuses(125, &["absolute path"])?;
    exec(&["--detach-keys", "ctrl-", "c", "true"])?.refuses(125, &["ctrl-"])?;
    exec(&["-it", "c", "true"])?.refuses(1, &["the input device is not a TTY"])?;
    over(container)
}

fn streams(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let out = cx
        .tote(&["exec", "c", "sh", "-c", "echo out; echo err >&2"])
        .output()?;
    out.prints("out\n")?.has_err("err\n")?;
    let copy = cx.tote(&["exec", "-i", "c", "cat"]).input(b"in\n").output()?;
    copy.prints("in\n")?.quietly()?;
    // Without -i standard input is empty, and ends at once.
    cx.tote(&["exec", "c", "cat"])
        .input(b"in\n")
        .output()?
        .prints("")?;
    over(container)
}

fn environment(cx: &Context) -> Result<()> {
    let container = running(cx, &["-e", "A=1", "-e", "B=1", "-w", "/tmp"])?;
    let file = cx.file("variables", "# none\nB=2\nC=2\n")?;
    let words = [
        "exec",
        "-e",
        "C=3",
        "-e",
        "HERE",
        "-e",
        "GONE",
        "--env-file",
        &file,
        "-e",
        "A",
        "c",
    ];
    let show = ["sh", "-c", "echo ${A-none} $B $C $HERE ${GONE-none} $HOME $(pwd)"];
    let out = cx.tote(&[&words[..], &show].concat()).env("HERE", "4").output()?;
    out.prints("none 2 3 4 none /root /tmp\n")?;
    cx.tote(&["exec", "-w", "/etc", "c", "pwd"])
        .output()?
        .prints("/etc\n")?;
    let leaked = cx.tote(&["exec", "c", "env"]).output()?;
    ensure!(
        !leaked.out().contains(crate::context::SECRET.0),
        "the caller's variables are in there: {}",
        leaked.out()
    );
    over(container)
}

fn users(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    for (user, ids) in [
        ("alice", "1234 1234 1234 2000 /home/alice\n"),
        ("1234", "1234 1234 1234 2000 /home/alice\n"),
        ("alice:users", "1234 100 100 /home/alice\n"),
        ("77:78", "77 78 78 /\n"),
    ] {
        let show = "echo $(id -u) $(id -g) $(id -G) $HOME";
        let out = cx.tote(&["exec", "-u", user, "c", "sh", "-c", show]).output()?;
        out.prints(ids).with_context(|| format!("-u {user}"))?;
    }
    over(container)?;
    let container = running(cx, &["-u", "alice", "-e", "HOME=/given"])?;
    let show = ["c", "sh", "-c", "echo $(id -u) $HOME"];
    cx.tote(&[&["exec"], &show[..]].concat())
        .output()?
        .prints("1234 /given\n")?;
    cx.tote(&[&["exec", "-u", "0"], &show[..]].concat())
        .output()?
        .prints("0 /given\n")?;
    over(container)
}

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

fn namespaces(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let init = processes::container_init(container.pid())?;
    for name in NAMESPACES {
        let expected = fs::read_link(format!("/proc/{init}/ns/{name}"))?;
        let out = cx
            .tote(&["exec", "c", "readlink", &format!("/proc/self/ns/{name}")])
            .output()?;
        out.prints(&format!("{}\n", expected.display()))?;
    }
    over(container)
}

fn confined(cx: &Context) -> Result<()> {
    const SHOW: &str = "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ulimit -n; umask";
    let options = [
        "--cap-drop",
        "NET_RAW",
        "--cap-add",
        "SYS_NICE",
        "--security-opt",
        "no-new-privileges",
        "--ulimit",
        "nofile=99:99",
    ];
    let (image, script) = (cx.image(), format!("{SHOW}; echo up; cat"));
    let words = [
        &["-i", "--name", "c"],
        &options[..],
        &[&image, "sh", "-c", &script],
    ]
    .concat();
    let mut container = cx.run_command(&words).spawn()?;
    let own = container.expect("up\n")?;
    let own = own.trim_end_matches("up\n");
    cx.tote(&["exec", "c", "sh", "-c", SHOW]).output()?.prints(own)?;
    let all = cx
        .tote(&["exec", "--privileged", "c", "sh", "-c", SHOW])
        .output()?;
    let mask = |text: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Ok(u64::from_str_radix(line.context("no CapEff")?.trim(), 16)?)
    };
    let (few, many) = (mask(own)?, mask(&all.out())?);
    ensure!(few & many == few && many > few, "{few:x} and privileged {many:x}");
    // The container's filter applies, and so does not allow the calls that these capabilities would.
    let out = cx
        .tote(&["exec", "--privileged", "c", "mount", "-t", "tmpfs", "x", "/tmp"])
        .output()?;
    out.fails()?;
    over(container)
}

fn cgroup(cx: &Context) -> Result<()> {
    let container = running(cx, &["--pids-limit", "50"])?;
    let init = processes::container_init(container.pid())?;
    let own = fs::read_to_string(format!("/proc/{init}/cgroup"))?;
    let mut inside = cx
        .tote(&["exec", "-i", "c", "sh", "-c", "echo in; cat"])
        .spawn()?;
    inside.expect("in\n")?;
    let tree = processes::descendants(inside.pid());
    let process = tree.first().context("no process below tote exec")?;
    let its = fs::read_to_string(format!("/proc/{}/cgroup", process.pid))?;
    ensure!(its == own, "its cgroups:\n{its}the container's:\n{own}");
    inside.finish()?.exits(0)?;
    over(container)
}

fn terminal(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let script = "test -t 0 && test -t 1 && test -t 2 && echo all $(stty size) $TERM
trap 'echo now $(stty size) end; exit 4' WINCH; echo ready; sleep 1000 & while :; do wait; done";
    let (mut inside, outer) = cx
        .tote(&["exec", "-it", "c", "sh", "-c", script])
        .spawn_in_terminal(40, 100)?;
    inside.expect("all 40 100 xterm\r\n")?;
    inside.expect("ready\r\n")?;
    outer.is_raw()?;
    outer.resize(55, 132)?;
    inside.expect("now 55 132 end\r\n")?;
    finish(inside, outer, 4)?;
    // A terminal for output alone does not need one outside.
    let out = cx
        .tote(&["exec", "-t", "c", "sh", "-c", "test -t 1 && echo one"])
        .output()?;
    out.prints("one\r\n")?;
    over(container)
}

/// Waits for the end, with the outer terminal still open.
fn finish(mut inside: Running, outer: Terminal, code: i32) -> Result<()> {
    let seen = inside.wait()?;
    ensure!(seen == code, "expected exit {code}, saw {seen}");
    ensure!(outer.is_raw().is_err(), "the outer terminal is left raw");
    drop(outer);
    inside.finish()?;
    Ok(())
}

/// Returns the host's pid of the process in `c` whose command line ends with `command`.
pub(super) fn pid_of(cx: &Context, command: &str) -> Result<i32> {
    let out = cx.tote(&["top", "c", "-eo", "pid,args"]).output()?;
    let text = out.out();
    let line = text.lines().find(|line| line.trim_end().ends_with(command));
    let line = line.with_context(|| format!("no {command} among\n{text}"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Waits for the end of a process that has become a child of this one, because its parent has ended.
fn adopted(pid: i32, code: i32) -> Result<()> {
    processes::wait_end(&processes::pidfd(pid)?, "it", patience())?;
    let (_, status) = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG)?.context("it is nobody's orphan")?;
    ensure!(
        status.exit_status() == Some(code),
        "expected exit {code}, saw {status:?}"
    );
    Ok(())
}

/// Counts the tote processes below this one.
fn totes() -> usize {
    let tree = processes::descendants(rustix::process::getpid().as_raw_pid());
    tree.iter()
        .filter(|process| process.name.starts_with("tote"))
        .count()
}

fn detach_keys(cx: &Context) -> Result<()> {
    let dir = cx.directory("shared")?;
    let container = running(cx, &["-v", &format!("{dir}:/shared")])?;
    let script = "echo ready; read go < /shared/go; test -t 1 && echo over; exit 5";
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{dir}/go"))
        .status()?;
    ensure!(made.success(), "mkfifo failed");
    let (mut inside, outer) = cx
        .tote(&[
            "exec",
            "-it",
            "--detach-keys",
            "x,ctrl-y",
            "c",
            "sh",
            "-c",
            script,
        ])
        .spawn_in_terminal(40, 100)?;
    inside.expect("ready\r\n")?;
    inside.send(b"ax\x19");
    inside.expect("read escape sequence")?;
    finish(inside, outer, 1)?;
    let pid = pid_of(cx, "exit 5")?;
    let parent = processes::all().into_iter().find(|process| process.pid == pid);
    let parent = parent.context("it is gone")?.parent;
    // The program continues with its terminal; its parent and the process that holds the terminal end with it.
    fs::write(Path::new(&dir).join("go"), "\n")?;
    adopted(parent, 0)?;
    ensure!(
        processes::all().iter().all(|process| process.pid != pid),
        "it was not reaped"
    );
    over(container)
}

fn detached(cx: &Context) -> Result<()> {
    let dir = cx.directory("shared")?;
    let container = running(cx, &["-v", &format!("{dir}:/shared")])?;
    let made = std::process::Command::new("mkfifo")
        .arg(format!("{dir}/go"))
        .status()?;
    ensure!(made.success(), "mkfifo failed");
    let script = "echo shown nowhere; read go < /shared/go; exit 6";
    let out = cx.tote(&["exec", "-d", "c", "sh", "-c", script]).output()?;
    out.prints("")?.quietly()?;
    ensure!(
        totes() == 2,
        "beside the container's own and its parent there are {} processes of tote",
        totes() - 2
    );
    let pid = pid_of(cx, "exit 6")?;
    let parent = processes::all().into_iter().find(|process| process.pid == pid);
    let parent = parent.context("it is gone")?.parent;
    fs::write(Path::new(&dir).join("go"), "\n")?;
    // It was not an orphan: its parent is, and ends with it.
    adopted(parent, 0)?;
    ensure!(
        processes::all().iter().all(|process| process.pid != pid),
        "it was not reaped"
    );
    cx.tote(&["exec", "-d", "c", "nope"])
        .output()?
        .refuses(1, &["nope"])?;
    ensure!(totes() == 1, "a process that did not start has left its parent");
    over(container)
}

/// Runs an engine whose PID 1 reaps no orphans, as in a container with a program of its own there.
fn no_zombie(cx: &Context) -> Result<()> {
    let script = r#"tote() { "$tote" --root "$root" "$@"; }
        mount -t proc proc /proc
        tote run -d --network none --name z "$image" sleep 1000 && tote exec -d z sh -c 'echo $$ > /pid'
        timeout "$limit" "$tote" --root "$root" rm -f z"#;
    // The first process waits for a child of its own by pid, and for no other.
    let first = r#"sh -c "$0" & exec python3 -c 'import os, sys
code = os.waitpid(int(sys.argv[1]), 0)[1]
sys.exit(os.waitstatus_to_exitcode(code))' $!"#;
    let root = cx.root();
    Invocation::new([
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        first,
        script,
    ])
    .env("tote", cx.binary())
    .env("root", &root)
    .env("image", cx.image())
    .env("limit", patience().as_secs().to_string())
    .output()?
    .exits(0)?;
    cx.nothing_left()
}

fn signals(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("USR1", Signal::USR1),
    ] {
        let script = format!("trap 'echo got {name}; exit 7' {name}; echo ready; sleep 1000 & wait");
        let mut inside = cx.tote(&["exec", "c", "sh", "-c", &script]).spawn()?;
        inside.expect("ready\n")?;
        inside.signal(signal)?;
        inside.expect(&format!("got {name}\n"))?;
        ensure!(inside.wait()? == 7, "{name}: not its own exit code");
        // At a terminal another process of tote is beside it.
        let words = ["exec", "-it", "c", "sh", "-c", &script];
        let (mut inside, outer) = cx.tote(&words).spawn_in_terminal(40, 100)?;
        inside.expect("ready\r\n")?;
        inside.signal(signal)?;
        inside.expect(&format!("got {name}\r\n"))?;
        finish(inside, outer, 7)?;
    }
    over(container)
}

fn many(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let start = |number: u32| {
        let script = format!("echo up {number}; cat; echo over {number}");
        cx.tote(&["exec", "-i", "c", "sh", "-c", &script]).spawn()
    };
    let mut all = (0..20).map(start).collect::<Result<Vec<_>>>()?;
    for (number, inside) in all.iter_mut().enumerate() {
        inside.expect(&format!("up {number}\n"))?;
    }
    for (number, inside) in all.into_iter().enumerate() {
        inside
            .finish()?
            .prints(&format!("up {number}\nover {number}\n"))?
            .quietly()?;
    }
    over(container)
}

fn descriptors(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let file = cx.file("given", "through three\n")?;
    let shell = |count: &str| {
        let words = [
            "exec",
            "--preserve-fds",
            count,
            "c",
            "sh",
            "-c",
            "cat <&3; ls /proc/self/fd | wc -l",
        ];
        let script = format!("exec 3< {file}; exec \"$@\"");
        cx.tote(&words).under(&["sh", "-c", &script, "sh"]).output()
    };
    // Descriptors: the three streams, the one that is passed on, and the one of ls.
    shell("1")?.prints("through three\n5\n")?;
    shell("2")?.refuses(125, &["--preserve-fds 2", "4"])?;
    over(container)
}

fn not_running(cx: &Context) -> Result<()> {
    let words = ["exec", "c", "true"];
    cx.tote(&words).output()?.refuses(1, &["No such container: c"])?;
    let container = running(cx, &[])?;
    over(container)?;
    cx.tote(&words).output()?.refuses(1, &["No such container: c"])?;
    Ok(())
}

/// A container of the host's files has no id but that of its user.
fn one_id(cx: &Context) -> Result<()> {
    let container = running_from(cx, &[], "host")?;
    cx.tote(&["exec", "c", "id", "-u"]).output()?.prints("0\n")?;
    let out = cx.tote(&["exec", "-u", "77", "c", "true"]).output()?;
    out.refuses(126, &["77", "not mapped"])?;
    over(container)
}
