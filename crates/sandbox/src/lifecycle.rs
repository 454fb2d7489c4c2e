//! Additions of an OCI runtime to a birth: a record of the process, hooks, and the wait for `start`.

use crate::plan::{Errand, Plan, is_switch};
use crate::{PlanError, wait};
use rustix::fd::OwnedFd;
use tote_sys::{AwaitStart, Hook, Op, Park, Privilege};

/// Points of a container's life at which hooks and commands take part.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// True if there are hooks that the parent runs before the root is entered.
    pub runtime_hooks: bool,
    /// Hooks that run in the container's namespaces, before the root is entered.
    pub create_container: Vec<Hook>,
    /// Hooks that run inside, immediately before the program.
    pub start_container: Vec<Hook>,
    /// Socket at which the process waits for its start ([`tote_sys::start_gate`]); `None` if it does not wait.
    pub gate: Option<OwnedFd>,
}

impl Plan {
    /// Puts these points into the list.
    ///
    /// A gate before the root is entered is always there: if the parent dies before it has recorded the process, the
    /// process ends too.
    pub fn live(&mut self, lifecycle: Lifecycle) {
        let mut switch = self.switch_position();
        // The operation that makes the root read-only comes last, and a hook may have to write there before.
        let is_root = |op: &Op| matches!(op, Op::Remount { path, .. } if path.as_c_str() == c".");
        if self.ops[..switch].last().is_some_and(is_root) {
            switch -= 1;
        }
        let mut ops = Vec::with_capacity(2 + lifecycle.create_container.len());
        let mut errands = vec![Errand::Record];
        if lifecycle.runtime_hooks {
            ops.push(Op::Ready);
            errands.push(Errand::Hooks);
        }
        ops.push(Op::Gate);
        ops.extend(hooks(lifecycle.create_container));
        let before = self.ops[..switch]
            .iter()
            .filter(|op| matches!(op, Op::Gate))
            .count();
        self.gates.insert(before, errands);
        self.ops.splice(switch..switch, ops);
        if let Some(listener) = lifecycle.gate {
            self.wait_last(
                [Op::FindProgram, Op::DieOfSignals],
                Op::AwaitStart(AwaitStart { listener }),
                |whole| wait::ahead_of(whole, &wait::START),
            );
        }
        let exec = self.place(|op| matches!(op, Op::Exec(_)));
        self.ops.splice(exec..exec, hooks(lifecycle.start_container));
    }

    /// Makes the process wait for a taker that brings its program (`listener` comes from [`tote_sys::start_gate`]).
    /// Until then it lives no longer than its parent.
    ///
    /// What the program must not have is given away before the wait, the ids where nothing that is left needs the container's
    /// root. The filter is loaded before if it is `known` to allow the remaining operations, or lets them through: installing a
    /// filter of 286 instructions takes the kernel 0.15 ms.
    pub fn park(&mut self, listener: OwnedFd, known: bool) {
        let owner = self.owner();
        let park = Op::Park(Park { listener, owner });
        self.wait_last([Op::DieOfSignals], park, |whole| {
            wait::ahead_of_program(whole, known)
        });
        // A change of ids undoes it.
        let exec = self.place(|op| matches!(op, Op::Exec(_)));
        if matches!(self.ops[..exec].last(), Some(Op::Privilege(_))) {
            self.ops.insert(exec, Op::DieWithParent);
        }
    }

    /// Inserts a wait before the program, and these operations before the rights are given away. `split` says which of them must
    /// stay until after the wait.
    fn wait_last<const COUNT: usize>(
        &mut self,
        before: [Op; COUNT],
        wait: Op,
        split: impl FnOnce(Privilege) -> (Privilege, Option<Privilege>),
    ) {
        let mut after = None;
        let place = self.last_of_its_maker();
        if place < self.ops.len()
            && let Op::Privilege(whole) = self.ops.remove(place)
        {
            let (ahead, rest) = split(whole);
            self.ops.insert(place, Op::Privilege(ahead));
            after = rest;
        }
        self.ops.splice(place..place, before);
        let exec = self.place(|op| matches!(op, Op::Exec(_)));
        let after = after.map(Op::Privilege);
        self.ops.splice(exec..exec, [wait].into_iter().chain(after));
    }

