//! A process that joins a container. It performs only the last part of a birth, and makes no root unless it brings
//! tools.

use crate::capability;
use crate::error::PlanError;
use crate::namespace_maps;
use crate::plan::{Builder, Errand, Facts, Lifetime, Plan, Request, Stdin, clone_flag};
use crate::tools::{self, Tools};
use rustix::fd::OwnedFd;
use std::path::Path;
use tote_spec::{NamespaceType, Spec};
use tote_sys::{JoinProcess, Op};

/// A process about to join a container.
#[derive(Debug)]
pub struct Newcomer<'a> {
    /// Spec of which the process, the maps of the namespaces and the filter are used.
    pub spec: &'a Spec,
    /// Pidfd of a process of the container.
    pub pidfd: OwnedFd,
    /// Namespaces to join, as `CLONE_NEW…` bits.
    pub namespaces: u32,
    /// Root of the container, if its mount namespace has another one.
    pub root: Option<OwnedFd>,
    /// Root that the process brings with it. It then stays in a mount namespace of its own.
    pub tools: Option<Tools<'a>>,
    /// Capabilities by which the default filter is chosen, if that is used instead of the spec's: the container's,
    /// whatever this process has.
    pub default_filter: Option<&'a [String]>,
    /// Source of standard input.
    pub stdin: Stdin,
    /// Number of descriptors above 2 that the program keeps.
    pub preserve_fds: u32,
    /// Name of the container's session keyring; `None` keeps the caller's keyring.
    pub keyring: Option<&'a str>,
    /// True if it may run on every processor, whatever the caller was restricted to.
    pub all_processors: bool,
    /// Facts about the host.
    pub facts: Facts<'a>,
}

/// Plans a process in the namespaces of another.
///
/// # Errors
/// [`PlanError`] names the property that is impossible.
pub fn enter(newcomer: Newcomer<'_>) -> Result<Plan, PlanError> {
    let Newcomer {
        pidfd,
        mut namespaces,
        root,
        tools,
        ..
    } = newcomer;
    let mut made = 0;
    let request = &Request {
        default_filter: newcomer.default_filter.is_some(),
        stdin: newcomer.stdin,
        // Tools are there for as long as the caller holds them.
        lifetime: if tools.is_some() {
            Lifetime::OfParent
        } else {
            Lifetime::Detached
        },
        preserve_fds: newcomer.preserve_fds,
        keyring: newcomer.keyring,
        all_processors: newcomer.all_processors,
        ..Request::bare(newcomer.spec, Path::new("/"), newcomer.facts)
    };
    let mut builder = Builder {
        networked: true,
        settled: true,
        files_written: true,
        descends: namespaces & clone_flag(NamespaceType::Pid) != 0,
        filter_for: newcomer.default_filter.map(capability::mask),
        ops: Vec::with_capacity(32),
        ..Builder::new(request)
    };
    if request.facts.waits_for_cgroup {
        builder.gate(&[Errand::Cgroup]);
    }
    if builder.descends || tools.is_some() {
        builder.push(Op::HoldProc);
    }
    if let Some(mut tools) = tools {
        builder.compiled = tools.filter.take();
        let (ops, gates) = tools::plan(tools, namespace_maps::root_of(request.spec), request.facts)?;
        builder.ops.extend(ops);
        builder.gates.extend(gates);
        // Made before the container's user namespace is joined, so that no process of the container can change its mounts.
        made = clone_flag(NamespaceType::Mount);
        namespaces &= !made;
    }
    builder.push(Op::JoinProcess(JoinProcess {
        pidfd,
        namespaces,
        root,
    }));
    builder.terminal();
    builder.process()?;
    for op in &mut builder.ops {
        if let Op::Keyring { permissions, .. } = op {
            // A process that joins an existing keyring is not its owner and must not change its permissions.
            *permissions = 0;
        }
    }
    Ok(Plan {
        namespaces: made.into(),
        user_namespace: None,
        pid_namespace: None,
        join: Vec::new(),
        net_devices: Vec::new(),
        links: Vec::new(),
        ops: builder.ops,
        gates: builder.gates,
        warnings: builder.warnings,
    })
}

impl Plan {
    /// Lets the process of a newcomer end with this one, which it serves, whatever happens to this one.
    pub fn end_with_parent(&mut self) {
        let is_exec = |op: &Op| matches!(op, Op::Exec(_));
        if let Some(at) = self.ops.iter().rposition(is_exec) {
            self.ops.insert(at, Op::DieWithParent);
        }
    }
}

impl Builder<'_> {
    /// Makes a terminal in the container that was joined, if the process is to have one.
    fn terminal(&mut self) {
        let process = self.request.spec.process.as_ref();
        let Some(process) = process.filter(|process| process.terminal) else {
            return;
        };
        let size = process
            .console_size
            .map_or((24, 80), |size| (size.height, size.width));
        let owner = process.user.uid;
        self.push(Op::Terminal {
            size,
            owner,
            plain: false,
        });
    }
}
