//! Templates of virtual machines: a guest that was saved goes on as many, each of which is a machine of its own.

use super::networks::prints;
use super::ports::WORDS;
use super::stored;
use super::vm::{QEMU, detach, prepare, prepare_template};
use super::vm_networks::OF_ROOT;
use crate::context::Context;
use crate::exchange::patience;
use crate::need::Need;
use crate::output::Output;
use crate::processes;
use crate::promise::{Test, test};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NEEDS: &[Need] = &[QEMU, Need::GuestKernel];

pub(super) const TESTS: &[Test] = &[
    test("vm::a_template_takes_the_place_of_a_boot", NEEDS, goes_on).slow(5),
    test("vm::two_from_one_template_share_no_random_number", NEEDS, random).slow(4),
    test("vm::a_template_has_the_disks_of_its_container", NEEDS, disks).slow(5),
    test("vm::a_template_has_the_links_of_its_container", OF_ROOT, links).slow(6),
    test("vm::a_template_has_the_spare_disk_for_tools", NEEDS, tools).slow(5),
    test("vm::a_template_is_nobodys_to_write", NEEDS, unwritable).slow(4),
    test("vm::a_damaged_template_is_no_hindrance", NEEDS, damaged).slow(5),
    test("vm::a_killed_template_leaves_nothing", NEEDS, killed).slow(5),
    test("vm::memory_that_a_guest_frees_is_given_back", NEEDS, given_back)
        .slow(4)
        .waits(),
];

/// Words for a machine that goes on from a template.
const FITTING: &str = "vm=memory=256m";

/// Makes a kernel ready, an image, and a template for 256 MiB; returns its name.
fn made(cx: &Context) -> Result<String> {
    prepare(cx)?;
    let output = create(cx)?;
    output.exits(0)?;
    let name = output.out().trim().to_owned();
    ensure!(name.len() == 64, "{name}");
    Ok(name)
}

fn create(cx: &Context) -> Result<Output> {
    cx.tote(&["vm", "template", "create", "-m", "256m"]).output()
}

/// Runs a script in a machine; the output begins with how the machine has come up.
fn run(cx: &Context, isolation: &str, script: &str) -> Result<Output> {
    let script = format!("grep -q tote_template /proc/cmdline && echo resumed || echo booted; {script}");
    cx.run(&[
        "--isolation",
        isolation,
        "--network",
        "none",
        "--hostname",
        "box",
        "app",
        "sh",
        "-c",
        &script,
    ])
}

fn listed(cx: &Context) -> Result<String> {
    let output = cx
        .tote(&[
            "vm",
            "template",
            "ls",
            "--format",
            "{{.ID}} {{.Memory}} {{.Fits}}",
        ])
        .output()?;
    output.exits(0)?;
    Ok(output.out())
}

