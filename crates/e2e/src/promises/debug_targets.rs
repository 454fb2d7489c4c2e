//! `tote debug`: containers that do not run, images, pods, tools of another container, and what a session may be given.

use super::debug::debug;
use super::exec::{over, running};
use super::life::done;
use super::stored::image;
use crate::context::Context;
use crate::need::Need::{Controller, ManyIds};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "debug_targets::a_stopped_container_keeps_what_is_written",
        &[],
        stopped,
    ),
    test(
        "debug_targets::a_stopped_container_does_not_start_meanwhile",
        &[],
        meanwhile,
    )
    .waits(),
    test(
        "debug_targets::killed_it_leaves_a_stopped_container_as_it_was",
        &[],
        killed,
    ),
    test(
        "debug_targets::a_session_in_a_stopped_container_has_its_limits",
        &[Controller("pids")],
        limited,
    ),
    test("debug_targets::an_image_stays_as_it_is", &[], of_image),
    test("debug_targets::a_scratch_image_can_be_looked_into", &[], scratch),
    test("debug_targets::a_pod_lends_its_namespaces", &[], pod),
    test("debug_targets::tools_come_from_another_container", &[], tools),
    test(
        "debug_targets::tools_of_a_container_with_other_ids",
        &[ManyIds],
        tools_of_other_ids,
    ),
    test(
        "debug_targets::tools_come_from_a_directory",
        &[],
        tools_of_directory,
    ),
    test("debug_targets::capabilities_can_be_added", &[], capabilities),
    test(
        "debug_targets::a_profile_of_ones_own_is_the_sessions",
        &[],
        profile,
    ),
    test(
        "debug_targets::the_cgroup_can_be_left",
        &[Controller("pids")],
        cgroup,
    ),
    test("debug_targets::the_shell_can_be_chosen", &[], shells),
    test(
        "debug_targets::programs_of_the_container_run_in_its_own_root",
        &[],
        own_programs,
    ),
    test(
        "debug_targets::the_command_is_shown_and_looked_at",
        &[],
        entrypoint,
    ),
];

fn create(cx: &Context, options: &[&str]) -> Result<()> {
    let image = cx.image();
    done(
        cx,
        &[&["create", "--name", "still"], options, &[&image, "cat", "/mark"]].concat(),
    )?;
    Ok(())
}

fn stopped(cx: &Context) -> Result<()> {
    let data = cx.directory("data")?;
    create(cx, &["-v", &format!("{data}:/data"), "-e", "A=1"])?;
    let script = "echo by $A > /target/mark; echo volume > /target/data/file; tr '\\0' ' ' < /proc/1/cmdline; \
        ls -A /target | grep -i -e tote -e pause; ps -e -o comm= | sort -u; ls -l /proc/1/exe 2>&1 | grep -c memfd";
    debug(cx, &["--env-of-container", "still", "sh", "-c", script])?
        .has_out("tote-debug")?
        .exits(0)?
        .quietly()?;
    ensure!(fs::read_to_string(format!("{data}/file"))? == "volume\n");
    cx.tote(&["diff", "still"]).output()?.has_out("A /mark\n")?;
    let status = done(
        cx,
        &["inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", "still"],
    )?;
    ensure!(status == "created 0\n" || status == "created 0", "{status:?}");
    cx.tote(&["start", "-a", "still"]).output()?.prints("by 1\n")?;
    // Once more, after it has run.
    debug(cx, &["still", "cat", "/target/mark"])?.prints("by 1\n")?;
    let status = done(cx, &["inspect", "-f", "{{.State.Status}}", "still"])?;
    ensure!(status.trim() == "exited", "{status:?}");
    done(cx, &["rm", "still"])?;
    Ok(())
}

fn meanwhile(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    let mut session = cx
        .tote(&[
            "debug",
            "still",
            "sh",
            "-c",
            "echo in > /target/mark; echo in; read line",
        ])
        .spawn()?;
    session.expect("in\n")?;
    cx.tote(&["start", "still"]).output()?.fails()?.has_err("still")?;
    cx.tote(&["rm", "still"]).output()?.fails()?;
    session.send(b"\n");
    session.finish()?.exits(0)?;
    cx.tote(&["start", "-a", "still"]).output()?.prints("in\n")?;
    done(cx, &["rm", "still"])?;
    Ok(())
}

