//! `inspect` shows everything, in docker's format.

use super::drivers::remove_kept;
use super::look::{create, running};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::path::Path;

pub(super) const TESTS: &[Test] = &[
    test("inspect::has_dockers_shape", &[], inspect),
    test("inspect::takes_dockers_templates", &[], templates),
    test("inspect::unset_fields_are_empty_as_dockers", &[], unset),
    test("inspect::info_and_version_have_others_fields", &[], machine),
    test(
        "inspect::finds_whatever_has_a_name",
        &[Need::Program("tar")],
        objects,
    ),
];

/// Creates a container with every kind of setting. Returns its id.
fn web(cx: &Context) -> Result<String> {
    let image = cx.image();
    create(
        cx,
        &[
            "--name",
            "web",
            "-e",
            "A=1",
            "-m",
            "64m",
            "-v",
            "/etc:/mnt:ro",
            "-v",
            "data:/data",
            "-w",
            "/tmp",
            &image,
            "sh",
            "-c",
            "true",
        ],
    )
}

fn unset(cx: &Context) -> Result<()> {
    let image = cx.image();
    create(
        cx,
        &[
            "--name",
            "c",
            "-v",
            "/etc:/mnt:ro",
            "--tmpfs",
            "/t",
            &image,
            "true",
        ],
    )?;
    for (template, expected) in [
        ("{{range .Mounts}}{{.Type}}:{{.Name}};{{end}}", "bind:;"),
        ("{{.Config.Healthcheck}}", "<nil>"),
        ("{{.Config.ExposedPorts}}", "map[]"),
        ("{{.Config.StopTimeout}}", "<nil>"),
        ("{{.HostConfig.Init}}", "<nil>"),
        ("{{.HostConfig.KernelMemory}}", "0"),
        ("{{.HostConfig.CapAdd}}", "[]"),
        ("{{json .HostConfig.CapAdd}}", "null"),
        ("{{.Config.Labels.foo}}", "<no value>"),
        ("{{.NetworkSettings.Networks.bridge.IPAddress}}", "<no value>"),
        ("{{.GraphDriver.Data.Nothing}}", "<no value>"),
        ("{{.State.Health}}", "<nil>"),
    ] {
        cx.tote(&["inspect", "-f", template, "c"])
            .output()?
            .prints(&format!("{expected}\n"))
            .with_context(|| template.to_owned())?;
    }
    for template in ["{{.Nothing}}", "{{.State.Health.Status}}"] {
        cx.tote(&["inspect", "-f", template, "c"])
            .output()?
            .refuses(1, &["no field"])?;
    }
    remove_kept(cx)
}

/// Scripts run these commands to check that an engine is present.
fn machine(cx: &Context) -> Result<()> {
    let says = |words: &[&str]| {
        let out = cx.tote(words).output()?;
        out.exits(0)?.quietly()?;
        Ok::<_, anyhow::Error>(out.out().trim_end().to_owned())
    };
    let version = says(&["--version"])?.replace("tote version ", "");
    for template in [
        "{{.Server.Version}}",
        "{{.Client.Version}}",
        "{{.Server.Engine.Version}}",
    ] {
        let said = says(&["version", "-f", template])?;
        ensure!(said == version, "{template}: {said}");
    }
    // Scripts compare the version of the API before they use an option, and search the text for lines.
    let api = says(&["version", "-f", "{{.Server.APIVersion}} {{.Client.ApiVersion}}"])?;
    ensure!(api == "1.48 1.48", "{api}");
    let text = says(&["version"])?;
    for line in [
        format!(" Version:           {version}"),
        format!("  Version:          {version}"),
        "  API version:      1.48 (minimum version 1.24)".to_owned(),
    ] {
        ensure!(text.lines().any(|found| found == line), "{line:?} in {text}");
    }
    let all = "{{.ServerVersion}} {{.Driver}} {{.CgroupVersion}} {{.CgroupDriver}} {{.NCPU}} {{.MemTotal}} {{.OSType}} \
               {{.Architecture}} {{.DockerRootDir}} {{.Images}} {{.ContainersRunning}}";
    let said = says(&["info", "-f", all])?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let root = cx.root().display().to_string();
    ensure!(
        words.len() == 11 && words[0] == version && words[6] == "linux" && words[8] == root,
        "{said}"
    );
    for number in [words[2], words[4], words[5]] {
        ensure!(number.parse::<u64>().is_ok_and(|number| number > 0), "{said}");
    }
    let text = says(&["info"])?;
    for line in [
        format!(" Server Version: {version}"),
        format!(" Docker Root Dir: {root}"),
        " Cgroup Driver: cgroupfs".to_owned(),
        " OSType: linux".to_owned(),
        " drivers:".to_owned(),
    ] {
        ensure!(text.lines().any(|found| found == line), "{line:?} in {text}");
    }
    let podmans = "{{.Host.OS}} {{.Host.Security.Rootless}} {{.Store.GraphRoot}} {{.Host.OCIRuntime.Name}}";
    let said = says(&["info", "--format", podmans])?;
    let rootless = !rustix::process::geteuid().is_root();
    ensure!(said == format!("linux {rootless} {root} tote"), "{said}");
    Ok(())
}

