//! Rules of a profile, checked and numbered: those that hold for each call of an architecture.

use crate::arch::{Arch, row};
use crate::condition::Condition;
use crate::error::Error;
use crate::instruction::{EPERM, verdict};
use crate::table::Row;
use tote_spec::{Action, Seccomp, SyscallRule};

/// Rules of one profile.
pub(crate) struct Rules {
    /// Verdict if no rule holds.
    pub(crate) default: u32,
    /// Rules in the profile's order.
    rules: Vec<Rule>,
    /// Calls that rules name, with the rule's index; calls that no architecture has are left out.
    named: Vec<(&'static Row, usize)>,
}

/// Rule of a profile.
pub(crate) struct Rule {
    /// Verdict if it holds.
    pub(crate) verdict: u32,
    /// Sets of conditions: the rule holds if all conditions of any set hold; an empty set always does.
    pub(crate) alternatives: Vec<Vec<Condition>>,
}

impl Rule {
    fn is_unconditional(&self) -> bool {
        self.alternatives.iter().any(Vec::is_empty)
    }
}

impl Rules {
    /// Reads the profile's default action and rules.
    pub(crate) fn new(profile: &Seccomp) -> Result<Self, Error> {
        let (default, rules) = checked(profile)?;
        let names = profile.syscalls.iter().map(|rule| &rule.names).enumerate();
        let named = names
            .flat_map(|(place, names)| names.iter().filter_map(move |name| Some((row(name)?, place))))
            .collect();
        Ok(Self {
            default,
            rules,
            named,
        })
    }

    /// Returns the calls of an architecture that rules name, by rising number, each with its rules in order.
    pub(crate) fn calls(&self, arch: Arch) -> Vec<(u32, &Rule)> {
        let mut calls: Vec<(u32, usize)> = self
            .named
            .iter()
            .filter_map(|&(row, place)| Some((arch.number_in(row)?, place)))
            .collect();
        calls.sort_unstable();
        calls.dedup();
        calls
            .into_iter()
            .map(|(number, place)| (number, &self.rules[place]))
            .collect()
    }

    /// Returns the rules of one call that decide, in the order in which they are tested.
    ///
    /// As with runc and libseccomp, a rule with the same verdict as the default is ignored, and one without
    /// conditions outweighs all with conditions. If conditions of several rules hold, the first rule counts.
    pub(crate) fn deciding<'a>(&self, call: &[(u32, &'a Rule)]) -> Vec<&'a Rule> {
        let counting = || {
            call.iter()
                .map(|&(_, rule)| rule)
                .filter(|rule| rule.verdict != self.default)
        };
        match counting().find(|rule| rule.is_unconditional()) {
            Some(rule) => vec![rule],
            None => counting().collect(),
        }
    }
}

/// Reads the profile's default verdict and its rules, without the calls that they are for.
pub(crate) fn checked(profile: &Seccomp) -> Result<(u32, Vec<Rule>), Error> {
    if profile.default_action == Action::Notify {
        return Err(Error::DefaultNotify);
    }
    let default = returned(profile.default_action, profile.default_errno_ret)?;
    let rule = |rule: &SyscallRule| {
        if rule.action == Action::Notify && rule.names.iter().any(|name| name == "write") {
            return Err(Error::NotifyWrite);
        }
        Ok(Rule {
            verdict: returned(rule.action, rule.errno_ret)?,
            alternatives: alternatives(rule)?,
        })
    };
    let rules = profile.syscalls.iter().map(rule).collect::<Result<_, _>>()?;
    Ok((default, rules))
}

/// Returns the filter's value for the kernel: `SECCOMP_RET_…`.
fn returned(action: Action, errno: Option<u32>) -> Result<u32, Error> {
    let errno = || match errno.unwrap_or(EPERM) {
        errno @ 0..=0xffff => Ok(errno),
        errno => Err(Error::Errno(errno)),
    };
    Ok(match action {
        Action::KillThread => verdict::KILL_THREAD,
        Action::KillProcess => verdict::KILL_PROCESS,
        Action::Trap => verdict::TRAP,
        Action::Errno => verdict::ERRNO | errno()?,
        Action::Trace => verdict::TRACE | errno()?,
        Action::Allow => verdict::ALLOW,
        Action::Log => verdict::LOG,
        Action::Notify => verdict::NOTIFY,
    })
}

/// Returns the sets of conditions under which a rule holds. Two conditions on one argument can hardly be meant to
/// hold both, so runc, and docker before it, take every condition of such a rule as a rule of its own.
fn alternatives(rule: &SyscallRule) -> Result<Vec<Vec<Condition>>, Error> {
    let conditions = rule
        .args
        .iter()
        .map(|arg| {
            Condition::new(arg).ok_or_else(|| Error::Argument {
                call: rule.names.first().cloned().unwrap_or_default(),
                index: arg.index,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut seen = [false; 6];
    let repeats = conditions
        .iter()
        .any(|condition| std::mem::replace(&mut seen[usize::from(condition.index())], true));
    Ok(if repeats {
        conditions.into_iter().map(|condition| vec![condition]).collect()
    } else {
        vec![conditions]
    })
}
