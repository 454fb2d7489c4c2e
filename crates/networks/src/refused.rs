//! The destinations that an egress policy has refused, as `logs --egress` and `inspect` show them.
//!
//! The kernel notes addresses in a set of the container's table, and the process that watches the container writes names down,
//! each once. When the container leaves its networks, the file gets the addresses, too. Both have a bound that no
//! container can pass: the set by its size, and the file by the number of names.

use super::{TrafficFault, rootless};
use crate::container::Container;
use crate::{EngineError, Home, container};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tote_bundle::{ContainerId, EgressPolicy, NetworkMode};
use tote_network::{Egress, Noted};
use tote_records::look::moment;
use tote_state::record::now;
use tote_sys::best_effort;

/// The file in a container's directory.
const FILE: &str = "egress.log";
/// The most names that one run writes down.
const MOST_NAMES: usize = 256;
/// The protocol of a name that the resolver has not answered for.
const NAME: &str = "dns";
/// The word for a process that is not known.
const UNKNOWN: &str = "-";
/// The protocols of answers, with which a policy that only logs knows addresses by their names.
const ANSWER: &str = "answer";
const ALIAS: &str = "alias";
/// The protocol of the process that has attempted a connection first, before the address, which the kernel notes.
const ATTEMPT: &str = "attempt";
/// The most processes that one run writes down.
const MOST_ATTEMPTS: usize = 1024;
/// The most answers that one run writes down.
const MOST_ANSWERS: usize = 1024;

/// A destination that was refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedDestination {
    /// When it was refused last, a name first: nanoseconds since 1970.
    pub at: u64,
    /// `tcp`, `udp`, `sctp`, `icmp`, the number of another protocol, or `dns`.
    pub protocol: String,
    /// An address with its port, or a name.
    pub destination: String,
    /// How many packets there were; 1 of a name.
    pub count: u64,
    /// The number and the command of the process that has tried it first, where that is known.
    pub process: Option<String>,
}

impl RefusedDestination {
    fn of(noted: &Noted, now: u64) -> Self {
        let (protocol, has_port) = match noted.protocol {
            1 => ("icmp".to_owned(), false),
            6 => ("tcp".to_owned(), true),
            17 => ("udp".to_owned(), true),
            132 => ("sctp".to_owned(), true),
            number => (number.to_string(), false),
        };
        let ago = u64::try_from(noted.ago.as_nanos()).unwrap_or(u64::MAX);
        Self {
            at: now.saturating_sub(ago),
            protocol,
            destination: if has_port {
                SocketAddr::new(noted.address, noted.port).to_string()
            } else {
                noted.address.to_string()
            },
            count: noted.packets,
            process: None,
        }
    }

    fn line(&self) -> String {
        format!(
            "{} {} {} {} {}\n",
            self.at,
            self.protocol,
            self.destination,
            self.count,
            self.process()
        )
    }

    /// The process in words.
    fn process(&self) -> &str {
        self.process.as_deref().unwrap_or(UNKNOWN)
    }

    /// Reads what [`RefusedDestination::line`] writes; `None` of a line that a power cut has damaged.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next().map(str::to_owned);
        Some(Self {
            at: next()?.parse().ok()?,
            protocol: next()?,
            destination: next()?,
            count: next()?.parse().ok()?,
            process: next().filter(|process| process != UNKNOWN),
        })
    }
}

/// Names that one run has asked for: those that were refused, or of a policy that only logs those that were answered.
#[derive(Debug)]
pub(crate) struct AskedNames {
    path: PathBuf,
    seen: BTreeSet<(&'static str, String)>,
}

impl AskedNames {
    /// Begins anew with the file of a container, if the container has a directory.
    pub(crate) fn begin(home: &Home, id: &ContainerId) -> Self {
        let path = file(home, id);
        best_effort(tote_sys::remove_file(&path));
        Self {
            path,
            seen: BTreeSet::new(),
        }
    }

    /// Writes down that a name was refused, with the process of the first question.
    pub(crate) fn refused(&mut self, name: &str, process: impl FnOnce() -> Option<String>) {
        self.note(NAME, name.to_owned(), MOST_NAMES, process);
    }

