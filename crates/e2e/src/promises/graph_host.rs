//! `tote graph run` of programs of the host.

use super::graph::{run, text};
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
