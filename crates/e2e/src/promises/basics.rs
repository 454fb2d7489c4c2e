//! `tote run`: the command's output, exit code, name, directory and environment.

use crate::context::{Context, SECRET};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("basics::hello_from_the_host_image", &[], hello),
    test("basics::exit_codes_pass_through", &[], exit_codes),
    test("basics::a_missing_command_exits_127", &[], missing_command),
    test(
        "basics::a_command_that_is_not_executable_exits_126",
        &[],
        not_executable,
    ),
    test(
        "basics::death_by_signal_exits_128_and_the_signal",
        &[],
        death_by_signal,
    ),
    test("basics::sigkill_from_outside_exits_137", &[], killed_from_outside),
    test("basics::the_hostname_is_the_start_of_the_id", &[], hostname_is_id),
    test("basics::hostname_and_entrypoint", &[], hostname_and_entrypoint),
    test("basics::environment_is_what_was_asked_for", &[], environment),
    test("basics::env_file", &[], env_file),
    test("basics::workdir_is_made_when_missing", &[], workdir),
    test("basics::a_name_is_unique_while_it_runs", &[], unique_name),
    test("basics::cidfile_holds_the_id", &[], cidfile),
];

fn hello(cx: &Context) -> Result<()> {
    cx.run(&["host", "echo", "hello"])?.prints("hello\n")?.quietly()?;
    Ok(())
}

fn exit_codes(cx: &Context) -> Result<()> {
    for code in [0, 1, 3, 125, 126, 127, 255] {
        cx.shell(&[], &format!("exit {code}"))?.exits(code)?.quietly()?;
    }
    Ok(())
}

fn missing_command(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.run(&[&image, "no-such-program"])?.refuses(
        127,
        &[
            "no-such-program",
            "executable file not found in $PATH",
            "is not in the image",
        ],
    )?;
    cx.run(&[&image, "/no/such/program"])?
        .refuses(127, &["/no/such/program", "no such file or directory"])?;
    Ok(())
}

fn not_executable(cx: &Context) -> Result<()> {
    for command in ["/etc/passwd", "/etc"] {
        cx.run(&[&cx.image(), command])?
            .refuses(126, &[command, "permission denied"])?;
    }
    Ok(())
}

/// PID 1 cannot be killed from inside its namespace, so an init is between it and the command.
fn death_by_signal(cx: &Context) -> Result<()> {
    for (signal, code) in [(9, 137), (15, 143), (6, 134)] {
        cx.shell(&["--init"], &format!("kill -{signal} $$"))?
            .exits(code)?;
    }
    Ok(())
}

fn killed_from_outside(cx: &Context) -> Result<()> {
    let mut running = cx.run_command(&["-i", &cx.image(), "cat"]).spawn()?;
    running.send(b"up\n");
    running.expect("up\n")?;
    processes::kill(processes::container_init(running.pid())?, Signal::KILL);
    running.finish()?.exits(137)?;
    Ok(())
}

fn hostname_is_id(cx: &Context) -> Result<()> {
    let mut running = cx
        .run_command(&["-i", &cx.image(), "sh", "-c", "hostname; cat"])
        .spawn()?;
    let seen = running.expect("\n")?;
    let name = seen.trim();
    let short = name.len() == 12 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    ensure!(
        short,
        "expected 12 hexadecimal digits as the hostname, saw {name:?}"
    );
    let known = cx.containers()?;
    ensure!(
        known.iter().any(|id| id.starts_with(name)),
        "hostname {name} begins none of the ids {known:?}"
    );
    running.finish()?.exits(0)?;
    let other = cx.run(&[&cx.image(), "hostname"])?.out();
    ensure!(other.trim() != name, "two containers have the hostname {name}");
    Ok(())
}

fn cidfile(cx: &Context) -> Result<()> {
    let path = cx.path("cid")?;
    let out = cx.run(&["--cidfile", &path, &cx.image(), "hostname"])?;
    let id = fs::read_to_string(&path)?;
    ensure!(id.len() == 64, "expected an id of 64 digits, saw {id:?}");
    out.prints(&format!("{}\n", &id[..12]))?.quietly()?;
    cx.run(&["--cidfile", &path, &cx.image(), "true"])?
        .refuses(125, &["container ID file found", &path])?;
    Ok(())
}

