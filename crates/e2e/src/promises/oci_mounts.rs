//! `tote oci`: mounts and namespaces from a bundle's `config.json`.

use crate::bundle::Bundle;
use crate::context::Context;
use crate::need::Need::{Program, Root};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "oci_mounts::paths_are_counted_from_the_bundle",
        &[],
        relative_paths,
    ),
    test("oci_mounts::a_failure_names_the_mount", &[], failure),
    test("oci_mounts::each_mount_has_its_propagation", &[], propagation),
    test("oci_mounts::owners_are_shown_by_a_map", &[Root], owners),
    test(
        "oci_mounts::a_user_namespace_sees_what_root_opens",
        &[Root],
        opened_by_root,
    ),
    test(
        "oci_mounts::a_user_namespace_gets_one_mount_of_several",
        &[Root, Program("unshare")],
        taken_apart,
    ),
    test(
        "oci_mounts::a_user_namespace_gets_access_times_as_asked_for",
        &[Root],
        access_times,
    ),
    test(
        "oci_mounts::a_user_namespace_gets_devices_that_the_host_lacks",
        &[Root],
        listed_devices,
    ),
    test(
        "oci_mounts::message_queues_belong_to_root_of_a_user_namespace",
        &[Root],
        queues,
    ),
    test("oci_mounts::without_pivot_root", &[], no_pivot),
    test(
        "oci_mounts::without_a_mount_namespace_hooks_run",
        &[Root, Program("unshare")],
        no_mount_namespace,
    ),
    test(
        "oci_mounts::without_a_mount_namespace_nothing_stays",
        &[Root, Program("unshare")],
        nothing_stays,
    ),
    test(
        "oci_mounts::in_a_namespace_of_others_nothing_stays",
        &[Root, Program("unshare")],
        nothing_stays_elsewhere,
    ),
    test(
        "oci_mounts::a_namespace_of_another_kind_is_refused",
        &[Root],
        wrong_kind,
    ),
];

fn add_mount(spec: &mut Value, mount: Value) -> Result<()> {
    spec["mounts"]
        .as_array_mut()
        .context("mounts is no list")?
        .push(mount);
    Ok(())
}

/// Makes a bundle with one more mount.
fn with_mount<'a>(cx: &'a Context, script: &str, mount: Value) -> Result<Bundle<'a>> {
    let bundle = Bundle::new(cx, &["sh", "-c", script])?;
    let mut added = Ok(());
    bundle.change(|spec| added = add_mount(spec, mount))?;
    added.map(|()| bundle)
}

fn relative_paths(cx: &Context) -> Result<()> {
    let mount = json!({"destination": "data", "source": "volume", "options": ["rbind", "ro"]});
    let bundle = with_mount(cx, "cat /data/f", mount)?;
    let volume = bundle.config().with_file_name("volume");
    fs::create_dir(&volume)?;
    fs::write(volume.join("f"), "from the bundle\n")?;
    bundle
        .oci(&["run", "r"])
        .output()?
        .exits(0)?
        .has_out("from the bundle\n")?
        .has_err("\\\"data\\\" is not an absolute path")?;
    bundle.nothing_left()
}

fn failure(cx: &Context) -> Result<()> {
    let mount = json!({"destination": "/mnt", "source": "missing", "options": ["bind"]});
    let bundle = with_mount(cx, "true", mount)?;
    let output = bundle.oci(&["run", "f"]).output()?;
    let naming = [
        "unable to start container process: error during container init: error mounting",
        "/missing\\\" to rootfs at \\\"/mnt\\\"",
        ": no such file or directory\"",
    ];
    Bundle::refused(&output, 1, &naming)?;
    bundle.nothing_left()
}

fn propagation(cx: &Context) -> Result<()> {
    for (option, seen) in [
        ("shared", "shared:"),
        ("rprivate", ""),
        ("unbindable", "unbindable"),
    ] {
        let mount = json!({"destination": "/mnt", "type": "tmpfs", "source": "tmpfs", "options": [option]});
        let bundle = with_mount(cx, "grep ' / /mnt ' /proc/self/mountinfo", mount)?;
        let output = bundle.oci(&["run", "p"]).output()?;
        output.exits(0)?;
        let line = output.out();
        let fields = line.split(' ').skip(6).take_while(|field| *field != "-");
        let fields: Vec<_> = fields.collect();
        let right = if seen.is_empty() {
            fields.is_empty()
        } else {
            fields.first().is_some_and(|field| field.starts_with(seen))
        };
        ensure!(right, "{option}: the mount is {line:?}");
        bundle.nothing_left()?;
        fs::remove_dir_all(bundle.config().with_file_name(""))?;
    }
    Ok(())
}

