//! Bundles of other engines in virtual machines: `tote oci` by an annotation, and by the name `tote-vm`.

use super::vm::QEMU;
use super::vm_ready;
use crate::bundle::Bundle;
use crate::context::Context;
use crate::invocation::Invocation;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::symlink;

pub(super) const TESTS: &[Test] = &[
    test(
        "vm_oci::a_bundle_is_in_a_machine_by_its_annotation",
        &[QEMU, Need::GuestKernel, Need::Root],
        annotation,
    )
    .slow(4),
    test(
        "vm_oci::what_cannot_be_is_refused",
        &[Need::GuestKernel],
        refusals,
    ),
    test(
        "vm_oci::podman_puts_containers_into_machines",
        &[
            QEMU,
            Need::GuestKernel,
            Need::Root,
            Need::Program("podman"),
            Need::Program("unshare"),
        ],
        podman,
    )
    .slow(6),
];

fn annotation(cx: &Context) -> Result<()> {
    vm_ready::boots(cx)?;
    let script = "uname -r; cat /proc/sys/kernel/random/boot_id; echo written >/made; echo error >&2; exit 7";
    let bundle = Bundle::new(cx, &["sh", "-c", script])?;
    bundle.change(|spec| {
        spec["annotations"] = json!({"tote.isolation": "vm=memory=256m"});
        spec["root"]["readonly"] = json!(false);
    })?;
    let root = cx.root().display().to_string();
    let oci = |words: &[&str]| bundle.oci(words).env("TOTE_ROOT", &root);
    let output = oci(&["run", "v"]).output()?;
    output.exits(7)?.has_err("error")?;
    let own = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    ensure!(
        output.out().contains("cloud") && !output.out().contains(own.trim()),
        "{}",
        output.out()
    );
    // The root is the bundle's directory.
    let made = std::fs::read_to_string(bundle.rootfs().join("made"))?;
    ensure!(made == "written\n", "{made}");
    bundle.change(|spec| {
        let script = "trap 'exit 5' TERM; echo ready >/ready; while :; do sleep 1; done";
        spec["process"]["args"] = json!(["sh", "-c", script]);
    })?;
    let state = || -> Result<String> {
        let output = oci(&["state", "v"]).output()?;
        let state: serde_json::Value = serde_json::from_str(&output.exits(0)?.out())?;
        Ok(state["status"].as_str().unwrap_or_default().to_owned())
    };
    let pid = cx.path("pid")?;
    let alone = ["sh", "-c", r#"umask 000; exec "$@" </dev/null >out 2>err"#, "sh"];
    oci(&["create", "--pid-file", &pid, "v"])
        .under(&alone)
        .output()?
        .exits(0)?;
    ensure!(state()? == "created");
    // Other users learn nothing of the program's environment, and change nothing, whatever the engine's mask is.
    for name in ["plan", "machine.json", "guest.json"] {
        let file = bundle.config().with_file_name("tote-vm").join(name);
        let mode = std::fs::metadata(&file)?.permissions().mode();
        ensure!(mode & 0o777 == 0o600, "{} has the mode {mode:o}", file.display());
    }
    oci(&["start", "v"]).output()?.exits(0)?;
    // This waits until the guest is up.
    let output = oci(&[
        "exec",
        "v",
        "sh",
        "-c",
        "id -u; tr '\\0' ' ' </proc/1/cmdline; echo; exit 3",
    ])
    .output()?;
    output.exits(3)?.has_out("0\nsh -c trap")?;
    ensure!(state()? == "running");
    oci(&["kill", "v", "TERM"]).output()?.exits(0)?;
    while state()? != "stopped" {
        std::thread::yield_now();
    }
    oci(&["delete", "v"]).output()?.exits(0)?;
    bundle.nothing_left()
}

fn refusals(cx: &Context) -> Result<()> {
    vm_ready::boots(cx)?;
    let bundle = Bundle::new(cx, &["true"])?;
    bundle.change(|spec| spec["annotations"] = json!({"tote.isolation": "vm"}))?;
    let refused = |reason: &str| -> Result<()> {
        let run = bundle
            .oci(&["run", "v"])
            .env("TOTE_ROOT", cx.root().display().to_string());
        Bundle::refused(&run.output()?, 1, &[reason])
    };
    if !crate::need::is_root() {
        return refused("only root's machines have");
    }
    bundle.change(|spec| {
        if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
            namespaces.retain(|namespace| namespace["type"] != "network");
        }
    })?;
    refused("the host's namespaces are those of another kernel")?;
    bundle.change(|spec| {
        if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
            namespaces.push(json!({"type": "network", "path": "/proc/self/ns/net"}));
        }
    })?;
    refused("give --network none")?;
    bundle.change(|spec| spec["annotations"] = json!({"tote.isolation": "vm=xen"}))?;
    refused("cannot use \\\"xen\\\"").or_else(|_| refused("cannot use \"xen\""))?;
    bundle.nothing_left()
}