fn killed(cx: &Context) -> Result<()> {
    create(cx, &[])?;
    let mut session = cx
        .tote(&[
            "debug",
            "still",
            "sh",
            "-c",
            "echo up > /target/mark; echo up; exec sleep 1000",
        ])
        .spawn()?;
    session.expect("up\n")?;
    let mut own = processes::descendants(session.pid());
    ensure!(own.len() >= 2, "{} processes", own.len());
    // These become children of this process. The first process of the PID namespace ends when the others have been waited
    // for.
    let waits = |pid: i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .starts_with(b"tote-debug")
    };
    own.sort_by_key(|process| waits(process.pid));
    session.signal(Signal::KILL)?;
    session.wait()?;
    for process in own {
        let pidfd = processes::pidfd(process.pid)?;
        processes::wait_end(&pidfd, "a process of the session", crate::exchange::patience())?;
        waitpid(Pid::from_raw(process.pid), WaitOptions::empty())?;
    }
    cx.tote(&["start", "-a", "still"]).output()?.prints("up\n")?;
    done(cx, &["rm", "still"])?;
    Ok(())
}

fn limited(cx: &Context) -> Result<()> {
    create(cx, &["--pids-limit", "77"])?;
    let script = "i=0; while [ $i -lt 90 ]; do sleep 100 & i=$((i+1)); done 2>/dev/null; kill $(jobs -p)";
    debug(cx, &["still", "sh", "-c", script])?.fails()?;
    done(cx, &["rm", "still"])?;
    Ok(())
}

fn of_image(cx: &Context) -> Result<()> {
    image(cx, "box", &["ENV A=1", "VOLUME /vol", "CMD cat /mark"])?;
    let script = "echo ${A:-none}; tote exec sh -c 'echo $A'; echo mark > /target/mark; cat /target/mark; ls -d /target/vol 2>&1 | wc -l";
    for name in ["image:box", "box"] {
        let out = debug(cx, &[name, "sh", "-c", script])?;
        out.has_out("none\n1\nmark\n")?.quietly()?;
        debug(cx, &[name, "test", "!", "-e", "/target/mark"])?.exits(0)?;
    }
    // Its container joins no network, whichever is the default.
    cx.tote(&["debug", "box", "ls", "/sys/class/net"])
        .env("TOTE_NETWORK", "bridge")
        .output()?
        .prints("lo\n")?
        .quietly()?;
    // A directory is an image as well, and stays as it is.
    let (dir, name) = cx.own_rootfs("plain")?;
    debug(cx, &[&name, "sh", "-c", "echo x > /target/new"])?.exits(0)?;
    ensure!(
        !dir.join("new").exists(),
        "the session has written to the directory"
    );
    debug(cx, &["image:none-such:1", "true"]).map(drop)?;
    ensure!(cx.containers()?.is_empty());
    done(cx, &["volume", "ls", "-q"])?;
    ensure!(
        done(cx, &["volume", "ls", "-q"])?.trim().is_empty(),
        "a volume is left"
    );
    Ok(())
}

fn scratch(cx: &Context) -> Result<()> {
    let empty = cx.directory("empty")?;
    fs::write(format!("{empty}/only"), "file")?;
    let name = format!("rootfs:{empty}");
    debug(cx, &[&name, "sh", "-c", "cat /target/only; echo; id -u"])?.prints("file\n0\n")?;
    Ok(())
}

fn pod(cx: &Context) -> Result<()> {
    done(cx, &["pod", "create", "p"])?;
    debug(cx, &["pod:p", "true"])?.refuses(1, &["pod p does not run", "tote pod start p"])?;
    let image = cx.image();
    done(
        cx,
        &[
            "run", "-d", "--pod", "p", "--name", "member", &image, "sleep", "1000",
        ],
    )?;
    let look = "readlink /proc/self/ns/net; readlink /proc/self/ns/uts; hostname";
    let member = cx.tote(&["exec", "member", "sh", "-c", look]).output()?;
    for name in ["pod:p", "p"] {
        debug(cx, &["--tools", &image, name, "sh", "-c", look])?.prints(&member.out())?;
    }
    done(cx, &["pod", "rm", "-f", "p"])?;
    Ok(())
}

fn tools(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let image = cx.image();
    done(cx, &["create", "--name", "still", &image, "true"])?;
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "fat",
            &image,
            "sh",
            "-c",
            "echo fat > /bin/tool; echo up; sleep 1000",
        ],
    )?;
    while cx.tote(&["logs", "fat"]).output()?.out() != "up\n" {}
    let script = "cat /bin/tool; echo own > /bin/new; test -e /target/bin/tool || echo apart";
    debug(cx, &["--tools", "container:fat", "c", "sh", "-c", script])?.prints("fat\napart\n")?;
    debug(
        cx,
        &["--tools", "container:fat", "c", "test", "!", "-e", "/bin/new"],
    )?
    .exits(0)?;
    cx.tote(&["exec", "fat", "test", "!", "-e", "/bin/new"])
        .output()?
        .exits(0)?;
    debug(cx, &["--tools", "container:still", "c", "sh", "-c", "echo ran"])?.prints("ran\n")?;
    debug(cx, &["--tools", "container:none-such", "c", "true"])?.refuses(1, &["none-such"])?;
    done(cx, &["rm", "-f", "fat", "still"])?;
    over(container)
}

