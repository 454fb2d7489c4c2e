//! Directories of the host that a guest sees: a process beside the VMM serves them, virtiofsd.
//!
//! The server is root of the shared directory and of nothing else: it has a few capabilities, and chroot(2) leaves it that
//! directory. The attendant has these capabilities as well, until the server is there; the VMM never has one.

use crate::VmmError;
use crate::console::{Tail, last_words};
use crate::machine::Shares;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use rustix::io::FdFlags;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use tote_sys::Errno;

/// Places of the server among the host's programs. Distributions agree neither on it nor on its name's directory.
pub const SERVERS: [&str; 4] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/qemu/virtiofsd",
    "/usr/lib/virtiofsd",
    "/usr/bin/virtiofsd",
];

/// Capabilities that the server begins with: to serve files of every owner, to enter the directory, and to give up the rest.
pub const CAPABILITIES: [&str; 8] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_SYS_CHROOT",
];

/// Name of the server's socket in the abstract namespace of the sandbox's network namespace.
const NAME: &[u8] = b"tote-vm-shares";

/// A server of directories.
#[derive(Debug)]
pub(crate) struct Server {
    _child: Child,
    /// Its words; their end is its end.
    errors: ChildStderr,
    words: Tail,
}

impl Server {
    /// Starts the server, and gives up the rights that only it needs; returns the VMM's connection to it as well.
    pub(crate) fn begin((program, shares): (&Path, &Shares)) -> Result<(Self, UnixStream), VmmError> {
        let failed = |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            VmmError::kernel("make a socket for the server of files")(errno)
        };
        let address = SocketAddr::from_abstract_name(NAME).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        // It waits in the socket until the server takes it.
        #[expect(
            clippy::disallowed_methods,
            reason = "the listener is this process's own, and has room"
        )]
        let stream = UnixStream::connect_addr(&address).map_err(failed)?;
        rustix::io::fcntl_setfd(&listener, FdFlags::empty()).map_err(VmmError::kernel("pass on a socket"))?;
        let start = |source| VmmError::Start {
            program: program.display().to_string(),
            source,
        };
        // process: virtiofsd
        #[expect(
            clippy::disallowed_methods,
            reason = "the server is a program of the host, at a path that was found before"
        )]
        let mut command = Command::new(program);
        command
            .args(arguments(shares, listener.as_raw_fd()))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if !rustix::process::getuid().is_root() {
            // Its capabilities came by the ambient set, and to root they stay.
            command.uid(0).gid(0);
        }
        let mut child = tote_sys::spawn_mortal(&mut command).map_err(start)?;
        tote_sys::renounce().map_err(VmmError::kernel("give up capabilities"))?;
        let errors = child.stderr.take();
        let errors = errors.ok_or_else(|| start(std::io::ErrorKind::BrokenPipe.into()))?;
        rustix::io::ioctl_fionbio(&errors, true).map_err(VmmError::kernel("talk to the server of files"))?;
        let server = Self {
            _child: child,
            errors,
            words: Tail::default(),
        };
        Ok((server, stream))
    }

    /// Returns a descriptor that is readable if [`Server::advance`] has something to do.
    pub(crate) fn errors(&self) -> BorrowedFd<'_> {
        self.errors.as_fd()
    }

    /// Takes what the server has to say; an error is its end.
    pub(crate) fn advance(&mut self) -> Result<(), VmmError> {
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.errors, &mut buffer) {
            Ok(length) if length > 0 => {
                self.words.push(&buffer[..length]);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok(_) | Err(_) => Err(VmmError::Server {
                last: last_words(&[self.lines()]),
            }),
        }
    }

    /// Returns its last words.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.words.lines(2)
    }
}

/// Returns the command line, in words that both servers of this name know, QEMU's own and the one that followed it.
fn arguments(shares: &Shares, listener: i32) -> Vec<String> {
    let options = [
        format!("source={}", shares.directory.display()),
        // Namespaces are there already.
        "sandbox=chroot".to_owned(),
        // Otherwise files of two file systems could seem to be one.
        "announce_submounts".to_owned(),
        // A guest makes no nodes on this machine, and gives no program of it capabilities.
        "modcaps=-mknod:-setfcap".to_owned(),
    ];
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
    [
        format!("--fd={listener}"),
        "--rlimit-nofile=0".to_owned(),
        "-f".to_owned(),
    ]
    .into_iter()
    .chain(options)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_server() {
        let shares = Shares {
            server: Some(SERVERS[0].into()),
            directory: "/vm/shares".into(),
            tag: "tote".to_owned(),
        };
        let line = arguments(&shares, 7).join(" ");
        for part in [
            "--fd=7",
            "-o source=/vm/shares",
            "-o sandbox=chroot",
            "-o modcaps=-mknod:-setfcap",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
