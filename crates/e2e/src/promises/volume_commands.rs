//! Volumes exist until a command removes them, and a volume in use cannot be removed.

use super::drivers::remove_kept;
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("volume_commands::have_names_labels_and_a_list", &[], names),
    test("volume_commands::of_containers_stay", &[], stay),
    test("volume_commands::in_use_are_refused", &[], in_use),
    test(
        "volume_commands::without_a_name_belong_to_a_container",
        &[],
        anonymous,
    ),
    test("volume_commands::come_and_go_as_archives", &[], archives),
    test("volume_commands::prune_asks_and_spares", &[], prune),
    test(
        "volume_commands::deep_trees_and_long_names_are_removed",
        &[Need::Program("gcc")],
        deep,
    ),
    test(
        "volume_commands::with_others_files_are_removed",
        &[Need::ManyIds],
        owners,
    ),
];

fn names(cx: &Context) -> Result<()> {
    let volume = |words: &[&str]| cx.tote(&[&["volume"], words].concat()).output();
    volume(&["create", "--label", "app=shop", "--label", "bare", "data"])?.prints("data\n")?;
    volume(&["create", "data"])?.prints("data\n")?;
    volume(&["create", "-d", "local", "other"])?.prints("other\n")?;
    let random = volume(&["create"])?.exits(0)?.out();
    ensure!(random.trim_end().len() == 64, "{random}");
    volume(&["ls", "-f", "name=^[do][at][th]"])?
        .prints("DRIVER    VOLUME NAME\nlocal     data\nlocal     other\n")?;
    volume(&["ls", "-q", "-f", "label=app=shop"])?.prints("data\n")?;
    volume(&["ls", "-q", "-f", "label!=app", "-f", "name=e"])?.has_out("other\n")?;
    volume(&[
        "list",
        "--format",
        "{{.Name}}: {{.Labels}} {{.Label \"app\"}}",
        "-f",
        "label=bare",
    ])?
    .prints("data: app=shop,bare= shop\n")?;
    let told = volume(&["inspect", "data"])?.exits(0)?.out();
    let told: Value = serde_json::from_str(&told)?;
    for field in [
        "CreatedAt",
        "Driver",
        "Labels",
        "Mountpoint",
        "Name",
        "Options",
        "Scope",
    ] {
        ensure!(told[0].get(field).is_some(), "no {field}");
    }
    volume(&["inspect", "-f", "{{.Labels.app}} {{.Driver}}", "data"])?.prints("shop local\n")?;
    let missing = volume(&["inspect", "none"])?;
    ensure!(missing.out() == "[]\n", "{}", missing.transcript());
    missing.exits(1)?.has_err("get none: no such volume")?;
    volume(&["rm", "data", "none"])?
        .exits(1)?
        .has_out("data\n")?
        .has_err("get none: no such volume")?;
    volume(&["rm", "-f", "none"])?.exits(0)?;
    volume(&["create", "../x"])?.refuses(1, &["invalid characters"])?;
    volume(&["create", "x"])?.refuses(1, &["create x"])?;
    volume(&["create", "-d", "nfs", "more"])?.refuses(1, &["volume driver \"nfs\""])?;
    volume(&["create", "-o", "type=tmpfs", "more"])?.refuses(1, &["\"device\": it is required"])?;
    volume(&["ls", "-f", "colour=red"])?.refuses(1, &["invalid filter"])?;
    volume(&["ls", "-q", "-f", "name=^other$"])?.prints("other\n")?;
    Ok(())
}

fn stay(cx: &Context) -> Result<()> {
    cx.shell(&["-v", "data:/data"], "echo kept > /data/file")?
        .exits(0)?;
    cx.tote(&["volume", "ls", "-q"]).output()?.prints("data\n")?;
    cx.shell(&["-v", "data:/elsewhere"], "cat /elsewhere/file")?
        .prints("kept\n")?;
    let place = cx
        .tote(&["volume", "inspect", "-f", "{{.Mountpoint}}", "data"])
        .output()?
        .out();
    ensure!(fs::read_to_string(format!("{}/file", place.trim_end()))? == "kept\n");
    cx.tote(&["volume", "rm", "data"]).output()?.prints("data\n")?;
    ensure!(
        fs::read_dir(cx.root().join("volumes"))?.next().is_none(),
        "nothing is left"
    );
    Ok(())
}

