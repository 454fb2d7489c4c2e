//! Surroundings of a process that another engine started, as `/proc` shows them.

use super::DebugError;
use crate::exec::{Inside, Target};
use crate::proc::field;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, readlinkat};
use tote_sandbox::{ALL_CAPABILITIES, SecurityModule};
use tote_spec::{Capabilities, IdMapping, Linux, Namespace, NamespaceType, Process, Rlimit, User};
use tote_sys::{Errno, read_proc, read_proc_text};

/// Kinds of namespaces, and their names in `/proc/PID/ns`.
const NAMESPACES: [(NamespaceType, &str); 8] = [
    (NamespaceType::User, "user"),
    (NamespaceType::Mount, "mnt"),
    (NamespaceType::Cgroup, "cgroup"),
    (NamespaceType::Uts, "uts"),
    (NamespaceType::Ipc, "ipc"),
    (NamespaceType::Pid, "pid"),
    (NamespaceType::Network, "net"),
    (NamespaceType::Time, "time"),
];

/// Titles of the lines of `/proc/PID/limits`, and the names of setrlimit(2).
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "RLIMIT_CPU"),
    ("Max file size", "RLIMIT_FSIZE"),
    ("Max data size", "RLIMIT_DATA"),
    ("Max stack size", "RLIMIT_STACK"),
    ("Max core file size", "RLIMIT_CORE"),
    ("Max resident set", "RLIMIT_RSS"),
    ("Max processes", "RLIMIT_NPROC"),
    ("Max open files", "RLIMIT_NOFILE"),
    ("Max locked memory", "RLIMIT_MEMLOCK"),
    ("Max address space", "RLIMIT_AS"),
    ("Max file locks", "RLIMIT_LOCKS"),
    ("Max pending signals", "RLIMIT_SIGPENDING"),
    ("Max msgqueue size", "RLIMIT_MSGQUEUE"),
    ("Max nice priority", "RLIMIT_NICE"),
    ("Max realtime priority", "RLIMIT_RTPRIO"),
    ("Max realtime timeout", "RLIMIT_RTTIME"),
];

/// Describes a process for others that join it. `target` is the user's name of it.
pub(super) fn of_process(pid: u32, target: &str) -> Result<Target, DebugError> {
    let ended = || DebugError::Ended {
        pid,
        target: target.to_owned(),
    };
    let (init, start_time) = tote_state::process::find(pid).ok_or_else(ended)?;
    let read = |name: &str| {
        read_proc_text(format!("/proc/{pid}/{name}"))
            .map_err(|source| unreadable((pid, start_time), target, source))
    };
    let status = read("status")?;
    let namespaces = namespaces(pid);
    let has_user = namespaces.iter().any(|one| one.kind == NamespaceType::User);
    // In the namespace that this process is in, an id is the same for both.
    let (uid_map, gid_map) = if has_user {
        (
            IdMapping::read(&read("uid_map")?),
            IdMapping::read(&read("gid_map")?),
        )
    } else {
        Default::default()
    };
    let env = read("environ")?;
    let oom_score_adj = read("oom_score_adj")?.trim().parse().ok();
    let label = label_of(tote_runtime::security_module(), read)?;
    let process = Process {
        user: user(&status, has_user.then_some((&uid_map[..], &gid_map[..]))),
        env: env
            .split_terminator('\0')
            .filter(|line| line.contains('='))
            .map(str::to_owned)
            .collect(),
        cwd: "/".to_owned(),
        capabilities: Some(capabilities(&status)),
        rlimits: limits(&read("limits")?),
        no_new_privileges: field(&status, "NoNewPrivs") == Some(1),
        oom_score_adj,
        apparmor_profile: label.apparmor_profile,
        selinux_label: label.selinux_label,
        ..Process::default()
    };
    let linux = Linux {
        namespaces,
        uid_mappings: uid_map,
        gid_mappings: gid_map,
        ..Linux::default()
    };
    let cgroup = tote_cgroup::record_of(pid).map_err(|source| DebugError::Cgroup {
        target: target.to_owned(),
        source,
    })?;
    Ok(Target {
        id: target.to_owned(),
        entry: None,
        pid,
        start_time,
        init,
        cgroup,
        inside: Inside {
            process,
            linux,
            // The filter itself cannot be read without stopping the process: ours, which the engines share in all but
            // details, takes its place.
            default_filter: field(&status, "Seccomp") == Some(2),
            ..Inside::default()
        },
        guest: None,
    })
}

