//! Operations in words: lines of `--plan`, labels of `--timings`, and beginnings of failures.

use crate::plan::{flag_name, flag_names};
use std::ffi::CStr;
use std::fmt::{self, Display};
use tote_sys::{Attributes, DeviceNode, Exec, Make, MountOp, Op, Privilege, Quirk, Source, Target, Value};

/// Describes an operation in one line that begins with a verb.
pub fn describe(op: &Op) -> impl Display + '_ {
    Words(op)
}

struct Words<'a>(&'a Op);

fn text(text: &CStr) -> impl Display + '_ {
    // Control characters in an image's paths must not reach a terminal.
    let shown: String = text
        .to_string_lossy()
        .chars()
        .flat_map(|letter| {
            let plain = !letter.is_control();
            plain.then_some(letter).into_iter().chain((!plain).then_some('?'))
        })
        .collect();
    shown
}

impl Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Op::Gate => write!(f, "wait for the parent"),
            Op::Knock => write!(f, "tell the parent how far it is"),
            Op::MapOneId(maps) => write!(
                f,
                "map user {} to {} and group {} to {}",
                maps.uid.0, maps.uid.1, maps.gid.0, maps.gid.1
            ),
            Op::Join(namespace) => write!(f, "join a {} namespace", flag_name(namespace.kind)),
            Op::Unshare(flags) => write!(f, "make a new {} namespace", flag_name(*flags)),
            Op::DieWithParent => write!(f, "end with the parent"),
            Op::Propagation(_)
            | Op::HolderPropagation { .. }
            | Op::RootPropagation { .. }
            | Op::NewTime(_)
            | Op::SetIds { .. }
            | Op::BecomeRoot
            | Op::LoopbackUp
            | Op::Pivot
            | Op::MoveRoot
            | Op::Chroot
            | Op::Unmount(_) => namespace(f, self.0),
            Op::CopyTree(_) | Op::RemoveTree(_) | Op::OwnEmpty(_) | Op::Fill(_) => tree(f, self.0),
            Op::Mount(op) => mount(f, op),
            Op::SetAside => write!(f, "set the root aside"),
            Op::Remount { path, attributes } => {
                write!(f, "remount {}", inside(path))?;
                options(f, attributes)
            }
            Op::MakeDir { path, mode } => write!(f, "make directory {} with mode {mode:o}", inside(path)),
            Op::Symlink { text: link, path, .. } => write!(f, "link {} to {}", inside(path), text(link)),
            Op::Device(node) => device(f, node),
            Op::File { path, content, .. } => write!(f, "write {} bytes to {}", content.len(), inside(path)),
            Op::Mask(path) => write!(f, "mask {}", inside(path)),
            Op::ReadOnly(path) => write!(f, "make {} read-only", inside(path)),
            Op::Proc { path, value, .. } => {
                write!(
                    f,
                    "write {} to /proc/{}",
                    String::from_utf8_lossy(value),
                    text(path)
                )
            }
            Op::LowerOomScore(score) => {
                write!(f, "lower the oom score to {}", String::from_utf8_lossy(score))
            }
            Op::Console { size, .. } => write!(f, "make a console of {} rows and {} columns", size.0, size.1),
            Op::NoStdin => write!(f, "read standard input from /dev/null"),
            Op::NoOutput { number } => write!(f, "write descriptor {number} to /dev/null"),
            Op::Stdio { number, .. } => write!(f, "take over descriptor {number}"),
            Op::Hide => write!(f, "hide from other processes"),
            Op::Scheduler(_)
            | Op::IoPriority(_)
            | Op::Personality(_)
            | Op::MemoryPolicy(_)
            | Op::Affinity(_)
            | Op::Keyring { .. }
            | Op::Rlimit { .. }
            | Op::CloseFrom(_)
            | Op::HostName(_)
            | Op::DomainName(_)
            | Op::Umask(_) => process(f, self.0),
            Op::Session => write!(f, "start a session"),
            Op::Pid1(how) => write!(f, "stay as PID 1 named {} and go on in a child", text(&how.name)),
            Op::Privilege(how) => privilege(f, how),
            Op::WorkingDir(path) => write!(f, "change to directory {}", text(path)),
            Op::Exec(exec) => execute(f, exec),
            other => lifecycle(f, other),
        }
    }
}

fn device(f: &mut fmt::Formatter<'_>, node: &DeviceNode) -> fmt::Result {
    let (major, minor) = (node.major, node.minor);
    let mode = node.mode & 0o7777;
    write!(
        f,
        "make device {} {major}:{minor} with mode {mode:o}",
        inside(&node.path)
    )?;
    if node.on_nodev {
        write!(f, " and mount it without nodev")?;
    }
    Ok(())
}

