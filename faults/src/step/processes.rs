//! Processes, mounts and loop devices of the commands under test.

use anyhow::{Context, Result};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Lists all descendants of this process with the letters of their states. This process is their subreaper, so
/// orphans are among its children.
///
/// # Errors
/// Fails if `/proc` cannot be listed.
pub(crate) fn below_us() -> Result<BTreeMap<Pid, char>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").context("list /proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some((state, parent)) = parse(&stat) {
            all.push((pid, parent, state));
        }
    }
    let own = i32::try_from(std::process::id()).context("a process id")?;
    let mut found = BTreeMap::new();
    let mut parents = vec![own];
    while let Some(parent) = parents.pop() {
        for (pid, _, state) in all.iter().filter(|(_, of, _)| *of == parent) {
            found.insert(Pid::from_raw(*pid), *state);
            parents.push(*pid);
        }
    }
    Ok(found)
}

/// Parses state and parent from the text of `/proc/PID/stat`.
fn parse(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// Describes a process by its number, command line and state.
pub(crate) fn name(pid: Pid) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    let state = fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| parse(&stat));
    format!(
        "{pid} ({}) {}",
        words.trim(),
        state.map_or('-', |(state, _)| state)
    )
}

/// Lists mounts and loop devices that refer to paths below this directory.
///
/// # Errors
/// Fails if `/proc/self/mountinfo` cannot be read.
pub(crate) fn mounts_and_loops(place: &Path) -> Result<Vec<String>> {
    let place = place.to_string_lossy();
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    let mut found: Vec<_> = (mounts.lines())
        .filter(|line| line.contains(&*place))
        .map(|line| format!("mount left: {line}"))
        .collect();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.starts_with(&*place) {
            found.push(format!("loop device left: {}", backing.trim()));
        }
    }
    Ok(found)
}

/// Links of networks and containers in this process's network namespace, and the setting that they need.
///
/// # Errors
/// Fails if `/proc` cannot be read.
pub(crate) fn links() -> Result<Vec<String>> {
    let devices = fs::read_to_string("/proc/self/net/dev").context("read /proc/self/net/dev")?;
    let mut links: Vec<_> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| name.starts_with("tote-") || name.starts_with("tv"))
        .collect();
    links.sort();
    let forwards = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").context("read ip_forward")?;
    links.push(format!("ip_forward {}", forwards.trim()));
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_brackets() {
        assert_eq!(parse("7 (a) b (c)) S 3 7 7 0"), Some(('S', 3)));
        assert_eq!(parse(""), None);
    }
}