/// Explains why a process cannot be looked into.
fn unreadable((pid, start_time): (u32, u64), target: &str, source: std::io::Error) -> DebugError {
    let target = target.to_owned();
    match Errno::from_io_error(&source) {
        // A process that has ended, and that its parent has not waited for, has nothing left of its own.
        _ if tote_state::process::is_ending(pid, start_time) => DebugError::Ended { pid, target },
        Some(Errno::ACCESS | Errno::PERM) if rustix::process::geteuid().is_root() && !may_trace() => {
            DebugError::MayNotTrace { pid, target }
        }
        _ => DebugError::Process { pid, target, source },
    }
}

/// Whether this process may look into others that have more rights; root in a container usually may not.
fn may_trace() -> bool {
    let status = read_proc_text("/proc/self/status").unwrap_or_default();
    let held = capabilities(&status).effective;
    held.iter().any(|name| name == "CAP_SYS_PTRACE")
}

/// Returns the command of a process; empty if it cannot be read.
pub(super) fn command_of(pid: u32) -> Vec<String> {
    let text = read_proc(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0);
    let mut words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    words.pop_if(|last| last.is_empty());
    words
}

/// Label by which a security module treats a process: at most one of these.
#[derive(Debug, Default, PartialEq, Eq)]
struct Label {
    apparmor_profile: Option<String>,
    selinux_label: Option<String>,
}

/// Looks up the label of a process, of whose directory in `/proc` `read` reads a file.
///
/// # Errors
/// Those of `read`: without the label, the session would have more rights than the process.
fn label_of<E>(module: SecurityModule, read: impl Fn(&str) -> Result<String, E>) -> Result<Label, E> {
    Ok(match module {
        SecurityModule::None => Label::default(),
        SecurityModule::AppArmor => Label {
            apparmor_profile: profile(&read("attr/apparmor/current")?),
            selinux_label: None,
        },
        SecurityModule::SeLinux => Label {
            apparmor_profile: None,
            selinux_label: context(&read("attr/current")?),
        },
    })
}

/// Parses a process's profile of AppArmor, such as `docker-default (enforce)`; `None` for an unconfined one.
fn profile(text: &str) -> Option<String> {
    let profile = text.trim_end_matches(['\0', '\n']);
    let profile = profile.rsplit_once(" (").map_or(profile, |(name, _)| name);
    (profile != "unconfined" && !profile.is_empty()).then(|| profile.to_owned())
}

/// Parses a process's context of SELinux.
fn context(text: &str) -> Option<String> {
    let label = text.trim_end_matches(['\0', '\n']);
    (!label.is_empty()).then(|| label.to_owned())
}

/// Returns the namespaces that are not this process's own.
fn namespaces(pid: u32) -> Vec<Namespace> {
    // A path through the directory of the process is looked up twice as slowly as a name in an open one.
    let of = |process: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: a namespace that cannot be compared is joined like a foreign one
        open(format!("/proc/{process}/ns"), flags, Mode::empty()).ok()
    };
    let (own, its) = (of("self"), of(&pid.to_string()));
    // The text names the namespace, and the kernel need not make a file of it, as it does to look at one.
    // absence: a namespace that cannot be compared is joined like a foreign one
    let text = |dir: &Option<OwnedFd>, name: &str| readlinkat(dir.as_ref()?, name, Vec::new()).ok();
    let foreign = NAMESPACES
        .into_iter()
        .filter(|(_, name)| text(&own, name) != text(&its, name));
    foreign.map(|(kind, _)| Namespace { kind, path: None }).collect()
}

/// Reads the effective ids and the groups of a process out of its status.
fn user(status: &str, maps: Option<(&[IdMapping], &[IdMapping])>) -> User {
    let numbers = |name: &str| -> Vec<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.unwrap_or_default().split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let effective = |name| numbers(name).get(1).copied().unwrap_or(0);
    let (uid, gid, groups) = (effective("Uid:"), effective("Gid:"), numbers("Groups:"));
    match maps {
        None => User {
            uid,
            gid,
            additional_gids: groups,
            ..User::default()
        },
        Some((uids, gids)) => User {
            // A process without an id there is one that root of the namespace has let in.
            uid: IdMapping::inside(uids, uid).unwrap_or(0),
            gid: IdMapping::inside(gids, gid).unwrap_or(0),
            additional_gids: groups
                .into_iter()
                .filter_map(|gid| IdMapping::inside(gids, gid))
                .collect(),
            ..User::default()
        },
    }
}

/// Reads the capability sets of a process out of its status.
fn capabilities(status: &str) -> Capabilities {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or(0);
        let held = ALL_CAPABILITIES
            .iter()
            .enumerate()
            .filter(|(number, _)| mask & (1 << number) != 0);
        held.map(|(_, name)| format!("CAP_{name}")).collect()
    };
    Capabilities {
        bounding: set("CapBnd:"),
        effective: set("CapEff:"),
        inheritable: set("CapInh:"),
        permitted: set("CapPrm:"),
        ambient: set("CapAmb:"),
    }
}

