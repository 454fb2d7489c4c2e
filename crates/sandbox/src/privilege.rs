//! Ids, capabilities and the system call filter.

use crate::capability;
use crate::error::PlanError;
use crate::plan::{Builder, MapOrigin};
use tote_seccomp::Arch;
use tote_spec::{Action, NamespaceType, Process, Seccomp, SyscallRule};
use tote_sys::{Capabilities, Credentials, Filter, Privilege, SockFilter};

/// Calls that a process makes between loading its filter and becoming the program, besides those around the loading
/// itself: names, and their first arguments.
const DESCENT: [(&str, u32); 6] = [
    ("clone", CLONE_PARENT),
    ("write", 0),
    ("exit_group", 0),
    ("setsid", 0),
    ("ioctl", 0),
    ("dup3", 0),
];

/// Calls that a process makes to stay as PID 1 and go on in a child, and those of that child until it becomes the program.
const SPLIT: [(&str, u32); 9] = [
    ("clone", SIGCHLD),
    ("rt_sigprocmask", 0),
    ("prctl", 0),
    ("close_range", 0),
    ("rt_sigtimedwait", 0),
    ("wait4", 0),
    ("setsid", 0),
    ("ioctl", 0),
    ("dup3", 0),
];

/// Flag of linux/sched.h.
const CLONE_PARENT: u32 = 0x8000;

/// Number of the signal, with which a clone(2) without flags begins.
const SIGCHLD: u32 = 17;

/// SECCOMP_FILTER_FLAG_NEW_LISTENER, linux/seccomp.h.
const NEW_LISTENER: u32 = 1 << 3;

impl Builder<'_> {
    /// True if [`tote_sys::Op::Descend`] can be performed with the program's rights and its filter already in force.
    pub(crate) fn descends_last(process: &Process, privilege: &Privilege) -> bool {
        // A scheduling policy may keep a process from making others, or be lost by its children.
        process.scheduler.is_none() && may_descend(privilege)
    }

    /// True if [`tote_sys::Op::Pid1`] can be performed with the program's rights and its filter already in force.
    pub(crate) fn splits_last(process: &Process, privilege: &Privilege) -> bool {
        process.scheduler.is_none() && may_split(privilege)
    }

    pub(crate) fn privilege(&mut self, process: &Process) -> Result<Privilege, PlanError> {
        let credentials = self.credentials(process)?;
        let capabilities = self.capabilities(process);
        let filter = self.filter(self.filter_for.unwrap_or(capabilities.bounding))?;
        // Without CAP_SYS_ADMIN over its user namespace a process may load a filter only with no_new_privs; a process
        // that can set up a container has that capability.
        Ok(Privilege {
            credentials: Some(credentials),
            capabilities: Some(capabilities),
            no_new_privs: process.no_new_privileges,
            filter,
        })
    }

    fn credentials(&mut self, process: &Process) -> Result<Credentials, PlanError> {
        let user = &process.user;
        crate::check::ids(user)?;
        let one_id = if let MapOrigin::Own(maps) = self.request.id_mapping {
            Some(maps)
        } else {
            None
        };
        if let Some(maps) = one_id {
            if user.uid != maps.uid.0 {
                return Err(PlanError::Unmapped {
                    kind: "user",
                    id: user.uid,
                });
            }
            if user.gid != maps.gid.0 {
                return Err(PlanError::Unmapped {
                    kind: "group",
                    id: user.gid,
                });
            }
            if !user.additional_gids.is_empty() {
                self.warnings
                    .push("supplementary groups are left out: only one group is mapped".to_owned());
            }
        } else {
            self.check_mapped(process)?;
        }
        let may_set = one_id.is_none() && self.request.facts.setgroups && !self.request.spec.keeps_groups();
        let groups = may_set.then(|| user.additional_gids.clone());
        Ok(Credentials {
            uid: user.uid,
            gid: user.gid,
            groups,
        })
    }

    /// Checks that every id used is mapped, in a user namespace with maps in the spec: the kernel's error would only
    /// be EINVAL.
    fn check_mapped(&self, process: &Process) -> Result<(), PlanError> {
        let (Some(linux), true) = (&self.request.spec.linux, self.is_new(NamespaceType::User)) else {
            return Ok(());
        };
        let mapped = |maps: &[tote_spec::IdMapping], id: u32| {
            maps.iter().any(|map| {
                id.checked_sub(map.container_id)
                    .is_some_and(|offset| offset < map.size)
            })
        };
        if !mapped(&linux.uid_mappings, process.user.uid) {
            return Err(PlanError::Unmapped {
                kind: "user",
                id: process.user.uid,
            });
        }
        for &id in [process.user.gid].iter().chain(&process.user.additional_gids) {
            if !mapped(&linux.gid_mappings, id) {
                return Err(PlanError::Unmapped { kind: "group", id });
            }
        }
        Ok(())
    }

    /// Returns the sets of the spec without capabilities that the caller lacks. An unknown name is a warning as well.
    fn capabilities(&mut self, process: &Process) -> Capabilities {
        let none = tote_spec::Capabilities::default();
        let sets = process.capabilities.as_ref().unwrap_or(&none);
        let available = if self.in_user_namespace() {
            u64::MAX
        } else {
            self.request.facts.bounding
        };
        let mut lost = Vec::new();
        let mut mask = |names: &[String]| {
            let mut mask = 0;
            for name in names {
                match capability::by_name(name) {
                    Some(number) if available & (1 << number) != 0 => mask |= 1 << number,
                    _ if lost.contains(name) => {}
                    _ => lost.push(name.clone()),
                }
            }
            mask
        };
        let bounding = mask(&sets.bounding);
        let permitted = mask(&sets.permitted);
        let inheritable = mask(&sets.inheritable);
        let effective = mask(&sets.effective);
        let ambient = mask(&sets.ambient);
        if !lost.is_empty() {
            self.warnings
                .push(format!("not available here and left out: {}", lost.join(", ")));
        }
        let raised = ambient & permitted & inheritable;
        // Root has them by its user id. Engines that make nothing inheritable still list root's capabilities as
        // ambient, and would get a warning for each.
        let is_moot = process.user.uid == 0 && inheritable == 0;
        let missing = if is_moot { 0 } else { ambient & !raised };
        let names = capability::ALL.iter().enumerate();
        for (_, name) in names.filter(|(number, _)| missing & (1 << number) != 0) {
            self.warnings.push(format!(
                "can't raise ambient capability CAP_{name}: it must be permitted and inheritable too"
            ));
        }
        Capabilities {
            bounding,
            permitted,
            inheritable,
            effective: effective & permitted,
            ambient: raised,
        }
    }

    fn filter(&self, bounding: u64) -> Result<Option<Filter>, PlanError> {
        if self.request.default_filter {
            let filter = tote_seccomp::default_filter(tote_seccomp::CapSet::from_bits(bounding));
            return Ok(Some((convert(&filter), 0)));
        }
        if let Some(filter) = &self.compiled {
            return Ok(Some((convert(&filter.instructions), filter.flags)));
        }
        let Some(profile) = self
            .request
            .spec
            .linux
            .as_ref()
            .and_then(|linux| linux.seccomp.as_ref())
        else {
            return Ok(None);
        };
        let filter = tote_seccomp::compile(profile, Arch::NATIVE).map_err(PlanError::Seccomp)?;
        if filter.notify && self.request.init {
            // PID 1 would load the filter as well, and has no receiver for the second listener.
            return Err(PlanError::Unsupported(
                "linux.seccomp with SCMP_ACT_NOTIFY beside an init of tote's own".to_owned(),
            ));
        }
        let listener = if filter.notify { NEW_LISTENER } else { 0 };
        Ok(Some((convert(&filter.instructions), filter.flags | listener)))
    }
}

