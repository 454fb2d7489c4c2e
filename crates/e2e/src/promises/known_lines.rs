//! Command lines from docker's reference with their results as seen with docker: the exit code, and the first line of
//! the output. Error texts differ, so only the code counts for failures.

use super::drivers::remove_kept;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("known_lines::end_as_with_docker", &[], end_alike),
    test("known_lines::of_run_print_what_docker_prints", &[], run_alike),
    test(
        "known_lines::a_commit_carries_what_the_container_has",
        &[],
        commit,
    ),
    test(
        "known_lines::a_source_with_a_dot_is_below_the_directory",
        &[],
        dot,
    ),
];

/// Lines for a state with an ended container `c`. `IMAGE` stands for the tests' image.
const ENDS: &[(&str, i32, &str)] = &[
    ("bogus", 1, ""),
    ("image bogus", 1, ""),
    ("container bogus", 1, ""),
    ("run", 1, ""),
    ("create", 1, ""),
    ("rm", 1, ""),
    ("kill", 1, ""),
    ("diff", 1, ""),
    ("exec c", 1, ""),
    ("inspect", 1, ""),
    ("pull", 1, ""),
    ("save", 1, ""),
    ("build", 1, ""),
    ("ps extra", 1, ""),
    ("images a b", 1, ""),
    ("tag one", 1, ""),
    ("ps --bogus", 125, ""),
    ("ps -Z", 125, ""),
    ("run --bogus IMAGE", 125, ""),
    ("run --name c IMAGE true", 125, ""),
    ("create --name c IMAGE", 1, ""),
    ("create --pull never nosuch:nosuch", 1, ""),
    ("run --pull never nosuch:nosuch", 125, ""),
    ("run -i -t IMAGE true", 1, ""),
    ("rename c bad/name", 1, ""),
    ("rename nosuch x", 1, ""),
    ("update --restart=bogus c", 1, ""),
    ("update -m 1k c", 1, ""),
    ("update c", 1, ""),
    ("commit c UPPER", 1, ""),
    ("commit --change RUN c", 1, ""),
    ("commit nosuch x", 1, ""),
    ("export -o /proc/nosuch/x c", 1, ""),
    ("export nosuch", 1, ""),
    ("logs nosuch", 1, ""),
    ("stop nosuch", 1, ""),
    ("start nosuch", 1, ""),
    ("wait nosuch", 1, ""),
    ("rm nosuch", 1, ""),
    ("rm -f nosuch", 0, ""),
    ("rmi nosuch", 1, ""),
    ("rmi -f nosuch", 0, ""),
    ("history nosuch", 1, ""),
    ("tag nosuch x", 1, ""),
    ("volume inspect nosuch", 1, "[]"),
    ("volume rm nosuch", 1, ""),
    ("volume create bad/name", 1, ""),
    ("volume create -o bogus=1 v", 1, ""),
    ("ps -f bogus=1", 1, ""),
    ("ps -f status=bogus", 1, ""),
    ("ps -aqf is-task=true", 0, ""),
    ("ps -af is-task=false --format {{.Names}}", 0, "c"),
    ("ps -af exited=3 --format {{.Names}}", 0, "c"),
    ("start c", 0, "c"),
    ("wait c", 0, "3"),
    ("inspect -f {{.Config.Cmd}} c", 0, "[sh -c exit 3]"),
    ("inspect -f {{.Nope}} c", 1, ""),
];

fn words(line: &str, cx: &Context) -> Vec<String> {
    let words = line.split_whitespace();
    words
        .map(|word| {
            if word == "IMAGE" {
                cx.image()
            } else {
                word.to_owned()
            }
        })
        .collect()
}

fn end_alike(cx: &Context) -> Result<()> {
    cx.tote(&["run", "--name", "c", &cx.image(), "sh", "-c", "exit 3"])
        .output()?
        .exits(3)?;
    for &(line, code, first) in ENDS {
        let words = words(line, cx);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let out = cx.tote(&words).output()?;
        out.exits(code).with_context(|| line.to_owned())?;
        ensure!(
            out.out().lines().next().unwrap_or_default() == first,
            "{line}: {}",
            out.transcript()
        );
    }
    remove_kept(cx)
}