/// A descriptor for each level would exceed the command's limit. A file system that discards freed blocks is slow for
/// each directory, so there are only as many as needed.
fn deep(cx: &Context) -> Result<()> {
    let limited = |words: &[&str]| {
        let limit = ["sh", "-c", "ulimit -n 128 && exec \"$@\"", "sh"];
        cx.tote(words).under(&limit).output()
    };
    let (image, script) = (
        cx.image(),
        "cd /home && probe deep 300 && cd /data && probe deep 300",
    );
    let words = ["--name", "deep", "-v", "data:/data", &image, "sh", "-c", script];
    cx.tote(&[&["run"], &words[..]].concat()).output()?.exits(0)?;
    limited(&["rm", "deep"])?.prints("deep\n")?;
    let containers = fs::read_dir(cx.root().join("containers"))?.count();
    ensure!(containers == 0, "{containers} containers have left something");
    limited(&["volume", "rm", "data"])?.prints("data\n")?;
    // The state after an interrupted removal.
    let volumes = cx.root().join("volumes");
    fs::create_dir_all(volumes.join(".more/_data"))?;
    let long = "v".repeat(255);
    for name in [long.as_str(), "short"] {
        cx.tote(&["volume", "create", name]).output()?.exits(0)?;
    }
    cx.tote(&["volume", "prune", "-af"])
        .output()?
        .exits(0)?
        .has_out(&long)?;
    let left = fs::read_dir(&volumes)?.count();
    ensure!(left == 0, "{left} volumes have left something");
    Ok(())
}

fn in_use(cx: &Context) -> Result<()> {
    let words = [
        "create",
        "--name",
        "web",
        "-v",
        "data:/data",
        "--mount",
        "type=volume,src=more,dst=/more",
    ];
    let id = cx
        .tote(&[&words[..], &[&cx.image(), "true"]].concat())
        .output()?
        .exits(0)?
        .out();
    for name in ["data", "more"] {
        let refused = cx.tote(&["volume", "rm", name]).output()?;
        refused.refuses(
            1,
            &[&format!("remove {name}: volume is in use - [{}]", id.trim_end())],
        )?;
    }
    cx.tote(&["volume", "create", "free"]).output()?.exits(0)?;
    cx.tote(&["volume", "ls", "-q", "-f", "dangling=true"])
        .output()?
        .prints("free\n")?;
    cx.tote(&["volume", "ls", "-q", "-f", "dangling=false"])
        .output()?
        .prints("data\nmore\n")?;
    cx.tote(&["volume", "prune", "-af"])
        .output()?
        .exits(0)?
        .has_out("Deleted Volumes:\nfree\n")?;
    // A running container keeps its volumes, too.
    let words = [
        "-i",
        "-v",
        "passing:/data",
        &cx.image(),
        "sh",
        "-c",
        "echo ready; cat",
    ];
    let mut running = cx.run_command(&words).spawn()?;
    running.expect("ready")?;
    cx.tote(&["volume", "rm", "passing"])
        .output()?
        .refuses(1, &["volume is in use"])?;
    running.close_input();
    running.finish()?.exits(0)?;
    cx.tote(&["volume", "rm", "passing"])
        .output()?
        .prints("passing\n")?;
    remove_kept(cx)?;
    cx.tote(&["volume", "rm", "data", "more"]).output()?.exits(0)?;
    Ok(())
}

fn anonymous(cx: &Context) -> Result<()> {
    cx.shell(&["-v", "/data"], "echo gone > /data/file")?.exits(0)?;
    cx.tote(&["volume", "ls", "-q"]).output()?.prints("")?;
    let words = [
        "run",
        "--name",
        "web",
        "-v",
        "/data",
        &cx.image(),
        "sh",
        "-c",
        "echo kept > /data/file",
    ];
    cx.tote(&words).output()?.exits(0)?;
    let name = cx
        .tote(&["inspect", "-f", "{{(index .Mounts 0).Name}}", "web"])
        .output()?
        .out();
    cx.tote(&["volume", "ls", "-q"]).output()?.prints(&name)?;
    let source = cx
        .tote(&["inspect", "-f", "{{(index .Mounts 0).Source}}", "web"])
        .output()?
        .out();
    ensure!(fs::read_to_string(format!("{}/file", source.trim_end()))? == "kept\n");
    cx.tote(&["volume", "rm", name.trim_end()])
        .output()?
        .refuses(1, &["volume is in use"])?;
    cx.tote(&["rm", "web"]).output()?.prints("web\n")?;
    cx.tote(&["create", "--name", "next", "-v", "/data", &cx.image(), "true"])
        .output()?
        .exits(0)?;
    cx.tote(&["rm", "-v", "next"]).output()?.prints("next\n")?;
    cx.tote(&["volume", "ls", "-q"]).output()?.prints(&name)?;
    cx.tote(&["volume", "prune", "-f"])
        .output()?
        .exits(0)?
        .has_out(&name)?
        .has_out("reclaimed space: 5B")?;
    Ok(())
}

