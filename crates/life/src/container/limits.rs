//! `--timeout` and `--cpu-time` of a container under a monitor.

use super::LifeError;
use crate::Home;
use crate::health::HealthChecks;
use crate::init::Notify;
use crate::network::Answers;
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tote_bundle::{ContainerId, RunOptions};
use tote_cgroup::Cgroup;
use tote_monitor::{Chores, Verdict};
use tote_runtime::Outcome;

/// Shortest interval between checks of the processor time.
const OFTEN: Duration = Duration::from_millis(10);

/// Time limits of a container.
pub(crate) struct Limits {
    deadline: Option<Instant>,
    cpu: Option<(Duration, Cgroup, Instant)>,
    over: Option<Outcome>,
}

impl Limits {
    /// Begins to count.
    ///
    /// # Errors
    /// [`LifeError::Cgroup`] if the group cannot be opened whose time is limited: it would run without the limit.
    pub(crate) fn new(
        id: &ContainerId,
        options: &RunOptions,
        cgroup: Option<&Cgroup>,
    ) -> Result<Self, LifeError> {
        let given = |limit: Option<Duration>| limit.filter(|limit| *limit != Duration::ZERO);
        let now = Instant::now();
        let mut cpu = None;
        if let Some((limit, cgroup)) = given(options.cpu_time).zip(cgroup) {
            let own = Cgroup::open(&cgroup.record()).map_err(|source| LifeError::Cgroup {
                attempt: "limit the processor time of",
                name: id.short().to_owned(),
                source,
            })?;
            cpu = Some(own)
                .filter(Cgroup::counts_cpu)
                .map(|own| (limit, own, now + soonest(limit)));
        }
        Ok(Self {
            deadline: given(options.timeout).and_then(|limit| now.checked_add(limit)),
            cpu,
            over: None,
        })
    }

    /// The limit because of which the container was killed.
    pub(crate) fn over(&self) -> Option<Outcome> {
        self.over
    }
}

/// Returns the shortest time in which the rest can be used up, with all processors at work.
fn soonest(left: Duration) -> Duration {
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    (left / processors.max(1)).max(OFTEN)
}

/// Tasks of a monitor beside watching.
pub(crate) struct Tasks<'a> {
    pub limits: &'a mut Limits,
    pub health: Option<HealthChecks<'a>>,
    pub notify: Option<&'a mut Notify>,
    pub answers: &'a mut Option<Answers>,
    /// Container that may come into networks with names.
    pub of: (&'a Home, &'a ContainerId),
}

impl Chores for Tasks<'_> {
    fn due(&self) -> Option<Instant> {
        let check = self.health.as_ref().and_then(Chores::due);
        [self.limits.due(), check].into_iter().flatten().min()
    }

    fn waits_for(&self) -> [Option<BorrowedFd<'_>>; 3] {
        let result = self.health.as_ref().and_then(HealthChecks::result);
        let notify = self.notify.as_ref().and_then(|notify| notify.from());
        [
            result,
            notify,
            self.answers.as_ref().and_then(|answers| answers.from()),
        ]
    }

    fn perform(&mut self, now: Instant) -> Verdict {
        if let Some(answers) = self.answers {
            answers.answer();
        }
        let health = self.health.as_mut();
        let health = health.map_or(Verdict::Live, |health| health.perform(now));
        if let Some(notify) = &mut self.notify {
            notify.pass_on();
            if self.health.as_ref().is_some_and(HealthChecks::is_healthy) {
                notify.healthy();
            }
        }
        match self.limits.perform(now) {
            Verdict::Live => health,
            over => over,
        }
    }

    fn networks_changed(&mut self) -> bool {
        if self.answers.is_none() {
            let (home, id) = self.of;
            *self.answers = Answers::late(home, id).ok().flatten();
        }
        self.answers.is_some()
    }
}

impl Chores for Limits {
    fn due(&self) -> Option<Instant> {
        let check = self.cpu.as_ref().map(|(_, _, check)| *check);
        [self.deadline, check].into_iter().flatten().min()
    }

    fn perform(&mut self, now: Instant) -> Verdict {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.over = Some(Outcome::TimedOut);
        }
        if let Some((limit, cgroup, check)) = &mut self.cpu
            && now >= *check
        {
            let left = limit.saturating_sub(Duration::from_nanos(cgroup.cpu_usage()));
            if left == Duration::ZERO {
                self.over = Some(Outcome::CpuTimeOver);
            }
            *check = now + soonest(left);
        }
        if self.over.is_some() {
            Verdict::Kill
        } else {
            Verdict::Live
        }
    }
}