/// Options of `run`, the command, the exit code and the first line.
const RUNS: &[(&[&str], &str, i32, &str)] = &[
    (&[], "pwd", 0, "/"),
    (&["-w", "/path/to/dir"], "pwd", 0, "/path/to/dir"),
    (&["-h", "box"], "hostname", 0, "box"),
    (&["-e", "A=b c"], "echo $A", 0, "b c"),
    (&["-e", "A"], "echo ${A-unset}", 0, "unset"),
    (&["--read-only"], "touch /x || echo refused", 0, "refused"),
    (
        &["--read-only", "--tmpfs", "/t"],
        "touch /t/x && echo done",
        0,
        "done",
    ),
    (&["--tmpfs", "/t:size=1m,mode=700"], "stat -c %a /t", 0, "700"),
    (
        &["--mount", "type=tmpfs,dst=/v,tmpfs-mode=1770"],
        "stat -c %a /v",
        0,
        "1770",
    ),
    (
        &["--cap-drop", "ALL"],
        "grep CapEff /proc/self/status",
        0,
        "CapEff:\t0000000000000000",
    ),
    (
        &["--security-opt", "no-new-privileges"],
        "grep NoNewPrivs /proc/self/status",
        0,
        "NoNewPrivs:\t1",
    ),
    (
        &["--security-opt", "seccomp=unconfined"],
        "grep Seccomp: /proc/self/status",
        0,
        "Seccomp:\t0",
    ),
    (&["--ulimit", "nofile=100:200"], "ulimit -Sn", 0, "100"),
    (&["--stop-timeout", "abc"], "true", 125, ""),
    (&["--ulimit", "nofile=200:100"], "true", 125, ""),
    (&["--network", "bogus"], "true", 125, ""),
    (&["-v", "/tmp:relative"], "true", 125, ""),
    (&["-m", "1k"], "true", 125, ""),
    (&["--rm=bogus"], "true", 125, ""),
];

fn run_alike(cx: &Context) -> Result<()> {
    for &(options, script, code, first) in RUNS {
        let out = cx.shell(options, script)?;
        out.exits(code).with_context(|| format!("{options:?} {script}"))?;
        ensure!(
            out.out().lines().next().unwrap_or_default() == first,
            "{options:?} {script}: {}",
            out.transcript()
        );
    }
    remove_kept(cx)
}

fn commit(cx: &Context) -> Result<()> {
    let image = cx.image();
    let words = [
        "run", "--name", "c", "-e", "A=b", "-w", "/tmp", "-l", "x=y", "--expose", "80",
    ];
    let script = "echo $A in $PWD";
    cx.tote(&[&words[..], &[&image, "sh", "-c", script]].concat())
        .output()?
        .prints("b in /tmp\n")?;
    cx.tote(&["commit", "c", "carried"]).output()?.exits(0)?;
    let of = |ancestor: &str| {
        let filter = format!("ancestor={ancestor}");
        let words = ["ps", "-a", "-f", &filter, "--format", "{{.Names}}"];
        Ok::<_, anyhow::Error>(cx.tote(&words).output()?.out())
    };
    ensure!(of(&image)? == "c\n" && of("carried")?.is_empty(), "whose heirs");
    // An image without a layer of its own is an heir, not an ancestor.
    let create = |name: &str, image: &str| cx.tote(&["create", "--name", name, image]).output();
    create("first", "carried")?.exits(0)?;
    cx.tote(&["commit", "-c", "LABEL z=1", "first", "again"])
        .output()?
        .exits(0)?;
    ensure!(
        of("carried")? == "first\n" && of("again")?.is_empty(),
        "ancestors"
    );
    create("second", "again")?.exits(0)?;
    ensure!(
        of("carried")? == "second\nfirst\n" && of("again")? == "second\n",
        "heirs"
    );
    cx.tote(&["rm", "first", "second"]).output()?.exits(0)?;
    cx.tote(&["rmi", "again"]).output()?.exits(0)?;
    // No option is given: all settings come from the image.
    cx.run(&["--rm", "carried"])?.prints("b in /tmp\n")?;
    let format = "{{index .Config.Labels \"x\"}} {{.Config.ExposedPorts}}";
    cx.tote(&["image", "inspect", "-f", format, "carried"])
        .output()?
        .prints("y map[80/tcp:{}]\n")?;
    cx.tote(&["commit", "-c", "CMD [\"echo\", \"other\"]", "c", "carried"])
        .output()?
        .exits(0)?;
    cx.run(&["--rm", "carried"])?.prints("other\n")?;
    cx.tote(&["rm", "c"]).output()?.exits(0)?;
    cx.tote(&["rmi", "carried"]).output()?.exits(0).map(drop)
}

fn dot(cx: &Context) -> Result<()> {
    cx.shell(
        &["--mount", "type=bind,source=.,target=/x", "--rm"],
        "test -d /x && echo there",
    )?
    .prints("there\n")?;
    cx.shell(&["--mount", "type=bind,source=x/y,target=/x"], "true")?
        .refuses(125, &["mount path must be absolute"])
        .map(drop)
}