fn prune(cx: &Context) -> Result<()> {
    cx.tote(&["volume", "create", "--label", "keep=yes", "one"])
        .output()?
        .exits(0)?;
    cx.tote(&["volume", "create", "two"]).output()?.exits(0)?;
    let asked = cx.tote(&["volume", "prune", "-a"]).input(b"n\n").output()?;
    asked
        .exits(0)?
        .has_out("WARNING! This will remove all local volumes")?
        .has_out("[y/N]")?;
    cx.tote(&["volume", "prune", "-f"])
        .output()?
        .prints("Total reclaimed space: 0B\n")?;
    let pruned = cx
        .tote(&["volume", "prune", "-a", "--filter", "label!=keep"])
        .input(b"y\n")
        .output()?;
    pruned
        .exits(0)?
        .has_out("Deleted Volumes:\ntwo\n\nTotal reclaimed space: 0B\n")?;
    cx.tote(&["volume", "ls", "-q"]).output()?.prints("one\n")?;
    cx.tote(&["volume", "prune", "-f", "--filter", "all=true"])
        .output()?
        .has_out("one\n")?;
    Ok(())
}

fn owners(cx: &Context) -> Result<()> {
    let script = "mkdir /data/private && touch /data/private/file && chown -R 33:33 /data/private && chmod 700 /data/private";
    cx.shell(&["-v", "data:/data"], script)?.exits(0)?;
    cx.tote(&["volume", "rm", "data"]).output()?.prints("data\n")?;
    ensure!(
        fs::read_dir(cx.root().join("volumes"))?.next().is_none(),
        "nothing is left"
    );
    Ok(())
}

fn archives(cx: &Context) -> Result<()> {
    let volume = |words: &[&str]| cx.tote(&[&["volume"], words].concat()).output();
    let fill = "echo one > /v/file; chmod 640 /v/file; mkdir -m 700 /v/dir; ln /v/file /v/dir/link";
    cx.shell(&["-v", "from:/v"], fill)?.exits(0)?;
    let archive = cx.path("from.tar")?;
    volume(&["export", "-o", &archive, "from"])?.exits(0)?;
    volume(&["import", "to", &archive])?
        .exits(1)?
        .has_err("no such volume")?;
    cx.shell(&["-v", "to:/v"], "echo two > /v/other; echo two > /v/file")?
        .exits(0)?;
    let packed = std::process::Command::new("gzip")
        .args(["--keep", &archive])
        .status()?;
    ensure!(packed.success(), "gzip failed");
    volume(&["import", "to", &format!("{archive}.gz")])?.exits(0)?;
    let look = "cat /v/file /v/other; stat -c '%a %h %u' /v/file /v/dir/link; stat -c %a /v/dir";
    cx.shell(&["-v", "to:/v"], look)?
        .prints("one\ntwo\n640 2 0\n640 2 0\n700\n")?;
    let bytes = fs::read(&archive)?;
    volume(&["create", "third"])?.exits(0)?;
    let words = ["volume", "import", "third", "-"];
    cx.tote(&words).input(&bytes).output()?.exits(0)?;
    cx.shell(&["-v", "third:/v"], "cat /v/file")?.prints("one\n")?;
    volume(&["import", "third", "/nosuch"])?
        .exits(1)?
        .has_err("/nosuch")?;
    volume(&["export", "nosuch"])?
        .fails()?
        .has_err("no such volume")?;
    volume(&["create", "-o", "type=tmpfs", "-o", "device=tmpfs", "memory"])?.exits(0)?;
    volume(&["export", "memory"])?
        .fails()?
        .has_err("each container mounts it for itself")?;
    Ok(())
}
