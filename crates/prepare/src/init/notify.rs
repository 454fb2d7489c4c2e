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

/// Returns what the init may know of a message: the lines of this list, with values of their form, and nothing else, because
/// systemd learns new words with each release and believes them as tote's own.
///
/// Absent are process ids, which are others inside (`MAINPID`) and would have systemd signal another process of the host; what is
/// said of descriptors, which do not come along (`FDSTORE`, `FDNAME`, `BARRIER`); which other processes may speak for the unit
/// (`NOTIFYACCESS`); and names of errors, which are texts for other programs (`BUSERROR`, `VARLINKERROR`). `EXTEND_TIMEOUT_USEC`
/// moves the deadline of systemd's, but not the one of `tote stop`, and `WATCHDOG_USEC` is no more than what the program gets by
/// `WATCHDOG=1`.
///
/// Lines end as they do for systemd (`strv_split_newlines`): at a line feed or a carriage return. It ignores a message with a NUL
/// before its end, and so does this.
fn for_the_init(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.contains(&0) {
        return Vec::new();
    }
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter_map(allowed).collect::<Vec<_>>().join(&b'\n')
}

/// Returns the line if the init may know it, with a text that steers no terminal.
fn allowed(line: &[u8]) -> Option<Vec<u8>> {
    const SWITCHES: [&[u8]; 5] = [
        b"READY=1",
        b"RELOADING=1",
        b"STOPPING=1",
        b"WATCHDOG=1",
        b"WATCHDOG=trigger",
    ];
    const NUMBERS: [&[u8]; 5] = [
        b"MONOTONIC_USEC",
        b"EXTEND_TIMEOUT_USEC",
        b"WATCHDOG_USEC",
        b"ERRNO",
        b"EXIT_STATUS",
    ];
    if SWITCHES.contains(&line) {
        return Some(line.to_vec());
    }
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&line[..equals], &line[equals + 1..]);
    if name == b"STATUS" {
        let shown = String::from_utf8_lossy(value).replace(char::is_control, " ");
        return Some(format!("STATUS={shown}").into_bytes());
    }
    let is_number = (1..=20).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    (is_number && NUMBERS.contains(&name)).then(|| line.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_inits_to_know() {
        let longest = format!("STATUS={}", "\u{1b}".repeat(LONGEST - "STATUS=".len()));
        let shown = format!("STATUS={}", " ".repeat(LONGEST - "STATUS=".len()));
        for (said, passed) in [
            ("READY=1", "READY=1"),
            ("READY=1\0", "READY=1"),
            ("READY=1\nSTATUS=up\n", "READY=1\nSTATUS=up"),
            (
                "RELOADING=1\nMONOTONIC_USEC=123456",
                "RELOADING=1\nMONOTONIC_USEC=123456",
            ),
            ("STOPPING=1\r\nREADY=1", "STOPPING=1\nREADY=1"),
            ("WATCHDOG=1", "WATCHDOG=1"),
            ("WATCHDOG=trigger", "WATCHDOG=trigger"),
            ("WATCHDOG_USEC=20000000", "WATCHDOG_USEC=20000000"),
            ("EXTEND_TIMEOUT_USEC=5", "EXTEND_TIMEOUT_USEC=5"),
            ("ERRNO=2\nEXIT_STATUS=3", "ERRNO=2\nEXIT_STATUS=3"),
            // Process ids, by whatever line end.
            ("MAINPID=7\nREADY=1", "READY=1"),
            ("STATUS=x\rMAINPID=1\rFDSTORE=1", "STATUS=x"),
            ("STATUS=x\r\rMAINPID=1\n\rREADY=1", "STATUS=x\nREADY=1"),
            // No line end of systemd's, so a part of the text.
            ("STATUS=x\u{b}MAINPID=1", "STATUS=x MAINPID=1"),
            ("STATUS=x\u{85}MAINPID=1", "STATUS=x MAINPID=1"),
            ("STATUS=\u{1b}[2Jred\u{9b}1m", "STATUS= [2Jred 1m"),
            ("STATUS=x\0\rMAINPID=1", ""),
            ("READY=1\0\0", ""),
            ("MAINPIDFDID=9", ""),
            ("BARRIER=1", ""),
            ("FDSTORE=1\nFDNAME=a\nFDPOLL=0\nFDSTOREREMOVE=1", ""),
            ("NOTIFYACCESS=all", ""),
            ("BUSERROR=a.b\nVARLINKERROR=a.b\nX_NEW=1", ""),
            ("READY=0\nREADY=11\nREADY\nready=1\n READY=1\n=1", ""),
            ("WATCHDOG_USEC=\nERRNO=-1\nEXIT_STATUS=1x\nMONOTONIC_USEC= 1", ""),
            ("EXTEND_TIMEOUT_USEC=123456789012345678901", ""),
            ("", ""),
            (&longest, &shown),
        ] {
            let found = for_the_init(said.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), passed, "{said:?}");
            assert!(!found.contains(&b'\r'), "{said:?}");
        }
        // Bytes that are not UTF-8, of which systemd takes no text.
        assert_eq!(
            for_the_init(b"STATUS=\xff\xfe"),
            "STATUS=\u{fffd}\u{fffd}".as_bytes()
        );
    }

    #[test]
    fn nothing_else_gets_through() {
        // Each word of sd_notify(3) that is not passed on, behind each byte that some program could take for a line's end.
        for word in [
            "MAINPID=1",
            "MAINPIDFDID=1",
            "FDSTORE=1",
            "NOTIFYACCESS=all",
            "BARRIER=1",
        ] {
            for byte in 0..=255_u8 {
                let said = [b"STATUS=x", &[byte][..], word.as_bytes()].concat();
                let found = for_the_init(&said);
                let lines = found.split(|byte| matches!(byte, b'\n' | b'\r' | 0 | 0xb | 0xc));
                assert!(
                    lines
                        .into_iter()
                        .all(|line| line.is_empty() || line.starts_with(b"STATUS=")),
                    "{byte} {word}"
                );
            }
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
