//! Scheduling of a process, its memory policy, and the personality of the machine that it sees.

use crate::error::PlanError;
use tote_spec::{IoPriority, MemoryPolicy, Personality, Process, Scheduler, Spec};
use tote_sys::{Op, SchedulerAttributes};

/// Upper bound of the processor and memory node numbers in a list: more than any kernel is built for.
const MOST: u32 = 8192;

/// Names `SCHED_…` and the kernel's numbers.
const POLICIES: [(&str, u32); 7] = [
    ("SCHED_OTHER", 0),
    ("SCHED_FIFO", 1),
    ("SCHED_RR", 2),
    ("SCHED_BATCH", 3),
    ("SCHED_ISO", 4),
    ("SCHED_IDLE", 5),
    ("SCHED_DEADLINE", 6),
];

const FLAGS: [(&str, u32); 7] = [
    ("SCHED_FLAG_RESET_ON_FORK", 0x01),
    ("SCHED_FLAG_RECLAIM", 0x02),
    ("SCHED_FLAG_DL_OVERRUN", 0x04),
    ("SCHED_FLAG_KEEP_POLICY", 0x08),
    ("SCHED_FLAG_KEEP_PARAMS", 0x10),
    ("SCHED_FLAG_UTIL_CLAMP_MIN", 0x20),
    ("SCHED_FLAG_UTIL_CLAMP_MAX", 0x40),
];

const CLASSES: [(&str, u32); 3] = [
    ("IOPRIO_CLASS_RT", 1),
    ("IOPRIO_CLASS_BE", 2),
    ("IOPRIO_CLASS_IDLE", 3),
];

const MEMORY_MODES: [(&str, u32); 7] = [
    ("MPOL_DEFAULT", 0),
    ("MPOL_PREFERRED", 1),
    ("MPOL_BIND", 2),
    ("MPOL_INTERLEAVE", 3),
    ("MPOL_LOCAL", 4),
    ("MPOL_PREFERRED_MANY", 5),
    ("MPOL_WEIGHTED_INTERLEAVE", 6),
];

const MEMORY_FLAGS: [(&str, u32); 3] = [
    ("MPOL_F_STATIC_NODES", 1 << 15),
    ("MPOL_F_RELATIVE_NODES", 1 << 14),
    ("MPOL_F_NUMA_BALANCING", 1 << 13),
];

const PERSONALITIES: [(&str, u32); 2] = [("LINUX", 0), ("LINUX32", 8)];

fn number(table: &[(&str, u32)], name: &str) -> Option<u32> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
}

/// Plans the scheduling operations for a process of a container: those of `process`, and those that the spec has for
/// all processes. They need the caller's capabilities, so they come before [`Op::Privilege`].
///
/// # Errors
/// [`PlanError::Invalid`] for an unknown name or an invalid value.
pub fn schedule(spec: &Spec, process: &Process) -> Result<Vec<Op>, PlanError> {
    let mut ops = Vec::new();
    if let Some(attributes) = process.scheduler.as_ref().map(scheduler).transpose()? {
        ops.push(Op::Scheduler(Box::new(attributes)));
    }
    if let Some(priority) = process.io_priority.as_ref().map(io_priority).transpose()? {
        ops.push(Op::IoPriority(priority));
    }
    let Some(linux) = &spec.linux else { return Ok(ops) };
    if let Some(number) = linux.personality.as_ref().map(personality).transpose()? {
        ops.push(Op::Personality(number));
    }
    if let Some(policy) = linux.memory_policy.as_ref().map(memory_policy).transpose()? {
        ops.push(Op::MemoryPolicy(policy));
    }
    Ok(ops)
}

/// Restricts a process to a list of processors (`0-3,7`); an empty list allows all of them.
///
/// # Errors
/// [`PlanError::Invalid`] for an invalid list.
pub fn affinity(list: &str) -> Result<Op, PlanError> {
    let mask = bits(list).ok_or_else(|| PlanError::Invalid(format!("invalid CPU affinity {list:?}")))?;
    Ok(Op::Affinity(mask))
}

