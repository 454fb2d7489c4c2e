//! Rules that hold for every plan: no process that another one may see or trace has, or waits with, more than its program will have.

use crate::capability::SYS_ADMIN;
use crate::plan::{Errand, Plan, is_switch};
use crate::privilege::{lets_through, may_descend, may_split};
use crate::wait::{PARK, START};
use std::fmt;
use tote_sys::{Capabilities, Op, Privilege};

/// A rule that a plan breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Place of the operation that breaks it.
    pub op: usize,
    /// The rule.
    pub rule: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.op, self.rule)
    }
}

impl Plan {
    /// Checks the plan of a process with a program. These rules are for tests, and for builds with debug assertions, which check
    /// every process that is born.
    ///
    /// # Errors
    /// The first rule that the plan breaks.
    pub fn invariants(&self) -> Result<(), Broken> {
        // A visit of `cp` has no program: it holds mounts, in the PID namespace of the machine.
        let program = self.ops.iter().position(|op| matches!(op, Op::Exec(_)));
        if let Some(op) = program.filter(|place| place + 1 != self.ops.len()) {
            let rule = "a plan ends with its program";
            return Err(Broken { op, rule });
        }
        self.is_open_before_it_is_closed()?;
        for (place, op) in self.ops.iter().enumerate() {
            if let Some(moment) = Moment::of(op) {
                self.has_nothing_to_spare(place, moment)
                    .map_err(|rule| Broken { op: place, rule })?;
            }
        }
        Ok(())
    }

    /// While a process becomes root of its user namespace, the kernel lets no other process look into it. Its parent makes the network namespace at
    /// that time, and so has to know the owner of that before.
    fn is_open_before_it_is_closed(&self) -> Result<(), Broken> {
        let becomes_root = self.ops.iter().position(|op| matches!(op, Op::BecomeRoot));
        let errands = || self.gates.iter().flatten();
        let is_known = || self.user_namespace.is_some() || errands().any(|errand| *errand == Errand::Maps);
        match becomes_root {
            Some(op) if errands().any(|errand| *errand == Errand::Network) && !is_known() => {
                let rule = "its user namespace is open before it becomes root";
                Err(Broken { op, rule })
            }
            _ => Ok(()),
        }
    }

    /// Calls of a wait for a program.
    const PARKS: Calls = &PARK;

    fn has_nothing_to_spare(&self, place: usize, moment: Moment) -> Result<(), &'static str> {
        let (before, after) = (&self.ops[..place], &self.ops[place + 1..]);
        check(
            "its root is that of the program",
            !after
                .iter()
                .any(|op| is_switch(op) || matches!(op, Op::JoinProcess(_) | Op::Join(_))),
        )?;
        check(
            "it has no descriptors but those that are needed",
            before.iter().any(|op| matches!(op, Op::CloseFrom(_))) || moment.is_excused(after),
        )?;
        check(
            "nothing else is left to do",
            after.iter().all(|op| moment.may_precede(op)),
        )?;
        if moment.is_excused(after) {
            return Ok(());
        }
        let (had, rest) = (Rights::of(before), Rights::of(after));
        let Some(sets) = had.sets else {
            return Err("it has given its capabilities away");
        };
        let waits = moment.wait(after);
        let parks = waits == Some(Self::PARKS);
        check("its ids are those of the program", had.ids || parks && rest.ids)?;
        check(
            "it has no_new_privs if the program will",
            had.no_new_privs || !rest.no_new_privs,
        )?;
        let calls = waits.unwrap_or_default();
        let forbids = rest.filter.is_some_and(|filter| !lets_through(filter, calls));
        check(
            "its filter is in force unless that forbids this",
            rest.filter.is_none() || forbids,
        )?;
        // The filter that comes later may need one capability, which is worth no more than what the filter before lets through.
        let for_filter = match (rest.filter, had.filter) {
            (Some(later), Some(_)) if !later.no_new_privs => SYS_ADMIN,
            _ => 0,
        };
        let of_root = if parks { sets.bounding } else { 0 };
        let allowed = rest.sets.unwrap_or(sets).permitted | of_root | for_filter;
        check(
            "it has the capabilities of the program",
            sets.permitted & !allowed == 0,
        )?;
        let may_load = had.no_new_privs || sets.effective & SYS_ADMIN != 0;
        check(
            "a filter that comes later can be loaded",
            rest.filter.is_none() || may_load,
        )
    }
}

