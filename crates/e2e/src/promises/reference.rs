//! Lines from docker's reference, with docker's results: exit code and first line of output.

use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

pub(super) const TESTS: &[Test] = &[
    test("reference::lines_end_as_with_docker", &[], lines),
    test(
        "reference::options_before_the_command_end_as_with_docker",
        &[],
        global_lines,
    ),
    test(
        "reference::invalid_templates_end_as_with_docker",
        &[],
        template_lines,
    ),
    test(
        "reference::values_that_dockers_daemon_refuses_end_as_with_docker",
        &[],
        refused_lines,
    ),
    test(
        "reference::a_registry_out_of_reach_is_told_before_layers",
        &[],
        unreachable,
    ),
    test(
        "reference::lines_about_networks_end_as_with_docker",
        &[Need::Root],
        network_lines,
    ),
];

/// Command line, exit code, and the first line of standard output.
type Line = (&'static str, i32, &'static str);

/// Command lines with words separated by blanks, with `IMAGE` for the test's image and `+` for a blank within a word;
/// the exit code; the first line of standard output, where `ID` is any id.
const LINES: &[Line] = &[
    ("create --name one -v /anonymous -v named:/n IMAGE true", 0, "ID"),
    ("create --name one IMAGE true", 1, ""),
    ("create --name two IMAGE sh -c exit+7", 0, "ID"),
    ("create --bogus IMAGE", 125, ""),
    ("create --memory bogus IMAGE", 125, ""),
    ("rename one two", 1, ""),
    ("rename one a+b", 1, ""),
    ("rename nosuch three", 1, ""),
    ("rename one three", 0, ""),
    (
        "ps -a --no-trunc -f name=three --format {{.Mounts}}",
        0,
        "ID,named",
    ),
    ("start two", 0, "two"),
    ("wait two", 0, "7"),
    ("start -a two", 7, ""),
    ("inspect -f {{.State.ExitCode}}{{.Nosuch}} two", 1, ""),
    ("run -i -a stdin --name in IMAGE cat", 0, "ID"),
    ("run --name err -a stderr IMAGE echo hello", 0, ""),
    ("run --rm -a stderr IMAGE echo hello", 0, ""),
    ("run --rm -a stdout IMAGE echo hello", 0, "hello"),
    ("run --rm -i -a stdout IMAGE cat", 0, ""),
    (
        "create --name kept --restart always -v named:/n IMAGE true",
        0,
        "ID",
    ),
    (
        "inspect -f {{.HostConfig.RestartPolicy}}{{.HostConfig.LogConfig}} kept",
        0,
        "{always 0}{json-file map[]}",
    ),
    ("rm kept", 0, "kept"),
    ("create --expose 80 --name exposed IMAGE true", 0, "ID"),
    ("inspect -f {{.Config.ExposedPorts}} exposed", 0, "map[80/tcp:{}]"),
    ("run --rm -w /path/to IMAGE pwd", 0, "/path/to"),
    ("run --rm -e deep=purple IMAGE sh -c echo+$deep", 0, "purple"),
    ("run --rm IMAGE nosuch", 127, ""),
    ("run -d --name gone IMAGE nosuch", 127, "ID"),
    ("ps -a -f name=gone --format {{.State}}", 0, "created"),
    ("rm gone", 0, "gone"),
    ("run -d --rm --name gone IMAGE nosuch", 127, ""),
    ("ps -aq -f name=gone", 0, ""),
    ("run --rm IMAGE /etc", 126, ""),
    ("run --rm IMAGE sh -c exit+3", 3, ""),
    ("exec nosuch true", 1, ""),
    ("port nosuch", 1, ""),
    ("logs --since garbage two", 1, ""),
    ("volume inspect nosuch", 1, "[]"),
    ("volume rm named", 1, ""),
    ("volume ls -q -f dangling=false -f name=named", 0, "named"),
    ("inspect nosuch", 1, "[]"),
    ("push 127.0.0.1:1/nosuch", 1, "Using default tag: latest"),
    ("push -q 127.0.0.1:1/nosuch", 1, ""),
    ("rmi -f nosuch", 0, ""),
    ("tag nosuch other", 1, ""),
    ("rm two exposed in err", 0, "two"),
    ("rm -v three", 0, "three"),
    ("rm -f three", 0, ""),
    ("rm three", 1, ""),
    ("volume rm named", 0, "named"),
];

/// Lines about networks, which not every user of this machine may have.
const NETWORK_LINES: &[Line] = &[
    ("network create --subnet 10.213.77.0/24 mesh", 0, "ID"),
    ("inspect -f {{.Name}}+{{.Driver}} mesh", 0, "mesh bridge"),
    (
        "inspect --type network -f {{(index+.IPAM.Config+0).Subnet}} mesh",
        0,
        "10.213.77.0/24",
    ),
    ("inspect --type network nosuch", 1, "[]"),
    ("network rm mesh", 0, "mesh"),
];