    /// Lets the new process wait in its root until the parent has recorded it ([`Errand::Record`]): whatever the program does
    /// first, other commands find its container. A process that descends does not wait, because the parent learns its number too
    /// late, and a filter of the user's own may forbid the wait.
    pub fn await_record(&mut self) {
        if !self.descends() {
            self.wait_at(self.first_inside(), [Op::Gate], Errand::Record);
        }
    }

    /// True if the new process waits for its record.
    #[must_use]
    pub fn awaits_record(&self) -> bool {
        self.gates.iter().any(|errands| errands.contains(&Errand::Record))
    }

    /// Lets the new process wait in its root, until the parent has shown that root to those who watch it
    /// ([`Errand::Watch`]).
    pub fn watch_root(&mut self) {
        self.wait_at(self.last_of_birth(), [Op::Ready, Op::Gate], Errand::Watch);
    }

    /// Inserts operations, the last of which is a gate with that errand.
    fn wait_at<const COUNT: usize>(&mut self, at: usize, ops: [Op; COUNT], errand: Errand) {
        let is_gate = |op: &&Op| matches!(op, Op::Gate);
        let before = self.ops[..at].iter().filter(is_gate).count();
        self.gates.insert(before, vec![errand]);
        self.ops.splice(at..at, ops);
    }

    /// Lets a listener, which goes to the parent ([`tote_sys::Event::Seccomp`]), hear of these calls, and of nothing else,
    /// before they are performed. It has to let each of them through; the program's own filter has its say as before.
    ///
    /// # Errors
    /// [`PlanError::Seccomp`]: write(2) is among them, or too many are.
    pub fn listen(&mut self, calls: &[&str]) -> Result<(), PlanError> {
        let filter = crate::privilege::listener(calls)?;
        // A process that is born into a container has a listener only once its parent knows its number.
        let at = match self.descends() {
            true => self.last_of_its_maker(),
            false => self.last_of_birth(),
        };
        let alone = Privilege {
            credentials: None,
            capabilities: None,
            no_new_privs: false,
            filter: Some(filter),
        };
        self.ops.insert(at, Op::Privilege(alone));
        Ok(())
    }

    /// Returns the index of the operation from which on the process is the program in all but name.
    pub(crate) fn last_of_birth(&self) -> usize {
        let is_last = |op: &Op| matches!(op, Op::Pid1(_) | Op::Session | Op::CloseFrom(_));
        self.ops.iter().position(is_last).unwrap_or(self.ops.len())
    }

    /// Returns the index of the operation after those by which the container's root becomes the root: from it on the process is
    /// inside. Limits come later, such as that of the size of files.
    fn first_inside(&self) -> usize {
        match &self.ops[self.switch_position()..] {
            [] => self.last_of_birth(),
            rest => self.switch_position() + rest.iter().take_while(|op| is_switch(op)).count(),
        }
    }

    /// Returns the user of the program, who owns its terminal.
    pub(crate) fn owner(&self) -> u32 {
        let owner = self.ops.iter().find_map(|op| match op {
            Op::Privilege(how) => how.credentials.as_ref().map(|credentials| credentials.uid),
            _ => None,
        });
        owner.unwrap_or(0)
    }

    /// Returns the index before ids and filter change.
    pub(crate) fn last_of_its_maker(&self) -> usize {
        let last = self.ops.iter().rposition(|op| matches!(op, Op::Privilege(_)));
        last.unwrap_or(self.ops.len())
    }

    fn place(&self, is_it: impl FnMut(&Op) -> bool) -> usize {
        self.ops.iter().position(is_it).unwrap_or(self.ops.len())
    }
}

