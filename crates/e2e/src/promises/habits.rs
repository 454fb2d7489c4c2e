//! Options that users of podman habitually give.

use super::life::{done, empty};
use super::registry::{forget, layer};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use tote_testkit::FakeRegistry;

pub(super) const TESTS: &[Test] = &[
    test("habits::all_containers_at_once", &[], all),
    test("habits::the_latest_container", &[], latest),
    test("habits::logs_of_several", &[], logs),
    test("habits::lists_without_headings_and_sorted", &[], lists),
    test("habits::exists_says_it_by_its_code", &[], exists),
    test("habits::an_image_goes_to_another_name", &[], destination),
];

fn sleeping(cx: &Context, name: &str) -> Result<String> {
    done(cx, &["run", "-d", "--name", name, &cx.image(), "sleep", "1000"])
}

fn all(cx: &Context) -> Result<()> {
    let (a, b) = (sleeping(cx, "a")?, sleeping(cx, "b")?);
    let running = || done(cx, &["ps", "-q"]);
    let both = format!("{a}\n{b}");
    ensure!(done(cx, &["restart", "-t", "0", "--all"])? == both);
    ensure!(running()?.lines().count() == 2);
    ensure!(done(cx, &["kill", "-a"])? == both);
    ensure!(running()?.is_empty());
    ensure!(done(cx, &["kill", "-a"])?.is_empty(), "none runs");
    done(cx, &["start", "a"])?;
    let either = cx.tote(&["rm", "-a", "a"]).output()?;
    either
        .exits(125)?
        .has_err("either containers or --all")?
        .has_err("see 'tote rm --help'")?;
    cx.tote(&["rm"])
        .output()?
        .exits(1)?
        .has_err("requires at least 1 argument.\n")?
        .has_err("see 'tote rm --help'")?;
    cx.tote(&["rm", "-t", "0", "a"])
        .output()?
        .exits(125)?
        .has_err("--force option must be specified")?;
    done(cx, &["rm", "-t", "0", "-f", "a"])?;
    sleeping(cx, "c")?;
    done(cx, &["rm", "-af"])?;
    empty(cx)
}

fn latest(cx: &Context) -> Result<()> {
    let image = cx.image();
    let none = cx.tote(&["logs", "-l"]).output()?;
    none.exits(125)?.has_err("there is no container")?;
    done(cx, &["create", "--name", "old", &image, "true"])?;
    let script = "echo said; exec sleep 1000";
    let id = done(cx, &["run", "-d", "--name", "new", &image, "sh", "-c", script])?;
    ensure!(done(cx, &["inspect", "-l", "-f", "{{.Name}}"])? == "/new");
    ensure!(done(cx, &["exec", "-l", "echo", "-n", "in it"])? == "in it");
    ensure!(done(cx, &["top", "-l", "args"])?.contains("sleep 1000"));
    let glance = ["stats", "--no-stream", "--format", "{{.Container}}"];
    ensure!(done(cx, &[&glance[..], &["new"]].concat())? == "new");
    ensure!(done(cx, &glance)? == id[..12]);
    ensure!(done(cx, &["kill", "-l"])? == id);
    ensure!(done(cx, &["wait", "-l"])? == "137");
    ensure!(done(cx, &["logs", "--latest"])? == "said");
    ensure!(done(cx, &["rm", "--latest"])? == id);
    done(cx, &["rm", "--latest"])?;
    empty(cx)
}

fn logs(cx: &Context) -> Result<()> {
    let image = cx.image();
    let mut said = Vec::new();
    for (name, word) in [("a", "one"), ("b", "two")] {
        let id = done(cx, &["create", "--name", name, &image, "echo", word])?;
        done(cx, &["start", "-a", name])?;
        said.push(format!("{} {word}\n", &id[..12]));
    }
    let both = cx.tote(&["logs", "a", "b"]).output()?;
    both.prints(&said.concat())?;
    cx.tote(&["logs", "-f", "--names", "a", "b"])
        .output()?
        .exits(0)?
        .has_out("a one\n")?
        .has_out("b two\n")?;
    done(cx, &["rm", "-a"])?;
    empty(cx)
}