/// Lines with options before the command, and about contexts.
const GLOBAL_LINES: &[Line] = &[
    ("-D -l DEBUG volume ls -q", 0, ""),
    ("--debug --log-level=warn volume ls -q", 0, ""),
    ("-l bogus volume ls -q", 1, ""),
    ("--config nosuch volume ls -q", 0, ""),
    ("-c default context show", 0, "default"),
    ("--context nosuch volume ls", 1, ""),
    ("context ls --format {{.Name}}", 0, "default"),
    ("context ls -q", 0, "default"),
    ("context use default", 0, "default"),
    ("context use nosuch", 1, ""),
    ("context inspect -f {{.Name}}", 0, "default"),
    ("context inspect nosuch", 1, "[]"),
    ("context create other", 1, ""),
];

/// Lines with invalid templates: 64 where docker's client parses them first, otherwise 1.
const TEMPLATE_LINES: &[Line] = &[
    ("volume create kept", 0, "kept"),
    ("inspect -f {{ kept", 64, ""),
    ("volume inspect -f {{ kept", 64, ""),
    ("inspect -f {{.Nosuch}} kept", 1, ""),
    ("version -f {{", 64, ""),
    ("info -f {{", 64, ""),
    ("ps --format {{.Names", 1, ""),
    ("volume ls --format {{", 1, ""),
    ("events --since 1h --until 0s --format {{", 64, ""),
    ("events --since 1h --until 0s --format {{.Nosuch}}", 64, ""),
    // A volume has no name among its attributes.
    (
        "events --since 1h --until 0s --filter volume=kept --format {{.Actor.Attributes.name}}",
        0,
        "<no value>",
    ),
    ("inspect --type bogus kept", 1, ""),
];

/// Lines with values that docker's client passes on and its daemon refuses, and some that the client refuses.
const REFUSED_LINES: &[Line] = &[
    ("create --restart bogus IMAGE true", 1, ""),
    ("create --restart on-failure:-1 IMAGE true", 1, ""),
    ("create --restart on-failure:x IMAGE true", 125, ""),
    ("create --restart always:2 IMAGE true", 1, ""),
    ("create --stop-signal BOGUS IMAGE true", 1, ""),
    ("create --workdir relative IMAGE true", 1, ""),
    ("create --cpus 999999 IMAGE true", 1, ""),
    ("create --cpu-period 1 IMAGE true", 1, ""),
    ("create --cpu-period bogus IMAGE true", 125, ""),
    ("create --cap-add nosuch IMAGE true", 1, ""),
    ("create --env-file nosuch IMAGE true", 125, ""),
    ("create --label-file nosuch IMAGE true", 125, ""),
    ("create --no-healthcheck --health-cmd true IMAGE true", 125, ""),
    ("create -v named:relative IMAGE true", 1, ""),
    ("create --runtime nosuch IMAGE true", 1, ""),
    ("run --restart bogus IMAGE true", 125, ""),
    ("run --stop-signal BOGUS IMAGE true", 125, ""),
    ("create --name signalled --stop-signal quit IMAGE true", 0, "ID"),
    ("inspect -f {{.Config.StopSignal}} signalled", 0, "quit"),
    ("create --name numbered --stop-signal 12 IMAGE true", 0, "ID"),
    ("inspect -f {{.Config.StopSignal}} numbered", 0, "12"),
    ("rm signalled numbered", 0, "signalled"),
    ("pull UPPER", 1, ""),
    ("push UPPER", 1, ""),
];

fn lines(cx: &Context) -> Result<()> {
    check(cx, LINES)
}

fn global_lines(cx: &Context) -> Result<()> {
    check(cx, GLOBAL_LINES)
}

fn template_lines(cx: &Context) -> Result<()> {
    check(cx, TEMPLATE_LINES)
}

fn refused_lines(cx: &Context) -> Result<()> {
    check(cx, REFUSED_LINES)
}

/// Nothing is compressed for a registry that does not answer.
fn unreachable(cx: &Context) -> Result<()> {
    let made = cx.tote(&["create", &cx.image(), "true"]).output()?;
    let made = made.exits(0)?.out();
    let name = "127.0.0.1:1/there:1";
    cx.tote(&["commit", made.trim(), name]).output()?.exits(0)?;
    let pushed = cx.tote(&["push", name]).output()?;
    pushed.exits(1)?;
    let said = "The push refers to repository [127.0.0.1:1/there]\n";
    let told = pushed.out() == said && pushed.err().starts_with("tote: cannot talk to 127.0.0.1:1: ");
    ensure!(told, "{}", pushed.transcript());
    cx.tote(&["rm", made.trim()]).output()?.exits(0)?;
    Ok(())
}

fn network_lines(cx: &Context) -> Result<()> {
    check(cx, NETWORK_LINES)
}

fn check(cx: &Context, lines: &[Line]) -> Result<()> {
    let image = cx.image();
    for (line, code, first) in lines {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| word.replace("IMAGE", &image).replace('+', " "))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = cx.tote(&words).output()?;
        output.exits(*code)?;
        let out = output.out();
        let shown: Vec<&str> = out.lines().next().unwrap_or_default().split(',').collect();
        let fits = |(wanted, part): (&str, &&str)| match wanted {
            "ID" => part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()),
            wanted => wanted == *part,
        };
        let is_so = shown.len() == first.split(',').count() && first.split(',').zip(&shown).all(fits);
        ensure!(is_so, "{line}: {}", output.transcript());
    }
    Ok(())
}
