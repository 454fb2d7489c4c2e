//! The networks of a container that runs as the container sees them, beside their links: the resolver, `/etc/resolv.conf` and `/etc/hosts`.
//!
//! Both files are changed in place, because programs may have them open or bound elsewhere. They have the text that a start would
//! give them, but for what the container has written into them itself.

use super::endpoint::Endpoint;
use super::names;
use crate::container::socket::tell_networks;
use crate::container::{Container, Entry, ProcessId, State};
use crate::etc::{hosts_anew, resolv_conf_of, servers};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Error, ErrorKind, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, UNIX_EPOCH};
use tote_bundle::{ContainerId, NetworkMode, RunOptions, UtsMode};
use tote_records::apart;
use tote_sys::{Errno, OwnFiles};

/// The longest file that is changed.
const LONGEST: u64 = 1 << 20;
/// Time for the change of a container's files, which may be on a file system of its own making.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many containers that share one network namespace after another are followed.
const DEPTH: usize = 16;

/// Has a running container, and those that share its network, see the networks that it is in by now. Gives warnings: the container
/// is in them all the same.
pub(crate) fn follow(home: &Home, container: &Container, state: &State) -> Vec<String> {
    attempt(home, container, state).unwrap_or_else(|error| vec![left(&error)])
}

/// The warning about a file that could not be changed.
fn left(error: &EngineError) -> String {
    format!(
        "/etc/hosts and /etc/resolv.conf in the container may be of its former networks until its next start: {}",
        tote_sys::chain(error)
    )
}

fn attempt(home: &Home, container: &Container, state: &State) -> Result<Vec<String>, EngineError> {
    let (Some(process), true) = (state.process, state.runs()) else {
        return Ok(Vec::new());
    };
    let options = container.run_options()?;
    let mut warnings = Vec::new();
    let has_names = names::has_names(&options);
    if has_names && !matches!(tell_networks(home, &container.id), Ok(true)) {
        warnings.push(
            "the container finds no names before its next start: its monitor does not answer for it"
                .to_owned(),
        );
    }
    let texts = Texts::of(
        home,
        container,
        (&options, state),
        has_names && warnings.is_empty(),
    )?;
    let own = (process, is_split(container));
    let others = sharing(home, &container.id)?.into_iter().filter_map(|entry| {
        let is_split = is_split(&entry.container);
        Some((entry.state.process?, is_split))
    });
    for (process, is_split) in std::iter::once(own).chain(others) {
        match texts.write(process, is_split) {
            Ok(false) => {}
            Ok(true) => warnings.push(
                "/etc/resolv.conf was changed in the container, and stays as it is: names of containers are found at 127.0.0.11"
                    .to_owned(),
            ),
            Err(error) => warnings.push(left(&error)),
        }
    }
    Ok(warnings)
}

/// Whether the container's own files are mounts, each of them, and no mount of the caller's is there or above.
fn is_split(container: &Container) -> bool {
    let mut mounts = crate::container::mounts(container);
    let own = ["/etc", "/etc/hosts", "/etc/resolv.conf"];
    container.driver.as_deref() == Some("split") && mounts.all(|mount| !own.contains(&&*mount.destination))
}

/// The running containers that are in the network namespace of another one.
fn sharing(home: &Home, id: &ContainerId) -> Result<Vec<Entry>, EngineError> {
    let mut all = crate::container::list(home)?;
    all.retain(|entry| {
        entry.state.runs() && entry.container.id != *id && maker(home, entry).as_ref() == Some(id)
    });
    Ok(all)
}

/// The container that has made the network namespace of another one.
fn maker(home: &Home, entry: &Entry) -> Option<ContainerId> {
    let mut entry = entry.clone();
    for _ in 0..DEPTH {
        // absence: such a record names no container whose files could be written
        match entry.container.run_options().ok()?.network {
            // absence: a container that is gone has made no namespace that another one is in
            NetworkMode::Container(name) => entry = crate::container::find(home, &name).ok()?,
            _ => return Some(entry.container.id),
        }
    }
    None
}

/// Texts of the files.
struct Texts {
    options: RunOptions,
    endpoints: Vec<Endpoint>,
    /// The container's name of its own; `None` of one that has the machine's.
    hostname: Option<String>,
    /// `/etc/resolv.conf` as it should be, and as it is with a resolver and without one.
    wanted: String,
    usual: [String; 2],
    /// When the container was started, in nanoseconds since 1970, if the machine's own resolv.conf was changed since.
    since: Option<u64>,
}