fn scheduler(scheduler: &Scheduler) -> Result<SchedulerAttributes, PlanError> {
    let policy = scheduler.policy.as_str();
    let invalid = |text: String| Err(PlanError::Invalid(text));
    if policy.is_empty() {
        return invalid("scheduler policy is required".to_owned());
    }
    let Some(number_of_policy) = number(&POLICIES, policy) else {
        return invalid(format!("invalid scheduler policy: {policy}"));
    };
    let nice = scheduler.nice;
    if matches!(policy, "SCHED_OTHER" | "SCHED_BATCH") && !(-20..=19).contains(&nice) {
        return invalid(format!(
            "invalid scheduler.nice: {nice} when scheduler.policy is {policy}"
        ));
    }
    let real_time = matches!(policy, "SCHED_FIFO" | "SCHED_RR");
    let Ok(priority @ 0..=99) = u32::try_from(scheduler.priority) else {
        return invalid(format!("invalid scheduler.priority: {}", scheduler.priority));
    };
    if priority != 0 && !real_time {
        return invalid(
            "scheduler.priority can only be specified for SchedFIFO or SchedRR policy".to_owned(),
        );
    }
    let times = (scheduler.runtime, scheduler.deadline, scheduler.period);
    if policy != "SCHED_DEADLINE" && times != (0, 0, 0) {
        return invalid(
            "scheduler runtime/deadline/period can only be specified for SchedDeadline policy".to_owned(),
        );
    }
    let mut attributes = SchedulerAttributes {
        policy: number_of_policy,
        nice,
        priority,
        runtime: scheduler.runtime,
        deadline: scheduler.deadline,
        period: scheduler.period,
        ..SchedulerAttributes::default()
    };
    for name in &scheduler.flags {
        let Some(flag) = number(&FLAGS, name) else {
            return invalid(format!("invalid scheduler flag: {name}"));
        };
        attributes.flags |= u64::from(flag);
    }
    Ok(attributes)
}

fn io_priority(priority: &IoPriority) -> Result<i32, PlanError> {
    let level = priority.priority;
    if !(0..=7).contains(&level) {
        return Err(PlanError::Invalid(format!(
            "invalid ioPriority.Priority: {level}"
        )));
    }
    let class = number(&CLASSES, &priority.class)
        .ok_or_else(|| PlanError::Invalid(format!("invalid ioPriority.Class: {:?}", priority.class)))?;
    Ok(class.cast_signed() << 13 | level)
}

fn personality(personality: &Personality) -> Result<u32, PlanError> {
    number(&PERSONALITIES, &personality.domain)
        .ok_or_else(|| PlanError::Invalid(format!("invalid personality domain {}", personality.domain)))
}

fn memory_policy(policy: &MemoryPolicy) -> Result<tote_sys::MemoryPolicy, PlanError> {
    let invalid = |text: String| PlanError::Invalid(text);
    let mode = number(&MEMORY_MODES, &policy.mode)
        .ok_or_else(|| invalid(format!("invalid memory policy mode {:?}", policy.mode)))?;
    let nodes = bits(&policy.nodes)
        .ok_or_else(|| invalid(format!("invalid memory policy nodes {:?}", policy.nodes)))?;
    let count: u32 = nodes.iter().map(|word| word.count_ones()).sum();
    match policy.mode.as_str() {
        "MPOL_DEFAULT" | "MPOL_LOCAL" if count != 0 => {
            return Err(invalid(format!(
                "memory policy mode requires 0 nodes but got {count}"
            )));
        }
        "MPOL_DEFAULT" | "MPOL_LOCAL" | "MPOL_PREFERRED" => {}
        _ if count == 0 => {
            return Err(invalid(
                "memory policy mode requires at least one node but got 0".to_owned(),
            ));
        }
        _ => {}
    }
    let mut mode = mode;
    for name in &policy.flags {
        mode |= number(&MEMORY_FLAGS, name)
            .ok_or_else(|| invalid(format!("invalid memory policy flag {name:?}")))?;
    }
    Ok(tote_sys::MemoryPolicy {
        mode: mode.cast_signed(),
        nodes,
    })
}

