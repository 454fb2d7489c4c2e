//! The datagrams of sd_notify(3), from the container to the init.

use crate::EngineError;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::time::Duration;
use tote_bundle::SdNotify;
use tote_runtime::Aside;
use tote_sys::{Errno, best_effort};

/// systemd takes no longer message.
const LONGEST: usize = 4096;

/// Number of messages passed on at a time, so that an endless sender does not keep other work waiting.
const AT_ONCE: usize = 16;

/// How long an init may keep its sender waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way to the init.
#[derive(Debug)]
pub struct Notify {
    init: OwnedFd,
    address: SocketAddrUnix,
    /// Socket that the container's program writes to.
    from: Option<OwnedFd>,
    how: SdNotify,
    healthy: bool,
}

/// The socket that `NOTIFY_SOCKET` names: a path, or behind an `@` an abstract socket.
pub(crate) fn address(text: &str) -> Option<SocketAddrUnix> {
    match text.strip_prefix('@') {
        Some(name) if !name.is_empty() => SocketAddrUnix::new_abstract_name(name.as_bytes()).ok(),
        None if text.starts_with('/') => SocketAddrUnix::new(text).ok(),
        _ => None,
    }
}

/// Binds a socket that every user of the container may write to, in place of an earlier start's.
pub(crate) fn bind(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let socket = datagrams()?;
    // The directory's own path may be longer than an address can be.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
    rustix::net::bind(&socket, &address)?;
    rustix::fs::chmodat(dir, name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
    Ok(socket)
}

fn datagrams() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

impl Notify {
    /// Makes the socket of a container with these options.
    pub fn new(address: SocketAddrUnix, from: Option<OwnedFd>, how: SdNotify) -> Result<Self, EngineError> {
        let make = || {
            let init = datagrams()?;
            set_socket_timeout(&init, Timeout::Send, Some(PATIENCE))?;
            Ok(init)
        };
        let init = make().map_err(|source| EngineError::Kernel {
            attempt: "make a socket for NOTIFY_SOCKET",
            source,
        })?;
        Ok(Self {
            init,
            address,
            from,
            how,
            healthy: false,
        })
    }

    /// Tells the init who is the service's main process: this one; and that it is ready, where that is for this side to
    /// say.
    ///
    /// # Errors
    /// A line for the user: the init cannot be told.
    pub fn started(&self) -> Result<(), String> {
        let ready = if self.how == SdNotify::Conmon {
            "\nREADY=1"
        } else {
            ""
        };
        let text = format!("MAINPID={}{ready}", std::process::id());
        self.send(text.as_bytes())
            .map_err(|errno| format!("the init is not told of the start, by NOTIFY_SOCKET: {errno}"))
    }

    /// A check has found the container well.
    pub fn healthy(&mut self) {
        if self.how == SdNotify::Healthy && !self.healthy {
            self.healthy = true;
            // A failure was reported when the init was told of the start.
            best_effort(self.send(b"READY=1"));
        }
    }

    /// Descriptor and events to wait for.
    pub fn from(&self) -> Option<BorrowedFd<'_>> {
        Some(self.from.as_ref()?.as_fd())
    }

    /// Passes on what the container's program has said.
    pub fn pass_on(&mut self) {
        let Some(from) = &self.from else { return };
        let mut text = [0; LONGEST];
        for _ in 0..AT_ONCE {
            // A descriptor that comes along is closed by the kernel: a program that waits for that at a barrier goes on.
            match recv(from, &mut text, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, length)) if length <= LONGEST => {
                    let text = for_the_init(&text[..length]);
                    // An init that has no time now is not waited for once more.
                    if !text.is_empty() && self.send(&text).is_err() {
                        break;
                    }
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    fn send(&self, text: &[u8]) -> Result<(), Errno> {
        sendto(&self.init, text, SendFlags::NOSIGNAL, &self.address).map(drop)
    }
}

impl Aside for Notify {
    fn begin(&mut self) -> Result<(), String> {
        self.started()
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.from().into_iter().collect()
    }

    fn advance(&mut self) -> bool {
        self.pass_on();
        false
    }
}

/// Lines that the init may know: not process ids, which are others inside, nor what is said of descriptors, which do not
/// come along.
fn for_the_init(text: &[u8]) -> Vec<u8> {
    const NOT: [&[u8]; 4] = [b"MAINPID", b"FDSTORE", b"FDNAME", b"BARRIER="];
    const NOR: [&[u8]; 2] = [b"FDPOLL=", b"BUSERROR="];
    let kept = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !NOT.iter().chain(&NOR).any(|start| line.starts_with(start)));
    kept.collect::<Vec<_>>().join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_inits_to_know() {
        for (said, passed) in [
            ("READY=1", "READY=1"),
            ("READY=1\nSTATUS=up\n", "READY=1\nSTATUS=up"),
            ("MAINPID=7\nREADY=1", "READY=1"),
            ("MAINPIDFDID=9", ""),
            ("BARRIER=1", ""),
            ("FDSTORE=1\nFDNAME=a", ""),
            ("WATCHDOG=1", "WATCHDOG=1"),
            ("", ""),
        ] {
            assert_eq!(for_the_init(said.as_bytes()), passed.as_bytes(), "{said}");
        }
    }

    #[test]
    fn what_can_be_named() {
        assert!(address("/run/systemd/notify").is_some());
        assert!(address("@/org/freedesktop/systemd1/notify").is_some());
        for none in [
            "",
            "@",
            "vsock:2:1234",
            "run/notify",
            &format!("/{}", "a".repeat(200)),
        ] {
            assert!(address(none).is_none(), "{none}");
        }
    }
}
