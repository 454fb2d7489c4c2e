//! The process that has asked for a name, or attempted a connection, which an egress policy refuses: it waits for the answer, so its
//! socket is still there.

use std::cmp::Reverse;
use std::fmt::Display;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The place of a socket's inode in a line of `/proc/PID/net/udp`, and that of its own address.
const INODE: usize = 9;
const LOCAL: usize = 1;

/// The number of a process of this machine, and its command, as `1234/curl`: of the one that asks by UDP from this address. `None` where
/// no process of the network namespace with this inode has the socket any more.
pub(crate) fn process_at(namespace: u64, client: SocketAddr) -> Option<String> {
    let socket = members(namespace).find_map(|one| socket_at(&one, client.port()))?;
    process_with(namespace, &socket)
}

/// The number and the command of the process that has the socket with this inode.
pub(crate) fn process_of(namespace: u64, socket: u32) -> Option<String> {
    process_with(namespace, &link_of(&socket))
}

fn process_with(namespace: u64, socket: &str) -> Option<String> {
    let owner = members(namespace).find(|process| has_open(process, socket))?;
    let number = owner.file_name()?.to_str()?;
    // absence: a name for people
    let command = std::fs::read_to_string(owner.join("comm")).unwrap_or_default();
    Some(format!("{number}/{}", plain(command.trim_end_matches('\n'))))
}

/// The text of the link that a descriptor of a socket is.
fn link_of(inode: &impl Display) -> String {
    format!("socket:[{inode}]")
}

/// The directories of the processes that are in a network namespace, those with high numbers first, as young ones have them: a
/// program waits for the answer.
fn members(namespace: u64) -> impl Iterator<Item = PathBuf> {
    // absence: a name for people
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable_by_key(|number| Reverse(*number));
    let is_in = move |path: &PathBuf| {
        // absence: the process has ended
        path.join("ns/net")
            .metadata()
            .is_ok_and(|it| it.ino() == namespace)
    };
    let paths = numbers
        .into_iter()
        .map(|number| PathBuf::from(format!("/proc/{number}")));
    paths.filter(is_in)
}

/// The link of a descriptor of the socket of UDP with that port.
fn socket_at(process: &Path, port: u16) -> Option<String> {
    // absence: a name for people
    let read = |name: &str| std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    let inode = [read("udp"), read("udp6")]
        .iter()
        .find_map(|table| inode_at(table, port).map(str::to_owned))?;
    Some(link_of(&inode))
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
    // absence: the process has ended
    let descriptors = std::fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    // absence: the process has ended
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
