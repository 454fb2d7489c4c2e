//! System calls of a traced process: name, object, and whether the call writes state.

use crate::tables::calls::CALLS;
use anyhow::Result;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Longest path that is read, in bytes; longer paths are cut off.
const PATH: usize = 256;

/// System call at its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Path argument, or the file behind the first descriptor; empty for calls that have neither.
    pub(crate) object: String,
    /// True if the call may change a disk, a cgroup, a mount or a process.
    pub(crate) writes: bool,
}

/// True for the `op` of PTRACE_GET_SYSCALL_INFO at the entry of a call.
pub(super) fn is_entry(op: u8) -> bool {
    op == 1
}

/// Returns the name of a call by its number on x86_64.
pub(super) fn name_of(number: u64) -> &'static str {
    match CALLS.binary_search_by_key(&number, |&(number, _)| number) {
        Ok(at) => CALLS[at].1,
        Err(_) => "unknown",
    }
}

/// Returns the position of the path among the call's arguments, counted from 0.
fn path_argument(name: &str) -> Option<usize> {
    Some(match name {
        "open" | "stat" | "lstat" | "access" | "mkdir" | "rmdir" | "unlink" | "rename" | "readlink"
        | "chmod" | "chown" | "lchown" | "chdir" | "execve" | "umount2" | "link" | "statfs" | "truncate"
        | "mknod" | "lgetxattr" | "getxattr" | "lsetxattr" | "setxattr" | "llistxattr" | "listxattr" => 0,
        "openat" | "openat2" | "newfstatat" | "statx" | "unlinkat" | "mkdirat" | "readlinkat"
        | "faccessat" | "faccessat2" | "fchmodat" | "fchmodat2" | "fchownat" | "utimensat" | "mknodat"
        | "renameat" | "renameat2" | "linkat" | "execveat" | "mount" | "symlink" | "open_tree"
        | "move_mount" => 1,
        "symlinkat" => 2,
        _ => return None,
    })
}

/// True for calls whose first argument is the descriptor that they work on.
fn has_descriptor(name: &str) -> bool {
    matches!(
        name,
        "read"
            | "write"
            | "pread64"
            | "pwrite64"
            | "readv"
            | "writev"
            | "fstat"
            | "fchmod"
            | "fchown"
            | "ftruncate"
            | "fallocate"
            | "flock"
            | "fcntl"
            | "getdents64"
            | "lseek"
            | "fsync"
            | "fdatasync"
            | "syncfs"
            | "close"
            | "fsetxattr"
            | "fgetxattr"
            | "flistxattr"
            | "copy_file_range"
            | "sendfile"
            | "ioctl"
            | "sendmsg"
            | "recvmsg"
            | "recvfrom"
            | "sendto"
            | "connect"
            | "bind"
            | "accept4"
    )
}

fn changes(name: &str) -> bool {
    matches!(
        name,
        "write"
            | "pwrite64"
            | "writev"
            | "mkdir"
            | "mkdirat"
            | "rmdir"
            | "unlink"
            | "unlinkat"
            | "rename"
            | "renameat"
            | "renameat2"
            | "link"
            | "linkat"
            | "symlink"
            | "symlinkat"
            | "mknod"
            | "mknodat"
            | "ftruncate"
            | "fallocate"
            | "fchmod"
            | "fchown"
            | "fchownat"
            | "fchmodat"
            | "utimensat"
            | "flock"
            | "fcntl"
            | "mount"
            | "umount2"
            | "move_mount"
            | "fsmount"
            | "open_tree"
            | "kill"
            | "pidfd_send_signal"
            | "clone"
            | "clone3"
            | "fork"
            | "vfork"
            | "copy_file_range"
            | "sendfile"
            | "sendmsg"
            | "bind"
            | "listen"
            | "connect"
            | "accept4"
            | "waitid"
            | "wait4"
            | "setsid"
            | "ioctl"
            | "fsetxattr"
            | "exit_group"
    )
}

impl Call {
    /// Reads the call that a stopped process is entering.
    ///
    /// # Errors
    /// Never fails today: if the process was killed meanwhile, the call is `unknown`.
    pub(super) fn read(pid: Pid) -> Result<Self> {
        let Ok(registers) = ptrace::getregs(pid) else {
            return Ok(Self {
                name: "unknown",
                object: String::new(),
                writes: false,
            });
        };
        let name = name_of(registers.orig_rax);
        let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
        let object = match path_argument(name) {
            Some(at) => text_at(pid, arguments[at]),
            None if has_descriptor(name) => fs::read_link(format!("/proc/{pid}/fd/{}", arguments[0]))
                .map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default(),
            None => String::new(),
        };
        // Flags O_WRONLY, O_RDWR and O_CREAT.
        let opens_to_write = |flags: u64| flags & 0o103 != 0;
        let writes = changes(name)
            || match name {
                "open" => opens_to_write(registers.rsi),
                "openat" => opens_to_write(registers.rdx),
                "openat2" => word_at(pid, registers.rdx).is_some_and(opens_to_write),
                _ => false,
            };
        Ok(Self { name, object, writes })
    }
}

/// Reads a NUL-terminated text from another process's memory.
fn text_at(pid: Pid, address: u64) -> String {
    let mut bytes = [0; PATH];
    let read = File::open(format!("/proc/{pid}/mem")).and_then(|memory| memory.read_at(&mut bytes, address));
    let bytes = &bytes[..read.unwrap_or(0)];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn word_at(pid: Pid, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_calls() {
        assert!(CALLS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (number, name) in [(0, "read"), (257, "openat"), (435, "clone3"), (9999, "unknown")] {
            assert_eq!(name_of(number), name);
        }
    }
}
