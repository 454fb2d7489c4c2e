//! The columns: what they are called, and what they show.

use super::{Process, Scene, time};

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    /// Names, as `-o` or podman has them.
    pub(crate) names: &'static [&'static str],
    /// The heading.
    pub(crate) title: &'static str,
    /// The cell.
    pub(crate) show: fn(&Process, &Scene) -> String,
}

/// The column that ps(1) calls so.
pub(crate) fn ps(name: &str) -> Option<&'static Column> {
    PS.iter().find(|column| column.names.contains(&name))
}

/// The column that podman calls so.
pub(crate) fn podman(name: &str) -> Option<&'static Column> {
    PODMAN.iter().find(|column| column.names.contains(&name))
}

macro_rules! column {
    ($title:literal, [$($name:literal),+], $show:expr) => {
        Column { names: &[$($name),+], title: $title, show: $show }
    };
}

static PS: &[Column] = &[
    column!("PID", ["pid", "tgid"], |p, _| p.pid.to_string()),
    column!("PPID", ["ppid"], |p, _| p.stat.ppid.to_string()),
    column!("PGID", ["pgid", "pgrp"], |p, _| p.stat.pgid.to_string()),
    column!("SID", ["sid", "sess", "session"], |p, _| p.stat.sid.to_string()),
    column!("UID", ["uid"], |p, s| s.host.user(p.status.uid.1)),
    column!("UID", ["uidn", "euid"], |p, _| p.status.uid.1.to_string()),
    column!("RUID", ["ruid"], |p, _| p.status.uid.0.to_string()),
    column!("USER", ["user", "uname"], |p, s| s.host.user(p.status.uid.1)),
    column!("EUSER", ["euser"], |p, s| s.host.user(p.status.uid.1)),
    column!("RUSER", ["ruser"], |p, s| s.host.user(p.status.uid.0)),
    column!("GID", ["gid", "egid"], |p, _| p.status.gid.1.to_string()),
    column!("GROUP", ["group", "egroup"], |p, s| s.host.group(p.status.gid.1)),
    column!("RGROUP", ["rgroup"], |p, s| s.host.group(p.status.gid.0)),
    column!("COMMAND", ["comm", "ucomm"], |p, _| name(p)),
    column!("CMD", ["ucmd"], |p, _| name(p)),
    column!("CMD", ["cmd"], |p, _| command(p)),
    column!("COMMAND", ["args", "command"], |p, _| command(p)),
    column!("C", ["c"], |p, s| format!("{:.0}", share(p, s).min(99.0).floor())),
    column!("%CPU", ["%cpu", "pcpu"], |p, s| format!("{:.1}", share(p, s))),
    column!("%MEM", ["%mem", "pmem"], |p, s| format!(
        "{:.1}",
        memory_share(p, s)
    )),
    column!("RSS", ["rss", "rssize", "rsz"], |p, s| (p.stat.rss * s.page
        / 1024)
        .to_string()),
    column!("VSZ", ["vsz", "vsize"], |p, _| (p.stat.vsize / 1024).to_string()),
    column!("SZ", ["sz"], |p, s| (p.stat.vsize / s.page.max(1)).to_string()),
    column!("S", ["s", "state"], |p, _| p.stat.state.clone()),
    column!("STAT", ["stat"], |p, _| state(p)),
    column!("STIME", ["stime"], |p, s| time::start(
        started(p, s),
        s.now,
        s.offset
    )),
    column!("START", ["start", "start_time", "bsdstart"], |p, s| time::start(
        started(p, s),
        s.now,
        s.offset
    )),
    column!("TTY", ["tty", "tname"], |p, _| p.stat.terminal()),
    column!("TT", ["tt"], |p, _| p.stat.terminal()),
    column!("TIME", ["time", "cputime"], |p, s| time::total(
        p.stat.ticks / s.ticks
    )),
    column!("TIME", ["bsdtime"], |p, s| time::minutes(p.stat.ticks / s.ticks)),
    column!("ELAPSED", ["etime"], |p, s| time::elapsed(age(p, s))),
    column!("ELAPSED", ["etimes"], |p, s| age(p, s).to_string()),
    column!("NI", ["ni", "nice"], |p, _| p.stat.nice.to_string()),
    column!("PRI", ["pri"], |p, _| (p.stat.priority + 60).to_string()),
    column!("NLWP", ["nlwp", "thcount"], |p, _| p.stat.threads.to_string()),
    column!("PSR", ["psr"], |p, _| p.stat.processor.to_string()),
    column!("WCHAN", ["wchan"], |p, _| waits(p)),
    column!("LABEL", ["label"], |p, _| or(&p.label, "-")),
];

