//! Form of the operations, which the new process performs.

use super::code::{Form, Reader, Writer, choice, record};
use crate::error::FormError;
use rustix::mount::MountAttrFlags;
use tote_sys::{
    AsPid1, Attributes, AwaitStart, Capabilities, CloneSource, CopyMode, Credentials, DeviceNode, Exec,
    FillOp, Hook, IdMaps, JoinProcess, LinkedName, Make, MemoryPolicy, MountOp, Namespace, Op, Parameter,
    Park, Privilege, Program, Propagation, Quirk, SchedulerAttributes, SockFilter, Source, Target, TreeCopy,
    Value,
};

choice!(Op {
    0 Gate,
    1 Knock,
    2 MapOneId(maps),
    3 Join(namespace),
    4 Unshare(flags),
    5 DieWithParent,
    6 Propagation(propagation),
    7 HolderPropagation { path, propagation },
    8 RootPropagation { propagation, recursive },
    9 NewTime(offsets),
    10 SetIds { uid, gid },
    11 Unmount(path),
    12 CopyTree(copy),
    13 RemoveTree(path),
    14 Mount(mount),
    15 SetAside,
    16 Remount { path, attributes },
    17 MakeDir { path, mode },
    18 Symlink { text, path, replace },
    19 Device(node),
    20 File { path, mode, content },
    21 Mask(path),
    22 ReadOnly(path),
    23 Proc { path, value, optional },
    24 LowerOomScore(text),
    25 LoopbackUp,
    26 HostName(name),
    27 DomainName(name),
    28 Console { size, owner, plain },
    29 Pivot,
    30 MoveRoot,
    31 Chroot,
    32 NoStdin,
    33 NoOutput { number },
    34 Stdio { fd, number },
    35 Rlimit { resource, soft, hard },
    36 Umask(mask),
    37 Hide,
    38 Scheduler(attributes),
    39 IoPriority(priority),
    40 Personality(persona),
    41 MemoryPolicy(policy),
    42 Affinity(mask),
    43 Keyring { name, permissions, optional },
    44 Session,
    45 Pid1(init),
    46 Privilege(privilege),
    47 WorkingDir(path),
    48 CloseFrom(first),
    49 HoldProc,
    50 Descend { first_closed },
    51 JoinProcess(join),
    52 Terminal { size, owner, plain },
    53 Ready,
    54 Hook(hook),
    55 AwaitStart(start),
    56 FindProgram,
    57 Park(park),
    58 Exec(exec),
    59 DieOfSignals,
    60 OwnEmpty(path),
    61 BecomeRoot,
    62 Fill(fill),
});

record!(FillOp {
    to,
    from,
    owner,
    lock
});
record!(IdMaps { uid, gid });
record!(Namespace { kind, fd });
record!(TreeCopy {
    from,
    fresh,
    to,
    how,
    links
});
record!(LinkedName {
    directory,
    name,
    file
});
record!(CopyMode { reflink, hard_links });
record!(MountOp {
    source,
    target,
    attributes,
    otherwise,
    quirk
});
record!(Attributes {
    set,
    clear,
    clear_unlocked,
    set_below,
    clear_below,
    propagation
});
record!(CloneSource {
    path,
    subpath,
    recursive,
    idmap
});
record!(Parameter { key, value });
record!(DeviceNode {
    path,
    mode,
    major,
    minor,
    owner,
    on_nodev
});
record!(SchedulerAttributes {
    policy,
    flags,
    nice,
    priority,
    runtime,
    deadline,
    period
});
record!(MemoryPolicy { mode, nodes });
record!(AsPid1 { name });
record!(Privilege {
    credentials,
    capabilities,
    no_new_privs,
    filter
});
record!(Credentials { uid, gid, groups });
record!(Capabilities {
    bounding,
    effective,
    permitted,
    inheritable,
    ambient
});

impl Form for SockFilter {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        self.code.write(out);
        self.jt.write(out);
        self.jf.write(out);
        self.k.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.array().map(instruction)
    }

    /// Reads all at once: a filter is most of a plan.
    fn read_list(from: &mut Reader<'_>, number: usize) -> Result<Vec<Self>, FormError> {
        let bytes = from.take(number.saturating_mul(INSTRUCTION))?;
        Ok(bytes.as_chunks().0.iter().copied().map(instruction).collect())
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self {
            code: Form::any(from),
            jt: Form::any(from),
            jf: Form::any(from),
            k: Form::any(from),
        }
    }
}

/// Bytes of an instruction of a filter.
const INSTRUCTION: usize = 8;

fn instruction([c0, c1, jt, jf, k0, k1, k2, k3]: [u8; INSTRUCTION]) -> SockFilter {
    SockFilter {
        code: u16::from_le_bytes([c0, c1]),
        jt,
        jf,
        k: u32::from_le_bytes([k0, k1, k2, k3]),
    }
}
record!(JoinProcess {
    pidfd,
    namespaces,
    root
});
record!(Hook {
    name,
    path,
    program,
    input,
    output,
    timeout,
    at_root
});
record!(AwaitStart { listener });
record!(Park { listener, owner });
record!(Exec {
    file,
    candidates,
    program,
    never
});

choice!(Propagation {
    0 Private,
    1 Slave,
    2 Shared,
    3 Unbindable,
});

choice!(Source {
    0 New { fs, parameters },
    1 Clone(source),
    2 Of { process, path, recursive },
    3 Handed(origin),
    4 Beneath { path, copy },
    5 Opened { tree, origin },
});

choice!(Value {
    0 Flag,
    1 Text(text),
    2 Path(path),
    3 ModeOfPlace,
});

choice!(Target {
    0 Root(path),
    1 Host(path),
    2 Inside { path, make, strict, over_proc },
});

choice!(Make {
    0 Nothing,
    1 Dir,
    2 File,
    3 LikeSource,
});

choice!(Quirk {
    0 None,
    1 CopyUp,
    2 OnlyProc,
    3 OnlyOf { magic },
    4 OnlyDevice { block, number },
});

impl Form for MountAttrFlags {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.bytes.extend_from_slice(&self.bits().to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        u32::read(from).map(Self::from_bits_retain)
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self::from_bits_retain(u32::any(from))
    }
}

impl Form for Program {
    fn write<'p>(&'p self, out: &mut Writer<'p>) {
        out.list(self.args());
        out.list(self.env());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let (args, env) = Form::read(from)?;
        Ok(Self::new(args, env))
    }

    #[cfg(test)]
    fn any(from: &mut super::any::Any) -> Self {
        Self::new(Form::any(from), Form::any(from))
    }
}