fn hostname_and_entrypoint(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.run(&["--hostname", "web1.example", &image, "hostname"])?
        .prints("web1.example\n")?;
    cx.run(&["--hostname", "web1", &image, "cat", "/etc/hostname"])?
        .prints("web1\n")?;
    cx.run(&["--entrypoint", "/bin/echo", &image, "a", "b c"])?
        .prints("a b c\n")?;
    cx.run(&["--entrypoint", "echo", &image])?.prints("\n")?;
    Ok(())
}

fn environment(cx: &Context) -> Result<()> {
    let image = cx.image();
    let out = cx
        .run_command(&[
            "-e", "A=1", "-e", "B", "-e", "UNSET", "-e", "A=2 = x", "--env=E=", &image, "env",
        ])
        .env("B", "from the host")
        .output()?;
    out.exits(0)?.quietly()?;
    let text = out.out();
    let mut seen: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("HOSTNAME="))
        .collect();
    seen.sort_unstable();
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let expected = ["A=2 = x", "B=from the host", "E=", "HOME=/root", path];
    ensure!(
        seen == expected,
        "expected {expected:?} and HOSTNAME, saw {seen:?}"
    );
    ensure!(!text.contains(SECRET.0), "the host's environment leaked:\n{text}");
    Ok(())
}

fn env_file(cx: &Context) -> Result<()> {
    let file = cx.file(
        "env",
        "# a comment\n\nPLAIN=a b\nQUOTED=\"q\"\nEMPTY=\nFROM_HOST\nNOT_SET\nLAST=file\n",
    )?;
    let out = cx
        .run_command(&["--env-file", &file, "-e", "LAST=option", &cx.image(), "env"])
        .env("FROM_HOST", "h")
        .output()?;
    out.exits(0)?;
    let text = out.out();
    for line in [
        "PLAIN=a b",
        "QUOTED=\"q\"",
        "EMPTY=",
        "FROM_HOST=h",
        "LAST=option",
    ] {
        ensure!(
            text.lines().any(|seen| seen == line),
            "expected the line {line:?}, saw:\n{text}"
        );
    }
    ensure!(
        !text.contains("NOT_SET") && !text.contains("comment"),
        "expected no more, saw:\n{text}"
    );
    cx.run(&["--env-file", "/no/such/file", &cx.image(), "true"])?
        .refuses(125, &["/no/such/file"])?;
    Ok(())
}

fn workdir(cx: &Context) -> Result<()> {
    let image = cx.image();
    cx.run(&[&image, "pwd"])?.prints("/\n")?;
    cx.run(&["-w", "/tmp", &image, "pwd"])?.prints("/tmp\n")?;
    cx.run(&["-w", "/new/and/deep", &image, "pwd"])?
        .prints("/new/and/deep\n")?;
    cx.run(&["-w", "/tmp/../etc", &image, "cat", "hostname"])?
        .exits(0)?;
    cx.run(&["-w", "relative", &image, "pwd"])?
        .refuses(125, &["relative"])?;
    let made = cx.shared_rootfs().join("new");
    ensure!(
        fs::symlink_metadata(&made).is_err(),
        "{} was made in the image",
        made.display()
    );
    Ok(())
}

fn unique_name(cx: &Context) -> Result<()> {
    let image = cx.image();
    let mut first = cx.run_command(&["-i", "--name", "twin", &image, "cat"]).spawn()?;
    first.send(b"up\n");
    first.expect("up\n")?;
    cx.run(&["--name", "twin", &image, "true"])?
        .refuses(125, &["twin"])?;
    cx.run(&["--name", "other", &image, "true"])?
        .exits(0)
        .context("another name")?;
    first.finish()?.exits(0)?;
    cx.run(&["--name", "twin", &image, "true"])?
        .exits(0)
        .context("the same name, free again")?;
    Ok(())
}