/// Containers of podman's: by the runtime's name, and by an annotation.
const PODMAN: &str = r#"
mount --make-rprivate /
for dir in /var/lib/containers /run/containers /run/netns; do mkdir -p "$dir"; mount -t tmpfs none "$dir"; done
for name in tote-vm tote-oci; do
  printf '#!/bin/sh\nexport TOTE_ROOT=%s\nexec %s/bin/%s "$@"\n' "$TOTE_ROOT" "$scratch" $name >"$scratch/$name"
  chmod +x "$scratch/$name"
done
podman() {
  command podman --cgroup-manager=cgroupfs --events-backend=none --runtime "$scratch/$runtime" "$@"
}
options="--network none --cgroup-parent /tote-test-vm-oci --ulimit nofile=1024:1024 --ulimit nproc=1000:1000"
runtime=tote-vm
podman run --rm $options --rootfs "$rootfs" sh -c 'uname -r | grep -c cloud; grep -c . /etc/hostname; exit 7'
echo $?
podman run -d --name box $options -v "$scratch/data:/data" --rootfs "$rootfs" sh -c 'echo told >/data/told; exec sleep 1000' >/dev/null
podman exec box sh -c 'until [ -e /data/told ]; do sleep 0.1; done; cat /data/told; uname -r | grep -c cloud'
podman rm -f -t 0 box >/dev/null
runtime=tote-oci
podman run --rm $options --annotation tote.isolation=vm --rootfs "$rootfs" sh -c 'uname -r | grep -c cloud'
podman run --rm $options --rootfs "$rootfs" sh -c 'uname -r | grep -c cloud'
while compgen -G "/sys/fs/cgroup/*/tote-test-vm-oci" || compgen -G /sys/fs/cgroup/tote-test-vm-oci; do
  rmdir /sys/fs/cgroup/{,*/}tote-test-vm-oci/* /sys/fs/cgroup/{,*/}tote-test-vm-oci 2>/dev/null
done >/dev/null
true
"#;

fn podman(cx: &Context) -> Result<()> {
    vm_ready::boots(cx)?;
    let (rootfs, _) = cx.own_rootfs("fs")?;
    let bin = cx.directory("bin")?;
    for name in ["tote-vm", "tote-oci"] {
        symlink(cx.binary(), format!("{bin}/{name}"))?;
    }
    cx.directory("data")?;
    let words = ["bash", "-c", PODMAN].map(str::to_owned);
    let output = Invocation::new(words)
        .under(&["unshare", "-m"])
        .env("TOTE_ROOT", cx.root().display().to_string())
        .env("scratch", cx.scratch().to_str().context("a path that is text")?)
        .env("rootfs", rootfs.to_str().context("a path that is text")?)
        .output()?;
    ensure!(
        output.out() == "1\n1\n7\ntold\n1\n1\n0\n",
        "{}",
        output.transcript()
    );
    Ok(())
}