fn owners(cx: &Context) -> Result<()> {
    let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
    let mount = json!({"destination": "/mnt", "source": "volume", "options": ["bind", "idmap"],
        "uidMappings": map, "gidMappings": map});
    let bundle = with_mount(cx, "stat -c %u:%g /mnt/f", mount)?;
    let volume = bundle.config().with_file_name("volume");
    fs::create_dir(&volume)?;
    fs::write(volume.join("f"), "")?;
    std::os::unix::fs::lchown(volume.join("f"), Some(1), Some(2))?;
    bundle
        .oci(&["run", "o"])
        .output()?
        .exits(0)?
        .has_out("100001:100002\n")?;
    bundle.nothing_left()
}

/// Mounts below the source are left out, as the option says, although the kernel ties copies of
/// mounts together there.
fn taken_apart(cx: &Context) -> Result<()> {
    let mount = json!({"destination": "/mnt", "source": "volume", "options": ["bind"]});
    let bundle = with_mount(cx, "cat /mnt/f; ls /mnt/below", mount)?;
    bundle.maps_ids(100_000)?;
    let volume = bundle.config().with_file_name("volume");
    fs::create_dir_all(volume.join("below"))?;
    fs::write(volume.join("f"), "seen\n")?;
    let script = "mount -t tmpfs covering volume/below && touch volume/below/covering && exec \"$@\"";
    let output = bundle
        .oci(&["run", "t"])
        .under(&["unshare", "--mount", "sh", "-c", script, "sh"])
        .output()?;
    output.exits(0)?.has_out("seen\n")?;
    ensure!(!output.out().contains("covering"), "the mount below came along");
    bundle.nothing_left()
}

fn access_times(cx: &Context) -> Result<()> {
    for (option, seen) in [("noatime", true), ("strictatime", false), ("nodiratime", false)] {
        let mount = json!({"destination": "/mnt", "source": "volume", "options": ["bind", option]});
        let bundle = with_mount(cx, "grep ' /mnt ' /proc/self/mountinfo", mount)?;
        bundle.maps_ids(100_000)?;
        fs::create_dir(bundle.config().with_file_name("volume"))?;
        let output = bundle.oci(&["run", "a"]).output()?;
        output.exits(0)?;
        ensure!(
            output.out().contains("noatime") == seen
                && !(option == "strictatime" && output.out().contains("relatime")),
            "{option}: the mount is {:?}",
            output.out()
        );
        bundle.nothing_left()?;
        fs::remove_dir_all(bundle.config().with_file_name(""))?;
    }
    Ok(())
}

/// The node's path and owner both differ from the host's.
fn listed_devices(cx: &Context) -> Result<()> {
    let script = "stat -c '%F %a %u:%g %t,%T' /dev/absent /dev/below/zero; echo x >/dev/below/zero; head -c 3 /dev/below/zero | wc -c";
    let bundle = Bundle::new(cx, &["sh", "-c", script])?;
    bundle.maps_ids(100_000)?;
    bundle.change(|spec| {
        spec["linux"]["devices"] = json!([
            {"path": "/dev/absent", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "uid": 5, "gid": 6},
            {"path": "/dev/below/zero", "type": "c", "major": 1, "minor": 5},
        ]);
    })?;
    let output = bundle.oci(&["run", "d"]).output()?;
    output.exits(0)?;
    let lines: Vec<_> = output
        .out()
        .lines()
        .map(str::trim)
        .map(ToOwned::to_owned)
        .collect();
    let right = [
        "character special file 640 5:6 1,3",
        "character special file 666 0:0 1,5",
        "3",
    ];
    ensure!(lines == right, "saw {lines:?}");
    bundle.nothing_left()
}

fn queues(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["stat", "-c", "%u:%g", "/dev/mqueue"])?;
    bundle.maps_ids(100_000)?;
    bundle.oci(&["run", "q"]).output()?.exits(0)?.has_out("0:0\n")?;
    bundle.nothing_left()
}

/// The source is below a directory that only root may enter.
fn opened_by_root(cx: &Context) -> Result<()> {
    let mount = json!({"destination": "/mnt", "source": "hidden/volume", "options": ["bind"]});
    let bundle = with_mount(cx, "cat /mnt/f; id -u; cat /proc/self/uid_map", mount)?;
    bundle.maps_ids(100_000)?;
    let hidden = bundle.config().with_file_name("hidden");
    fs::create_dir_all(hidden.join("volume"))?;
    fs::write(hidden.join("volume/f"), "seen\n")?;
    rustix::fs::chmod(&hidden, rustix::fs::Mode::RWXU)?;
    let output = bundle.oci(&["run", "u"]).output()?;
    output.exits(0)?;
    let words: Vec<_> = output.out().split_whitespace().map(ToOwned::to_owned).collect();
    ensure!(words == ["seen", "0", "0", "100000", "65536"], "saw {words:?}");
    bundle.nothing_left()
}

fn no_pivot(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "cat /marker; ls -d /proc/self/fd"])?;
    fs::write(bundle.rootfs().join("marker"), "inside\n")?;
    bundle
        .oci(&["run", "--no-pivot", "n"])
        .output()?
        .exits(0)?
        .quietly()?
        .has_out("inside\n/proc/self/fd\n")?;
    bundle.nothing_left()
}

