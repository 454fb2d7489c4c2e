//! Limits: memory, processes, CPU, rlimits, sysctls, time. Rates are read from the cgroup's files, never timed.

use crate::cgroup;
use crate::context::Context;
use crate::exchange::Running;
use crate::need::{self, Need};
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use std::fs;

pub(super) const TESTS: &[Test] = &[
    test(
        "limits::memory_kills_inside_only",
        &[Need::Controller("memory")],
        memory_hog,
    ),
    test(
        "limits::pids_bound_a_fork_bomb",
        &[Need::Controller("pids")],
        fork_bomb,
    ),
    test("limits::cgroup_files_v1", CGROUP_V1, cgroup_files),
    test("limits::periods_and_disks_v1", DISKS_V1, periods_and_disks),
    test(
        "limits::nodes_that_a_rule_allows",
        &[Need::Root, Need::CgroupV1("devices")],
        device_rule,
    ),
    test(
        "limits::cgroup_files_v2_delegated",
        &[Need::Unprivileged, Need::CgroupV2Delegated],
        memory_file,
    ),
    test("limits::cpuset", &[Need::Controller("cpuset")], cpuset),
    test(
        "limits::cpuset_of_a_container_that_runs",
        &[Need::Root, Need::CgroupV1("cpuset")],
        cpuset_later,
    ),
    test(
        "limits::without_delegation_memory_is_one_warning",
        &[Need::Unprivileged, Need::NoDelegation],
        no_delegation,
    ),
    test(
        "limits::without_a_cgroup_processes_are_limited_all_the_same",
        &[Need::Unprivileged, Need::NoDelegation],
        processes_without_cgroup,
    ),
    test("limits::ulimit", &[], ulimit),
    test(
        "limits::ulimit_above_the_hosts_is_one_warning",
        &[Need::Unprivileged],
        ulimit_clamped,
    ),
    test("limits::sysctl", &[], sysctl),
    test("limits::shm_size", &[], shm_size),
    test("limits::oom_score_adj", &[], oom_score_adj),
    test("limits::timeout_exits_124", &[], timeout),
    test("limits::cpu_time_exits_124", &[], cpu_time),
    test(
        "limits::a_real_time_caller",
        &[Need::Root, Need::CgroupV1("cpu"), Need::Program("chrt")],
        real_time,
    ),
];

const CGROUP_V1: &[Need] = &[
    Need::Root,
    Need::CgroupV1("memory"),
    Need::CgroupV1("cpu"),
    Need::CgroupV1("pids"),
    Need::CgroupV1("cpuset"),
];

const DISKS_V1: &[Need] = &[
    Need::Root,
    Need::CgroupV1("memory"),
    Need::CgroupV1("cpu"),
    Need::CgroupV1("blkio"),
];

/// Starts a container that runs until its input is closed. Returns it with the host's id of its PID 1.
fn idle(cx: &Context, options: &[&str]) -> Result<(Running, i32)> {
    let mut running = cx
        .run_command(&[&["-i"], options, &[&cx.image(), "cat"]].concat())
        .spawn()?;
    running.send(b"up\n");
    running.expect("up\n")?;
    let pid = processes::container_init(running.pid())?;
    Ok((running, pid))
}

fn memory_hog(cx: &Context) -> Result<()> {
    // dd touches the whole of its buffer.
    let hog = "dd if=/dev/zero of=/dev/null bs=256M count=1";
    let (neighbour, _) = idle(cx, &[])?;
    cx.run(&["--memory", "64m", &cx.image(), "sh", "-c", &format!("exec {hog}")])?
        .exits(137)?
        .has_err("out of memory")?;
    neighbour
        .finish()?
        .exits(0)
        .context("a neighbour without a limit")?;
    cx.run(&[
        "--memory",
        "512m",
        &cx.image(),
        "sh",
        "-c",
        &format!("exec {hog}"),
    ])?
    .exits(0)?;
    // Another kill is not reported as one for lack of memory.
    let out = cx.shell(&["--init", "--memory", "64m"], "kill -9 $$")?;
    out.exits(137)?;
    ensure!(
        !out.err().to_lowercase().contains("out of memory"),
        "no memory was used up:\n{}",
        out.transcript()
    );
    Ok(())
}

/// Fork bomb that ends by itself after fifty processes, in case the limit fails.
const BOMB: &str = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); sleep 1000 & done; echo survived";