/// Parses a list like `0-3,7` into a bit mask.
fn bits(list: &str) -> Option<Box<[u64]>> {
    let mut words = Vec::new();
    let ranges = list.split(',').map(str::trim).filter(|range| !range.is_empty());
    for range in ranges {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        for bit in first..=last {
            let word = usize::try_from(bit / 64).ok()?;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (bit % 64);
        }
    }
    Some(words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, mask) in [
            ("", Some(&[][..])),
            ("0", Some(&[1])),
            ("0-2,5", Some(&[0b10_0111])),
            ("64,1", Some(&[2, 1])),
            ("2-1", None),
            ("x", None),
            ("0-9876543210", None),
            ("0-8192", None),
            ("-1", None),
        ] {
            assert_eq!(bits(list).as_deref(), mask, "{list}");
        }
    }

    fn text<T: std::fmt::Debug>(result: Result<T, PlanError>) -> String {
        result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"))
    }

    #[test]
    fn memory_policies() {
        let of = |mode: &str, nodes: &str, flags: &[&str]| {
            text(memory_policy(&MemoryPolicy {
                mode: mode.to_owned(),
                nodes: nodes.to_owned(),
                flags: flags.iter().map(ToString::to_string).collect(),
            }))
        };
        assert_eq!(
            of("MPOL_BIND", "0", &["MPOL_F_STATIC_NODES"]),
            "MemoryPolicy { mode: 32770, nodes: [1] }"
        );
        assert_eq!(of("", "", &[]), "invalid memory policy mode \"\"");
        assert_eq!(
            of("MPOL_DEFAULT", "0-7", &[]),
            "memory policy mode requires 0 nodes but got 8"
        );
        assert_eq!(
            of("MPOL_PREFERRED", "0", &["x"]),
            "invalid memory policy flag \"x\""
        );
        assert!(of("MPOL_BIND", "0-9876543210", &[]).starts_with("invalid memory policy node"));
        assert!(of("MPOL_BIND", "", &[]).ends_with("at least one node but got 0"));
    }

    #[test]
    fn schedulers() {
        let of = |policy: &str, nice, priority, runtime| {
            text(scheduler(&Scheduler {
                policy: policy.to_owned(),
                nice,
                priority,
                runtime,
                ..Scheduler::default()
            }))
        };
        assert!(of("SCHED_BATCH", 19, 0, 0).contains("policy: 3"));
        assert_eq!(of("", 0, 0, 0), "scheduler policy is required");
        assert!(of("SCHED_OTHER", 20, 0, 0).starts_with("invalid scheduler.nice: 20"));
        assert!(of("SCHED_OTHER", 0, 1, 0).starts_with("scheduler.priority can only"));
        assert!(of("SCHED_RR", 0, -1, 0).starts_with("invalid scheduler.priority"));
        assert!(of("SCHED_RR", 0, 1, 5).starts_with("scheduler runtime/deadline/period"));
        assert!(of("SCHED_X", 0, 0, 0).starts_with("invalid scheduler policy"));
    }

    #[test]
    fn priorities_of_input_and_output() {
        let of = |class: &str, priority| {
            text(io_priority(&IoPriority {
                class: class.to_owned(),
                priority,
            }))
        };
        assert_eq!(of("IOPRIO_CLASS_BE", 4), "16388");
        assert_eq!(of("IOPRIO_CLASS_BE", 8), "invalid ioPriority.Priority: 8");
        assert_eq!(of("be", 0), "invalid ioPriority.Class: \"be\"");
    }
}