/// The two containers of a user have different maps then, and root's have different users.
fn tools_of_other_ids(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let image = cx.image();
    let options = match crate::need::is_root() {
        true => ["-u", "1234"],
        false => ["--userns", "keep-id"],
    };
    let run = [
        &["run", "-d", "--name", "fat"],
        &options[..],
        &[&image, "sleep", "1000"],
    ]
    .concat();
    done(cx, &run)?;
    let script = "id -u; echo own > /bin/new && cat /bin/new; test ! -e /target/bin/new && echo apart";
    debug(cx, &["--tools", "container:fat", "c", "sh", "-c", script])?.prints("0\nown\napart\n")?;
    done(cx, &["rm", "-f", "fat"])?;
    over(container)
}

fn tools_of_directory(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let (dir, _) = cx.own_rootfs("tools")?;
    fs::write(dir.join("mark"), "tools\n")?;
    let path = dir.display().to_string();
    for tools in [path.clone(), format!("{path}/../tools"), format!("rootfs:{path}")] {
        debug(
            cx,
            &["--tools", &tools, "c", "sh", "-c", "cat /mark; echo x > /mark"],
        )?
        .prints("tools\n")?;
    }
    ensure!(
        fs::read_to_string(dir.join("mark"))? == "tools\n",
        "the tools were changed"
    );
    debug(cx, &["--tools", "./none-such", "c", "true"])?.refuses(125, &["none-such"])?;
    over(container)
}

fn capabilities(cx: &Context) -> Result<()> {
    let container = running(cx, &["--cap-drop", "ALL"])?;
    let held = |options: &[&str]| -> Result<u64> {
        let show = ["c", "sed", "-n", "s/CapEff:\t//p", "/proc/self/status"];
        let out = debug(cx, &[options, &show].concat())?;
        out.exits(0)?.quietly()?;
        Ok(u64::from_str_radix(out.out().trim(), 16)?)
    };
    // By WAKE_ALARM a session with more rights differs from its container, whatever they are.
    let mark = 1 << 35;
    ensure!(held(&[])? == 0);
    ensure!(held(&["--cap-add", "NET_ADMIN"])? == 1 << 12 | mark);
    ensure!(held(&["--cap-add", "chown,CAP_KILL"])? == 1 | 1 << 5 | mark);
    ensure!(held(&["--no-cgroup"])? == mark);
    ensure!(held(&["--cap-add", "ALL"])? == held(&["--privileged"])?);
    debug(cx, &["--cap-add", "FLY", "c", "true"])?.refuses(125, &["CAP_FLY"])?;
    // The filter opens with the capability, as that of a container does.
    let script = "unshare -m true && echo made";
    debug(cx, &["c", "sh", "-c", script])?.fails()?;
    for option in ["--cap-add=SYS_ADMIN", "--cap-add=ALL", "--privileged"] {
        debug(cx, &[option, "c", "sh", "-c", script])?.has_out("made\n")?;
    }
    over(container)
}

/// A session has the container's own profile, and a privileged one has none.
fn profile(cx: &Context) -> Result<()> {
    let profile = cx.file(
        "profile.json",
        r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#,
    )?;
    let container = running(cx, &["--security-opt", &format!("seccomp={profile}")])?;
    let script = "mkdir /tmp/dir 2>/dev/null && echo made || echo forbidden";
    debug(cx, &["c", "sh", "-c", script])?.prints("forbidden\n")?;
    debug(cx, &["--privileged", "c", "sh", "-c", script])?.prints("made\n")?;
    over(container)
}

fn cgroup(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let show = ["c", "sed", "-n", "/pids/p", "/proc/self/cgroup"];
    let inside = debug(cx, &show)?.out();
    let outside = debug(cx, &[&["--no-cgroup"], &show[..]].concat())?.out();
    ensure!(inside != outside && !outside.is_empty(), "{inside:?} {outside:?}");
    over(container)
}

