//! The machine and the programs of a result, without which a number cannot be compared with another.

use crate::world::World;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Description of the machine in the report.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// `uname -srv`, without the name of the host.
    pub kernel: String,
    /// Name of the processor.
    pub cpu: String,
    /// Number of CPUs that this process may use.
    pub cores: usize,
    /// Memory.
    pub memory_mib: u64,
    /// Cgroup layout outside the private mount namespace: `v2`, `hybrid`, `v1` or `none`.
    pub cgroups: &'static str,
    /// Mounts that were hidden from the candidates.
    pub hidden_mounts: Vec<PathBuf>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_before: [f64; 3],
    /// Load averages after the measurements.
    pub load_after: [f64; 3],
}

impl Machine {
    /// Describes this machine before the measurements.
    pub fn describe(world: &World) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("read {path}"));
        let load = load_average()?;
        Ok(Machine {
            kernel: format!(
                "Linux {} {}",
                read("/proc/sys/kernel/osrelease")?.trim(),
                read("/proc/sys/kernel/version")?.trim()
            ),
            cpu: field(&read("/proc/cpuinfo")?, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cores: std::thread::available_parallelism()
                .context("count the CPUs")?
                .get(),
            memory_mib: field(&read("/proc/meminfo")?, "MemTotal")
                .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok())
                .context("find MemTotal in /proc/meminfo")?
                / 1024,
            cgroups: world.cgroups,
            hidden_mounts: world.hidden.clone(),
            load_before: load,
            load_after: load,
        })
    }

    /// Records the load after the measurements.
    pub fn note_load_after(&mut self) -> Result<()> {
        self.load_after = load_average()?;
        Ok(())
    }
}

/// Description of the program under test in the report.
#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    /// Size of the program's file.
    pub bytes: u64,
    /// First line of `--version`.
    pub version: Option<String>,
    /// Output of `git describe` in the directory where the measurement was started.
    pub revision: Option<String>,
}

impl Subject {
    /// Describes `program`.
    pub fn describe(program: &Path) -> Result<Self> {
        let bytes = fs::metadata(program)
            .with_context(|| format!("look at {}", program.display()))?
            .len();
        let version = first_line(&[program.to_string_lossy().into_owned(), "--version".to_owned()]);
        let git = ["git", "describe", "--always", "--dirty", "--abbrev=12"].map(str::to_owned);
        Ok(Subject {
            bytes,
            version,
            revision: first_line(&git),
        })
    }
}

/// Returns the first output line of each of `commands` that succeeds and prints one.
pub fn versions(commands: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, String> {
    commands
        .iter()
        .filter_map(|(peer, command)| Some((peer.clone(), first_line(command)?)))
        .collect()
}

fn first_line(command: &[String]) -> Option<String> {
    let (program, args) = command.split_first()?;
    let output = Command::new(program)
        .args(args)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .map(|line| line.trim().to_owned())
}

/// Returns the value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn load_average() -> Result<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").context("read /proc/loadavg")?;
    parse_load(&text).context("understand /proc/loadavg")
}

fn parse_load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split(' ').map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_load() {
        assert_eq!(
            field("processor\t: 0\nmodel name\t: Some CPU @ 3: GHz\n", "model name"),
            Some("Some CPU @ 3: GHz")
        );
        assert_eq!(
            field("MemTotal:       24690000 kB\n", "MemTotal"),
            Some("24690000 kB")
        );
        assert_eq!(field("x: 1\n", "y"), None);
        assert_eq!(
            parse_load("0.21 0.25 0.17 2/206 11736\n"),
            Some([0.21, 0.25, 0.17])
        );
        assert_eq!(parse_load("0.21"), None);
        assert_eq!(parse_load(""), None);
    }

    #[test]
    fn versions_of_absent_peers_are_absent() {
        let commands = BTreeMap::from([
            ("here".to_owned(), vec!["echo".to_owned(), "v1\nmore".to_owned()]),
            ("gone".to_owned(), vec!["/nonexistent/peer".to_owned()]),
            ("fails".to_owned(), vec!["false".to_owned()]),
        ]);
        assert_eq!(
            versions(&commands),
            BTreeMap::from([("here".to_owned(), "v1".to_owned())])
        );
    }
}
