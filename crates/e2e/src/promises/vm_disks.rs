//! Disks of containers that are in virtual machines: volumes, and writes that outlive the machine.

use super::vm::{QEMU, detach, prepare_template};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::{Result, ensure};

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel, Need::Program("mkfs.ext4")];

pub(super) const TESTS: &[Test] = &[
    test("vm::a_volume_is_a_disk_of_one_machine_at_a_time", NEEDS, volumes).slow(4),
    test("vm::writes_outlive_the_machine_and_its_death", NEEDS, writes).slow(4),
];

fn volumes(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let vm =
        |volume: &str, script: &str| cx.run(&["--isolation", "vm", "-v", volume, "app", "sh", "-c", script]);
    let script = "mkdir -p /data/sub && echo kept >/data/sub/file && chown 1234 /data/sub/file; \
                  [ $(df -k /data | tail -1 | awk '{ print $2 }') -lt 65536 ] && echo small; \
                  grep -c ' /data ext4 rw,nodev,noexec' /proc/mounts";
    vm("disk:data,size=64m:/data:noexec", script)?.prints("small\n1\n")?;
    // It is there by its name alone, too.
    let script = "cat /data/sub/file; stat -c %u /data/sub/file; touch /data/x 2>/dev/null || echo read-only";
    vm("data:/data:ro", script)?.prints("kept\n1234\nread-only\n")?;
    cx.run(&["-v", "data:/data", "app", "true"])?
        .refuses(
            125,
            &["cannot mount the volume data: it is the disk of a virtual machine"],
        )?
        .has_err("hint: --isolation vm")?;
    // A container that is only created has its disk as well.
    let create = [
        "create",
        "--name",
        "vm",
        "--isolation",
        "vm",
        "-v",
        "data:/data",
        "-v",
        "disk:new,size=64m:/new",
    ];
    cx.tote(&[&create[..], &["app", "sleep", "1000000"]].concat())
        .output()?
        .exits(0)?;
    cx.tote(&["volume", "inspect", "-f", "{{.Options.type}}", "new"])
        .output()?
        .prints("disk\n")?;
    cx.tote(&["start", "vm"]).output()?.exits(0)?;
    // This waits until the guest is up.
    cx.tote(&["exec", "vm", "cat", "/data/sub/file"])
        .output()?
        .prints("kept\n")?;
    vm("data:/data", "true")?.refuses(125, &["Failed to get \"write\" lock"])?;
    cx.tote(&["volume", "rm", "data"])
        .output()?
        .refuses(1, &["volume is in use"])?;
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.tote(&["volume", "rm", "data", "new"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn writes(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    // A program that ends by no signal but SIGKILL.
    let script = "cat /kept 2>/dev/null; echo written >/kept; chmod 640 /kept; rm -f /etc/passwd; echo ready; \
                  trap '' TERM; while :; do sleep 1; done";
    detach(cx, &["--disk-size", "64m"], &["sh", "-c", script])?;
    let wait = |lines: &str| -> Result<()> {
        let mut follow = cx.tote(&["logs", "-f", "vm"]).spawn()?;
        follow.expect(lines)?;
        follow.signal(rustix::process::Signal::KILL)?;
        follow.wait().map(drop)
    };
    wait("ready\n")?;
    cx.tote(&["kill", "vm"]).output()?.exits(0)?;
    cx.tote(&["wait", "vm"]).output()?.prints("137\n")?;
    cx.tote(&["start", "vm"]).output()?.exits(0)?;
    wait("ready\nwritten\nready\n")?;
    let look = "stat -c %a /kept; ls /etc/passwd 2>&1 | grep -c 'No such'; df -k / | tail -1 | awk '{ print ($2 < 65536) }'";
    cx.tote(&["exec", "vm", "sh", "-c", look])
        .output()?
        .prints("640\n1\n1\n")?;
    cx.tote(&["stop", "-t", "1", "vm"]).output()?.exits(0)?;
    let disk = cx.root().join("containers");
    let disks = || -> Result<usize> {
        let entries = std::fs::read_dir(&disk)?.collect::<std::io::Result<Vec<_>>>()?;
        Ok(entries
            .iter()
            .filter(|entry| entry.path().join("disk").exists())
            .count())
    };
    ensure!(disks()? == 1, "the disk is the container's");
    cx.tote(&["rm", "vm"]).output()?.exits(0)?;
    ensure!(disks()? == 0, "the disk goes with the container");
    cx.nothing_left()
}
