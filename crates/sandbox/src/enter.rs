//! A process that joins a container: no root is made, only the last part of a birth.

use crate::error::PlanError;
use crate::plan::{Builder, Errand, Joined, Plan, Request};
use rustix::fd::OwnedFd;
use tote_sys::{JoinProcess, Op};

/// Plans a process in the namespaces (`CLONE_NEW…` bits) of the one that the pidfd is of.
///
/// Of the request's spec the process, the namespaces and the filter matter. The PID namespace is the parent's to enter.
///
/// # Errors
/// [`PlanError`] names the property that cannot be done.
pub fn enter(request: &Request<'_>, pidfd: OwnedFd, namespaces: u32) -> Result<Plan, PlanError> {
    let mut builder = Builder {
        request,
        warnings: Vec::new(),
        settled: true,
        files_written: true,
        root_path: None,
        read_only_later: Vec::new(),
        joined: Joined::default(),
        ops: Vec::with_capacity(32),
        gates: Vec::new(),
    };
    if request.facts.waits_for_cgroup {
        builder.gate(&[Errand::Cgroup]);
    }
    builder.push(Op::JoinProcess(JoinProcess { pidfd, namespaces }));
    if let Some(process) = request.spec.process.as_ref().filter(|process| process.terminal) {
        let size = process
            .console_size
            .map_or((24, 80), |size| (size.height, size.width));
        builder.push(Op::Terminal {
            size,
            owner: process.user.uid,
            plain: false,
        });
    }
    builder.process()?;
    Ok(Plan {
        namespaces: 0,
        user_namespace: None,
        pid_namespace: None,
        join: Vec::new(),
        net_devices: Vec::new(),
        ops: builder.ops,
        gates: builder.gates,
        warnings: builder.warnings,
    })
}