fn hooks(hooks: Vec<Hook>) -> impl Iterator<Item = Op> {
    hooks.into_iter().map(|hook| Op::Hook(Box::new(hook)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan_of(ops: Vec<Op>) -> Plan {
        Plan {
            namespaces: 0,
            pid_namespace: None,
            user_namespace: None,
            join: Vec::new(),
            net_devices: Vec::new(),
            links: Vec::new(),
            ops,
            gates: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_root_is_watched_once_it_is_the_root_and_before_the_program() {
        let mut plan = plan_of(vec![Op::Gate, Op::Pivot, Op::Gate, Op::Session, Op::CloseFrom(3)]);
        plan.gates = vec![vec![Errand::Maps], vec![Errand::Cgroup]];
        plan.watch_root();
        let expected = [vec![Errand::Maps], vec![Errand::Cgroup], vec![Errand::Watch]];
        assert_eq!(plan.gates, expected);
        assert!(matches!(plan.ops[3..6], [Op::Ready, Op::Gate, Op::Session]));
    }

    #[test]
    fn a_process_is_recorded_before_it_is_watched_and_one_that_descends_does_not_wait() {
        let mut plan = plan_of(vec![
            Op::Gate,
            Op::Pivot,
            Op::Umask(0),
            Op::Session,
            Op::CloseFrom(3),
        ]);
        plan.gates = vec![vec![Errand::Cgroup]];
        plan.await_record();
        plan.watch_root();
        let expected = [vec![Errand::Cgroup], vec![Errand::Record], vec![Errand::Watch]];
        assert!(plan.awaits_record() && plan.gates == expected);
        let [
            Op::Gate,
            Op::Pivot,
            Op::Gate,
            Op::Umask(_),
            Op::Ready,
            Op::Gate,
            Op::Session,
            ..,
        ] = &plan.ops[..]
        else {
            panic!("{plan}");
        };
        let mut plan = plan_of(vec![Op::CloseFrom(3), Op::Descend { first_closed: 3 }]);
        plan.await_record();
        assert!(!plan.awaits_record() && plan.gates.is_empty() && plan.ops.len() == 2);
    }

    #[test]
    fn a_listener_comes_after_the_watch_and_before_the_rest_of_the_birth() {
        let mut plan = plan_of(vec![Op::Pivot, Op::Session, Op::CloseFrom(3)]);
        plan.watch_root();
        plan.listen(&["openat", "execve"]).unwrap();
        plan.insert_stdio(vec![Op::NoOutput { number: 1 }]);
        let [
            Op::Pivot,
            Op::Ready,
            Op::Gate,
            Op::Privilege(listens),
            Op::NoOutput { .. },
            ..,
        ] = &plan.ops[..]
        else {
            panic!("{plan}");
        };
        let (_, flags) = listens.filter.as_ref().unwrap();
        // NEW_LISTENER and WAIT_KILLABLE_RECV: a signal must not repeat the call.
        assert_eq!(*flags, 1 << 3 | 1 << 5);
        assert!(!crate::privilege::lets_through(listens, &[("openat", 0)]));
        assert!(crate::privilege::lets_through(listens, &[("read", 0)]));
        assert!(plan.listen(&["write"]).is_err());
    }

    #[test]
    fn hooks_come_before_the_root_is_entered_in_whatever_way() {
        for switch in [
            vec![Op::Pivot],
            vec![Op::Chroot],
            vec![Op::Unmount(c"/proc".to_owned()), Op::MoveRoot],
        ] {
            let mut plan = plan_of(vec![Op::Gate, Op::LoopbackUp]);
            plan.gates = vec![vec![Errand::Maps]];
            plan.ops.extend(switch);
            let steps = plan.ops.len();
            plan.live(Lifecycle {
                runtime_hooks: true,
                ..Lifecycle::default()
            });
            assert!(matches!(
                plan.ops[..4],
                [Op::Gate, Op::LoopbackUp, Op::Ready, Op::Gate]
            ));
            assert_eq!(plan.ops.len(), steps + 2);
            assert_eq!(
                plan.gates,
                [vec![Errand::Maps], vec![Errand::Record, Errand::Hooks]]
            );
        }
    }
}
