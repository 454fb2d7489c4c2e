//! `tote debug`: tools in a running container that has none.

use super::exec::{over, running};
use super::life::done;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need::{ManyIds, Program, Root};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs;
use std::os::unix::fs::symlink;

pub(super) const TESTS: &[Test] = &[
    test("debug::tools_meet_the_containers_tree", &[], tree),
    test("debug::any_process_is_a_target", &[], any_process),
    test("debug::the_container_stays_as_it_is", &[], untouched),
    test("debug::writes_elsewhere_are_gone_afterwards", &[], scratch),
    test("debug::users_added_are_the_tools_own", &[], accounts),
    test("debug::users_are_the_containers", &[ManyIds], users),
    test("debug::exit_codes_are_execs", &[], exit_codes),
    test("debug::streams_are_passed_on_as_they_are", &[], streams),
    test("debug::at_a_terminal_there_is_a_shell", &[], terminal),
    test("debug::killed_it_leaves_nothing", &[], killed),
    test("debug::a_link_of_the_container_leads_nowhere_else", &[], links),
    test("debug::the_time_zone_is_the_containers", &[], time_zone),
    test(
        "debug::root_debugs_containers_of_users",
        &[Root, Program("setpriv")],
        of_a_user,
    ),
];

/// Runs `tote debug WORDS…` to its end.
pub(super) fn debug(cx: &Context, words: &[&str]) -> Result<crate::output::Output> {
    cx.tote(&[&["debug"], words].concat()).output()
}

fn tree(cx: &Context) -> Result<()> {
    let container = running(cx, &["-e", "A=1", "-e", "PATH=/nowhere:/bin"])?;
    cx.tote(&["exec", "c", "sh", "-c", "echo own > /own"])
        .output()?
        .exits(0)?;
    let script = "cat /target/own; echo $A$TARGET; readlink /var/lib/cntr; test -e /own || echo apart; \
        test -x /usr/bin/env && ls /target/usr/bin/env 2>/dev/null; cat /etc/hostname; pwd; echo tools > /target/from";
    let name = cx.tote(&["exec", "c", "hostname"]).output()?.out();
    debug(cx, &["c", "sh", "-c", script])?
        .prints(&format!("own\n/target\n/target\napart\n{name}/\n"))?
        .quietly()?;
    cx.tote(&["exec", "c", "cat", "/from"])
        .output()?
        .prints("tools\n")?;
    // The tools' own search path counts, or else the container's would hide them.
    debug(cx, &["c", "sh", "-c", "echo $PATH"])?.has_out("/usr/bin")?;
    debug(cx, &["-w", "/target/etc", "c", "pwd"])?.prints("/target/etc\n")?;
    over(container)
}

/// Prints what a process is, without its root.
const SHOW: &str = "grep -E '^(Uid|Gid|Groups|Cap|NoNew|Seccomp)' /proc/self/status; cat /proc/self/limits \
    /proc/self/cgroup /etc/hosts /etc/resolv.conf /proc/self/oom_score_adj; sed 's/:[^:]*:[^:]*$//' /etc/passwd; umask; hostname; \
    for name in cgroup ipc net pid user uts; do readlink /proc/self/ns/$name; done; \
    tr '\\0' ' ' < /proc/1/cmdline; ls /dev /sys";

const OPTIONS: [&str; 10] = [
    "--cap-drop",
    "NET_RAW",
    "--cap-add",
    "SYS_NICE",
    "--security-opt",
    "no-new-privileges",
    "--ulimit",
    "nofile=99:99",
    "--oom-score-adj",
    "500",
];

pub(super) fn surroundings(cx: &Context) -> Result<()> {
    let container = running(cx, &OPTIONS)?;
    let expected = cx.tote(&["exec", "c", "sh", "-c", SHOW]).output()?;
    expected.exits(0)?;
    let image = cx.image();
    debug(cx, &["--tools", &image, "c", "sh", "-c", SHOW])?.prints(&expected.out())?;
    over(container)
}

fn any_process(cx: &Context) -> Result<()> {
    let container = running(cx, &OPTIONS)?;
    let init = processes::container_init(container.pid())?;
    let expected = cx.tote(&["exec", "c", "sh", "-c", SHOW]).output()?;
    let (image, target) = (cx.image(), format!("pid:{init}"));
    debug(cx, &["--tools", &image, &target, "sh", "-c", SHOW])?.prints(&expected.out())?;
    over(container)
}

fn untouched(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let init = processes::container_init(container.pid())?;
    let mounts = || fs::read_to_string(format!("/proc/{init}/mountinfo"));
    let before = mounts()?;
    let files = ["exec", "c", "ls", "-lR", "/bin", "/etc", "/tmp", "/home"];
    let tree = cx.tote(&files).output()?;
    let mut session = cx
        .tote(&["debug", "c", "sh", "-c", "echo in; read line"])
        .spawn()?;
    session.expect("in\n")?;
    ensure!(
        mounts()? == before,
        "the container's mounts have changed:\n{}",
        mounts()?
    );
    cx.tote(&files).output()?.prints(&tree.out())?;
    session.send(b"\n");
    session.finish()?.exits(0)?;
    ensure!(
        mounts()? == before,
        "the container's mounts have changed:\n{}",
        mounts()?
    );
    over(container)
}

