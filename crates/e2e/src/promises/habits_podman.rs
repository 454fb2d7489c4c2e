//! Options and fields with which scripts for podman begin: each is taken, with podman's meaning where it has one here, or
//! answered with another way.

use super::life::{done, empty};
use super::registry::{forget, layer};
use crate::context::Context;
use crate::invocation::Invocation;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("podmans_habits::options_are_taken", &[], options),
    test("podmans_habits::options_that_act_act", &[], acting),
    test("podmans_habits::fields_of_templates", &[], fields),
    test("podmans_habits::what_is_missing_has_another_way", &[], missing),
    test(
        "podmans_habits::required_containers_are_started_first",
        &[],
        required,
    ),
    test("podmans_habits::conditions_are_waited_for", &[], conditions),
    test("podmans_habits::by_podmans_name", &[], by_name),
];

/// Imports an image with the name `box`, and makes the container `c` and the volume `data`.
fn prepare(cx: &Context) -> Result<()> {
    let file = cx.path("layer.tar")?;
    fs::write(&file, layer(cx)?)?;
    done(cx, &["import", "-q", &file, "box"])?;
    done(cx, &["create", "--name", "c", &cx.image(), "true"])?;
    done(cx, &["volume", "create", "data"])?;
    cx.file("Dockerfile", "FROM box\nLABEL a=b\n")?;
    Ok(())
}

fn clear(cx: &Context) -> Result<()> {
    done(cx, &["rm", "-fa"])?;
    done(cx, &["rmi", "-fa"])?;
    done(cx, &["volume", "rm", "-a", "-t", "1"])?;
    ensure!(done(cx, &["volume", "ls", "-q"])?.is_empty());
    empty(cx)
}

/// Lines that end well; `DIR` stands for the directory of the test.
const TAKEN: &[&str] = &[
    "--events-backend file --storage-driver overlay --cgroup-manager cgroupfs --runroot /run/x --syslog ps",
    "build -q --format docker --layers --jobs 2 -t two DIR",
    "build -q --layers=false --pull-never DIR",
    "build --logfile DIR/log DIR",
    "events --stream=false --since 1h",
    "cp --pause c:/etc/passwd DIR/passwd",
    "cp --pause=false c:/etc/passwd DIR/passwd",
    "save --quiet --uncompressed -o DIR/saved.tar box",
    "save -q -o DIR/again.tar box",
    "ps --external -a",
    "volume ls --noheading",
    "volume ls -n",
    "network ls --noheading",
    "network ls -n",
    "logs --color c",
    "wait --condition created --interval 1s c",
    "wait --ignore missing",
    "pod create --infra-image registry.example/pause --infra-command /pause p",
    "pod rm -f p",
];

fn options(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let dir = cx.scratch().display().to_string();
    for line in TAKEN {
        let line = line.replace("DIR", &dir);
        let words: Vec<&str> = line.split_whitespace().collect();
        let out = cx.tote(&words).output()?;
        out.exits(0).with_context(|| line.clone())?;
        let listed = out.out();
        let has_heading = listed.contains("VOLUME NAME") || listed.contains("NETWORK ID");
        ensure!(!has_heading, "{line}: {listed}");
    }
    let registry = FakeRegistry::start();
    let there = format!("{}/team/app:2", registry.host());
    done(
        cx,
        &[
            "push",
            "-q",
            "--format",
            "v2s2",
            "--remove-signatures",
            "box",
            &there,
        ],
    )?;
    forget(cx, &["two"])?;
    clear(cx)
}

/// Reads a file that is for its owner alone.
fn read_own(path: &str) -> Result<String> {
    let mode = fs::metadata(path)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{path} has the mode {mode:o}");
    Ok(fs::read_to_string(path)?)
}