fn inspect(cx: &Context) -> Result<()> {
    web(cx)?;
    let found = cx.tote(&["inspect", "web"]).output()?;
    let found: Value = serde_json::from_str(&found.exits(0)?.out())?;
    let dockers = [
        "Id",
        "Created",
        "Path",
        "Args",
        "State",
        "Image",
        "ResolvConfPath",
        "HostnamePath",
        "HostsPath",
        "LogPath",
        "Name",
        "RestartCount",
        "Driver",
        "Platform",
        "MountLabel",
        "ProcessLabel",
        "AppArmorProfile",
        "ExecIDs",
        "HostConfig",
        "GraphDriver",
        "Mounts",
        "Config",
        "NetworkSettings",
    ];
    for field in dockers {
        ensure!(found[0].get(field).is_some(), "no {field}");
    }
    for field in [
        "Status",
        "Running",
        "Paused",
        "Restarting",
        "OOMKilled",
        "Dead",
        "Pid",
        "ExitCode",
        "Error",
        "StartedAt",
        "FinishedAt",
    ] {
        ensure!(found[0]["State"].get(field).is_some(), "no State.{field}");
    }
    remove_kept(cx)
}

fn templates(cx: &Context) -> Result<()> {
    let id = web(cx)?;
    for (template, expected) in [
        ("{{.Id}}", id.as_str()),
        ("{{.Name}} {{.State.Status}} {{.State.Pid}}", "/web created 0"),
        ("{{.Path}} {{json .Args}}", "sh [\"-c\",\"true\"]"),
        ("{{.HostConfig.Memory}}", "67108864"),
        ("{{.Config.WorkingDir}}", "/tmp"),
        ("{{index .Config.Env 0}}", "A=1"),
        (
            "{{range .Mounts}}{{.Type}}:{{.Destination}}:{{.RW}} {{end}}",
            "bind:/mnt:false volume:/data:true ",
        ),
        ("{{.State.StartedAt}}", "0001-01-01T00:00:00Z"),
    ] {
        cx.tote(&["inspect", "--format", template, &id[..9]])
            .output()?
            .prints(&format!("{expected}\n"))?;
    }
    let mut up = running(cx, "up")?;
    let told = cx
        .tote(&[
            "container",
            "inspect",
            "-f",
            "{{.State.Running}} {{.State.Pid}}",
            "up",
        ])
        .output()?;
    let told = told.exits(0)?.out();
    let pid = told.trim_end().strip_prefix("true ").context("running")?;
    ensure!(Path::new("/proc").join(pid).exists(), "{told}");
    up.close_input();
    up.finish()?.exits(0)?;
    remove_kept(cx)
}

fn objects(cx: &Context) -> Result<()> {
    create(cx, &["--name", "thing", &cx.image(), "true"])?;
    cx.tote(&["volume", "create", "store"])
        .output()?
        .prints("store\n")?;
    let (dir, _) = cx.own_rootfs("image")?;
    let archive = cx.path("image.tar")?;
    let dir = dir.to_str().context("text")?;
    let tar = crate::invocation::Invocation::new(["tar", "-C", dir, "-cf", &archive, "."]);
    tar.output()?.exits(0)?;
    cx.tote(&["import", &archive, "thing:1"]).output()?.exits(0)?;
    cx.tote(&["inspect", "-f", "{{.Id}}", "thing:1"])
        .output()?
        .exits(0)?
        .has_out("sha256:")?;
    cx.tote(&["inspect", "-f", "{{.Name}}", "thing", "store"])
        .output()?
        .prints("/thing\nstore\n")?;
    cx.tote(&["inspect", "--type", "image", "-f", "{{.Os}}", "thing:1"])
        .output()?
        .prints("linux\n")?;
    let missing = cx.tote(&["inspect", "nothing", "store"]).output()?;
    missing
        .exits(1)?
        .has_err("tote: No such object: nothing")?
        .has_out("\"Name\": \"store\"")?;
    let missing = cx.tote(&["inspect", "nothing"]).output()?;
    ensure!(missing.out() == "[]\n", "{}", missing.transcript());
    missing.exits(1)?;
    for (kind, words) in [
        ("container", "No such container: store"),
        ("volume", "get thing: no such volume"),
        ("image", "store"),
    ] {
        let wanted = if kind == "volume" { "thing" } else { "store" };
        cx.tote(&["inspect", "--type", kind, wanted])
            .output()?
            .exits(1)?
            .has_err(words)?;
    }
    cx.tote(&["inspect", "--type", "planet", "thing"])
        .output()?
        .exits(1)?
        .has_err("planet")?;
    remove_kept(cx)
}