fn goes_on(cx: &Context) -> Result<()> {
    let name = made(cx)?;
    create(cx)?.exits(0)?.prints(&format!("{name}\n"))?;
    ensure!(listed(cx)? == format!("{name} 256MiB true\n"), "{}", listed(cx)?);
    let now = || Ok::<_, anyhow::Error>(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let before = now()?;
    let output = run(cx, FITTING, "hostname; date +%s; exit 7")?;
    output.exits(7)?.quietly()?;
    let text = output.out();
    let (first, time) = text.trim().rsplit_once('\n').context("three lines")?;
    ensure!(first == "resumed\nbox", "{text}");
    // Seconds, on a busy machine, where the guest is told the time before its container begins.
    let time: u64 = time.parse()?;
    ensure!(
        (before.saturating_sub(1)..=now()?).contains(&time),
        "{before} {time}"
    );

    for isolation in [
        "vm=memory=256m,template=no",
        "vm=memory=257m",
        "vm=memory=256m,cpus=2",
    ] {
        run(cx, isolation, ":")?.prints("booted\n")?;
    }
    detach(cx, &["--isolation", FITTING], &["sleep", "1000"])?;
    let shown = cx
        .tote(&["inspect", "--format", "{{.VirtualMachine.Template}}", "vm"])
        .output()?;
    shown.prints(&format!("{name}\n"))?;
    cx.tote(&["exec", "vm", "hostname"]).output()?.exits(0)?;
    // A machine that runs keeps the template that it has gone on from.
    cx.tote(&["vm", "template", "rm", &name[..12]])
        .output()?
        .prints(&format!("{name}\n"))?;
    cx.tote(&["exec", "vm", "cat", "/etc/passwd"])
        .output()?
        .exits(0)?
        .has_out("root")?;
    cx.tote(&["vm", "template", "rm", &name])
        .output()?
        .refuses(1, &["no such template"])?;
    ensure!(listed(cx)?.is_empty());
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    run(cx, FITTING, ":")?.prints("booted\n")?;
    cx.nothing_left()
}

fn random(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    // The same calls in the same order, in guests that have done the same until then.
    let script = "for place in 1 2 3; do head -c 32 /dev/urandom | busybox sha256sum; cat /proc/sys/kernel/random/uuid; done; \
                  head -c 32 /dev/random | busybox sha256sum; cat /proc/sys/kernel/random/boot_id; mktemp -u /tmp/XXXXXXXXXXXX; \
                  busybox od -An -tx1 /proc/self/auxv | busybox sha256sum";
    let mut seen = BTreeMap::new();
    for guest in 0..3 {
        let output = run(cx, FITTING, script)?;
        output.exits(0)?.quietly()?;
        let text = output.out();
        let lines: Vec<&str> = text.lines().collect();
        ensure!(lines.len() == 11 && lines[0] == "resumed", "{text}");
        for line in &lines[1..] {
            let other = seen.insert((*line).to_owned(), guest);
            ensure!(
                other.is_none(),
                "guest {other:?} and guest {guest} have drawn {line}"
            );
        }
    }
    cx.nothing_left()
}

fn disks(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    let script = "grep -q tote_template /proc/cmdline && echo resumed; cat /kept /data/kept 2>/dev/null; echo 1 >> /kept; echo 2 >> /data/kept; \
                  df -m / /data | awk 'NR > 1 { print ($2 > 900), ($2 < 2000) }'; cat /sys/block/vd*/serial; echo";
    let words = [
        "run",
        "--name",
        "vm",
        "--network",
        "none",
        "--isolation",
        FITTING,
        "-v",
        "disk:data,size=1g:/data",
    ];
    let options = ["--disk-size", "1200m", "app", "sh", "-c", script];
    let serials = "toteimagewritesvolume0tools\n";
    cx.tote(&[&words[..], &options].concat())
        .output()?
        .exits(0)?
        .prints(&format!("resumed\n1 1\n1 1\n{serials}"))?;
    cx.tote(&["start", "-a", "vm"])
        .output()?
        .exits(0)?
        .prints(&format!("resumed\n1\n2\n1 1\n1 1\n{serials}"))?;
    cx.tote(&["rm", "vm"]).output()?.exits(0)?;
    // A directory of this machine has a server, whose state no file has.
    let share = format!("{}:/data", cx.directory("share")?);
    let shared = cx.run(&[
        "--isolation",
        FITTING,
        "-v",
        &share,
        "app",
        "cat",
        "/proc/cmdline",
    ])?;
    if Need::Virtiofsd.met() {
        ensure!(shared.exits(0)?.out().starts_with("console") && !shared.out().contains("tote_template"));
    } else {
        shared.refuses(125, &["this machine has no virtiofsd"])?;
    }
    cx.tote(&["volume", "rm", "data"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// Its own hardware address, in a network of containers, with a name that others find.
const LINKS: &str = r#"
tote network create web >/dev/null
tote run -d --name guest --network web --isolation vm=memory=256m -p 8080:80 app busybox nc -ll -p 80 -e echo hello >/dev/null
until [ "$(ask 127.0.0.1 8080)" = hello ]; do sleep 0.1; done
tote run --rm --network web --isolation vm=memory=256m app sh -c "grep -q tote_template /proc/cmdline && busybox nc -w 9 guest 80 </dev/null; ls /sys/class/net"
[ "$(tote exec guest cat /sys/class/net/eth0/address)" = "$(tote inspect -f '{{range .NetworkSettings.Networks}}{{.MacAddress}}{{end}}' guest)" ] && echo its own
tote inspect -f '{{len .VirtualMachine.Template}}' guest
tote rm -f guest >/dev/null
"#;

fn links(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    prints(cx, &format!("{WORDS}{LINKS}"), "hello\neth0\nlo\nits own\n64\n")
}

/// The spare disk is as empty as that of a machine that boots, and QEMU exchanges what is on it as well.
fn tools(cx: &Context) -> Result<()> {
    prepare_template(cx)?;
    stored::image(cx, "other", &[])?;
    detach(
        cx,
        &["--isolation", FITTING, "--network", "none"],
        &["sleep", "1000"],
    )?;
    let script = "grep -q tote_template /proc/cmdline && touch /target/kept && cat /own";
    for tools in ["other", "app", "other"] {
        cx.tote(&["debug", "--tools", tools, "vm", "sh", "-c", script])
            .output()?
            .prints(tools)?;
    }
    cx.tote(&["exec", "vm", "ls", "/kept"])
        .output()?
        .prints("/kept\n")?;
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}

/// Each guest has changes of its own, and QEMU no descriptor through which it could change what others begin with.
fn unwritable(cx: &Context) -> Result<()> {
    let name = made(cx)?;
    let memory = cx.root().join("vm/templates").join(&name).join("memory");
    let before = fs::read(&memory)?;
    detach(
        cx,
        &["--isolation", FITTING],
        &[
            "sh",
            "-c",
            "head -c 20000000 /dev/urandom > /dev/shm/x; sleep 1000",
        ],
    )?;
    cx.tote(&["exec", "vm", "true"]).output()?.exits(0)?;
    let output = cx
        .tote(&["inspect", "--format", "{{.State.Pid}}", "vm"])
        .output()?;
    let machines = processes::descendants(output.out().trim().parse()?);
    ensure!(machines.len() == 1, "{} processes", machines.len());
    let qemu = format!("/proc/{}", machines[0].pid);
    let mut found = 0;
    for entry in fs::read_dir(format!("{qemu}/fd"))? {
        let entry = entry?;
        let target = fs::read_link(entry.path())?;
        if !target.ends_with("memory") && !target.ends_with("state") {
            continue;
        }
        found += 1;
        let info = fs::read_to_string(format!("{qemu}/fdinfo/{}", entry.file_name().display()))?;
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .context("flags")?;
        let flags = u32::from_str_radix(flags.trim(), 8)?;
        ensure!(flags & 3 == 0, "{}: flags {flags:o}", target.display());
    }
    ensure!(found >= 1, "its memory is a file that it has open");
    let maps = fs::read_to_string(format!("{qemu}/maps"))?;
    let mapped: Vec<&str> = maps.lines().filter(|line| line.ends_with("/memory")).collect();
    ensure!(
        !mapped.is_empty() && mapped.iter().all(|line| line.contains("rw-p")),
        "{mapped:?}"
    );
    ensure!(
        fs::read(&memory)? == before,
        "the guest's writes are in the template"
    );
    ensure!(fs::metadata(&memory)?.permissions().mode() & 0o222 == 0);
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn damaged(cx: &Context) -> Result<()> {
    let name = made(cx)?;
    let dir = cx.root().join("vm/templates").join(&name);
    for file in ["state", "memory"] {
        let path = dir.join(file);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644))?;
        let whole = fs::read(&path)?;
        fs::write(&path, &whole[..whole.len() / 2])?;
        let output = run(cx, FITTING, "echo well")?;
        output.exits(0)?.prints("booted\nwell\n")?;
        output.has_err("the virtual machine boots, because it does not go on from its template")?;
        fs::write(&path, whole)?;
        run(cx, FITTING, "echo well")?
            .exits(0)?
            .prints("resumed\nwell\n")?;
    }
    cx.nothing_left()
}

/// Memory that the machine of the container `vm` takes, in bytes.
fn memory(cx: &Context) -> Result<u64> {
    let output = cx
        .tote(&["inspect", "--format", "{{.VirtualMachine.Memory}}", "vm"])
        .output()?;
    let text = output.exits(0)?.out();
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is no number"))
}

/// Looks at the memory of the machine after a while of its guest's.
fn later(cx: &Context) -> Result<u64> {
    cx.tote(&["exec", "vm", "sleep", "0.3"]).output()?.exits(0)?;
    memory(cx)
}

/// Returns the memory of the machine once the guest has given back what its boot has freed, which it does two seconds later.
fn settled(cx: &Context) -> Result<u64> {
    let (mut least, mut since) = (memory(cx)?, Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        let now = later(cx)?;
        if now + 1_000_000 < least {
            (least, since) = (now, Instant::now());
        }
    }
    Ok(least)
}

fn given_back(cx: &Context) -> Result<()> {
    const TAKEN: u64 = 100_000_000;
    prepare(cx)?;
    detach(
        cx,
        &["--isolation", "vm", "--shm-size", "200m"],
        &["sleep", "1000"],
    )?;
    let exec = |script: &str| {
        cx.tote(&["exec", "vm", "sh", "-c", script])
            .output()?
            .exits(0)
            .map(drop)
    };
    exec("true")?;
    let before = settled(cx)?;
    exec(&format!("head -c {TAKEN} /dev/zero > /dev/shm/x"))?;
    let full = memory(cx)?;
    ensure!(full > before + TAKEN / 2, "{before} {full}");
    exec("rm /dev/shm/x")?;
    // The guest reports it within seconds.
    let begin = Instant::now();
    loop {
        let now = later(cx)?;
        if now + TAKEN / 2 <= full {
            break;
        }
        ensure!(begin.elapsed() < patience(), "{before} {full} {now}");
    }
    cx.tote(&["rm", "-f", "vm"]).output()?.exits(0)?;
    cx.nothing_left()
}

fn killed(cx: &Context) -> Result<()> {
    prepare(cx)?;
    for step in 0..4 {
        let mut making = cx.tote(&["vm", "template", "create", "-m", "256m"]).spawn()?;
        let command = processes::pidfd(making.pid())?;
        // At different times of the boot and of the saving.
        let ended = processes::readable(
            &command,
            crate::exchange::scaled(Duration::from_millis(200 + 600 * step)),
        )?;
        let all = processes::descendants(making.pid());
        let all = all
            .iter()
            .map(|process| processes::pidfd(process.pid))
            .collect::<Result<Vec<_>>>();
        making.signal(Signal::KILL)?;
        making.wait()?;
        for process in &all.unwrap_or_default() {
            processes::wait_end(process, "QEMU", patience())?;
        }
        // A template is there as a whole, or not at all.
        let there = listed(cx)?;
        ensure!(there.is_empty() || there.ends_with("true\n"), "{there}");
        run(cx, FITTING, ":")?.prints(if there.is_empty() { "booted\n" } else { "resumed\n" })?;
        if ended {
            break;
        }
    }
    let name = create(cx)?;
    let name = name.exits(0)?.out();
    let entries = fs::read_dir(cx.root().join("vm/templates"))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    ensure!(names == [".lock", name.trim()], "{names:?}");
    run(cx, FITTING, ":")?.prints("resumed\n")?;
    cx.tote(&["vm", "template", "prune"])
        .output()?
        .exits(0)?
        .prints("Total reclaimed space: 0B\n")?;
    let found = crate::layout::unexplained(&cx.root())?;
    ensure!(found.is_empty(), "docs/state.md does not explain {found:?}");
    cx.nothing_left()
}
