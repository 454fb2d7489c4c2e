//! Values that docker's client passes on and its daemon refuses: `create` ends with 1 then, and not with 125.

use super::{LifeError, MountingError, NetworkingError, OptionError, ScalarError, ValueError};
use crate::disk::DiskError;
use crate::health::HealthError;
use crate::lifetime::{LogError, RestartError};
use crate::limit::LimitError;
use crate::mount::{MountOptionError, VolumesFromError};
use crate::network::NetworkModeError;
use crate::refused::RefusedError;

impl OptionError {
    /// True if docker's client passes this value on, and its daemon refuses it.
    #[must_use]
    pub fn is_of_dockers_daemon(&self) -> bool {
        let Self::Value {
            option,
            value,
            source,
        } = self
        else {
            return false;
        };
        match source {
            ValueError::Workdir(_)
            | ValueError::LittleMemory
            | ValueError::Name(_)
            | ValueError::Capability(_) => true,
            ValueError::Refused(refused) => !matches!(refused, RefusedError::Gpus | RefusedError::KeepGroups),
            ValueError::Limit(limit) => matches!(limit, LimitError::Period | LimitError::Quota),
            ValueError::Scalar(ScalarError::Signal(_) | ScalarError::Cpuset(_)) => true,
            // A number out of its range; the client refuses every other text.
            ValueError::Scalar(ScalarError::Integer(_)) => {
                option == "oom-score-adj" && value.parse::<i64>().is_ok()
            }
            ValueError::Mounting(mounting) => mount(mounting),
            ValueError::Networking(NetworkingError::Network(NetworkModeError::Value { .. })) => {
                matches!(option.as_str(), "ip" | "ip6")
            }
            ValueError::Life(life) => rule(life),
            _ => false,
        }
    }
}

fn mount(error: &MountingError) -> bool {
    match error {
        MountingError::Volume(_) | MountingError::VolumesFrom(VolumesFromError::Mode(_)) => true,
        MountingError::Disk(disk) => matches!(disk, DiskError::Key(_)),
        MountingError::Mount(MountOptionError::Value { key, .. }) => key == "type",
        MountingError::Mount(error) => matches!(error, MountOptionError::Field { .. }),
        _ => false,
    }
}

fn rule(error: &LifeError) -> bool {
    match error {
        LifeError::Restart(error) => !matches!(error, RestartError::Number),
        LifeError::Log(error) => matches!(
            error,
            LogError::Driver(_) | LogError::Elsewhere(_) | LogError::Option(_)
        ),
        LifeError::Health(error) => matches!(error, HealthError::Short),
        LifeError::SdNotify(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::RunOptions;

    #[test]
    fn values_of_the_client_and_of_the_daemon() {
        for (option, value, is_daemons) in [
            ("restart", "bogus", true),
            ("restart", "on-failure:-1", true),
            ("restart", "on-failure:x", false),
            ("stop-signal", "BOGUS", true),
            ("workdir", "relative", true),
            ("memory", "1k", true),
            ("memory", "bogus", false),
            ("cpu-period", "1", true),
            ("cpu-period", "bogus", false),
            ("oom-score-adj", "1001", true),
            ("oom-score-adj", "bogus", false),
            ("pids-limit", "bogus", false),
            ("volume", "a:b:c:d", true),
            ("mount", "type=nosuch,dst=/t", true),
            ("mount", "dst=/t,bogus=1", false),
            ("volumes-from", "x:bogus", true),
            ("volumes-from", "", false),
            ("storage-opt", "bogus=1", true),
            ("runtime", "nosuch", true),
            ("gpus", "all", false),
            ("ip", "bogus", true),
            ("mac-address", "bogus", false),
            ("log-driver", "nosuch", true),
            ("health-interval", "1us", true),
            ("health-interval", "bogus", false),
        ] {
            let error = RunOptions::default().set(option, value).unwrap_err();
            assert_eq!(error.is_of_dockers_daemon(), is_daemons, "--{option} {value}");
        }
    }
}