pub(super) fn protected(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    for script in [
        "touch /usr/tools",
        "mount -o remount,rw,bind /usr",
        "umount /usr",
        "umount -l /target",
        "mount -t tmpfs none /usr",
    ] {
        let out = debug(cx, &["c", "sh", "-c", script])?;
        ensure!(out.exits(0).is_err(), "{script:?} succeeds: {}", out.transcript());
    }
    // The same holds for a session that may do everything in the container: these are files of the machine.
    debug(cx, &["--privileged", "c", "sh", "-c", "touch /usr/tools"])?.fails()?;
    over(container)
}

fn scratch(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    debug(
        cx,
        &[
            "c",
            "sh",
            "-c",
            "echo x > /etc/new && mkdir /var/new && echo y >> /etc/nsswitch.conf",
        ],
    )?
    .exits(0)?
    .quietly()?;
    debug(cx, &["c", "sh", "-c", "test ! -e /etc/new && test ! -e /var/new"])?.exits(0)?;
    over(container)
}

fn users(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let show = ["c", "sh", "-c", "echo $(id -u) $(id -un) $(id -g)"];
    debug(cx, &[&["-u", "alice"], &show[..]].concat())?.prints("1234 alice 1234\n")?;
    over(container)?;
    let container = running(cx, &["-u", "alice"])?;
    debug(cx, &show)?.prints("1234 alice 1234\n")?;
    debug(cx, &[&["-u", "0"], &show[..]].concat())?.prints("0 root 0\n")?;
    over(container)
}

/// Packages add users in this way. The container does not get them.
fn accounts(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let script = "for file in passwd group; do cp /etc/$file /etc/new && echo tool:x:77:77::/:/bin/sh >> /etc/new && \
        mv /etc/new /etc/$file && grep -c ^tool: /etc/$file /target/etc/$file; done; id -u tool";
    debug(cx, &["c", "sh", "-c", script])?
        .has_out("/etc/passwd:1\n/target/etc/passwd:0\n/etc/group:1\n/target/etc/group:0\n77\n")?;
    debug(cx, &["c", "sh", "-c", "grep -c tool /etc/passwd"])?.has_out("0\n")?;
    over(container)
}

fn exit_codes(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    debug(cx, &["c", "sh", "-c", "exit 7"])?.exits(7)?.quietly()?;
    debug(cx, &["c", "sh", "-c", "kill -9 $$"])?
        .exits(137)?
        .quietly()?;
    debug(cx, &["c", "nope"])?.refuses(127, &["nope", "executable file not found in $PATH"])?;
    debug(cx, &["c", "/etc/passwd"])?.refuses(126, &["permission denied"])?;
    debug(cx, &["none-such", "true"])?.refuses(1, &["No such container: none-such"])?;
    debug(cx, &["dokcer:web", "true"])?.refuses(125, &["dokcer", "docker:"])?;
    debug(cx, &["pid:none", "true"])?.refuses(125, &["pid:none", "number"])?;
    debug(cx, &["pid:999999999", "true"])?.refuses(1, &["999999999", "has ended"])?;
    debug(cx, &["--tools", "none-such:1", "c", "true"]).map(drop)?;
    debug(cx, &["-it", "c", "true"])?.refuses(1, &["the input device is not a TTY"])?;
    over(container)
}

fn streams(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let copy = cx.tote(&["debug", "c", "cat"]).input(&bytes).output()?;
    copy.exits(0)?.quietly()?;
    ensure!(copy.stdout == bytes, "{} bytes came back", copy.stdout.len());
    debug(cx, &["c", "sh", "-c", "echo out; echo err >&2"])?
        .prints("out\n")?
        .has_err("err\n")?;
    over(container)
}

fn terminal(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let (mut session, window) = cx.tote(&["debug", "c"]).spawn_in_terminal(17, 63)?;
    // Typed as two words, so that the echo of the line is not taken for its output.
    session.send(b"echo size $(stty size) in\"\"side\n");
    session.expect("size 17 63 inside")?;
    window.resize(20, 70)?;
    session.send(b"while [ \"$(stty size)\" != '20 70' ]; do :; done; echo re\"\"sized; exit 3\n");
    session.expect("resized")?;
    ensure!(session.wait()? == 3, "the shell's exit code is lost");
    over(container)
}

