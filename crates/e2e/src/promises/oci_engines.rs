//! Behaviour that engines of other authors expect of `tote oci` beyond the specification's letter.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::need::Need::{Program, Root, Userns};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "oci_engines::root_of_a_user_namespace_is_a_user",
        &[Userns, Program("unshare")],
        nested_root,
    ),
    test(
        "oci_engines::a_joined_user_namespace_may_be_described_as_well",
        &[Root, Userns, Program("unshare")],
        described_namespace,
    ),
    test(
        "oci_engines::a_new_tmpfs_has_the_mode_that_was_asked_for",
        &[],
        tmpfs_mode,
    ),
    test(
        "oci_engines::bound_directories_keep_their_devices",
        &[],
        bound_devices,
    ),
    test(
        "oci_engines::an_oom_score_is_lowered_where_that_is_possible",
        &[],
        oom_score,
    ),
    test("oci_engines::groups_are_as_they_are_given", &[Root], groups),
    test(
        "oci_engines::a_terminal_of_no_size_has_none",
        &[Program("script")],
        size,
    ),
    test(
        "oci_engines::hooks_of_create_container_may_write_to_a_read_only_root",
        &[Root],
        writing_hook,
    ),
    test(
        "oci_engines::checkpoint_is_refused_with_its_flags",
        &[],
        checkpoint,
    ),
    test("oci_engines::a_log_that_cannot_be_had_is_an_error", &[], log),
];

/// Rootless engines start a runtime with the id 0, in a user namespace of their own.
fn nested_root(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "echo up >/dev/null && id -u"])?;
    bundle.change(|spec| {
        // The engine's namespace is also the container's.
        without_user_namespace(spec);
        without_group_of_terminals(spec);
        // The engine leaves the path to the runtime, below its current cgroup.
        spec["linux"]["cgroupsPath"] = json!("");
        spec["process"]["user"] = json!({"uid": 0, "gid": 0});
    })?;
    let directory = cx.directory("runtime")?;
    let words = [cx.binary().to_str().context("text")?, "oci", "run", "n"];
    let nested = |user: &str| {
        crate::invocation::Invocation::new(words)
            .within(bundle.config().parent().unwrap_or(cx.scratch()))
            .env("XDG_RUNTIME_DIR", &directory)
            .env("USER", user)
            .under(&["unshare", "--user", "--map-root-user"])
            .output()
    };
    nested("somebody")?.prints("0\n")?.quietly()?;
    ensure!(
        fs::read_dir(&directory)?.count() == 1,
        "its state was not in the runtime directory"
    );
    Ok(())
}

/// Removes the option for a group that a namespace of one id lacks.
fn without_group_of_terminals(spec: &mut Value) {
    let mounts = spec["mounts"].as_array_mut().into_iter().flatten();
    for options in mounts.filter_map(|mount| mount["options"].as_array_mut()) {
        options.retain(|option| option != "gid=5");
    }
}

fn without_user_namespace(spec: &mut Value) {
    let Some(linux) = spec["linux"].as_object_mut() else {
        return;
    };
    linux.remove("uidMappings");
    linux.remove("gidMappings");
    linux.remove("resources");
    if let Some(namespaces) = linux["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != "user");
    }
}

fn described_namespace(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "cat /proc/self/uid_map"])?;
    let words = ["--user", "--map-root-user", "sh", "-c", "echo up; cat"];
    let mut holder = crate::invocation::Invocation::new([&["unshare"][..], &words].concat()).spawn()?;
    holder.expect("up\n")?;
    let map = |first: u32| json!([{"containerID": 0, "hostID": first, "size": 1}]);
    let path = format!("/proc/{}/ns/user", holder.pid());
    bundle.change(|spec| {
        if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
            namespaces.push(json!({"type": "user", "path": path}));
        }
        without_group_of_terminals(spec);
        (spec["linux"]["uidMappings"], spec["linux"]["gidMappings"]) = (map(0), map(0));
    })?;
    let joined = bundle.oci(&["run", "j"]).output()?;
    joined.exits(0)?.has_err("they agree")?;
    let numbers: Vec<_> = joined.out().split_whitespace().map(ToOwned::to_owned).collect();
    ensure!(numbers == ["0", "0", "1"], "saw {numbers:?}");
    bundle.change(|spec| spec["linux"]["gidMappings"] = map(1))?;
    let refused = bundle.oci(&["run", "j"]).output()?;
    Bundle::refused(&refused, 1, &["non-matching mappings specified"])?;
    holder.finish()?.exits(0)?;
    bundle.nothing_left()
}