fn fork_bomb(cx: &Context) -> Result<()> {
    let out = cx.shell(&["--pids-limit", "20"], BOMB)?;
    out.fails()?.has_err("resource temporarily unavailable")?;
    ensure!(
        !out.out().contains("survived"),
        "fifty processes below a limit of twenty:\n{}",
        out.transcript()
    );
    cx.shell(&["--pids-limit", "100"], BOMB)?.prints("survived\n")?;
    Ok(())
}

/// The kernel counts only the processes of the id in the container, so neighbours of the same user
/// do not reduce the limit.
fn processes_without_cgroup(cx: &Context) -> Result<()> {
    let (neighbour, _) = idle(cx, &["--name", "c"])?;
    fork_bomb(cx)?;
    let show = "set -- $(grep 'Max processes' /proc/self/limits); echo $3 $4";
    let own = fs::read_to_string("/proc/self/limits")?;
    let own = own.lines().find_map(|line| line.strip_prefix("Max processes"));
    let own = own
        .and_then(|line| line.split_whitespace().nth(1))
        .context("Max processes")?;
    let default = own.parse().map_or(2048, |own: u64| own.min(2048));
    let expected = format!("{default} {default}\n");
    cx.shell(&[], show)?.prints(&expected)?.quietly()?;
    let inside = cx.tote(&["exec", "c", "sh", "-c", show]).output()?;
    inside.prints(&expected)?;
    cx.shell(&["--ulimit", "nproc=30:40"], show)?.prints("30 40\n")?;
    cx.shell(&["--pids-limit", "-1"], "ulimit -c 0; true")?
        .quietly()?;
    neighbour.finish()?.exits(0)?;
    Ok(())
}

fn cgroup_files(cx: &Context) -> Result<()> {
    let options = [
        "--memory",
        "64m",
        "--cpus",
        "0.5",
        "--pids-limit",
        "33",
        "--cpuset-cpus",
        "0",
    ];
    let (running, pid) = idle(cx, &options)?;
    let table = [
        ("memory", "memory.limit_in_bytes", "67108864"),
        ("pids", "pids.max", "33"),
        ("cpuset", "cpuset.cpus", "0"),
    ];
    for (controller, file, expected) in table {
        let seen = cgroup::limit(pid, controller, file, file)?;
        ensure!(seen == expected, "{file}: expected {expected}, saw {seen}");
    }
    let number = |file| -> Result<u64> { Ok(cgroup::limit(pid, "cpu", file, file)?.parse()?) };
    let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
    ensure!(
        quota * 2 == period,
        "expected half a CPU, saw {quota} of {period} µs"
    );
    let dir = cgroup::directory(pid, "memory")?;
    running.finish()?.exits(0)?;
    ensure!(!dir.exists(), "{} is left", dir.display());
    Ok(())
}

/// Finds the first disk of the machine. Returns its node and number.
fn disk() -> Result<(String, String)> {
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        let node = format!("/dev/{}", entry.file_name().to_string_lossy());
        if fs::exists(&node)? {
            let number = fs::read_to_string(entry.path().join("dev"))?;
            return Ok((node, number.trim().to_owned()));
        }
    }
    anyhow::bail!("no block device has a node in /dev")
}

