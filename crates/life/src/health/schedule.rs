//! Schedule of health checks, and their combined status. Pure; docker's rules.

use crate::container::{Health, HealthResult, HealthStatus};
use std::time::Duration;
use tote_image::Healthcheck;

/// Number of kept results.
const KEPT: usize = 5;

/// Minimum of docker for times. Both command lines refuse less, but the configuration of an image may contain it.
const LEAST: Duration = Duration::from_millis(1);

/// Times of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    interval: Duration,
    /// Time limit of a check.
    pub timeout: Duration,
    start_period: Duration,
    start_interval: Duration,
    retries: u32,
}

impl Schedule {
    /// Fills unset times with docker's defaults.
    pub(crate) fn of(check: &Healthcheck) -> Self {
        let time = |nanoseconds: i64, default: u64| match u64::try_from(nanoseconds) {
            Ok(nanoseconds @ 1..) => Duration::from_nanos(nanoseconds).max(LEAST),
            _ => Duration::from_secs(default),
        };
        Self {
            interval: time(check.interval, 30),
            timeout: time(check.timeout, 30),
            start_period: time(check.start_period, 0),
            start_interval: time(check.start_interval, 5),
            retries: u32::try_from(check.retries)
                .ok()
                .filter(|retries| *retries > 0)
                .unwrap_or(3),
        }
    }

    /// Returns the time to the next check, from the start or the end of the last one. `age` is the container's.
    pub(crate) fn pause(&self, status: HealthStatus, age: Duration) -> Duration {
        if age < self.start_period && status == HealthStatus::Starting {
            self.start_interval
        } else {
            self.interval
        }
    }

    /// Adds the result of a check that began at that age of the container. Returns true if the status has changed.
    pub(crate) fn take(&self, health: &mut Health, age: Duration, result: HealthResult) -> bool {
        let before = health.status;
        if result.exit_code == 0 {
            health.failing_streak = 0;
            health.status = HealthStatus::Healthy;
        } else if before != HealthStatus::Starting || age >= self.start_period {
            health.failing_streak = health.failing_streak.saturating_add(1);
            if health.failing_streak >= self.retries {
                health.status = HealthStatus::Unhealthy;
            }
        }
        health.log.push(result);
        let surplus = health.log.len().saturating_sub(KEPT);
        health.log.drain(..surplus);
        health.status != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn result(exit_code: i32) -> HealthResult {
        HealthResult {
            exit_code,
            ..HealthResult::default()
        }
    }

    #[test]
    fn defaults_are_dockers() {
        let schedule = Schedule::of(&Healthcheck::default());
        let seconds = Duration::from_secs;
        assert_eq!((schedule.interval, schedule.timeout), (seconds(30), seconds(30)));
        assert_eq!((schedule.start_interval, schedule.retries), (seconds(5), 3));
        assert_eq!(
            schedule.pause(HealthStatus::Starting, Duration::ZERO),
            seconds(30)
        );
    }

    #[test]
    fn an_image_cannot_ask_for_checks_without_a_pause() {
        let schedule = Schedule::of(&Healthcheck {
            interval: 1,
            timeout: 1,
            start_period: SECOND,
            start_interval: 999_999,
            ..Healthcheck::default()
        });
        assert_eq!((schedule.interval, schedule.timeout), (LEAST, LEAST));
        assert_eq!(schedule.pause(HealthStatus::Starting, Duration::ZERO), LEAST);
    }

    #[test]
    fn failures_in_a_row_make_it_unhealthy() {
        let schedule = Schedule::of(&Healthcheck {
            retries: 2,
            ..Healthcheck::default()
        });
        let mut health = Health::default();
        assert!(!schedule.take(&mut health, Duration::ZERO, result(1)));
        assert!(schedule.take(&mut health, Duration::ZERO, result(-1)));
        assert_eq!(
            (health.status, health.failing_streak),
            (HealthStatus::Unhealthy, 2)
        );
        assert!(!schedule.take(&mut health, Duration::ZERO, result(1)));
        assert!(schedule.take(&mut health, Duration::ZERO, result(0)));
        assert_eq!((health.status, health.failing_streak), (HealthStatus::Healthy, 0));
        for _ in 0..9 {
            schedule.take(&mut health, Duration::ZERO, result(0));
        }
        assert_eq!(health.log.len(), KEPT);
    }

    #[test]
    fn a_container_that_starts_may_fail() {
        let schedule = Schedule::of(&Healthcheck {
            retries: 1,
            start_period: 10 * SECOND,
            start_interval: SECOND,
            ..Healthcheck::default()
        });
        let (mut health, early, late) = (Health::default(), Duration::from_secs(9), Duration::from_secs(10));
        assert_eq!(schedule.pause(health.status, early), Duration::from_secs(1));
        assert_eq!(schedule.pause(health.status, late), Duration::from_secs(30));
        assert!(!schedule.take(&mut health, early, result(1)));
        assert_eq!(
            (health.status, health.failing_streak),
            (HealthStatus::Starting, 0)
        );
        assert!(schedule.take(&mut health, early, result(0)));
        assert_eq!(schedule.pause(health.status, early), Duration::from_secs(30));
        assert!(
            schedule.take(&mut health, early, result(1)),
            "it was healthy once"
        );
        assert_eq!(health.status, HealthStatus::Unhealthy);
    }
}