static PODMAN: &[Column] = &[
    column!("PID", ["pid"], |p, _| p
        .status
        .pids
        .last()
        .unwrap_or(&p.pid)
        .to_string()),
    column!("HPID", ["hpid"], |p, _| p.pid.to_string()),
    column!("PPID", ["ppid"], |p, _| p.stat.ppid.to_string()),
    column!("PGID", ["pgid"], |p, _| p.stat.pgid.to_string()),
    column!("USER", ["user"], |p, s| s.inside.user(p.status.uid.1)),
    column!("RUSER", ["ruser"], |p, s| s.inside.user(p.status.uid.0)),
    column!("HUSER", ["huser"], |p, s| s.host.user(p.status.uid.1)),
    column!("GROUP", ["group"], |p, s| s.inside.group(p.status.gid.1)),
    column!("RGROUP", ["rgroup"], |p, s| s.inside.group(p.status.gid.0)),
    column!("HGROUP", ["hgroup"], |p, s| s.host.group(p.status.gid.1)),
    column!("GROUPS", ["groups"], |p, s| list(&p.status.groups, |id| s
        .inside
        .group(id))),
    column!("HGROUPS", ["hgroups"], |p, s| list(&p.status.groups, |id| s
        .host
        .group(id))),
    column!("COMMAND", ["args"], |p, _| command(p)),
    column!("COMMAND", ["comm"], |p, _| name(p)),
    column!("%CPU", ["pcpu"], |p, s| format!("{:.3}", share(p, s))),
    column!("RSS", ["rss"], |p, s| (p.stat.rss * s.page / 1024).to_string()),
    column!("VSZ", ["vsz"], |p, _| (p.stat.vsize / 1024).to_string()),
    column!("STATE", ["state"], |p, _| p.stat.state.clone()),
    column!("STIME", ["stime"], |p, s| time::start(
        started(p, s),
        s.now,
        s.offset
    )),
    column!("TTY", ["tty"], |p, _| p.stat.terminal()),
    column!("TIME", ["time"], |p, s| time::total(p.stat.ticks / s.ticks)),
    column!("ELAPSED", ["etime"], |p, s| time::elapsed(age(p, s))),
    column!("NI", ["nice"], |p, _| p.stat.nice.to_string()),
    column!("CAPINH", ["capinh"], |p, _| capabilities(
        p.status.capabilities[0]
    )),
    column!("CAPPRM", ["capprm"], |p, _| capabilities(
        p.status.capabilities[1]
    )),
    column!("CAPEFF", ["capeff"], |p, _| capabilities(
        p.status.capabilities[2]
    )),
    column!("CAPBND", ["capbnd"], |p, _| capabilities(
        p.status.capabilities[3]
    )),
    column!("CAPAMB", ["capamb"], |p, _| capabilities(
        p.status.capabilities[4]
    )),
    column!("SECCOMP", ["seccomp"], |p, _| match p.status.seccomp {
        0 => "disabled".to_owned(),
        1 => "strict".to_owned(),
        _ => "filter".to_owned(),
    }),
    column!("LABEL", ["label"], |p, _| or(&p.label, "-")),
];

fn or(text: &str, instead: &str) -> String {
    if text.is_empty() {
        instead.to_owned()
    } else {
        text.to_owned()
    }
}

/// Name of the process, without characters that steer a terminal.
fn name(process: &Process) -> String {
    let gone = if process.stat.state == "Z" {
        " <defunct>"
    } else {
        ""
    };
    clean(&format!("{}{gone}", process.stat.comm))
}

