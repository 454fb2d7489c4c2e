//! Processes of a container, as the files that they use are told of.

/// Returns the number of a process in its innermost PID namespace; 0 if it has ended.
pub fn inner_pid(pid: u32) -> u32 {
    number(pid, "NSpid:").unwrap_or(0)
}

/// Returns the number of the process of a thread, in this process's PID namespace.
pub fn process_of(thread: u32) -> Option<u32> {
    number(thread, "Tgid:")
}

fn number(pid: u32, key: &str) -> Option<u32> {
    // absence: the process has ended
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().last()?.parse().ok()
}

/// Returns the name of a process. One that is about to become its program has the name of this one still.
pub fn name_of(pid: u32, path: &[u8]) -> Box<str> {
    // absence: the process has ended
    let name = |pid: &str| std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let found = name(&pid.to_string());
    let shown = match found.trim_ascii() {
        b"" => b"ended",
        _ if found == name("self") => path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
        found => found,
    };
    shown.escape_ascii().to_string().into()
}
