//! The process that has asked for a name which an egress policy refuses: it waits for the answer, so its socket is still there.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The place of a socket's inode in a line of `/proc/PID/net/udp`, and that of its own address.
const INODE: usize = 9;
const LOCAL: usize = 1;

/// The number of a process of this machine, and its command, as `1234/curl`. `None` where no process of the network namespace
/// with this inode has the socket any more.
pub(super) fn process_at(namespace: u64, client: SocketAddr) -> Option<String> {
    let members = members(namespace);
    let socket = socket_at(members.first()?, client.port())?;
    let owner = members.iter().find(|process| has_open(process, &socket))?;
    let number = owner.file_name()?.to_str()?;
    let command = std::fs::read_to_string(owner.join("comm")).unwrap_or_default();
    Some(format!("{number}/{}", plain(command.trim_end_matches('\n'))))
}

/// The directories of the processes that are in a network namespace.
fn members(namespace: u64) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
    });
    let is_in = |path: &PathBuf| {
        path.join("ns/net")
            .metadata()
            .is_ok_and(|it| it.ino() == namespace)
    };
    processes.map(|entry| entry.path()).filter(is_in).collect()
}

/// The link of a descriptor of the socket of UDP with that port.
fn socket_at(process: &Path, port: u16) -> Option<String> {
    let read = |name: &str| std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    let inode = [read("udp"), read("udp6")]
        .iter()
        .find_map(|table| inode_at(table, port).map(str::to_owned))?;
    Some(format!("socket:[{inode}]"))
}

/// The inode of the socket with that port in a table of the kernel's.
fn inode_at(table: &str, port: u16) -> Option<&str> {
    let mut lines = table.lines().skip(1).map(|line| line.split_ascii_whitespace());
    lines.find_map(|line| {
        let words: Vec<_> = line.collect();
        let own = words.get(LOCAL)?.rsplit_once(':')?.1;
        let inode = words.get(INODE)?;
        (u16::from_str_radix(own, 16) == Ok(port) && *inode != "0").then_some(*inode)
    })
}

fn has_open(process: &Path, socket: &str) -> bool {
    let descriptors = std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    descriptors
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|link| link.as_os_str() == socket)
}

/// A command as one word: a program may call itself anything.
fn plain(command: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_graphic() { letter } else { '_' };
    command.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_found_by_its_port() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
  104: 0100007F:9C40 0B00007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 777 2 0000000000000000 0\n\
  105: 00000000:9C41 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0000000000000000 0\n";
        assert_eq!(inode_at(table, 0x9c40), Some("777"));
        assert_eq!(inode_at(table, 0x9c41), None);
        assert_eq!(inode_at("", 0x9c40), None);
    }

    #[test]
    fn a_process_is_found_by_its_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = Path::new("/proc/self/ns/net").metadata().unwrap().ino();
        let found = process_at(own, socket.local_addr().unwrap()).unwrap();
        assert!(found.starts_with(&format!("{}/", std::process::id())), "{found}");
        let port = socket.local_addr().unwrap();
        drop(socket);
        assert_eq!(process_at(own, port), None);
    }

    #[test]
    fn a_command_is_one_word() {
        assert_eq!(plain("a b\nc\u{e4}"), "a_b_c_");
    }
}