/// The test has a mount namespace of its own, because mounts of such a container are visible to all its processes.
fn no_mount_namespace(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["sh", "-c", "cat hooked; readlink /proc/self/ns/mnt"])?;
    let hooked = bundle.rootfs().join("hooked");
    bundle.change(|spec| {
        spec["hooks"] = json!({"createRuntime": [{"path": "/bin/sh",
            "args": ["sh", "-c", format!("readlink /proc/self/ns/mnt > {}", hooked.display())]}]});
        spec["root"]["readonly"] = json!(false);
        spec["linux"]["maskedPaths"] = json!([]);
        spec["linux"]["readonlyPaths"] = json!([]);
        if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
            list.retain(|namespace| namespace["type"] != "mount");
        }
    })?;
    let output = bundle
        .oci(&["run", "h"])
        .under(&["unshare", "--mount", "--propagation", "private"])
        .output()?;
    output.exits(0)?;
    let said = output.out();
    let lines: Vec<_> = said.lines().collect();
    ensure!(
        lines.len() == 2 && lines[0] == lines[1] && lines[0].starts_with("mnt:["),
        "saw {lines:?}"
    );
    bundle.nothing_left()
}

/// Makes a bundle that uses the caller's mount namespace, or the one at a path, with a copy of host mounts.
fn without_mounts_of_its_own<'a>(cx: &'a Context, path: Option<&str>) -> Result<Bundle<'a>> {
    let bundle = Bundle::new(cx, &["sleep", "300"])?;
    fs::write(bundle.rootfs().join("marker"), "inside\n")?;
    let mut added = Ok(());
    bundle.change(|spec| {
        spec["linux"]["maskedPaths"] = json!([]);
        spec["linux"]["readonlyPaths"] = json!([]);
        let all_of_sys = json!({"destination": "/host", "type": "bind", "source": "/sys",
            "options": ["rbind", "rshared"]});
        added = add_mount(spec, all_of_sys);
        if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
            list.retain(|namespace| namespace["type"] != "mount");
            list.extend(path.map(|path| json!({"type": "mount", "path": path})));
        }
    })?;
    added.map(|()| bundle)
}

/// No mount of the container, no host mount below the root, and no copy of a host mount stays.
fn nothing_stays(cx: &Context) -> Result<()> {
    const SCRIPT: &str = r#"
        set -e
        mount --make-rshared /
        mkdir rootfs/below
        mount -t tmpfs tmpfs rootfs/below
        mounts() { cut -d' ' -f1-5 /proc/self/mountinfo; }
        before=$(mounts)
        "$@" create c < /dev/null > out 2>&1
        mounts | grep -c 'rootfs/proc$'
        "$@" exec c cat /marker
        "$@" delete -f c
        test "$before" = "$(mounts)" && echo as before
    "#;
    let bundle = without_mounts_of_its_own(cx, None)?;
    let own = ["unshare", "--mount", "--propagation", "private"];
    let output = bundle
        .oci(&[])
        .under(&[&own[..], &["sh", "-c", SCRIPT, "sh"]].concat())
        .output()?;
    output.prints("1\ninside\nas before\n")?;
    bundle.nothing_left()
}

fn nothing_stays_elsewhere(cx: &Context) -> Result<()> {
    const SCRIPT: &str = r#"
        set -e
        unshare --mount --propagation private sleep 300 &
        trap "kill $!" EXIT
        while test "$(readlink /proc/$!/ns/mnt)" = "$(readlink /proc/$$/ns/mnt)"; do :; done
        sed -i "s,ELSEWHERE,/proc/$!/ns/mnt," config.json
        before=$(cat /proc/$!/mountinfo)
        "$@" create c < /dev/null > out 2>&1
        grep -c 'rootfs/proc ' /proc/$!/mountinfo
        "$@" exec c cat /marker
        "$@" delete -f c
        test "$before" = "$(cat /proc/$!/mountinfo)" && echo as before
    "#;
    let bundle = without_mounts_of_its_own(cx, Some("ELSEWHERE"))?;
    let own = ["unshare", "--mount", "--propagation", "private"];
    let output = bundle
        .oci(&[])
        .under(&[&own[..], &["sh", "-c", SCRIPT, "sh"]].concat())
        .output()?;
    output.prints("1\ninside\nas before\n")?;
    bundle.nothing_left()
}

fn wrong_kind(cx: &Context) -> Result<()> {
    let bundle = Bundle::new(cx, &["true"])?;
    bundle.change(|spec| {
        if let Some(list) = spec["linux"]["namespaces"].as_array_mut() {
            list.retain(|namespace| namespace["type"] != "ipc");
            list.push(json!({"type": "ipc", "path": "/proc/self/ns/mnt"}));
        }
    })?;
    let output = bundle.oci(&["run", "k"]).output()?;
    Bundle::refused(&output, 1, &["/proc/self/ns/mnt", "namespace"])?;
    bundle.nothing_left()
}