fn acting(cx: &Context) -> Result<()> {
    prepare(cx)?;
    let dir = cx.scratch().display().to_string();
    for words in [
        &["--noout", "ps"][..],
        &["--noout", "run", "--rm", &cx.image(), "echo", "said"],
    ] {
        cx.tote(words)
            .output()?
            .prints("")
            .with_context(|| words.join(" "))?;
    }
    let log = cx.path("log")?;
    cx.tote(&["build", "--logfile", &log, &dir])
        .output()?
        .prints("")?
        .quietly()?;
    let said = read_own(&log)?;
    ensure!(said.contains("Successfully built"), "{said:?}");
    cx.file("Dockerfile", "FROM localhost/not-there\n")?;
    let never = cx.tote(&["build", "--pull-never", &dir]).output()?;
    never.fails()?;
    let file = cx.path("pid")?;
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "r",
            "--conmon-pidfile",
            &file,
            &cx.image(),
            "sleep",
            "1000",
        ],
    )?;
    let watching: i32 = fs::read_to_string(&file)?.trim().parse()?;
    let own: i32 = done(cx, &["inspect", "-f", "{{.State.Pid}}", "r"])?.parse()?;
    let parent = fs::read_to_string(format!("/proc/{own}/stat"))?;
    let parent = parent
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').nth(1).unwrap_or_default());
    ensure!(
        parent == Some(watching.to_string().as_str()),
        "{watching}: {parent:?}"
    );
    done(
        cx,
        &[
            "run",
            "-d",
            "--name",
            "joins",
            "--network",
            "container:r",
            &cx.image(),
            "sleep",
            "1000",
        ],
    )?;
    done(
        cx,
        &[
            "create",
            "--name",
            "needs",
            "--requires",
            "joins",
            &cx.image(),
            "true",
        ],
    )?;
    done(cx, &["rm", "-f", "--depend", "r"])?;
    ensure!(
        done(cx, &["ps", "-a", "--format", "{{.Names}}"])? == "c",
        "those that depend on it are left"
    );
    clear(cx)
}

fn fields(cx: &Context) -> Result<()> {
    prepare(cx)?;
    done(
        cx,
        &["build", "-q", "-t", "two", &cx.scratch().display().to_string()],
    )?;
    let id = done(cx, &["image", "inspect", "-f", "{{.Id}}", "box"])?;
    let log = [
        "--log-opt",
        "max-size=1m",
        "--health-cmd",
        "true",
        "--health-on-failure",
        "kill",
    ];
    done(
        cx,
        &[&["create", "--name", "d"][..], &log, &["box", "true"]].concat(),
    )?;
    for (words, expected) in [
        (&["inspect", "-f", "{{.ImageName}}", "d"][..], "box"),
        (&["inspect", "-f", "{{.ImageDigest}}", "d"], id.as_str()),
        (&["inspect", "-f", "{{.HostConfig.LogConfig.Size}}", "d"], "1m"),
        (&["inspect", "-f", "{{.HostConfig.LogConfig.Size}}", "c"], "0B"),
        (
            &["inspect", "-f", "{{.Config.HealthcheckOnFailureAction}}", "d"],
            "kill",
        ),
        (
            &["inspect", "-f", "{{.Config.HealthcheckOnFailureAction}}", "c"],
            "none",
        ),
        (&["image", "inspect", "-f", "{{.Digest}}", "box"], &id),
        (
            &["images", "--format", "{{.Labels}} {{.History}}", "two"],
            "map[a:b] []",
        ),
    ] {
        let found = done(cx, words)?;
        ensure!(found == expected, "{words:?}: {found}");
    }
    done(cx, &["start", "-a", "c"])?;
    let path = "{{.HostConfig.LogConfig.Path}} {{.LogPath}}";
    let path = done(cx, &["inspect", "-f", path, "c"])?;
    let (path, whole) = path.split_once(' ').context("two paths")?;
    ensure!(path == whole, "{path} {whole}");
    for words in [
        &["history", "--format", "{{.Created}}", "box"][..],
        &["system", "df", "--format", "{{.Total}}"],
    ] {
        ensure!(!done(cx, words)?.is_empty(), "{words:?}");
    }
    let json = done(cx, &["images", "--format", "json", "box"])?;
    ensure!(!json.contains("History"), "JSON is docker's: {json}");
    clear(cx)
}

fn missing(cx: &Context) -> Result<()> {
    for words in [
        &["image", "mount", "box"][..],
        &["image", "unmount", "box"],
        &["image", "umount", "box"],
        &["volume", "mount", "data"],
        &["volume", "unmount", "data"],
        &["run", "--health-startup-cmd", "true", "box"],
    ] {
        cx.tote(words)
            .output()?
            .fails()?
            .has_err("hint: ")
            .with_context(|| words.join(" "))?;
    }
    for words in [&["volume", "rm"][..], &["volume", "rm", "-a", "x"]] {
        cx.tote(words)
            .output()?
            .fails()?
            .has_err("either volumes or --all")?;
    }
    let out = cx.tote(&["wait", "--condition", "happy", "x"]).output()?;
    out.fails()?.has_err("--condition happy: give")?;
    Ok(())
}

