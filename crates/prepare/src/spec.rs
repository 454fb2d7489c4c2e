//! Options and the host's facts become the OCI spec.

use crate::files::Files;
use crate::network::Endpoint;
use crate::peer::Peers;
use crate::user::{Ids, spec_mappings};
use crate::volume::Volumes;
use crate::{Caller, EngineError, device};
use std::path::Path;
use tote_bundle::{ContainerId, Context, ImageConfig, IpcMode, RunOptions, spec};
use tote_sandbox::MapOrigin;
use tote_spec::{ConsoleSize, Process, Rlimit, Spec};
use tote_sys::Limit;

/// The spec of a container with these volumes.
pub fn make(
    caller: Caller,
    id: &ContainerId,
    (options, peers): (&RunOptions, &Peers),
    config: &ImageConfig,
    ids: &Ids,
    environment: &dyn Fn(&str) -> Option<String>,
    volumes: &Volumes,
) -> Result<Spec, EngineError> {
    let (uid_mappings, gid_mappings) = spec_mappings(ids.mapping, ids.maps.as_ref());
    let devices = device::devices(options)?;
    let limited = device::limited(options)?;
    let masked_paths = if options.privileged {
        Vec::new()
    } else {
        let processors = Path::new("/sys/devices/system/cpu");
        thermal_throttle(processors).map_err(EngineError::file("list", processors))?
    };
    let pid = |process: Option<crate::container::ProcessId>| process.map(|process| process.pid);
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let size = if options.tty {
        tote_runtime::terminal_size()
    } else {
        None
    };
    let context = Context {
        added_gids: &ids.added_gids,
        rootless: caller != Caller::Root,
        uid_mappings: &uid_mappings,
        gid_mappings: &gid_mappings,
        setgroups: !matches!(ids.mapping, MapOrigin::Own(_)),
        machine_hostname: Some(&hostname),
        terminal_size: size.map(|(height, width)| ConsoleSize { height, width }),
        pid_peer: pid(peers.pid),
        ipc_peer: pid(peers.ipc),
        network_peer: pid(peers.network),
        uts_peer: pid(peers.uts),
        peer_hostname: peers.hostname.as_deref(),
        volumes: &volumes.directories,
        devices: &devices,
        limited: &limited,
        masked_paths: &masked_paths,
        ..Context::new(id, "rootfs", &ids.user, environment)
    };
    let mut spec = spec(options, config, &context)?;
    volumes.mount_devices(&mut spec);
    adapt(&mut spec, options, caller);
    Ok(spec)
}

/// Changes a spec to what this host and this caller have.
fn adapt(spec: &mut Spec, options: &RunOptions, caller: Caller) {
    if options.ipc == IpcMode::Host && !has(Path::new(MQUEUE)) {
        // A kernel may lack message queues, and a host may mount none. What a user binds there is there.
        spec.mounts
            .retain(|mount| mount.source.as_deref() != Some(MQUEUE) || mount.destination != MQUEUE);
    }
    device::open_bound(spec);
    if options.vm.is_some() {
        device::open_to_all(spec, crate::network::TUN);
        device::open_to_all(spec, "/dev/kvm");
    }
    if let Some(process) = &mut spec.process {
        process.apparmor_profile = process
            .apparmor_profile
            .take()
            .filter(|profile| !is_without_effect(profile));
        raise_nofile(process);
    }
    let lacks = |group| caller == Caller::NestedRoot && !crate::user::maps_group(group);
    if lacks(TTY) {
        for mount in spec
            .mounts
            .iter_mut()
            .filter(|mount| mount.kind.as_deref() == Some("devpts"))
        {
            mount.options.retain(|option| *option != format!("gid={TTY}"));
        }
    }
    if lacks(LAST_OF_PING)
        && let Some(linux) = spec
            .linux
            .as_mut()
            .filter(|_| !options.sysctls.contains_key(PING))
    {
        linux.sysctl.remove(PING);
    }
    if caller == Caller::User
        && !options.network.attachments().is_empty()
        && let Some(linux) = spec.linux.as_mut().filter(|_| !gives(options, TCP_WMEM))
    {
        linux
            .sysctl
            .insert(TCP_WMEM.to_owned(), WMEM_FOR_PASTA.to_owned());
    }
}

/// True if the user sets that parameter of the kernel, in either spelling.
fn gives(options: &RunOptions, parameter: &str) -> bool {
    options
        .sysctls
        .keys()
        .any(|name| name.replace('/', ".") == parameter)
}

