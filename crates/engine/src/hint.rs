//! What to do about an error: the one place for remedies.

use crate::changes::{BootstrapError, ContainerError};
use crate::{BuildFault, EngineError};
use tote_build::BuildError;
use tote_driver::PrepareError;
use tote_image::{Reference, ReferenceError};
use tote_runtime::RuntimeError;
use tote_state::StateError;
use tote_store::StoreError;
use tote_sys::Errno;

pub(crate) fn of(error: &EngineError) -> Option<String> {
    let text = match error {
        EngineError::Run(error) => return for_run(error),
        EngineError::NameTaken { name, .. } => {
            return Some(format!(
                "remove that container with 'tote rm {name}' (with -f where it still runs; run --replace does both), or choose another name"
            ));
        }
        EngineError::NoRemap => {
            "run as an unprivileged user, whose containers have user namespaces of their own"
        }
        EngineError::Bootstrap(BootstrapError::NoProgram) => {
            "install it (package mmdebstrap), or import an archive that it made elsewhere: tote import"
        }
        EngineError::Container(ContainerError::InMemory(_)) => "start it without --rm",
        EngineError::Container(ContainerError::OfHost(_)) => {
            "start it from an image of the store, or from a directory (rootfs:DIR)"
        }
        EngineError::BuildFault(fault) => return for_build(fault).map(str::to_owned),
        EngineError::Build(error) => {
            return match &**error {
                BuildError::Step { source, .. } | BuildError::Result(source) => of(source),
                _ => None,
            };
        }
        EngineError::Life(error) => return error.hint(),
        EngineError::Stream(crate::container::StreamError::Unkept(_)) => crate::container::UNKEPT,
        EngineError::Pod(error) => return error.hint(),
        EngineError::Pool(error) => return error.hint(),
        EngineError::Copy(error) => return error.hint().map(str::to_owned),
        EngineError::Storage(error) => return for_storage(error),
        EngineError::ImageDisk(_) => "say it yourself: --disk-size SIZE, or --driver overlay for none",
        EngineError::NoTree(_) => "load or pull the image once more",
        EngineError::NotATerminal => "leave out -t, or run in a terminal",
        EngineError::NoRanges(_) => {
            "add this user to /etc/subuid and /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER) and install uidmap"
        }
        EngineError::Store(StoreError::NoImage(name)) if name.contains("://") => {
            "an image is named without a scheme: REGISTRY/REPOSITORY:TAG"
        }
        EngineError::Store(StoreError::NoImage(name)) if is_capital(name) => {
            "repository name must be lowercase; tags may have capitals"
        }
        EngineError::Store(StoreError::NoImage(_)) => {
            "see 'tote images'; give host for this machine's file system, or rootfs:DIR for an unpacked one"
        }
        EngineError::Store(
            StoreError::Lost { .. } | StoreError::LostLayers { .. } | StoreError::Damaged { .. },
        ) => "load or pull the image once more: only what is lost is written",
        EngineError::Store(StoreError::Owner { .. }) => {
            "the image has files of more ids than this user's ranges in /etc/subuid and /etc/subgid"
        }
        EngineError::Store(StoreError::Io { source, .. }) => return for_state(source),
        EngineError::Images(error) => return error.hint().map(str::to_owned),
        EngineError::Registry(error) => return error.hint().map(str::to_owned),
        EngineError::State(StateError::HomeOwner { .. } | StateError::HomeInUse { .. }) => {
            "give --root an empty directory of your own, or one that is not there"
        }
        EngineError::State(StateError::Home { source, .. } | StateError::File { source, .. }) => {
            return for_state(source);
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn for_run(error: &RuntimeError) -> Option<String> {
    let text = match error {
        RuntimeError::Clone(errno) | RuntimeError::Network(errno) | RuntimeError::Idmap(errno) => {
            return clone(*errno);
        }
        RuntimeError::Step(step)
            if step.errno == Errno::NOENT
                && step.program.as_deref().is_some_and(|name| name.contains(' ')) =>
        {
            "the quotes make one word of the program and its arguments: leave them out; --entrypoint takes the program alone"
        }
        RuntimeError::Step(step) => return for_step(&step.words, step.errno, &step.text),
        RuntimeError::Map { file, source } if source.kind() == std::io::ErrorKind::NotFound => {
            let program = if *file == "uid_map" {
                "newuidmap"
            } else {
                "newgidmap"
            };
            return Some(format!(
                "install {program} (package uidmap or shadow-utils), or run as one user without -u"
            ));
        }
        RuntimeError::MapProgram { .. } => "check this user's lines in /etc/subuid and /etc/subgid",
        RuntimeError::Cgroup(tote_cgroup::Error::NotHere { .. }) => {
            "see /sys/devices/system/cpu/online and /sys/devices/system/node/online"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether a name of an image would be one but for capitals.
fn is_capital(name: &str) -> bool {
    matches!(Reference::parse(name), Err(ReferenceError::UpperCase(_)))
}

fn for_build(fault: &BuildFault) -> Option<&'static str> {
    Some(match fault {
        BuildFault::Command { .. } if has_one_id() => {
            "this user has one id in containers, and what makes users or gives files away fails: add ranges to /etc/subuid and /etc/subgid"
        }
        BuildFault::AgentKey(_) => "start an agent, ssh-add the key, and give --ssh default",
        BuildFault::ForeignCommand { .. } => {
            "install qemu-user-static and binfmt-support, or whatever else registers an interpreter that containers see (flag F) in /proc/sys/fs/binfmt_misc; or let the stage run here: FROM --platform=$BUILDPLATFORM"
        }
        BuildFault::PushNameless => "give it one that says where it goes: -t REGISTRY/NAME",
        BuildFault::NoDockerfile(_) => "give the Dockerfile's path with -f, or another directory",
        BuildFault::Command { offline: true, .. } => {
            "if the command needs a network: a RUN step has none here, unless it or the build says --network host"
        }
        BuildFault::NoGit(_) => "install git, or clone the repository elsewhere and give its directory",
        BuildFault::Git { why, .. }
            if why.contains("terminal prompts disabled") || why.contains("Authentication") =>
        {
            "give a token: --secret id=GIT_AUTH_TOKEN,env=VARIABLE"
        }
        BuildFault::Git { why, .. } if why.contains("Host key verification") => {
            "add the host to ~/.ssh/known_hosts; keys are those of --ssh default"
        }
        BuildFault::Context { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            "give a directory, an archive (rootfs.tar) or - for standard input; a name goes to -t"
        }
        _ => return None,
    })
}

/// Whether this user's containers have no other id than root's.
fn has_one_id() -> bool {
    !rustix::process::geteuid().is_root() && tote_images::ranges(0, 0).is_none()
}

fn for_storage(error: &PrepareError) -> Option<String> {
    Some(match error {
        PrepareError::Look {
            source: Errno::ACCESS,
            ..
        } => "a directory of the image is closed to all ids that you have: use --driver overlay".to_owned(),
        PrepareError::NoQuotas { path } => format!(
            "enable them, for all of that file system, with 'btrfs quota enable {}', or use --driver loop",
            path.display()
        ),
        PrepareError::InconsistentQuotas { path } => format!(
            "have all that is used counted again with 'btrfs quota rescan -w {}', or use --driver loop",
            path.display()
        ),
        _ => return None,
    })
}

fn for_state(source: &std::io::Error) -> Option<String> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
        .then(|| "give a directory with room that you can write: --root DIR or TOTE_ROOT".to_owned())
}

fn clone(errno: Errno) -> Option<String> {
    let text = match errno {
        Errno::PERM => {
            "user namespaces are not allowed here: see kernel.unprivileged_userns_clone, user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
        }
        Errno::NOSPC | Errno::USERS => {
            "a limit of namespaces is reached, of user namespaces perhaps: raise user.max_user_namespaces and its kin below /proc/sys/user"
        }
        Errno::AGAIN => "a limit of processes is reached: see ulimit -u and the pids cgroup",
        Errno::NOSYS => "this kernel is too old: tote needs Linux 5.12",
        Errno::INVAL => "this kernel lacks a kind of namespace: see CONFIG_*_NS, and /proc/self/ns",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Remedies by the first words of a step and its errno.
fn for_step(words: &str, errno: Errno, said: &str) -> Option<String> {
    let text = match (words.split(' ').next().unwrap_or_default(), errno) {
        ("execute", Errno::NOENT) if !said.is_empty() => {
            "the program is there, but what loads it is not: add that file to the image, or link the program statically"
        }
        ("execute", Errno::NOEXEC) => "built for another architecture, or a script without a #! line?",
        ("mount", Errno::NOSPC) => "the limit of mounts is reached: raise fs.mount-max",
        ("mount", Errno::NODEV) => "this kernel lacks that file system",
        ("mount" | "bind", Errno::NOSYS) => "this kernel is too old: tote needs Linux 5.12",
        ("mount", Errno::INVAL) if words.contains("overlay") => {
            "the state root may itself be on overlayfs, or the kernel too old for overlay in a user namespace (5.11): use --root DIR on another file system"
        }
        ("bind", Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) if words.ends_with(" idmap") => {
            "this file system has no id-mapped mounts, without which root would see what is private in it: run as a user"
        }
        ("mount", Errno::PERM) if words.contains(" proc ") => {
            "the kernel gives a new /proc only where the host's own is not covered: inside another container, run that one with --security-opt systempaths=unconfined"
        }
        ("mount" | "bind", Errno::LOOP) => "the image has a symbolic link where a directory must be",
        ("mount" | "bind", Errno::NOTDIR) => {
            "the image has a file where a directory must be, or the other way round"
        }
        ("mount" | "bind", Errno::XDEV) => {
            "nothing can be mounted on a file of /proc, but for a few that only tell of the machine"
        }
        ("write" | "make", Errno::ROFS) => {
            "where it is not read-only on purpose: overlayfs is when it finds no room for a directory of its own, see 'df' and 'df -i' of the state root"
        }
        ("change", Errno::XDEV) => "that directory is outside the container",
        ("write", Errno::NOENT) if words.contains("/proc/sys/") => {
            "this kernel has no such parameter in a namespace"
        }
        ("make", Errno::NOSPC) if words.contains("namespace") => {
            "raise user.max_net_namespaces and its kin below /proc/sys/user"
        }
        _ => return None,
    };
    Some(text.to_owned())
}