fn periods_and_disks(cx: &Context) -> Result<()> {
    let (node, number) = disk()?;
    let (read, write) = (format!("{node}:1mb"), format!("{node}:7"));
    let image = cx.image();
    let options = [
        ["--cpu-period", "50000"],
        ["--cpu-quota", "25000"],
        ["--memory-swappiness", "10"],
        ["--device-read-bps", &read],
        ["--device-write-iops", &write],
    ];
    let run = ["run", "-d", "--name", "web", "--oom-kill-disable"];
    let words = [&run, options.as_flattened(), &[&image, "sleep", "1000"]].concat();
    cx.tote(&words).output()?.exits(0)?;
    let pid = cx
        .tote(&["inspect", "--format", "{{.State.Pid}}", "web"])
        .output()?;
    let pid: i32 = pid.exits(0)?.out().trim().parse()?;
    let see = |table: &[(&str, &str, &str)]| -> Result<()> {
        for (controller, file, expected) in table {
            let seen = cgroup::limit(pid, controller, file, file)?;
            ensure!(seen.contains(expected), "{file}: expected {expected}, saw {seen}");
        }
        Ok(())
    };
    see(&[
        ("cpu", "cpu.cfs_period_us", "50000"),
        ("cpu", "cpu.cfs_quota_us", "25000"),
        ("memory", "memory.swappiness", "10"),
        ("memory", "memory.oom_control", "oom_kill_disable 1"),
        (
            "blkio",
            "blkio.throttle.read_bps_device",
            &format!("{number} 1048576"),
        ),
        (
            "blkio",
            "blkio.throttle.write_iops_device",
            &format!("{number} 7"),
        ),
    ])?;
    let update = |options: &[&str]| cx.tote(&[&["update"], options, &["web"]].concat()).output();
    let read = format!("{node}:2mb");
    update(&["--cpu-quota", "30000", "--device-read-bps", &read])?.exits(0)?;
    see(&[
        ("cpu", "cpu.cfs_quota_us", "30000"),
        (
            "blkio",
            "blkio.throttle.read_bps_device",
            &format!("{number} 2097152"),
        ),
    ])?;
    update(&["--cpus", "1"])?.refuses(1, &["--cpus and --cpu-period"])?;
    update(&["--device-read-bps", "/dev/null:1"])?.refuses(1, &["/dev/null", "not a block device"])?;
    cx.tote(&["rm", "-f", "web"]).output()?.exits(0)?;
    Ok(())
}

/// The device is fuse's, which every user may open.
fn device_rule(cx: &Context) -> Result<()> {
    let script = "mknod /dev/mine c 10 229 && exec 3</dev/mine && echo opened";
    let rule = ["--device-cgroup-rule", "c 10:* rwm"];
    cx.shell(&rule, script)?.prints("opened\n")?;
    cx.shell(&[], script)?.fails()?.has_err("permission denied")?;
    let other = "mknod /dev/mine b 7 0 && exec 3</dev/mine";
    cx.shell(&rule, other)?
        .fails()?
        .has_err("operation not permitted")?;
    cx.shell(&["--device-cgroup-rule", "c 10 rwm"], "true")?
        .refuses(125, &["invalid device cgroup format"])?;
    Ok(())
}

fn memory_file(cx: &Context) -> Result<()> {
    let (running, pid) = idle(cx, &["--memory", "64m", "--pids-limit", "33"])?;
    for (controller, file, expected) in [("memory", "memory.max", "67108864"), ("pids", "pids.max", "33")] {
        let seen = cgroup::limit(pid, controller, file, file)?;
        ensure!(seen == expected, "{file}: expected {expected}, saw {seen}");
    }
    running.finish()?.exits(0)?.quietly()?;
    Ok(())
}

fn cpuset(cx: &Context) -> Result<()> {
    let out = cx.shell(
        &["--cpuset-cpus", "0"],
        "grep Cpus_allowed_list /proc/self/status; nproc",
    )?;
    out.prints("Cpus_allowed_list:\t0\n1\n")?;
    cx.shell(&["--cpuset-cpus", "4000"], "true")?
        .refuses(125, &["4000"])?;
    Ok(())
}

fn cpuset_later(cx: &Context) -> Result<()> {
    let words = ["run", "-d", "--name", "runs", &cx.image(), "sleep", "1000"];
    cx.tote(&words).output()?.exits(0)?;
    cx.tote(&["update", "--cpuset-cpus", "0", "runs"])
        .output()?
        .exits(0)?;
    cx.tote(&["exec", "runs", "grep", "Cpus_allowed_list", "/proc/1/status"])
        .output()?
        .prints("Cpus_allowed_list:\t0\n")?;
    cx.tote(&["rm", "-f", "runs"]).output()?.exits(0)?;
    Ok(())
}

fn no_delegation(cx: &Context) -> Result<()> {
    let out = cx.run(&["--memory", "64m", &cx.image(), "echo", "ran"])?;
    out.prints("ran\n")?.warns_once("memory")?;
    Ok(())
}

fn ulimit(cx: &Context) -> Result<()> {
    cx.shell(&["--ulimit", "nofile=100:200"], "ulimit -n; ulimit -Hn")?
        .prints("100\n200\n")?;
    cx.shell(&["--ulimit", "nofile=100"], "ulimit -n; ulimit -Hn")?
        .prints("100\n100\n")?;
    cx.shell(
        &["--ulimit", "core=0", "--ulimit", "cpu=7:8"],
        "ulimit -c; ulimit -t",
    )?
    .prints("0\n7\n")?;
    Ok(())
}