/// Parses `/proc/PID/limits`.
fn limits(text: &str) -> Vec<Rlimit> {
    let limit = |line: &str| {
        let (title, kind) = LIMITS.into_iter().find(|(title, _)| line.starts_with(title))?;
        let mut words = line[title.len()..].split_ascii_whitespace();
        let mut value = || match words.next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        };
        let (soft, hard) = (value()?, value()?);
        Some(Rlimit {
            kind: kind.to_owned(),
            hard,
            soft,
        })
    };
    text.lines().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_described() {
        let own = of_process(std::process::id(), "pid:self").unwrap();
        assert_eq!(own.inside.linux.namespaces, [], "it shares all namespaces");
        let euid = rustix::process::geteuid().as_raw();
        assert_eq!(own.inside.process.user.uid, euid);
        assert!(
            own.inside
                .process
                .env
                .iter()
                .any(|line| line.starts_with("PATH="))
        );
        assert_eq!(own.inside.process.rlimits.len(), LIMITS.len());
        let open = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let named = |limit: &&Rlimit| limit.kind == "RLIMIT_NOFILE";
        let noted = own.inside.process.rlimits.iter().find(named).unwrap();
        assert_eq!(Some(noted.soft), open.current.or(Some(u64::MAX)));
        let error = of_process(u32::MAX >> 2, "pid:x").unwrap_err().to_string();
        assert!(error.contains("has ended"), "{error}");
    }

    #[test]
    fn ids_are_those_inside() {
        let maps = IdMapping::read("0 1000 1\n1 100000 65536\n");
        assert_eq!(IdMapping::inside(&maps, 1000), Some(0));
        assert_eq!(IdMapping::inside(&maps, 100_005), Some(6));
        assert_eq!(IdMapping::inside(&maps, 5), None, "an id that is not mapped");
        let status = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000 5 \n";
        let user = user(status, Some((&maps, &maps)));
        assert_eq!((user.uid, user.gid, user.additional_gids), (0, 0, vec![0]));
    }

    #[test]
    fn labels_are_those_of_the_process() {
        assert_eq!(
            profile("docker-default (enforce)\n").as_deref(),
            Some("docker-default")
        );
        assert_eq!(
            profile("a profile (x) (complain)\n").as_deref(),
            Some("a profile (x)")
        );
        assert_eq!(profile("unconfined\n"), None);
        let text = "system_u:system_r:container_t:s0:c1,c2";
        assert_eq!(context(&format!("{text}\0")).as_deref(), Some(text));
        assert_eq!(context("\n"), None);
    }

    /// The files are those of kernels with AppArmor and with SELinux, of which few machines have either.
    #[test]
    fn a_label_is_read_where_its_module_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("attr/apparmor")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("attr/apparmor/current", "docker-default (enforce)\n");
        write("attr/current", "system_u:system_r:container_t:s0:c1,c2\0");
        let of = |module| label_of(module, |name| std::fs::read_to_string(dir.path().join(name)));
        let profile = |name: &str| Label {
            apparmor_profile: Some(name.to_owned()),
            selinux_label: None,
        };
        assert_eq!(of(SecurityModule::None).unwrap(), Label::default());
        assert_eq!(of(SecurityModule::AppArmor).unwrap(), profile("docker-default"));
        let label = Label {
            apparmor_profile: None,
            selinux_label: Some("system_u:system_r:container_t:s0:c1,c2".to_owned()),
        };
        assert_eq!(of(SecurityModule::SeLinux).unwrap(), label);
        write("attr/apparmor/current", "unconfined\n");
        assert_eq!(of(SecurityModule::AppArmor).unwrap(), Label::default());
        std::fs::remove_dir_all(dir.path().join("attr")).unwrap();
        of(SecurityModule::None).unwrap();
        of(SecurityModule::AppArmor).unwrap_err();
        of(SecurityModule::SeLinux).unwrap_err();
    }

    #[test]
    fn capabilities_have_names() {
        let sets = capabilities("CapInh:\t0\nCapPrm:\t0000000000000003\nCapEff:\t1\nCapBnd:\t1\n");
        assert_eq!(sets.permitted, ["CAP_CHOWN", "CAP_DAC_OVERRIDE"]);
        assert_eq!(sets.effective, ["CAP_CHOWN"]);
        assert_eq!(sets.ambient, [""; 0]);
    }
}