    /// Writes down the address that a name, or the name that it is an alias of, was answered with.
    pub(crate) fn answered(&mut self, name: &str, address: IpAddr, is_alias: bool) {
        let kind = if is_alias { ALIAS } else { ANSWER };
        self.note(kind, format!("{name}={address}"), MOST_ANSWERS, || None);
    }

    /// Writes down the process that has attempted to reach a refused destination first.
    pub(crate) fn attempted(&mut self, transport: &str, destination: SocketAddr, process: String) {
        let destination = format!("{transport}/{destination}");
        self.note(ATTEMPT, destination, MOST_ATTEMPTS, || Some(process));
    }

    fn note(
        &mut self,
        protocol: &'static str,
        destination: String,
        most: usize,
        process: impl FnOnce() -> Option<String>,
    ) {
        let noted = self.seen.iter().filter(|(kind, _)| *kind == protocol);
        if noted.count() >= most || !self.seen.insert((protocol, destination.clone())) {
            return;
        }
        let noted = RefusedDestination {
            at: now(),
            protocol: protocol.to_owned(),
            destination,
            count: 1,
            process: process(),
        };
        best_effort(append(&self.path, &noted.line()));
    }
}

fn file(home: &Home, id: &ContainerId) -> PathBuf {
    home.container(id).join(FILE)
}

/// Appends to a file, which is made only in a directory that is there.
fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// Writes down the addresses that the kernel has noted, before they go with the rules.
pub(crate) fn keep(home: &Home, id: &ContainerId) {
    let lines: String = noted(home, id).iter().map(RefusedDestination::line).collect();
    if !lines.is_empty() {
        best_effort(append(&file(home, id), &lines));
    }
}

/// The destinations that the rules of a container have noted.
fn noted(home: &Home, id: &ContainerId) -> Vec<RefusedDestination> {
    let look = || {
        let egress = Egress::new(id.as_str(), Default::default(), Duration::ZERO, (false, true));
        let now = now();
        let noted = egress.noted().unwrap_or_default();
        let lines = noted.iter().map(|one| RefusedDestination::of(one, now).line());
        Ok(lines.collect::<String>().into_bytes())
    };
    let seen = rootless::seen_within(home, look)
        .ok()
        .flatten()
        .unwrap_or_default();
    let lines = String::from_utf8_lossy(&seen);
    lines.lines().filter_map(RefusedDestination::read).collect()
}

/// All that was written down of a container's run, and what its rules have noted, by time.
fn all(home: &Home, id: &ContainerId) -> Vec<RefusedDestination> {
    // absence: a list for people
    let text = std::fs::read_to_string(file(home, id)).unwrap_or_default();
    let written = text.lines().filter_map(RefusedDestination::read);
    let (attempts, mut all): (Vec<_>, Vec<_>) = written.partition(|one| one.protocol == ATTEMPT);
    all.extend(noted(home, id));
    let processes: BTreeMap<_, _> = attempts
        .iter()
        .map(|one| (one.destination.as_str(), &one.process))
        .collect();
    for one in all.iter_mut().filter(|one| one.process.is_none()) {
        let attempt = format!("{}/{}", one.protocol, one.destination);
        one.process = processes.get(attempt.as_str()).copied().cloned().flatten();
    }
    all.sort();
    all
}

/// The destinations that were refused to a container in its last run, by time; none of one whose policy only logs.
pub fn refused(home: &Home, id: &ContainerId, policy: &EgressPolicy) -> Vec<RefusedDestination> {
    if policy.log {
        return Vec::new();
    }
    all(home, id)
}

/// The container whose links a container has, with its policy: a member of a pod has those of the pod.
fn policy_of(home: &Home, container: Container) -> Result<(Container, Option<EgressPolicy>), EngineError> {
    let options = container.run_options()?;
    match &options.network {
        NetworkMode::Container(other) if options.egress.is_none() => {
            let other = container::find(home, other)?.container;
            match other.run_options()?.egress {
                None => Ok((container, None)),
                policy => Ok((other, policy)),
            }
        }
        _ => Ok((container, options.egress)),
    }
}

/// The lines of `logs --egress`: what was refused, or of a policy that only logs the list that the container would need.
///
/// # Errors
/// [`EngineError`]: there is no such container, or it has no policy.
pub fn egress_log(home: &Home, wanted: &str) -> Result<Vec<String>, EngineError> {
    let container = container::find(home, wanted)?.container;
    let (container, policy) = match policy_of(home, container)? {
        (container, Some(policy)) => (container, policy),
        (container, None) => return Err(TrafficFault::NoEgress(container.display().to_owned()).into()),
    };
    if policy.log {
        return Ok(needed(&all(home, &container.id)));
    }
    let line = |one: RefusedDestination| {
        format!(
            "{} {} {} {} {}",
            moment(one.at),
            one.protocol,
            one.destination,
            one.count,
            one.process()
        )
    };
    let refused = refused(home, &container.id, &policy).into_iter();
    Ok(refused.map(line).collect())
}

/// The destinations of a list, by the names whose answers led to the addresses.
fn needed(all: &[RefusedDestination]) -> Vec<String> {
    let mut names = BTreeMap::new();
    for one in all.iter().filter(|one| matches!(&*one.protocol, ANSWER | ALIAS)) {
        if let Some((name, address)) = one.destination.split_once('=') {
            let alias = if one.protocol == ALIAS { "alias:" } else { "" };
            names.insert(address, (alias, name));
        }
    }
    let entry = |one: &RefusedDestination| {
        let (protocol, address, port) = match one.destination.parse::<SocketAddr>() {
            Ok(socket) => (
                format!("{}:", one.protocol),
                socket.ip().to_string(),
                format!(":{}", socket.port()),
            ),
            Err(_) => (String::new(), one.destination.clone(), String::new()),
        };
        match names.get(address.as_str()) {
            Some((alias, name)) => format!("{alias}{protocol}{name}{port}"),
            None if address.contains(':') && !port.is_empty() => format!("{protocol}[{address}]{port}"),
            None => format!("{protocol}{address}{port}"),
        }
    };
    let connected = all
        .iter()
        .filter(|one| !matches!(&*one.protocol, ANSWER | ALIAS | NAME));
    let entries: BTreeSet<_> = connected.map(entry).collect();
    entries.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(protocol: &str, destination: &str) -> RefusedDestination {
        RefusedDestination {
            at: 7,
            protocol: protocol.to_owned(),
            destination: destination.to_owned(),
            count: 2,
            process: None,
        }
    }

    #[test]
    fn lines_read_back() {
        let written = one("tcp", "198.51.100.8:80");
        assert_eq!(RefusedDestination::read(written.line().trim_end()), Some(written));
        let known = RefusedDestination {
            process: Some("7/curl".to_owned()),
            ..one("dns", "evil.test")
        };
        assert_eq!(RefusedDestination::read(known.line().trim_end()), Some(known));
        for damaged in ["", "7", "7 tcp", "7 tcp a", "x tcp a 1"] {
            assert_eq!(RefusedDestination::read(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn the_list_that_is_needed_has_names_where_there_were_some() {
        let all = [
            one(ANSWER, "a.test=192.0.2.1"),
            one(ALIAS, "b.test=192.0.2.2"),
            one("tcp", "192.0.2.1:443"),
            one("tcp", "192.0.2.1:443"),
            one("udp", "192.0.2.2:53"),
            one("tcp", "192.0.2.3:80"),
            one("icmp", "192.0.2.1"),
        ];
        let expected = [
            "a.test",
            "alias:udp:b.test:53",
            "tcp:192.0.2.3:80",
            "tcp:a.test:443",
        ];
        assert_eq!(needed(&all), expected);
        let policy = format!("allow:{}", expected.join(","));
        let mut options = tote_bundle::RunOptions::default();
        options.set("egress", &policy).unwrap();
        assert_eq!(options.egress.unwrap().to_string(), policy);
    }
}