fn tree(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::CopyTree(tree) => write!(f, "copy {} to {}", text(&tree.from), text(&tree.to)),
        Op::RemoveTree(path) => write!(f, "remove {}", text(path)),
        Op::OwnEmpty(path) => write!(f, "become the owner of {} if it is empty", text(path)),
        Op::Fill(op) => {
            write!(f, "fill {} with what is in {}", text(&op.to), inside(&op.from))?;
            match op.owner {
                Some((uid, gid)) => write!(f, " for {uid}:{gid}"),
                None => Ok(()),
            }
        }
        _ => Ok(()), // `fmt` formats the rest
    }
}

fn lifecycle(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::JoinProcess(how) => {
            write!(f, "join the container's namespaces:")?;
            flag_names(how.namespaces).try_for_each(|name| write!(f, " {name}"))
        }
        Op::HoldProc => write!(f, "hold on to the host's /proc"),
        Op::Descend { .. } => write!(f, "go on in a child in the PID namespace that was joined"),
        Op::Terminal { size, .. } => {
            write!(f, "make a terminal of {} rows and {} columns", size.0, size.1)
        }
        Op::Ready => write!(f, "tell the parent to go on"),
        Op::Hook(hook) => write!(f, "run {} {}", hook.name, text(&hook.path)),
        Op::AwaitStart(_) => write!(f, "wait to be started"),
        Op::FindProgram => write!(f, "look for the program"),
        Op::DieOfSignals => write!(f, "end by signals that would end another process"),
        Op::Park(_) => write!(f, "wait for a program"),
        _ => Ok(()),
    }
}

fn execute(f: &mut fmt::Formatter<'_>, exec: &Exec) -> fmt::Result {
    write!(f, "execute")?;
    let mut args = exec.program.args().iter();
    args.try_for_each(|arg| write!(f, " {}", text(arg)))
}

fn namespace(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::LoopbackUp => write!(f, "bring up the loopback interface"),
        Op::Pivot => write!(f, "pivot to the new root"),
        Op::MoveRoot => write!(f, "move the new root over the old one"),
        Op::Chroot => write!(f, "change to the new root"),
        Op::Propagation(propagation) => write!(f, "make all mounts {propagation:?}"),
        Op::HolderPropagation { path, propagation } => {
            write!(f, "make the mount that holds {} {propagation:?}", text(path))
        }
        Op::RootPropagation {
            propagation,
            recursive,
        } => {
            let below = if *recursive { " and all mounts below" } else { "" };
            write!(f, "make the root{below} {propagation:?}")
        }
        Op::NewTime(clocks) => {
            write!(f, "make a new time namespace")?;
            String::from_utf8_lossy(clocks)
                .lines()
                .try_for_each(|line| write!(f, ", {line}"))
        }
        Op::BecomeRoot => write!(f, "become root of the user namespace"),
        Op::SetIds { uid, gid } => write!(f, "become user {uid} and group {gid} of the user namespace"),
        Op::Unmount(path) => write!(f, "unmount the host's {}", text(path)),
        _ => Ok(()), // `fmt` formats the rest
    }
}

fn process(f: &mut fmt::Formatter<'_>, op: &Op) -> fmt::Result {
    match op {
        Op::CloseFrom(first) => write!(f, "close descriptors from {first} on at exec"),
        Op::HostName(name) => write!(f, "set the host name to {}", text(name)),
        Op::DomainName(name) => write!(f, "set the domain name to {}", text(name)),
        Op::Rlimit { resource, soft, hard } => write!(f, "limit resource {resource} to {soft}:{hard}"),
        Op::Umask(mask) => write!(f, "set the umask to {mask:o}"),
        Op::Scheduler(how) => write!(f, "schedule by policy {} with nice {}", how.policy, how.nice),
        Op::IoPriority(priority) => write!(
            f,
            "set the i/o priority to {}:{}",
            priority >> 13,
            priority & 0xff
        ),
        Op::Personality(number) => write!(f, "take personality {number:#x}"),
        Op::MemoryPolicy(policy) => write!(
            f,
            "set memory policy {:#x} for nodes {:x?}",
            policy.mode, policy.nodes
        ),
        Op::Affinity(mask) if mask.is_empty() => write!(f, "run on every processor"),
        Op::Affinity(mask) => write!(f, "run on processors {mask:x?}"),
        Op::Keyring { name, .. } => write!(f, "join the session keyring {}", text(name)),
        _ => Ok(()), // `fmt` formats the rest
    }
}

fn inside(path: &CStr) -> String {
    let path = text(path).to_string();
    match path.as_str() {
        "." => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    }
}