/// The directory of each processor in which the kernel counts how often that became too hot, which tells what others
/// compute (GHSA-6fw5-f8r9-fgfm).
///
/// # Errors
/// Those of the list of processors: a directory that is left out would be seen.
fn thermal_throttle(processors: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    // The first processor of most virtual machines has none, and then no other has one.
    if !has(&processors.join("cpu0/thermal_throttle")) {
        return Ok(found);
    }
    for entry in std::fs::read_dir(processors)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
        let dir = entry.path().join("thermal_throttle");
        if number.is_some_and(|number| number.parse::<u32>().is_ok()) && has(&dir) {
            found.push(dir.display().to_string());
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a program runs as that profile of AppArmor's says anyway: nothing sets one here, and a kernel without AppArmor has
/// nothing for docker's usual one to do.
fn is_without_effect(profile: &str) -> bool {
    match profile {
        "unconfined" => true,
        "docker-default" => !has(Path::new("/sys/module/apparmor/parameters/enabled")),
        _ => false,
    }
}

/// docker's and podman's: a container may open as many files as its caller may allow it.
fn raise_nofile(process: &mut Process) {
    if process.rlimits.iter().any(|rlimit| rlimit.kind == NOFILE) {
        return;
    }
    let own = tote_sys::resource_by_name(NOFILE).map(tote_sys::hard_limit);
    if let Some(Ok(Limit { soft, hard })) = own
        && soft < hard
    {
        process.rlimits.push(Rlimit {
            kind: NOFILE.to_owned(),
            soft: hard,
            hard,
        });
    }
}

fn has(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS) != Err(rustix::io::Errno::NOENT)
}

/// The limit of open files, as config.json names it.
const NOFILE: &str = "RLIMIT_NOFILE";

/// The host's message queues.
const MQUEUE: &str = "/dev/mqueue";

/// docker sets this where it can; a user namespace lacks some groups of its range.
const PING: &str = "net.ipv4.ping_group_range";

/// How much a connection of TCP may have on its way: least, at first, most, in bytes.
const TCP_WMEM: &str = "net.ipv4.tcp_wmem";

/// The kernel's own limits, but 512 KiB at most instead of 4 MiB. pasta takes no more from a connection than the machine's socket takes
/// from it, and drops the rest without a word: the sender finds out by timeouts, and 100 MB took up to 14 seconds instead of 0.2
/// (docs/networks.md).
const WMEM_FOR_PASTA: &str = "4096 16384 524288";

/// The last group of what docker sets.
const LAST_OF_PING: u32 = 2_147_483_647;

/// The group of terminals, in every distribution.
const TTY: u32 = 5;

/// File by which programs tell that they are in a container, docker's; empty there as well.
const MARK: &str = ".dockerenv";

/// The mode of docker's file.
const MARKS: u32 = 0o755;

/// The mode of a file that everybody reads.
const PLAIN: u32 = 0o644;

/// Files that are the container's own, where it has no mount of its own there.
///
/// # Errors
/// Of a time zone that the host has not.
pub fn files(
    (spec, caller): (&Spec, Caller),
    options: &RunOptions,
    peers: &Peers,
    endpoints: &[Endpoint],
) -> Result<Files, EngineError> {
    let mounted = |path: &str| spec.mounts.iter().any(|mount| mount.destination == path);
    let mut files = Vec::with_capacity(5);
    let hostname = spec.hostname.as_deref().or(peers.hostname.as_deref());
    // What belongs to the network is as its maker has it.
    let network = peers.network_options.as_ref().unwrap_or(options);
    let joined = if endpoints.is_empty() {
        &peers.endpoints
    } else {
        endpoints
    };
    if let Some(hostname) = hostname.filter(|_| !mounted("/etc/hostname")) {
        files.push(("etc/hostname", PLAIN, format!("{hostname}\n").into_bytes()));
    }
    let no_hosts = options.host.no_hosts || network.host.no_hosts;
    if !mounted("/etc/hosts") && !no_hosts {
        files.push((
            "etc/hosts",
            PLAIN,
            crate::etc::hosts(hostname, &network.host, joined).into_bytes(),
        ));
    }
    if !mounted("/etc/resolv.conf")
        && let Some(text) =
            crate::etc::resolv_conf(network, caller).map_err(EngineError::file("read", "/etc/resolv.conf"))?
    {
        files.push(("etc/resolv.conf", PLAIN, text.into_bytes()));
    }
    if !mounted("/etc/localtime")
        && let Some(zone) = crate::etc::localtime(options)?
    {
        files.push(("etc/localtime", PLAIN, zone));
    }
    // A container of one command has none: the file would be two more calls of its start.
    if !options.rm && !mounted("/.dockerenv") {
        files.push((MARK, MARKS, Vec::new()));
    }
    if options.infra {
        // A process that may execute a program but not read it shows nothing of itself: members of the pod's PID namespace must not
        // see by it what the host has in `/usr`.
        files.push((crate::pause::PAUSE, 0o111, crate::pause::program()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_count_heat() {
        let dir = tempfile::tempdir().unwrap();
        let all = || thermal_throttle(dir.path()).unwrap();
        for name in ["cpu0", "cpu1", "cpu10", "cpufreq", "cpuidle"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert!(all().is_empty(), "a virtual machine");
        for name in ["cpu0", "cpu10", "cpuidle"] {
            std::fs::create_dir(dir.path().join(name).join("thermal_throttle")).unwrap();
        }
        let path = |name: &str| {
            dir.path()
                .join(name)
                .join("thermal_throttle")
                .display()
                .to_string()
        };
        assert_eq!(all(), [path("cpu0"), path("cpu10")]);
        assert!(thermal_throttle(&dir.path().join("absent")).unwrap().is_empty());
    }
}