fn shells(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let settings = "mkdir '/o w n'; echo 'echo set\\tings' > '/o w n/.bashrc'";
    cx.tote(&["exec", "c", "sh", "-c", settings]).output()?.exits(0)?;
    let plain = |words: &[&str]| {
        cx.tote(&[&["debug"], words].concat())
            .env("SHELL", "/bin/none")
            .output()
    };
    plain(&["-c", "echo $BASH_VERSION | wc -w; exit 3", "c"])?
        .exits(3)?
        .has_out("1\n")?;
    plain(&["--shell", "sh", "-c", "echo ${BASH_VERSION:-other}; echo $0", "c"])?
        .exits(0)?
        .has_out("sh\n")?;
    plain(&["--shell", "no-such-shell", "c"])?.refuses(127, &["no-such-shell"])?;
    plain(&["-c", "true", "c", "true"])?.refuses(125, &["--command"])?;
    // The prompt says where one is.
    let (mut session, _window) = cx
        .tote(&["debug", "--shell", "bash", "c"])
        .spawn_in_terminal(20, 80)?;
    session.expect("c")?;
    session.send(b"echo at $debian_\"\"chroot; exit 5\n");
    session.expect("at c")?;
    ensure!(session.wait()? == 5);
    let own = cx
        .tote(&["debug", "-e", "HOME=/target/o w n", "--shell", "bash", "c"])
        .env("PS1", "pro\u{fc}mpt'$((6 * 7))> ");
    let (mut session, _window) = own.spawn_in_terminal(20, 80)?;
    // The settings of a home are read before it, also where the name of the home has spaces.
    session.expect("settings")?;
    session.expect("pro\u{fc}mpt'42> ")?;
    session.send(b"exit 6\n");
    ensure!(session.wait()? == 6);
    over(container)
}

fn own_programs(cx: &Context) -> Result<()> {
    let container = running(cx, &["-e", "PATH=/special:/bin"])?;
    debug(
        cx,
        &[
            "c",
            "tote",
            "exec",
            "sh",
            "-c",
            "echo $PATH; test -e /target || echo own root; pwd",
        ],
    )?
    .prints("/special:/bin\nown root\n/\n")?;
    debug(cx, &["c", "tote", "exec", "sh", "-c", "exit 9"])?.exits(9)?;
    debug(cx, &["c", "tote", "ps"])?
        .exits(125)?
        .has_err("tote exec COMMAND")?;
    over(container)
}

fn entrypoint(cx: &Context) -> Result<()> {
    let image = cx.image();
    done(cx, &["create", "--name", "still", &image, "echo", "it's here"])?;
    debug(cx, &["still", "entrypoint"])?.prints("'echo' 'it'\\''s here'\n")?;
    debug(cx, &["still", "entrypoint", "--lint"])?.prints("nothing to complain about\n")?;
    debug(cx, &["still", "entrypoint", "--run"])?.prints("it's here\n")?;
    done(cx, &["rm", "still"])?;
    done(cx, &["create", "--name", "still", &image, "/no/such"])?;
    debug(cx, &["still", "entrypoint", "--lint"])?
        .exits(1)?
        .has_out("\"/no/such\" cannot be executed")?;
    done(cx, &["rm", "still"])?;
    done(
        cx,
        &["create", "--name", "still", &image, "sh", "-c", "sleep 1 && true"],
    )?;
    debug(cx, &["still", "entrypoint", "--lint"])?
        .exits(1)?
        .has_out("begin it with 'exec'")?;
    done(cx, &["rm", "still"])?;
    Ok(())
}

pub(super) fn own_processes(cx: &Context) -> Result<()> {
    let container = running(cx, &[])?;
    let own = std::process::id();
    // A builtin of the shell acts from where the shell is; the numbers of this machine's processes must mean nothing there.
    let script = format!(
        "kill -0 {own} 2>/dev/null || echo not there; kill -0 1 && echo there; list=$(ps -e -o comm=); echo \"$list\" | sort -u"
    );
    debug(cx, &["c", "bash", "-c", &script])?.prints("not there\nthere\nbash\ncat\nps\n")?;
    over(container)
}

/// On a machine whose /bin is a link, so is that of a container of the image `host`.
pub(super) fn merged_usr(cx: &Context) -> Result<()> {
    let links = fs::read_link("/bin").is_ok();
    done(cx, &["run", "-d", "--name", "h", "host", "sleep", "1000"])?;
    let script =
        "test -x /target/bin/sh && test -x /target/usr/bin/env && echo whole; readlink /target/bin | wc -l";
    let expected = format!("whole\n{}\n", u8::from(links));
    debug(cx, &["h", "sh", "-c", script])?.prints(&expected)?;
    let script = "test -x /bin/sh && test -x /usr/bin/env && echo whole; readlink /bin | wc -l";
    debug(cx, &["--view", "target", "h", "sh", "-c", script])?.prints(&expected)?;
    done(cx, &["rm", "-f", "h"])?;
    Ok(())
}
