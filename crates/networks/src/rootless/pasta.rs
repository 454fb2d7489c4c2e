//! pasta(1), of the project passt: the way from a user's networks to the machine's, and back.

use super::super::{NetworkFault, RootlessFault};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tote_sys::{Errno, Wait, best_effort};

/// The address at which pasta answers for a server of DNS that only the machine itself reaches, such as one at its loopback device.
pub(crate) const RELAYED: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));

const PROGRAM: &str = "pasta";
/// The device by which pasta makes its link.
const DEVICE: &str = "/dev/net/tun";
/// The link's name in the network namespace.
pub(crate) const LINK: &str = tote_network::UPLINK;
/// How long pasta may take until the link is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// The network namespace is its standard input: pasta closes all other descriptors, and may not look into the holder's directory
/// in /proc. Neither ports nor the machine's loopback device are led anywhere.
const OPTIONS: [&str; 19] = [
    "--foreground",
    "--quiet",
    "--config-net",
    "--netns-only",
    "--no-netns-quit",
    "--netns",
    "/proc/self/fd/0",
    "--no-map-gw",
    "-t",
    "none",
    "-u",
    "none",
    "-T",
    "none",
    "-U",
    "none",
    "--no-dhcp",
    "--no-dhcpv6",
    "--no-ra",
];

/// Returns the fault if this machine lacks what pasta needs.
pub(crate) fn missing() -> Option<NetworkFault> {
    if program().is_none() {
        return Some(RootlessFault::NoPasta.into());
    }
    let access = Access::READ_OK | Access::WRITE_OK;
    let errno = rustix::fs::accessat(CWD, DEVICE, access, AtFlags::EACCESS).err()?;
    Some(RootlessFault::NoTunnel(errno).into())
}

fn program() -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&dirs).map(|dir| dir.join(PROGRAM));
    let may_run = |path: &PathBuf| rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok();
    paths.find(may_run)
}

/// A pasta that runs.
pub(crate) struct Pasta {
    process: Pid,
    pidfd: OwnedFd,
    /// Its messages, which the holder reads so that pasta never waits.
    messages: OwnedFd,
}

impl Pasta {
    /// Connects a network namespace with the machine's; `beside` is a path for a file that is there meanwhile.
    ///
    /// # Errors
    /// A line for people.
    pub(crate) fn start(network: BorrowedFd<'_>, beside: &Path) -> Result<Self, String> {
        let failed = |errno: Errno| format!("pasta cannot be started: {errno}");
        let program = program().ok_or("pasta is not installed (package passt)")?;
        // absence: pasta has the servers of its own reading
        let hosts = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let is_relayed = crate::etc::is_relayed(&hosts);
        best_effort(std::fs::remove_file(beside));
        rustix::fs::mknodat(CWD, beside, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(failed)?;
        let ready = rustix::fs::open(
            beside,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let started = ready.and_then(|ready| {
            let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&pipe.0, true)?;
            let process =
                // process: pasta(1)
                tote_sys::fork_worker(|| execute(&program, network, (beside, is_relayed), &pipe.1))?;
            let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
            let messages = pipe.0;
            Ok((
                ready,
                Self {
                    process,
                    pidfd,
                    messages,
                },
            ))
        });
        let started = started
            .map_err(failed)
            .and_then(|(ready, pasta)| pasta.when_ready(&ready));
        best_effort(std::fs::remove_file(beside));
        started
    }

    /// Waits until the link has its addresses.
    fn when_ready(self, ready: &OwnedFd) -> Result<Self, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [
                PollFd::new(ready, PollFlags::IN),
                PollFd::new(&self.messages, PollFlags::IN),
                PollFd::new(&self.pidfd, PollFlags::IN),
            ];
            best_effort(Wait::within(left).poll(&mut fds));
            let [is_ready, _, has_ended] = fds.map(|fd| fd.revents().contains(PollFlags::IN));
            said += &self.read();
            if is_ready {
                return Ok(self);
            }
            if has_ended || left.is_zero() {
                let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
                return Err(line.unwrap_or("pasta did not begin").to_owned());
            }
        }
    }

    /// Reads its messages.
    pub(crate) fn read(&self) -> String {
        let mut bytes = [0; 1024];
        let mut said = String::new();
        while let Ok(length @ 1..) = rustix::io::read(&self.messages, &mut bytes) {
            if said.len() < 8192 {
                said += &String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
            }
        }
        said
    }

    /// Descriptors to wait for: the end of it, and its messages.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.pidfd.as_fd(), self.messages.as_fd()]
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(Wait::now().reap_child(self.process), Ok(None))
    }
}

impl Drop for Pasta {
    fn drop(&mut self) {
        best_effort(rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL));
        best_effort(Wait::ending().reap_child(self.process));
    }
}

/// Becomes pasta. Nothing of the machine's loopback device can be reached through it, and no port of the machine leads in.
#[expect(
    clippy::disallowed_methods,
    reason = "no user may connect a network namespace with the machine's in another way than by such a program"
)]
fn execute(
    program: &Path,
    network: BorrowedFd<'_>,
    (beside, is_relayed): (&Path, bool),
    messages: &OwnedFd,
) -> u8 {
    let (Ok(network), Ok(said)) = (network.try_clone_to_owned(), messages.try_clone()) else {
        return 1;
    };
    // If the holder is killed, no command would find pasta.
    best_effort(rustix::process::set_parent_process_death_signal(Some(
        Signal::KILL,
    )));
    // pasta gives each answer of the first server that address, also where a container has asked the server itself and waits for the
    // server's own.
    let forward = is_relayed.then(|| ["--dns-forward".to_owned(), RELAYED.to_string()]);
    // process: pasta(1)
    let error = Command::new(program)
        .args(OPTIONS)
        .args(["--ns-ifname", LINK, "--pid"])
        .arg(beside)
        .args(forward.iter().flatten())
        .stdin(Stdio::from(network))
        .stdout(Stdio::null())
        .stderr(Stdio::from(said))
        .exec();
    // The parent reads it.
    best_effort(rustix::io::write(messages, error.to_string().as_bytes()));
    127
}
