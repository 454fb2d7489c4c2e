//! Places where processes wait, recorded for a hung command before it is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Number of lines of a kernel stack that are shown; deeper ones say nothing new.
const STACK: usize = 8;

/// Describes a process and each of its descendants in one line: command line, state, current system call, and the
/// kernel function in which it sleeps. Lines for the locks that processes wait for follow.
pub(crate) fn below(pid: u32) -> String {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let stat = text(&entry.path().join("stat"));
        if let (Some(number), Some((_, parent))) = (number, state_of(&stat)) {
            children.entry(parent).or_default().push(number);
        }
    }
    let mut lines = Vec::new();
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        lines.push(place_of(pid));
        open.extend(children.get(&pid).into_iter().flatten());
    }
    let locks = text(Path::new("/proc/locks"));
    let waiting = locks.lines().filter(|line| line.contains("->"));
    lines.extend(waiting.map(|line| format!("lock that is waited for: {line}")));
    let load = text(Path::new("/proc/loadavg"));
    lines.push(format!("load: {}", load.trim()));
    lines.join("\n")
}

fn place_of(pid: u32) -> String {
    let dir = Path::new("/proc").join(pid.to_string());
    let stat = text(&dir.join("stat"));
    let state = state_of(&stat).map_or_else(|| "gone".to_owned(), |(state, _)| state.to_string());
    let words = text(&dir.join("cmdline")).replace('\0', " ");
    let stack = text(&dir.join("stack"));
    let stack: Vec<&str> = stack.lines().take(STACK).map(str::trim).collect();
    format!(
        "process {pid} ({}) {state}, in call {}, at {}: {}",
        words.trim(),
        text(&dir.join("syscall")).trim(),
        text(&dir.join("wchan")),
        stack.join(" < ")
    )
}

/// Parses state and parent from the text of `/proc/PID/stat`.
fn state_of(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// Returns the text of a file, or an empty one if the file cannot be read: a process may end at any moment.
fn text(path: &Path) -> String {
    fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_waits_is_named() {
        let mut command = Command::new("cat");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The child answers once it has become cat.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let told = below(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told.contains(&format!("process {} (cat", child.id())), "{told}");
        assert!(told.lines().last().unwrap().starts_with("load: "), "{told}");
    }
}