fn mount(f: &mut fmt::Formatter<'_>, op: &MountOp) -> fmt::Result {
    match &op.source {
        Source::New { fs, .. } => write!(f, "mount {}", text(fs))?,
        Source::Clone(source) => {
            write!(f, "bind {}", text(&source.path))?;
            if let Some(subpath) = &source.subpath {
                write!(f, "/{}", text(subpath))?;
            }
            if source.recursive {
                write!(f, " and what is mounted below it")?;
            }
        }
        Source::Of { path, .. } => write!(f, "bind another container's {}", text(path))?,
        Source::Handed(path) => write!(f, "bind {}, which the parent opened,", text(path))?,
        Source::Opened { origin, .. } => write!(f, "bind {}", text(origin))?,
        Source::Beneath { copy: Some(_), .. } => write!(f, "bind a copy of what is there")?,
        Source::Beneath { path, copy: None } => write!(f, "bind the container's own {}", text(path))?,
    }
    match &op.target {
        Target::Root(_) => write!(f, " as the root")?,
        Target::Host(path) => write!(f, " on the host's {}", text(path))?,
        Target::Inside { path, make, .. } => {
            write!(f, " on {}", inside(path))?;
            if *make == Make::Nothing {
                write!(f, ", which is there,")?;
            }
        }
    }
    options(f, &op.attributes)?;
    if let Source::Clone(source) = &op.source
        && source.idmap
    {
        write!(f, " idmap")?;
    }
    if let Source::New { parameters, .. } = &op.source {
        for parameter in parameters
            .iter()
            .filter(|parameter| parameter.key.to_bytes() != b"source")
        {
            write!(f, " {}", text(&parameter.key))?;
            match &parameter.value {
                Value::Text(value) | Value::Path(value) => write!(f, "={}", text(value))?,
                Value::ModeOfPlace => write!(f, "=as-before")?,
                Value::Flag => {}
            }
        }
    }
    match op.quirk {
        Quirk::CopyUp => write!(f, " copy-up")?,
        Quirk::OnlyProc => write!(f, " only-procfs")?,
        Quirk::OnlyOf { magic } => write!(f, " if it is of the kind {magic:x}")?,
        Quirk::OnlyDevice { block, number } => {
            let kind = if block { "block" } else { "character" };
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            write!(f, " if it is the {kind} device {major}:{minor}")?;
        }
        Quirk::None => {}
    }
    match &op.otherwise {
        Some(source) => write!(f, ", or else bind {}", text(&source.path)),
        None => Ok(()),
    }
}

/// Returns runc's words for the failure of an operation that mounts something of the spec, since callers look for
/// them.
#[must_use]
pub fn mounting(op: &Op) -> Option<String> {
    let (source, target) = match op {
        Op::Mount(mount) => {
            let Target::Inside { path, .. } = &mount.target else {
                return None;
            };
            let source = match &mount.source {
                Source::Clone(source) => &source.path,
                Source::Handed(path) | Source::Beneath { path, .. } | Source::Of { path, .. } => path,
                Source::Opened { origin, .. } => origin,
                Source::New { fs, .. } => fs,
            };
            (text(source).to_string(), path)
        }
        Op::Remount { path, .. } => (String::new(), path),
        _ => return None,
    };
    Some(format!(
        "error mounting {source:?} to rootfs at {:?}",
        inside(target)
    ))
}

fn options(f: &mut fmt::Formatter<'_>, attributes: &Attributes) -> fmt::Result {
    let names = |flags: rustix::mount::MountAttrFlags| -> Vec<String> {
        flags
            .iter_names()
            .map(|(name, _)| {
                name.trim_start_matches("MOUNT_ATTR_")
                    .trim_start_matches('_')
                    .to_lowercase()
            })
            .collect()
    };
    for name in names(attributes.set | attributes.set_below) {
        write!(f, " {}", if name == "rdonly" { "ro" } else { &name })?;
    }
    let cleared = attributes.clear | attributes.clear_unlocked | attributes.clear_below;
    for name in names(cleared - rustix::mount::MountAttrFlags::MOUNT_ATTR__ATIME) {
        write!(f, " not-{name}")?;
    }
    if let Some((propagation, recursive)) = attributes.propagation {
        write!(
            f,
            " {}{propagation:?}",
            if recursive { "recursively-" } else { "" }
        )?;
    }
    Ok(())
}

fn privilege(f: &mut fmt::Formatter<'_>, how: &Privilege) -> fmt::Result {
    write!(f, "become")?;
    if let Some(credentials) = &how.credentials {
        write!(f, " user {} group {}", credentials.uid, credentials.gid)?;
        if let Some(groups) = credentials.groups.as_ref().filter(|groups| !groups.is_empty()) {
            write!(f, " groups {groups:?}")?;
        }
    }
    if let Some(capabilities) = &how.capabilities {
        write!(
            f,
            " with capabilities {:#x} of {:#x}",
            capabilities.effective, capabilities.bounding
        )?;
    }
    if how.no_new_privs {
        write!(f, " and no new privileges")?;
    }
    match &how.filter {
        Some((filter, _)) => write!(f, " under a seccomp filter of {} instructions", filter.len()),
        None => write!(f, " without a seccomp filter"),
    }
}
