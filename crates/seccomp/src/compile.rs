//! From a profile to a filter.

use crate::arch::{Arch, FOREIGN, X32_BIT};
use crate::error::Error;
use crate::graph::{Graph, Id};
use crate::instruction::{ARCH, Comparison, ENOSYS, Instruction, NUMBER, verdict};
use crate::ranges::Ranges;
use crate::rules::{Rule, Rules};
use tote_spec::{Action, Seccomp};

/// Longest program that the kernel takes (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Number of decisions from which a profile counts as too long before the program itself can be measured.
const MAX_DECISIONS: usize = 4 * MAX_INSTRUCTIONS;

/// Flags as profiles name them, `SECCOMP_FILTER_FLAG_…`, and the kernel's values (linux/seccomp.h).
const FLAGS: &[(&str, u32)] = &[
    // The process that loads the filter has one thread, so no other needs it.
    ("SECCOMP_FILTER_FLAG_TSYNC", 0),
    ("SECCOMP_FILTER_FLAG_LOG", 1 << 1),
    ("SECCOMP_FILTER_FLAG_SPEC_ALLOW", SPEC_ALLOW),
    ("SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", WAIT_KILLABLE_RECV),
];
const SPEC_ALLOW: u32 = 1 << 2;
const WAIT_KILLABLE_RECV: u32 = 1 << 5;

/// Arguments of seccomp(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Program, at most [`MAX_INSTRUCTIONS`] long.
    pub instructions: Vec<Instruction>,
    /// Bits `SECCOMP_FILTER_FLAG_…` that the profile asks for, without the listener's.
    pub flags: u32,
    /// True if a rule notifies: the filter has to be loaded with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    pub notify: bool,
}

/// Compiles a profile for a kernel of the native architecture.
///
/// The native architecture always belongs to the filter, beside those that the profile lists; a call of any other
/// ends the thread, as with libseccomp. Names that an architecture does not have are ignored. If the default action
/// is to forbid, calls newer than the newest named one fail with ENOSYS, as with runc: programs then fall back to an
/// older call, where EPERM would make them give up.
///
/// # Errors
/// [`Error`]: a part of the profile does not exist, is impossible, or is too long for the kernel.
pub fn compile(profile: &Seccomp, native: Arch) -> Result<Filter, Error> {
    let arches = architectures(profile, native)?;
    let notify = has_notifying_rule(profile);
    let flags = flags(profile, notify)?;
    let rules = Rules::new(profile)?;
    let forbids = !matches!(
        profile.default_action,
        Action::Allow | Action::Log | Action::Trace
    );

    let mut graph = Graph::default();
    let mut trees = Vec::with_capacity(arches.len());
    for arch in arches {
        trees.push((arch, tree(&mut graph, &rules, arch, forbids)?));
    }
    let default = graph.returns(rules.default);
    let root = dispatch(&mut graph, &trees, default);
    let instructions = graph.assemble(root);
    if instructions.len() > MAX_INSTRUCTIONS {
        return Err(Error::TooLong);
    }
    Ok(Filter {
        instructions,
        flags,
        notify,
    })
}

/// Returns [`Filter::notify`] of a profile without compiling it.
///
/// # Errors
/// Those of [`compile`], which may still find the profile too long.
pub fn notifies(profile: &Seccomp, native: Arch) -> Result<bool, Error> {
    architectures(profile, native)?;
    let notify = has_notifying_rule(profile);
    flags(profile, notify)?;
    crate::rules::checked(profile)?;
    Ok(notify)
}

fn has_notifying_rule(profile: &Seccomp) -> bool {
    let mut rules = profile.syscalls.iter();
    rules.any(|rule| rule.action == Action::Notify && !rule.names.is_empty())
}

/// Returns the architectures that this kernel can run and the profile wants: the native one first, each once.
fn architectures(profile: &Seccomp, native: Arch) -> Result<Vec<Arch>, Error> {
    let mut arches = vec![native];
    for name in &profile.architectures {
        match Arch::ALL.into_iter().find(|arch| arch.name() == name) {
            Some(arch) if arch.shares_kernel_with(native) && !arches.contains(&arch) => arches.push(arch),
            Some(_) => {}
            None if FOREIGN.contains(&name.as_str()) => {}
            None => return Err(Error::Architecture(name.clone())),
        }
    }
    Ok(arches)
}