fn check(rule: &'static str, holds: bool) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(rule) }
}

/// Calls by their names, and their first arguments.
type Calls = &'static [(&'static str, u32)];

/// Moment from which on others may see a process, or know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Birth into a PID namespace with other processes.
    Descent,
    /// Birth of a second process beside PID 1.
    Split,
    /// Wait for `start`.
    Start,
    /// Wait in a pool.
    Park,
}

impl Moment {
    fn of(op: &Op) -> Option<Self> {
        match op {
            Op::Descend { .. } => Some(Self::Descent),
            Op::Pid1(_) => Some(Self::Split),
            Op::AwaitStart(_) => Some(Self::Start),
            Op::Park(_) => Some(Self::Park),
            _ => None,
        }
    }

    /// Returns the calls of the wait that this is, or that comes after it: the program's filter has to let them through, so that it
    /// can be in force.
    fn wait(self, after: &[Op]) -> Option<Calls> {
        match self {
            Self::Start => Some(&START),
            Self::Park => Some(Plan::PARKS),
            Self::Descent | Self::Split => after.iter().filter_map(Self::of).find_map(|next| next.wait(&[])),
        }
    }

    /// True if the process cannot give its rights away before: its filter forbids the birth, or a scheduling policy does.
    fn is_excused(self, after: &[Op]) -> bool {
        let splits = self == Self::Split || after.iter().any(|op| matches!(op, Op::Pid1(_)));
        let descends = self == Self::Descent;
        if !(descends || self == Self::Split) {
            return false;
        }
        let forbids = |op: &Op| match op {
            Op::Privilege(later) => descends && !may_descend(later) || splits && !may_split(later),
            Op::Scheduler(_) => true,
            _ => false,
        };
        after.iter().any(forbids)
    }

    /// True if the operation may come after this moment.
    fn may_precede(self, op: &Op) -> bool {
        match (self, op) {
            (_, Op::Privilege(_) | Op::DieWithParent | Op::Hook(_) | Op::Exec(_)) => true,
            (Self::Start | Self::Park, _) => false,
            (Self::Descent, Op::Pid1(_) | Op::Session) => true,
            (_, Op::FindProgram | Op::DieOfSignals | Op::AwaitStart(_) | Op::Park(_) | Op::Session) => true,
            // A filter of the user's own, or a policy, has put all of this later.
            (
                _,
                Op::Scheduler(_)
                | Op::IoPriority(_)
                | Op::Personality(_)
                | Op::MemoryPolicy(_)
                | Op::Affinity(_),
            ) => true,
            (
                Self::Split,
                Op::Proc { .. } | Op::Keyring { .. } | Op::CloseFrom(_) | Op::WorkingDir(_) | Op::Hide,
            ) => true,
            (Self::Split, Op::NoStdin | Op::NoOutput { .. } | Op::Stdio { .. }) => true,
            _ => false,
        }
    }
}

/// Rights that some operations give.
#[derive(Default)]
struct Rights<'a> {
    ids: bool,
    sets: Option<Capabilities>,
    no_new_privs: bool,
    filter: Option<&'a Privilege>,
}

impl<'a> Rights<'a> {
    fn of(ops: &'a [Op]) -> Self {
        let mut rights = Self::default();
        for op in ops {
            let Op::Privilege(given) = op else { continue };
            rights.ids |= given.credentials.is_some();
            rights.sets = given.capabilities.or(rights.sets);
            rights.no_new_privs |= given.no_new_privs;
            // The listener of a recorder, which has no part in the program's rights, stands alone.
            if given.filter.is_some() {
                rights.filter = Some(given);
            }
        }
        rights
    }
}