fn ulimit_clamped(cx: &Context) -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .context("no limit of open files")?;
    let hard: u64 = line.split_whitespace().nth(4).context("no hard limit")?.parse()?;
    let option = format!("nofile=100:{}", hard + 1);
    let out = cx.shell(&["--ulimit", &option], "ulimit -n; ulimit -Hn")?;
    out.prints(&format!("100\n{hard}\n"))?.warns_once("nofile")?;
    Ok(())
}

fn sysctl(cx: &Context) -> Result<()> {
    let file = "/proc/sys/net/ipv4/ip_forward";
    for value in ["1", "0"] {
        cx.run(&[
            "--sysctl",
            &format!("net.ipv4.ip_forward={value}"),
            &cx.image(),
            "cat",
            file,
        ])?
        .prints(&format!("{value}\n"))?;
    }
    // This sysctl belongs to the whole machine.
    let before = fs::read_to_string("/proc/sys/kernel/panic")?;
    cx.run(&["--sysctl", "kernel.panic=77", &cx.image(), "true"])?
        .refuses(125, &["kernel.panic"])?;
    ensure!(
        fs::read_to_string("/proc/sys/kernel/panic")? == before,
        "the host's kernel.panic changed"
    );
    Ok(())
}

fn shm_size(cx: &Context) -> Result<()> {
    let fill = "dd if=/dev/zero of=/dev/shm/big bs=1M count=2";
    cx.shell(&["--shm-size", "1m"], fill)?
        .fails()?
        .has_err("no space left on device")?;
    cx.shell(&["--shm-size", "4m"], fill)?.exits(0)?;
    cx.shell(&[], "df -k /dev/shm | tail -n 1 | awk '{ print $2 }'")?
        .prints("65536\n")?;
    Ok(())
}

fn oom_score_adj(cx: &Context) -> Result<()> {
    let file = "/proc/self/oom_score_adj";
    cx.run(&["--oom-score-adj", "500", &cx.image(), "cat", file])?
        .prints("500\n")?;
    let own: i32 = fs::read_to_string(file)?.trim().parse()?;
    let out = cx.run(&["--oom-score-adj", "-1000", &cx.image(), "cat", file])?;
    if need::may_raise_limits() {
        out.prints("-1000\n")?;
    } else {
        out.prints(&format!("{own}\n"))?.warns_once("oom")?;
    }
    cx.run(&["--oom-score-adj", "1001", &cx.image(), "true"])?
        .refuses(125, &["1001"])?;
    Ok(())
}

fn timeout(cx: &Context) -> Result<()> {
    cx.run(&["--timeout", "1", &cx.image(), "sleep", "100"])?
        .exits(124)?;
    cx.run(&["--timeout", "20", &cx.image(), "sh", "-c", "exit 3"])?
        .exits(3)?;
    Ok(())
}

fn cpu_time(cx: &Context) -> Result<()> {
    cx.shell(&["--cpu-time", "1"], "while :; do :; done")?
        .exits(124)?;
    cx.shell(&["--cpu-time", "20"], "exit 3")?.exits(3)?;
    Ok(())
}

/// A new group of the v1 `cpu` controller takes no real-time process if the kernel divides real time among groups.
fn real_time(cx: &Context) -> Result<()> {
    let mount = cgroup::v1_mount("cpu").context("no cpu controller")?;
    let divided = mount.join("cpu.rt_runtime_us").exists();
    let image = cx.image();
    let policy = ["busybox", "cut", "-d", " ", "-f41", "/proc/self/stat"];
    let runs = |words: &[&str], expected: &str| {
        let output = cx.tote(words).under(&["chrt", "-f", "1"]).output()?;
        output.prints(expected)?;
        let warned = output.err().contains("SCHED_OTHER");
        ensure!(warned == divided, "{words:?} said: {}", output.err());
        Ok(())
    };
    let expected = if divided { "0\n" } else { "1\n" };
    runs(
        &[&["run", "--rm", "--cpus", "1", &image][..], &policy].concat(),
        expected,
    )?;
    let words = ["run", "-d", "--name", "c", &image, "sleep", "1000"];
    cx.tote(&words).under(&["chrt", "-f", "1"]).output()?.exits(0)?;
    runs(&[&["exec", "c"][..], &policy].concat(), expected)?;
    cx.tote(&["rm", "-f", "c"]).output()?.exits(0)?;
    cx.nothing_left()
}