/// Returns the filter's flags. A profile without the property has the flag that kernels assume since 5.16, and runc
/// before them.
fn flags(profile: &Seccomp, notify: bool) -> Result<u32, Error> {
    let Some(names) = &profile.flags else {
        return Ok(SPEC_ALLOW);
    };
    let mut flags = 0;
    for name in names {
        let known = FLAGS.iter().find(|flag| flag.0 == name);
        let &(_, flag) = known.ok_or_else(|| Error::Flag(name.clone()))?;
        if flag == WAIT_KILLABLE_RECV && !notify {
            return Err(Error::FlagWithoutNotify(name.clone()));
        }
        flags |= flag;
    }
    Ok(flags)
}

/// Decides by the call's architecture; the nodes after it find the number in the accumulator.
fn dispatch(graph: &mut Graph, trees: &[(Arch, Id)], default: Id) -> Id {
    let tree_of = |wanted: Arch| trees.iter().find(|tree| tree.0 == wanted).map(|tree| tree.1);
    let killed = graph.returns(verdict::KILL_THREAD);
    let mut root = killed;
    let mut placed = Vec::with_capacity(trees.len());
    // The native architecture, the first in the list, is tested first, so its node is made last.
    for &(arch, tree) in trees.iter().rev() {
        let audit = arch.audit();
        let tree = match arch {
            Arch::X32 | Arch::X86_64 => {
                let x32 = tree_of(Arch::X32).unwrap_or_else(|| {
                    // Any other number is not x32, except -1: a call that a tracer has cancelled.
                    graph.test(Comparison::Equal, u32::MAX, default, killed)
                });
                graph.test(
                    Comparison::GreaterEqual,
                    X32_BIT,
                    x32,
                    tree_of(Arch::X86_64).unwrap_or(killed),
                )
            }
            Arch::X86 | Arch::Aarch64 | Arch::Arm => tree,
        };
        let tree = graph.load(NUMBER, tree);
        placed.retain(|&(placed, _)| placed != audit);
        placed.push((audit, tree));
    }
    for (audit, tree) in placed {
        root = graph.test(Comparison::Equal, audit, tree, root);
    }
    graph.load(ARCH, root)
}

/// Decides by the call's number, which the accumulator holds.
fn tree(graph: &mut Graph, rules: &Rules, arch: Arch, forbids: bool) -> Result<Id, Error> {
    let default = graph.returns(rules.default);
    let mut ranges = Ranges::new(default);
    let calls = rules.calls(arch);
    let private = arch.private_calls().unwrap_or(u32::MAX);
    let (public, private_calls) = calls.split_at(calls.partition_point(|call| call.0 < private));

    place(graph, &mut ranges, rules, arch, public)?;
    if let Some(newest) = public.last().filter(|_| forbids) {
        let enosys = graph.returns(verdict::ERRNO | ENOSYS);
        ranges.from(newest.0 + 1, enosys);
    }
    if let Some(private) = arch.private_calls() {
        ranges.from(private, default);
    }
    place(graph, &mut ranges, rules, arch, private_calls)?;
    Ok(ranges.search(graph))
}

/// Puts calls, which come by rising number, into their ranges.
fn place(
    graph: &mut Graph,
    ranges: &mut Ranges,
    rules: &Rules,
    arch: Arch,
    calls: &[(u32, &Rule)],
) -> Result<(), Error> {
    let default = graph.returns(rules.default);
    for call in calls.chunk_by(|a, b| a.0 == b.0) {
        let decision = decide(graph, &rules.deciding(call), arch, default)?;
        ranges.single(call[0].0, decision, default);
    }
    Ok(())
}

/// Decides one call by its rules, the first one first.
fn decide(graph: &mut Graph, rules: &[&Rule], arch: Arch, default: Id) -> Result<Id, Error> {
    let mut decision = default;
    for rule in rules.iter().rev() {
        let holds = graph.returns(rule.verdict);
        for conditions in rule.alternatives.iter().rev() {
            let otherwise = decision;
            decision = holds;
            for condition in conditions.iter().rev() {
                decision = condition.decide(graph, arch.is_narrow(), decision, otherwise);
            }
            if graph.len() > MAX_DECISIONS {
                return Err(Error::TooLong);
            }
        }
    }
    Ok(decision)
}
