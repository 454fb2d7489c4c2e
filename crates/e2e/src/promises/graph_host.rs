//! `tote graph run` of programs of the host.

use super::graph::{graph, run, text};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "graph::a_program_of_the_host_has_its_libraries_only",
        &[Need::Program("sort")],
        of_host,
    ),
    test(
        "graph::an_installed_package_is_imported_with_what_it_needs",
        &[
            Need::Program("dpkg"),
            Need::Program("grep"),
            Need::Program("tar"),
            Need::Program("sha256sum"),
        ],
        installed,
    ),
    test(
        "graph::an_upgrade_of_the_host_changes_no_container",
        &[Need::Root, Need::Program("unshare")],
        upgraded,
    ),
];

fn of_host(cx: &Context) -> Result<()> {
    let first = run(cx, &["sort", "--version"])?;
    let said = Invocation::new(["sort", "--version"]).output()?;
    ensure!(first.exits(0)?.out() == said.out(), "sort says something else");
    // The root has the program and what ldd(1) finds, and no other program.
    run(cx, &["--entrypoint", "/usr/bin/ls", "sort"])?.refuses(127, &["/usr/bin/ls"])?;
    let container = run(cx, &["host:sort", "/etc/passwd"])?.exits(0)?.out();
    ensure!(container.contains("root:x:0:0:"), "no accounts: {container}");
    let own = fs::read_to_string("/etc/passwd")?;
    let of_machine = own.lines().find(|line| line.contains("tote-e2e"));
    ensure!(
        of_machine.is_none_or(|line| !container.contains(line)),
        "the machine's accounts are inside"
    );
    run(cx, &["no-such-program"])?.refuses(125, &["no-such-program"])?;
    Ok(())
}

fn installed(cx: &Context) -> Result<()> {
    graph(cx, &["import", "deb:grep"])?
        .exits(0)?
        .has_out("deb:grep: ")?;
    graph(cx, &["why", "grep", "libc6"])?
        .exits(0)?
        .has_out("libc6=")?;
    let said = Invocation::new(["grep", "--version"]).output()?;
    ensure!(
        run(cx, &["grep", "--version"])?.exits(0)?.out() == said.out(),
        "grep says something else"
    );
    // No package of the machine that grep does not need is there, and neither is one of its files.
    let listed = graph(cx, &["ls", "--format", "{{.Name}}"])?.exits(0)?.out();
    ensure!(
        !listed.lines().any(|name| name == "bash" || name == "apt"),
        "{listed}"
    );
    run(cx, &["--entrypoint", "/usr/bin/apt-get", "grep"])?.refuses(127, &["/usr/bin/apt-get"])?;
    // The package's list of files and the container's agree on the program, byte for byte.
    let sum = |out: String| out.split(' ').next().unwrap_or_default().to_owned();
    let own = sum(Invocation::new(["sha256sum", "/usr/bin/grep"])
        .output()?
        .exits(0)?
        .out());
    let archive = cx.path("closure.tar")?;
    cx.tote(&[
        "graph",
        "run",
        "--network",
        "none",
        "--name",
        "c",
        "grep",
        "--version",
    ])
    .output()?
    .exits(0)?;
    cx.tote(&["export", "-o", &archive, "c"]).output()?.exits(0)?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    let script = "tar -xOf \"$1\" usr/bin/grep | sha256sum";
    let inside = Invocation::new(["sh", "-c", script, "sh", &archive])
        .output()?
        .exits(0)?
        .out();
    ensure!(sum(inside) == own, "the container's grep is another file");
    Ok(())
}

fn upgraded(cx: &Context) -> Result<()> {
    // In mounts of its own this machine's /usr has a program more.
    let (upper, work) = (cx.directory("upper")?, cx.directory("work")?);
    let (tote, root) = (text(cx.binary())?.to_owned(), cx.root());
    let script = r#"set -e
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$1,workdir=$2" /usr
put() { printf '#!/bin/sh\necho %s; read -r line; echo %s again\n' $1 $1 >/usr/bin/graph-test.new; chmod 755 /usr/bin/graph-test.new; mv /usr/bin/graph-test.new /usr/bin/graph-test; }
run() { "$3" --root "$4" graph run --rm --network none -i graph-test; }
put one
echo | run "$@"
mkfifo "$1/../in" "$1/../out"
run "$@" <"$1/../in" >"$1/../out" &
exec 3>"$1/../in" 4<"$1/../out"
read -r line <&4
put two
echo >&3
read -r again <&4
echo "running: $line, $again"
wait
echo | run "$@"
"#;
    let words = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        &upper,
        &work,
        &tote,
        text(&root)?,
    ];
    Invocation::new(words)
        .output()?
        .prints("one\none again\nrunning: one, one again\ntwo\ntwo again\n")?;
    Ok(())
}
