//! Restart policy: decision and delay; docker's rules.

use std::time::Duration;
use tote_bundle::RestartPolicy;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// A container that ran this long counts as successfully started and resets the delay.
const WELL: Duration = Duration::from_secs(10);

/// True if a container that has ended with this code is started again, after `restarts` restarts.
pub(crate) fn is_due(policy: RestartPolicy, exit_code: i32, restarts: u32) -> bool {
    match policy {
        RestartPolicy::No => false,
        RestartPolicy::Always | RestartPolicy::UnlessStopped => true,
        RestartPolicy::OnFailure(most) => exit_code != 0 && (most == 0 || restarts < most),
    }
}

/// Returns the delay before a restart, from the last delay and the time that the container has run since.
pub(crate) fn delay(before: Option<Duration>, lived: Duration) -> Duration {
    match before.filter(|_| lived < WELL) {
        Some(before) => (before * 2).min(LONGEST),
        None => FIRST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        use RestartPolicy::{Always, No, OnFailure, UnlessStopped};
        for (policy, code, restarts, due) in [
            (No, 1, 0, false),
            (Always, 0, 100, true),
            (UnlessStopped, 0, 0, true),
            (OnFailure(0), 0, 0, false),
            (OnFailure(0), 1, 1000, true),
            (OnFailure(2), 1, 1, true),
            (OnFailure(2), 1, 2, false),
        ] {
            assert_eq!(
                is_due(policy, code, restarts),
                due,
                "{policy:?} {code} {restarts}"
            );
        }
    }

    #[test]
    fn waits_double_until_it_lives_well() {
        let mut wait = None;
        let mut waits = Vec::new();
        for _ in 0..12 {
            wait = Some(delay(wait, Duration::ZERO));
            waits.extend(wait.map(|wait| wait.as_millis()));
        }
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[9..], [51_200, 60_000, 60_000]);
        assert_eq!(delay(wait, WELL), FIRST);
    }
}
