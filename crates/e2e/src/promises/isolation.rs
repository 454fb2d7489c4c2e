//! Limits of a container's view and reach: namespaces, `/proc`, `/sys`, `/dev`, descriptors, mounts, devices.

use crate::context::Context;
use crate::need::{self, Need};
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test("isolation::namespaces_are_its_own", &[], namespaces),
    test(
        "isolation::the_classic_chroot_escape_fails",
        &[Need::Program("gcc")],
        chroot_escape,
    ),
    test(
        "isolation::proc_shows_its_own_processes_only",
        &[],
        proc_shows_own,
    ),
    test("isolation::masked_paths_are_empty", &[], masked),
    test("isolation::readonly_paths_cannot_be_written", &[], readonly_paths),
    test("isolation::sys_is_read_only", &[], sys_read_only),
    test("isolation::dev_is_minimal", &[], dev_minimal),
    test("isolation::devpts_is_private", &[], devpts_private),
    test("isolation::inherited_descriptors_are_closed", &[], descriptors),
    test("isolation::mounts_do_not_propagate", &[Need::Root], propagation),
    test(
        "isolation::the_hosts_disks_cannot_be_opened",
        &[Need::Root],
        host_disk,
    ),
    test("isolation::mounts_show_no_path_of_the_host", &[], root_is_pivoted),
];

fn namespaces(cx: &Context) -> Result<()> {
    let kinds = ["mnt", "pid", "ipc", "uts", "net", "cgroup", "user"];
    let list = kinds.map(|kind| format!("/proc/self/ns/{kind}")).join(" ");
    let out = cx.shell(&[], &format!("for n in {list}; do readlink $n; done"))?;
    out.exits(0)?;
    let text = out.out();
    let inside: Vec<_> = text.lines().collect();
    ensure!(
        inside.len() == kinds.len(),
        "expected {} namespaces, saw:\n{text}",
        kinds.len()
    );
    for (kind, inside) in kinds.iter().zip(inside) {
        let outside = fs::read_link(format!("/proc/self/ns/{kind}"))?
            .to_string_lossy()
            .into_owned();
        // Root's containers stay in the user namespace by default.
        let shared = *kind == "user" && need::is_root();
        ensure!(
            (inside == outside) == shared,
            "{kind}: {inside} inside, {outside} outside"
        );
    }
    Ok(())
}

fn chroot_escape(cx: &Context) -> Result<()> {
    let canary = cx.file("canary", "outside")?;
    for options in [&[][..], &["--privileged"], &["--cap-add", "SYS_CHROOT"]] {
        let out = cx.run(&[options, &[&cx.image(), "probe", "escape", &canary]].concat())?;
        out.exits(0)?;
        let said = out.out();
        ensure!(
            said == "still inside\n" || said.starts_with("stopped: "),
            "{options:?}: saw {said:?}"
        );
    }
    Ok(())
}

fn proc_shows_own(cx: &Context) -> Result<()> {
    let out = cx.shell(
        &[],
        "echo me $$; for p in /proc/[0-9]*; do echo ${p#/proc/}; done",
    )?;
    out.exits(0)?;
    let text = out.out();
    let mut lines = text.lines();
    ensure!(
        lines.next() == Some("me 1"),
        "expected the command to be PID 1, saw:\n{text}"
    );
    let pids: Vec<&str> = lines.collect();
    ensure!(pids == ["1"], "expected PID 1 alone in /proc, saw {pids:?}");
    Ok(())
}

fn masked(cx: &Context) -> Result<()> {
    let files = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/latency_stats",
        "/proc/timer_list",
        "/proc/sched_debug",
    ];
    for file in files {
        let out = cx.shell(&[], &format!("head -c 16 {file} | wc -c"))?;
        out.prints("0\n").with_context(|| file.to_owned())?;
    }
    for dir in ["/sys/firmware", "/proc/acpi", "/proc/scsi"] {
        cx.shell(&[], &format!("ls -A {dir} 2>/dev/null | wc -l"))?
            .prints("0\n")
            .with_context(|| dir.to_owned())?;
    }
    // A mask cannot be removed either.
    cx.shell(&[], "umount /proc/keys")?.fails()?;
    Ok(())
}

fn readonly_paths(cx: &Context) -> Result<()> {
    let mut table = vec![
        ("/proc/sys/kernel/domainname", "x"),
        ("/proc/sys/net/ipv4/ip_forward", "1"),
    ];
    if std::path::Path::new("/proc/sysrq-trigger").exists() {
        // The write prints the kernel's own help, if it gets through.
        table.push(("/proc/sysrq-trigger", "h"));
    }
    for (file, text) in table {
        let out = cx.shell(&[], &format!("echo {text} > {file}"))?;
        out.fails()?
            .has_err("read-only file system")
            .with_context(|| file.to_owned())?;
    }
    for dir in ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"] {
        let out = cx.shell(
            &[],
            &format!("test ! -d {dir} || grep -q ' {dir} ro[, ]' /proc/self/mountinfo"),
        )?;
        out.exits(0)
            .with_context(|| format!("{dir} is not mounted read-only"))?;
    }
    Ok(())
}

fn sys_read_only(cx: &Context) -> Result<()> {
    let out = cx.shell(&[], "ls /sys/class/net; echo 1 > /sys/class/net/lo/mtu")?;
    out.fails()?.has_err("read-only file system")?;
    ensure!(
        out.out() == "lo\n",
        "expected lo alone below /sys/class/net, saw:\n{}",
        out.transcript()
    );
    cx.shell(&[], "grep ' /sys ro[, ]' /proc/self/mountinfo")?
        .exits(0)?;
    Ok(())
}