/// podman's own option, and a path that the image lacks.
fn tmpfs_mode(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["stat", "-c", "%a", "/closed", "/open", "/etc"])?;
    bundle.change(|spec| {
        let Some(mounts) = spec["mounts"].as_array_mut() else {
            return;
        };
        for (path, options) in [
            ("/closed", json!(["tmpcopyup", "mode=0700"])),
            ("/open", json!(["tmpcopyup"])),
            // The image has this directory, and the copy keeps its mode.
            ("/etc", json!(["tmpcopyup"])),
        ] {
            mounts.push(json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}));
        }
    })?;
    rustix::fs::chmod(
        bundle.rootfs().join("etc"),
        rustix::fs::Mode::from_raw_mode(0o711),
    )?;
    bundle.oci(&["run", "t"]).output()?.prints("700\n1777\n711\n")?;
    bundle.nothing_left()
}

fn bound_devices(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "echo up >/mnt/null && echo written"])?;
    bundle.change(|spec| {
        if let Some(mounts) = spec["mounts"].as_array_mut() {
            mounts.push(json!({"destination": "/mnt", "source": "/dev", "options": ["rbind", "rslave"]}));
        }
    })?;
    bundle.oci(&["run", "b"]).output()?.prints("written\n")?;
    bundle.nothing_left()
}

/// docker's shims have a score of 1, and request 0 for containers.
fn oom_score(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["cat", "/proc/self/oom_score_adj"])?;
    let own: i32 = fs::read_to_string("/proc/self/oom_score_adj")?.trim().parse()?;
    bundle.change(|spec| spec["process"]["oomScoreAdj"] = json!(own))?;
    let script = format!("echo {} >/proc/self/oom_score_adj; exec \"$@\"", own + 1);
    let run = bundle.oci(&["run", "o"]).under(&["sh", "-c", &script, "sh"]);
    run.output()?.prints(&format!("{own}\n"))?.quietly()?;
    bundle.nothing_left()
}

fn groups(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["grep", "Groups:", "/proc/self/status"])?;
    bundle.change(|spec| spec["process"]["user"]["additionalGids"] = json!([7, 5, 7, 5]))?;
    let output = bundle.oci(&["run", "g"]).output()?;
    let said = output.exits(0)?.out();
    let numbers: Vec<_> = said.split_whitespace().skip(1).collect();
    // The kernel sorts them.
    ensure!(numbers == ["5", "5", "7", "7"], "saw {numbers:?}");
    bundle.nothing_left()
}

fn size(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["stty", "-a"])?;
    bundle.change(|spec| spec["process"]["terminal"] = json!(true))?;
    let output = bundle.oci(&["run", "s"]).output()?;
    // busybox prints no rows and columns for a terminal without a size.
    output.exits(0)?.has_out("line = 0;")?;
    ensure!(!output.out().contains("rows"), "saw {}", output.transcript());
    bundle.nothing_left()
}

fn writing_hook(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(
        cx,
        &["sh", "-c", "cat /made; touch /more 2>/dev/null || echo closed"],
    )?;
    bundle.change(|spec| {
        spec["root"]["readonly"] = json!(true);
        // The hook starts in the container's root, as seen from the host.
        let hook = json!({"path": "/bin/sh", "args": ["sh", "-c", "echo written > made"]});
        spec["hooks"]["createContainer"] = json!([hook]);
    })?;
    bundle.oci(&["run", "w"]).output()?.prints("written\nclosed\n")?;
    bundle.nothing_left()
}

fn checkpoint(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    for words in [
        &["checkpoint", "--image-path", "/x", "--leave-running", "c"][..],
        &["restore", "--image-path", "/x", "-d", "--bundle", "/y", "c"],
    ] {
        bundle
            .oci(words)
            .output()?
            .exits(1)?
            .has_err("is not supported")?;
    }
    Ok(())
}

fn log(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    for (words, naming) in [
        (&["--log-format", "bogus", "run", "l"], "bogus"),
        (
            &["--log", "/nowhere/at/all", "run", "l"],
            "cannot open the log /nowhere/at/all",
        ),
    ] {
        bundle.oci(words).output()?.refuses(1, &[naming])?;
    }
    bundle.nothing_left()
}
