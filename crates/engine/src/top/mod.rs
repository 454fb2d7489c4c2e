//! The processes of a container, as ps(1) would show them.

mod column;
mod error;
mod names;
mod request;
mod time;

pub use error::TopError;

use crate::container::{self, Entry, ProcessId};
use crate::proc::{Stat, Status, field, read};
use crate::vm::GuestProcesses;
use crate::{EngineError, Home};
use names::Names;
use request::Request;
use rustix::param::{clock_ticks_per_second, page_size};
use std::collections::BTreeSet;
use tote_cgroup::Cgroup;

/// A heading and a row for each process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// Titles of the columns.
    pub titles: Vec<String>,
    /// Rows, with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Facts about one process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pid: u32,
    stat: Stat,
    status: Status,
    /// Its arguments; empty for one that has none, as a zombie.
    args: Vec<String>,
    /// The function of the kernel that it waits in.
    waits_in: String,
    /// Its security label.
    label: String,
}

/// Facts about the machine and the container at the moment.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Seconds since 1970, and since the machine was started.
    now: i64,
    uptime: f64,
    /// Ticks of the clock in a second, and bytes of a page.
    ticks: u64,
    page: u64,
    /// Kibibytes of memory.
    memory: u64,
    /// Seconds east of Greenwich.
    offset: i64,
    /// The host's users and groups, and the container's.
    host: Names,
    inside: Names,
}

/// The processes of a running container. `words` are options of ps(1) or podman's names of columns; docker's `-ef` if
/// `words` is empty.
///
/// # Errors
/// There is no such container, it does not run, or the words mean nothing here.
pub fn top(home: &Home, container: &str, words: &[String]) -> Result<Processes, EngineError> {
    let request = Request::parse(words)?;
    let entry = container::find(home, container)?;
    if crate::vm::is_in_vm(&entry.container) {
        crate::stats::running(&entry)?;
        return Ok(of_guest(&crate::vm::processes(home, &entry)?, &request));
    }
    Ok(of(&[crate::stats::running(&entry)?], &request))
}

/// Lists the processes of several containers, each process once.
///
/// # Errors
/// The words mean nothing here.
pub(crate) fn top_of(entries: &[Entry], words: &[String]) -> Result<Processes, EngineError> {
    let request = Request::parse(words)?;
    // One that has just ended has no processes.
    let running: Vec<_> = entries
        .iter()
        .filter_map(|entry| crate::stats::running(entry).ok())
        .collect();
    Ok(of(&running, &request))
}

fn of(running: &[(ProcessId, Cgroup, Vec<u32>)], request: &Request) -> Processes {
    let mut table = table(request, &Scene::default(), &[]);
    let mut seen = BTreeSet::new();
    for (first, _, pids) in running {
        let scene = Scene::look(*first, request);
        let new = pids.iter().filter(|pid| seen.insert(**pid));
        let processes: Vec<Process> = new.filter_map(|pid| Process::look(*pid, request)).collect();
        table.rows.extend(self::table(request, &scene, &processes).rows);
    }
    table
}

/// Lists the processes in a virtual machine; the numbers are those of its kernel.
fn of_guest(guest: &GuestProcesses, request: &Request) -> Processes {
    let names = || Names::parse(&guest.names.0, &guest.names.1, None);
    let file = |name: &str| guest.of_machine(name);
    let scene = Scene {
        host: names(),
        inside: names(),
        ..Scene::of(&file)
    };
    let read = |pid: u32, name: &str| guest.read(pid, name);
    let pids = guest.pids();
    let processes: Vec<Process> = pids
        .iter()
        .filter_map(|pid| Process::look_by(&read, *pid, request))
        .collect();
    table(request, &scene, &processes)
}

fn table(request: &Request, scene: &Scene, processes: &[Process]) -> Processes {
    let row = |process: &Process| -> Vec<String> {
        let cells = request.columns.iter();
        cells.map(|(column, _)| (column.show)(process, scene)).collect()
    };
    Processes {
        titles: request.columns.iter().map(|(_, title)| title.clone()).collect(),
        rows: processes.iter().map(row).collect(),
    }
}

impl Process {
    /// `None` for one that has just ended.
    fn look(pid: u32, request: &Request) -> Option<Self> {
        Self::look_by(&read, pid, request)
    }

    fn look_by(read: &dyn Fn(u32, &str) -> String, pid: u32, request: &Request) -> Option<Self> {
        let stat = Stat::parse(&read(pid, "stat"))?;
        let wants = |name: &str| {
            request
                .columns
                .iter()
                .any(|(column, _)| column.names.contains(&name))
        };
        let args = read(pid, "cmdline");
        let args = args.strip_suffix('\0').unwrap_or(&args);
        Some(Self {
            pid,
            stat,
            status: Status::parse(&read(pid, "status")),
            args: args
                .split('\0')
                .filter(|_| !args.is_empty())
                .map(str::to_owned)
                .collect(),
            waits_in: if wants("wchan") {
                read(pid, "wchan")
            } else {
                String::new()
            },
            label: if wants("label") {
                read(pid, "attr/current")
                    .trim_end_matches(['\0', '\n'])
                    .to_owned()
            } else {
                String::new()
            },
        })
    }
}

impl Scene {
    fn look(first: ProcessId, request: &Request) -> Self {
        // absence: a text for people, with numbers in place of names
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            host: Names::parse(&file("/etc/passwd"), &file("/etc/group"), None),
            inside: if request.inside {
                Names::inside(first)
            } else {
                Names::default()
            },
            ..Self::of(&|name| file(&format!("/proc/{name}")))
        }
    }

    /// Facts about the machine whose `/proc` this reads.
    fn of(file: &dyn Fn(&str) -> String) -> Self {
        let uptime = file("uptime");
        let now = i64::try_from(tote_calendar::now().as_secs()).unwrap_or(0);
        Self {
            // absence: figures for people
            now,
            uptime: uptime
                .split(' ')
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0),
            ticks: clock_ticks_per_second().max(1),
            page: page_size() as u64,
            memory: field(&file("meminfo"), "MemTotal").unwrap_or(0),
            offset: time::offset(&std::fs::read("/etc/localtime").unwrap_or_default(), now),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_in_every_way() {
        for words in [
            &[][..],
            &["aux"],
            &["-o", "pid,args,wchan"],
            &["hpid", "args", "capeff"],
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let request = Request::parse(&words).unwrap();
            let this = ProcessId {
                pid: std::process::id(),
                start_time: tote_state::process::start_time(std::process::id()).unwrap(),
            };
            let scene = Scene::look(this, &request);
            let own = Process::look(std::process::id(), &request).unwrap();
            let table = table(&request, &scene, &[own]);
            assert_eq!(table.titles.len(), table.rows[0].len());
            assert!(
                table.rows[0].contains(&std::process::id().to_string()),
                "{table:?}"
            );
        }
    }
}