fn dev_minimal(cx: &Context) -> Result<()> {
    let expected: BTreeSet<&str> = [
        "null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr", "shm",
        "mqueue", "pts",
    ]
    .into();
    for (options, more) in [(&[][..], None), (&["-t"], Some("console"))] {
        let out = cx.run(&[options, &[&cx.image(), "ls", "-A", "-1", "/dev"]].concat())?;
        out.exits(0)?;
        let text = out.out();
        // Docker also has this link to a masked file.
        let seen: BTreeSet<&str> = text
            .lines()
            .map(str::trim)
            .filter(|name| *name != "core")
            .collect();
        let expected: BTreeSet<&str> = expected.iter().copied().chain(more).collect();
        ensure!(
            seen == expected,
            "{options:?}: expected {expected:?}, saw {seen:?}"
        );
    }
    let script = "for n in null zero full random urandom tty; do [ -c /dev/$n ] || echo $n is no device; done
for n in fd stdin stdout stderr; do [ -L /dev/$n ] || echo $n is no link; done
echo x > /dev/null; head -c 2 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c; echo x 2>/dev/null > /dev/full || echo full";
    cx.shell(&[], script)?.prints("2\n2\nfull\n")?;
    Ok(())
}

fn devpts_private(cx: &Context) -> Result<()> {
    cx.shell(&[], "ls -A /dev/pts")?.prints("ptmx\n")?;
    let out = cx.shell(&["-t"], "ls -A -1 /dev/pts; tty")?;
    out.exits(0)?;
    let text = out.out();
    let seen: Vec<_> = text.lines().map(str::trim).collect();
    ensure!(
        seen == ["0", "ptmx", "/dev/pts/0"],
        "expected its own terminal alone, saw {seen:?}"
    );
    Ok(())
}

/// Five descriptors of a host directory are open in tote when it starts, as a careless caller leaves them.
fn descriptors(cx: &Context) -> Result<()> {
    let canary = cx.directory("canary")?;
    let directory = fs::File::open(&canary)?;
    let _inherited = [(); 5].map(|()| rustix::io::dup(&directory));
    let out = cx.run(&[&cx.image(), "ls", "-l", "/proc/self/fd"])?;
    out.exits(0)?;
    let text = out.out();
    ensure!(
        !text.contains("canary"),
        "a directory of the host is open inside:\n{text}"
    );
    let numbers = text
        .lines()
        .filter_map(|line| line.split(" -> ").next()?.split(' ').next_back());
    let open: BTreeSet<&str> = numbers.filter(|word| word.parse::<u32>().is_ok()).collect();
    // The fourth descriptor is the directory that ls itself reads.
    ensure!(
        open.iter().all(|number| ["0", "1", "2", "3"].contains(number)),
        "expected no more than 0 to 3:\n{text}"
    );
    Ok(())
}

fn propagation(cx: &Context) -> Result<()> {
    let marker = format!("tote-e2e-{}", std::process::id());
    let script = format!("mount -t tmpfs {marker} /mnt && grep -c {marker} /proc/self/mountinfo && cat");
    let mut running = cx
        .run_command(&["-i", "--privileged", &cx.image(), "sh", "-c", &script])
        .spawn()?;
    running.expect("1\n")?;
    let host = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(
        !host.contains(&marker),
        "a mount made inside is seen outside:\n{host}"
    );
    running.finish()?.exits(0)?;
    Ok(())
}

/// With CAP_MKNOD a container can make the node in any writable directory; the device rules forbid opening it.
fn host_disk(cx: &Context) -> Result<()> {
    let partitions = fs::read_to_string("/proc/partitions")?;
    let disks = partitions.lines().skip(2).filter_map(|line| {
        let mut fields = line.split_whitespace();
        Some(format!("b {} {}", fields.next()?, fields.next()?))
    });
    let devices: Vec<String> = disks
        .take(2)
        .chain(["c 1 1".to_owned(), "c 1 2".to_owned()])
        .collect();
    let volume = format!("{}:/volume", cx.directory("volume")?);
    let options = ["--tmpfs", "/memory:dev", "-v", &volume];
    for device in devices {
        for dir in ["/tmp", "/dev", "/dev/shm", "/memory", "/volume"] {
            let script = format!("mknod {dir}/d {device} && dd if={dir}/d of=/dev/null bs=1 count=1");
            let out = cx.shell(&options, &script)?;
            out.fails()?
                .has_err("permission denied")
                .with_context(|| format!("{device} in {dir}"))?;
            ensure!(
                out.err().contains("dd"),
                "{device} in {dir}: expected the opening to fail, saw:\n{}",
                out.transcript()
            );
        }
        fs::remove_file(std::path::Path::new(volume.trim_end_matches(":/volume")).join("d"))?;
    }
    Ok(())
}

/// After pivot_root(2) the old root is gone from the mount table: even a descriptor cannot reach it.
fn root_is_pivoted(cx: &Context) -> Result<()> {
    let out = cx.run(&[&cx.image(), "cat", "/proc/self/mountinfo"])?;
    out.exits(0)?;
    let text = out.out();
    let points: Vec<_> = text.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    ensure!(points.first() == Some(&"/"), "expected / first, saw:\n{text}");
    let tops = ["/", "/proc", "/sys", "/dev", "/etc"];
    let foreign: Vec<_> = points
        .iter()
        .filter(|point| {
            !tops
                .iter()
                .any(|top| **point == *top || (*top != "/" && point.starts_with(&format!("{top}/"))))
        })
        .collect();
    ensure!(foreign.is_empty(), "unexpected mounts {foreign:?}:\n{text}");
    Ok(())
}