fn required(cx: &Context) -> Result<()> {
    let image = cx.image();
    let make = |name: &str, requires: &str| {
        done(
            cx,
            &[
                "create",
                "--name",
                name,
                "--requires",
                requires,
                &image,
                "sleep",
                "1000",
            ],
        )
    };
    for name in ["a", "b"] {
        done(cx, &["create", "--name", name, &image, "sleep", "1000"])?;
    }
    make("both", "a,b")?;
    make("chain", "both")?;
    done(cx, &["rename", "a", "renamed"])?;
    done(cx, &["start", "chain"])?;
    let names = done(cx, &["ps", "--sort", "names", "--format", "{{.Names}}"])?;
    ensure!(names == "b\nboth\nchain\nrenamed", "{names}");
    let out = cx
        .tote(&["create", "--requires", "missing", &image, "true"])
        .output()?;
    out.fails()?.has_err("missing")?;
    done(cx, &["rm", "-f", "renamed", "both"])?;
    let out = cx.tote(&["start", "both"]).output()?;
    out.fails()?;
    done(cx, &["stop", "-t", "0", "chain"])?;
    let out = cx.tote(&["start", "chain"]).output()?;
    out.fails()?.has_err("a required container is missing")?;
    done(cx, &["run", "--rm", "--requires", "b", &image, "true"])?;
    done(cx, &["rm", "-fa"])?;
    empty(cx)
}

fn conditions(cx: &Context) -> Result<()> {
    let image = cx.image();
    let health = [
        "--health-cmd",
        r#"["CMD-SHELL","test -e /healthy"]"#,
        "--health-interval",
        "200ms",
    ];
    done(
        cx,
        &[
            &["create", "--name", "c"][..],
            &health,
            &[&image, "sleep", "1000"],
        ]
        .concat(),
    )?;
    let waits = |condition: &str| cx.tote(&["wait", "--condition", condition, "c"]).spawn();
    let running = waits("running")?;
    done(cx, &["start", "c"])?;
    running.finish()?.prints("-1\n")?;
    let healthy = waits("healthy")?;
    done(cx, &["exec", "c", "touch", "/healthy"])?;
    healthy.finish()?.prints("-1\n")?;
    let ended = waits("stopped")?;
    done(cx, &["kill", "c"])?;
    ended.finish()?.prints("137\n")?;
    let removed = waits("running")?;
    done(cx, &["rm", "c"])?;
    removed.finish()?.fails()?;
    empty(cx)
}

/// Called by podman's name, the list of containers is podman's, and so is the version.
fn by_name(cx: &Context) -> Result<()> {
    done(
        cx,
        &["create", "--name", "c", "--label", "a=b", &cx.image(), "true"],
    )?;
    let podman = cx.path("podman")?;
    symlink(cx.binary(), &podman)?;
    let root = cx.root().display().to_string();
    let called = |words: &[&str]| {
        let out = Invocation::new([&[podman.as_str(), "--root", &root], words].concat()).output()?;
        out.exits(0)?;
        Ok::<_, anyhow::Error>(out.out())
    };
    let listed: serde_json::Value = serde_json::from_str(&called(&["ps", "-a", "--format", "json"])?)?;
    let first = &listed[0];
    ensure!(
        first["Names"][0] == "c" && first["Labels"]["a"] == "b" && first["State"] == "created",
        "{listed}"
    );
    ensure!(first["Exited"] == false && first["Created"].is_u64(), "{listed}");
    ensure!(called(&["--version"])? == "podman version 4.9.4\n");
    ensure!(called(&["version", "-f", "{{.Client.Version}} {{.Server.Version}}"])? == "4.9.4 4.9.4\n");
    ensure!(called(&["info", "-f", "{{.Version.Version}}"])? == "4.9.4\n");
    done(cx, &["rm", "c"])?;
    empty(cx)
}