impl Texts {
    fn of(
        home: &Home,
        container: &Container,
        (options, state): (&RunOptions, &State),
        is_answered: bool,
    ) -> Result<Self, EngineError> {
        let text = |has_names| {
            let text = resolv_conf_of(options, home.caller, has_names);
            text.map(Option::unwrap_or_default)
                .map_err(EngineError::file("read", "/etc/resolv.conf"))
        };
        let usual = [text(false)?, text(true)?];
        let hostname = options.host.hostname.clone();
        let hostname = hostname.unwrap_or_else(|| container.id.short().to_owned());
        // absence: a file without a time was not changed
        let changed = std::fs::metadata("/etc/resolv.conf").ok();
        let changed = changed.and_then(|it| it.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let is_newer = changed.is_some_and(|time| time.as_nanos() > state.started_at.into());
        Ok(Self {
            endpoints: state.networks.clone(),
            hostname: (options.uts == UtsMode::Private).then_some(hostname),
            wanted: usual[usize::from(is_answered)].clone(),
            usual,
            since: is_newer.then_some(state.started_at),
            options: options.clone(),
        })
    }

    /// Writes both files of the container with that first process, where they are the engine's. True if `/etc/resolv.conf` should
    /// lead to the resolver and is the container's own by now.
    fn write(&self, process: ProcessId, is_split: bool) -> Result<bool, EngineError> {
        let Some(pidfd) = tote_state::process::reach(process.pid, process.start_time)? else {
            return Ok(false);
        };
        let failed_to = |attempt| move |source| EngineError::Kernel { attempt, source };
        let failed = failed_to("open the container's files");
        let open = |path: &str| {
            let path = format!("/proc/{}/{path}", process.pid);
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        };
        let inode = |path: String| std::fs::metadata(path).map(|it| it.ino());
        let root: OwnedFd = open("root").map_err(failed)?;
        let user = format!("/proc/{}/ns/user", process.pid);
        let users = [user, "/proc/self/ns/user".to_owned()].map(inode);
        let [theirs, own] = users;
        let known = |error: Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let hosts_failed = failed_to("change the container's /etc/hosts");
        let servers_failed = failed_to("change the container's /etc/resolv.conf");
        let failed_by = |error| failed(known(error));
        let other_user = theirs.map_err(failed_by)? != own.map_err(failed_by)?;
        // process: process in a running container's mounts
        let written = apart::apart_within(
            PATIENCE,
            || Ok(()),
            || {
                let files = OwnFiles::enter(pidfd.as_fd(), root, other_user).map_err(failed)?;
                let hosts = self.write_hosts(&files, is_split);
                let servers = self.write_servers(&files, is_split);
                hosts.map_err(|error| hosts_failed(known(error)))?;
                let is_left = servers.map_err(|error| servers_failed(known(error)))?;
                Ok(vec![u8::from(is_left)])
            },
        )?;
        Ok(written == [1])
    }

    fn write_hosts(&self, files: &OwnFiles, is_split: bool) -> std::io::Result<()> {
        let no_hosts = self.options.host.no_hosts;
        let Some(hostname) = self.hostname.as_ref().filter(|_| !no_hosts) else {
            return Ok(());
        };
        let Some((file, text)) = read(files, c"etc/hosts", is_split)? else {
            return Ok(());
        };
        let anew = hosts_anew(&text, hostname, &self.options.host, &self.endpoints);
        replace(&file, &text, &anew)
    }

    fn write_servers(&self, files: &OwnFiles, is_split: bool) -> std::io::Result<bool> {
        if self.options.host.no_dns {
            return Ok(false);
        }
        let Some((file, text)) = read(files, c"etc/resolv.conf", is_split)? else {
            return Ok(false);
        };
        if text == self.wanted {
            return Ok(false);
        }
        let changed = file.metadata()?.modified()?;
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // The machine's own file was another one when the container was started.
        let is_older = self.since.is_some_and(|start| changed <= start.into());
        if self.usual.contains(&text) || is_older {
            replace(&file, &text, &self.wanted)?;
            return Ok(false);
        }
        let resolver = IpAddr::V4(tote_network::RESOLVER);
        Ok(servers(&self.wanted).any(|one| one == resolver) && !servers(&text).any(|one| one == resolver))
    }
}

/// Reads a file; `None` of one that the engine has not made.
fn read(files: &OwnFiles, path: &std::ffi::CStr, is_split: bool) -> std::io::Result<Option<(File, String)>> {
    let Some(file) = files.open(path, is_split)? else {
        return Ok(None);
    };
    let file = File::from(file);
    let mut bytes = Vec::new();
    let length = (&file).take(LONGEST + 1).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).ok();
    Ok(text
        .filter(|_| u64::try_from(length).is_ok_and(|length| length <= LONGEST))
        .map(|text| (file, text)))
}

/// Gives a file another text. No reader sees it empty; where the disk has no room for the other text, it has the former one.
fn replace(file: &File, text: &str, anew: &str) -> std::io::Result<()> {
    if text == anew {
        return Ok(());
    }
    let put = |text: &str| -> std::io::Result<()> {
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(u64::try_from(text.len()).map_err(|_| Error::from(ErrorKind::FileTooLarge))?)
    };
    put(anew).inspect_err(|_| tote_sys::best_effort(put(text)))
}