/// Its command line; without one its name in brackets.
fn command(process: &Process) -> String {
    if process.args.is_empty() {
        let gone = if process.stat.state == "Z" {
            " <defunct>"
        } else {
            ""
        };
        return clean(&format!("[{}]{gone}", process.stat.comm));
    }
    clean(&process.args.join(" "))
}

fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

fn waits(process: &Process) -> String {
    match process.waits_in.as_str() {
        "" | "0" => "-".to_owned(),
        place => place.to_owned(),
    }
}

/// The state with ps(1)'s marks.
fn state(process: &Process) -> String {
    let stat = &process.stat;
    let marks = [
        ("<", stat.nice < 0),
        ("N", stat.nice > 0),
        ("L", process.status.locked > 0),
        ("s", stat.sid == process.pid),
        ("l", stat.threads > 1),
        ("+", stat.foreground == i64::from(stat.pgid)),
    ];
    let marks = marks
        .iter()
        .filter(|(_, applies)| *applies)
        .map(|(mark, _)| *mark);
    std::iter::once(stat.state.as_str()).chain(marks).collect()
}

/// How many seconds it is there.
fn age(process: &Process, scene: &Scene) -> u64 {
    (scene.uptime as u64).saturating_sub(process.stat.start_time / scene.ticks)
}

/// Since when it is there, in seconds since 1970.
fn started(process: &Process, scene: &Scene) -> i64 {
    scene.now.saturating_sub_unsigned(age(process, scene))
}

/// The processor time of its life, in percent of that.
#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn share(process: &Process, scene: &Scene) -> f64 {
    let lived = scene.uptime - process.stat.start_time as f64 / scene.ticks as f64;
    if lived <= 0.0 {
        return 0.0;
    }
    process.stat.ticks as f64 / scene.ticks as f64 / lived * 100.0
}

#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn memory_share(process: &Process, scene: &Scene) -> f64 {
    if scene.memory == 0 {
        return 0.0;
    }
    (process.stat.rss * scene.page / 1024) as f64 / scene.memory as f64 * 100.0
}

fn list(ids: &[u32], name: impl Fn(u32) -> String) -> String {
    let names: Vec<String> = ids.iter().map(|id| name(*id)).collect();
    or(&names.join(","), "-")
}

/// podman's way: the names, `full`, or `none`.
fn capabilities(mask: u64) -> String {
    let all = tote_sandbox::ALL_CAPABILITIES;
    let names: Vec<&str> = all
        .iter()
        .enumerate()
        .filter(|(number, _)| mask & (1 << number) != 0)
        .map(|(_, name)| *name)
        .collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count == all.len() => "full".to_owned(),
        _ => names.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{Stat, Status};

    fn process() -> Process {
        Process {
            pid: 7,
            stat: Stat {
                comm: "a\nb".to_owned(),
                state: "S".to_owned(),
                sid: 7,
                pgid: 7,
                foreground: 7,
                nice: 5,
                threads: 2,
                ticks: 500,
                start_time: 1000,
                rss: 3,
                ..Stat::default()
            },
            status: Status {
                capabilities: [0, 1, u64::MAX, 0, 0],
                pids: vec![7, 1],
                ..Status::default()
            },
            ..Process::default()
        }
    }

    #[test]
    fn cells() {
        let scene = Scene {
            uptime: 20.0,
            ticks: 100,
            page: 4096,
            memory: 1200,
            ..Scene::default()
        };
        let show = |column: Option<&Column>| (column.unwrap().show)(&process(), &scene);
        for (name, cell) in [
            ("stat", "SNsl+"),
            ("c", "50"),
            ("%cpu", "50.0"),
            ("%mem", "1.0"),
            ("rss", "12"),
            ("cmd", "[a?b]"),
            ("time", "00:00:05"),
            ("etime", "00:10"),
        ] {
            assert_eq!(show(ps(name)), cell, "{name}");
        }
        for (name, cell) in [
            ("pid", "1"),
            ("capinh", "none"),
            ("capprm", "CHOWN"),
            ("capeff", "full"),
        ] {
            assert_eq!(show(podman(name)), cell, "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        for table in [PS, PODMAN] {
            let mut names: Vec<_> = table.iter().flat_map(|column| column.names).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