/// Compiles a filter that reports these calls, of every interface that this kernel has, and allows all others.
pub(crate) fn listener(calls: &[&str]) -> Result<Filter, PlanError> {
    let profile = Seccomp {
        default_action: Action::Allow,
        default_errno_ret: None,
        architectures: Arch::NATIVE.family().map(|arch| arch.name().to_owned()).collect(),
        flags: Some(vec!["SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV".to_owned()]),
        listener_path: None,
        listener_metadata: None,
        syscalls: vec![SyscallRule {
            names: calls.iter().map(|&name| name.to_owned()).collect(),
            action: Action::Notify,
            errno_ret: None,
            args: Vec::new(),
        }],
    };
    let filter = tote_seccomp::compile(&profile, Arch::NATIVE).map_err(PlanError::Seccomp)?;
    Ok((convert(&filter.instructions), filter.flags | NEW_LISTENER))
}

pub(crate) fn convert(instructions: &[tote_seccomp::Instruction]) -> Box<[SockFilter]> {
    let converted = instructions.iter().map(|instruction| SockFilter {
        code: instruction.code,
        jt: instruction.jt,
        jf: instruction.jf,
        k: instruction.k,
    });
    converted.collect()
}

/// True if the filter lets [`tote_sys::Op::Descend`] and what comes after it through.
pub(crate) fn may_descend(privilege: &Privilege) -> bool {
    lets_through(privilege, &DESCENT)
}

/// True if the filter lets [`tote_sys::Op::Pid1`] and what comes after it through.
pub(crate) fn may_split(privilege: &Privilege) -> bool {
    lets_through(privilege, &SPLIT)
}

/// True if the filter, if there is one, lets all these calls through.
pub(crate) fn lets_through(privilege: &Privilege, calls: &[(&str, u32)]) -> bool {
    privilege.filter.as_ref().is_none_or(|(filter, _)| {
        let program = instructions(filter);
        // A call that this architecture does not have is made by another name.
        let mut calls = calls
            .iter()
            .filter(|(call, _)| Arch::NATIVE.number(call).is_some());
        calls.all(|(call, first)| tote_seccomp::lets_through(&program, call, *first))
    })
}

/// Converts a filter back to the instructions that it was compiled to.
pub(crate) fn instructions(filter: &[SockFilter]) -> Vec<tote_seccomp::Instruction> {
    let instruction = |filter: &SockFilter| tote_seccomp::Instruction {
        code: filter.code,
        jt: filter.jt,
        jf: filter.jf,
        k: filter.k,
    };
    filter.iter().map(instruction).collect()
}
