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
    detach(cx, &["-v", "data:/data"], &["sleep", "1000000"])?;
    // This waits until the guest is up.
    cx.tote(&["exec", "vm", "cat", "/data/sub/file"])
        .output()?
        .prints("kept\n")?;
    vm("data:/data", "true")?.refuses(125, &["Failed to get \"write\" lock"])?;
    cx.tote(&["volume", "rm", "data"])
        .output()?
        .refuses(1, &["volume is in use"])?;
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.tote(&["volume", "rm", "data"]).output()?.exits(0)?;
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
    for (words, code) in [
        (&["diff", "vm"][..], 1),
        (&["commit", "vm", "other"], 1),
        (&["export", "vm"], 1),
    ] {
        cx.tote(words)
            .output()?
            .refuses(code, &["it is in a virtual machine"])?;
    }
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
