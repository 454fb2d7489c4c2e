//! Which program of the host listens on a port.

use std::collections::BTreeSet;
use std::fs;
use tote_network::Transport;

/// The process that has a port of the host's in words, or as much as can be said.
pub(crate) fn holder(transport: Transport, port: u16) -> String {
    let inodes = inodes(transport, port);
    match process(&inodes) {
        Some((pid, name)) => format!("process {pid} ({name}) of this machine"),
        None => "a process of this machine".to_owned(),
    }
}

/// The sockets that have the port, by inode.
fn inodes(transport: Transport, port: u16) -> BTreeSet<u64> {
    let (files, state) = match transport {
        // A state of 0A is LISTEN.
        Transport::Tcp => (["tcp", "tcp6"], Some("0A")),
        Transport::Udp => (["udp", "udp6"], None),
        Transport::Sctp => return BTreeSet::new(),
    };
    // absence: the error names the port without the process
    let texts = files.map(|file| fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.lines().skip(1));
    lines.filter_map(|line| inode(line, port, state)).collect()
}

/// The inode of a line of `/proc/net/tcp` or its like, where it is of that port and state.
fn inode(line: &str, port: u16, state: Option<&str>) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, number) = fields.get(1)?.rsplit_once(':')?;
    let is_wanted = u16::from_str_radix(number, 16) == Ok(port)
        && state.is_none_or(|state| fields.get(3) == Some(&state));
    is_wanted.then(|| fields.get(9)?.parse().ok()).flatten()
}

/// The first process that has one of these sockets open: its number and name.
fn process(inodes: &BTreeSet<u64>) -> Option<(u32, String)> {
    if inodes.is_empty() {
        return None;
    }
    // absence: the error names the port without the process
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| {
        // absence: the error names the port without the process
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        // absence: the error names the port without the process
        let mut links = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        links.any(|link| {
            let inode = link.to_str().and_then(|link| link.strip_prefix("socket:["));
            let inode = inode.and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            inode.is_some_and(|inode| inodes.contains(&inode))
        })
    })?;
    // absence: the error names the port without the process
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some((pid, name.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_listens_is_named() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let words = holder(Transport::Tcp, port);
        assert!(
            words.contains(&format!("process {} (", std::process::id())),
            "{words}"
        );
        drop(socket);
        assert_eq!(holder(Transport::Tcp, port), "a process of this machine");
    }

    #[test]
    fn lines_of_other_ports_and_states_have_no_inode() {
        let line = "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1";
        assert_eq!(inode(line, 8080, Some("0A")), Some(4711));
        assert_eq!(inode(line, 8080, Some("01")), None);
        assert_eq!(inode(line, 80, None), None);
        for line in ["", "x", "0: nonsense 0 0A", "0: :1F90 0 0A"] {
            assert_eq!(inode(line, 8080, Some("0A")), None);
        }
    }
}