fn killed(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let mut session = cx
        .tote(&["debug", "c", "sh", "-c", "echo up; exec sleep 1000"])
        .spawn()?;
    session.expect("up\n")?;
    // A process of the start may be there for a moment longer than the command's.
    let own = processes::descendants(session.pid()).into_iter();
    let own: Vec<_> = own
        .filter_map(|process| Some((process.pid, processes::pidfd(process.pid).ok()?)))
        .collect();
    ensure!(!own.is_empty(), "the session has no process");
    session.signal(Signal::KILL)?;
    session.wait()?;
    for (pid, pidfd) in &own {
        processes::wait_end(pidfd, "a process of the session", patience())?;
        // It has become a child of this process unless the session had waited for it, and its PID namespace lasts until this process
        // has waited for it.
        match waitpid(Pid::from_raw(*pid), WaitOptions::empty()) {
            Ok(_) | Err(Errno::CHILD) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    over(container)
}

/// A backtrace with names needs the container's own files.
pub(super) fn debugger(cx: &Context) -> Result<()> {
    done(cx, &["run", "-d", "--name", "h", "host", "sleep", "1000"])?;
    let backtrace = ["h", "gdb", "-nx", "-batch", "-p", "1", "-ex", "bt"];
    debug(cx, &backtrace)?
        .exits(0)?
        .has_out("nanosleep")?
        .has_out("detached")?;
    done(cx, &["rm", "-f", "h"])?;
    let container = running(cx, &[])?;
    let root = [
        "--view",
        "target",
        "c",
        "gdb",
        "-nx",
        "-batch",
        "-ex",
        "show sysroot",
    ];
    debug(cx, &root)?.exits(0)?.has_out("\"/\"")?;
    debug(cx, &["c", "sh", "-c", "PATH=/.tote/bin gdb"])?
        .exits(127)?
        .has_err("the tools have none")?;
    over(container)
}

fn links(cx: &Context) -> Result<()> {
    // A link in the place of a file that sessions take from the container must not show another file, be it of the
    // container or of the machine.
    let container = running(cx, &["--hostname", "here"])?;
    let script =
        "rm -f /etc/group; ln -s /etc/passwd /etc/group; rm -rf /etc/localtime; mkdir /etc/localtime";
    cx.tote(&["exec", "c", "sh", "-c", script]).output()?.exits(0)?;
    debug(
        cx,
        &[
            "c",
            "sh",
            "-c",
            "test ! -L /etc/group && test -L /target/etc/group && echo fine",
        ],
    )?
    .prints("fine\n")?;
    over(container)
}

/// The tools' own file is a link to one of their zones, which has to stay what it is.
fn time_zone(cx: &Context) -> Result<()> {
    let (tools, image) = cx.own_rootfs("tools")?;
    let (target, name) = cx.own_rootfs("target")?;
    for (root, text) in [(&tools, "tools\n"), (&target, "theirs\n")] {
        fs::create_dir_all(root.join("usr/share/zoneinfo"))?;
        fs::write(root.join("usr/share/zoneinfo/Zone"), text)?;
        symlink("/usr/share/zoneinfo/Zone", root.join("etc/localtime"))?;
    }
    let script = "readlink /etc/localtime; cat /etc/localtime /usr/share/zoneinfo/Zone";
    let words = ["--tools", &image, &name, "sh", "-c", script];
    debug(cx, &words)?.prints("/target/usr/share/zoneinfo/Zone\ntheirs\ntools\n")?;
    fs::remove_file(target.join("etc/localtime"))?;
    fs::write(target.join("etc/localtime"), "own\n")?;
    debug(cx, &words)?.prints("/target/etc/localtime\nown\ntools\n")?;
    fs::remove_file(target.join("etc/localtime"))?;
    debug(cx, &words)?.prints("/usr/share/zoneinfo/Zone\ntools\ntools\n")?;
    Ok(())
}

/// A container in a user namespace, whose maps root has to look up.
fn of_a_user(cx: &Context) -> Result<()> {
    let place = cx.directory("theirs")?;
    std::os::unix::fs::chown(&place, Some(65_534), Some(65_534)).context("give the directory away")?;
    let mut holder = crate::invocation::Invocation::new([
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        "echo up; read line",
    ])
    .within(std::path::Path::new(&place))
    .spawn()?;
    holder.expect("up\n")?;
    let processes = processes::descendants(holder.pid());
    let first = processes.last().context("no process in the namespace")?;
    let target = format!("pid:{}", first.pid);
    let script = "id -u; test $$ -lt 10 && echo own pids; umount /usr 2>/dev/null || echo locked; \
        mount -o remount,rw,bind /usr 2>/dev/null || echo locked; echo x > /etc/new && mkdir /new && \
        stat -c %u:%g / /etc/new /new";
    debug(cx, &[&target, "sh", "-c", script])?.prints("0\nown pids\nlocked\nlocked\n0:0\n0:0\n0:0\n")?;
    // So may packages be installed among the tools of an image.
    let image = cx.image();
    let script = "echo x >> /etc/passwd && rm /bin/true && test ! -e /bin/true && stat -c %u:%g /bin/sh";
    debug(cx, &["--tools", &image, &target, "sh", "-c", script])?.prints("0:0\n")?;
    holder.send(b"\n");
    holder.finish()?.exits(0)?;
    Ok(())
}