fn lists(cx: &Context) -> Result<()> {
    let image = cx.image();
    for (name, port) in [("b", "80"), ("a", "8080-8081/udp")] {
        done(cx, &["create", "--expose", port, "--name", name, &image, "true"])?;
    }
    done(cx, &["start", "-a", "b"])?;
    let names = |words: &[&str]| {
        let listed = done(cx, &[&["ps", "-a", "--format", "{{.Names}}"], words].concat())?;
        Ok::<_, anyhow::Error>(listed.replace('\n', " "))
    };
    for (words, expected) in [
        (&[][..], "a b"),
        (&["--sort", "names"], "a b"),
        (&["--sort", "status"], "a b"),
        (&["--sort", "created"], "b a"),
        (&["-f", "status=stopped"], "b"),
        (&["-f", "expose=80"], "b"),
        (&["-f", "expose=8080-8081/udp"], "a"),
        (&["-f", "expose=8080"], ""),
        (&["-f", "publish=80"], ""),
    ] {
        let found = names(words)?;
        ensure!(found == expected, "{words:?}: {found}");
    }
    cx.tote(&["ps", "--sort", "beauty"])
        .output()?
        .exits(125)?
        .has_err("there is no such key")?;
    let rows = done(cx, &["ps", "-a", "--noheading"])?;
    ensure!(rows.lines().count() == 2 && !rows.contains("NAMES"), "{rows}");
    let runs = sleeping(cx, "runs")?;
    let pid = done(cx, &["inspect", "-f", "{{.State.Pid}}", &runs])?;
    let network = fs::read_link(format!("/proc/{pid}/ns/net"))?;
    let number = network.to_string_lossy().replace("net:[", "").replace(']', "");
    let table = done(cx, &["ps", "--ns"])?;
    ensure!(table.contains("USERNS") && table.contains(&number), "{table}");
    ensure!(done(cx, &["ps", "--format", "{{.NET}}"])? == number);
    ensure!(!done(cx, &["ps", "--format", "json"])?.contains("USERNS"));
    done(cx, &["rm", "-f", "runs"])?;
    done(cx, &["rm", "-a"])?;
    let file = cx.path("layer.tar")?;
    fs::write(&file, layer(cx)?)?;
    for name in ["b:1", "a:1"] {
        done(cx, &["import", "-q", &file, name])?;
    }
    let sorted = ["images", "--noheading", "--sort", "repository"];
    let rows = done(cx, &sorted)?;
    ensure!(rows.starts_with("a ") && rows.lines().count() == 2, "{rows}");
    done(cx, &["rmi", "-a"])?;
    empty(cx)
}

fn exists(cx: &Context) -> Result<()> {
    let ends = |words: &[&str], code| {
        let out = cx.tote(words).output()?;
        out.prints_nothing(code).with_context(|| format!("{words:?}"))
    };
    ends(&["container", "exists", "c"], 1)?;
    ends(&["volume", "exists", "vol"], 1)?;
    done(cx, &["create", "--name", "c", &cx.image(), "true"])?;
    done(cx, &["volume", "create", "--name", "vol"])?;
    ends(&["container", "exists", "c"], 0)?;
    ends(&["volume", "exists", "vol"], 0)?;
    done(cx, &["rm", "c"])?;
    done(cx, &["volume", "rm", "vol"])?;
    Ok(())
}

fn destination(cx: &Context) -> Result<()> {
    let registry = FakeRegistry::start();
    let file = cx.path("layer.tar")?;
    fs::write(&file, layer(cx)?)?;
    done(cx, &["import", &file, "mine:1"])?;
    let there = format!("{}/team/app:2", registry.host());
    done(cx, &["push", "-q", "mine:1", &format!("docker://{there}")])?;
    let archive = cx.tote(&["push", "mine:1", "oci-archive:/tmp/x.tar"]).output()?;
    archive.fails()?.has_err("tote save")?;
    done(cx, &["rmi", "-f", "mine:1"])?;
    done(cx, &["rmi", "-a"])?;
    done(cx, &["pull", "-q", &there])?;
    forget(cx, &[&there])
}
