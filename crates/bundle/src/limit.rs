//! Limits on processors beyond `--cpus`, and on devices.

use crate::value::{IntegerError, parse_integer, parse_size, parse_unsigned};
use std::str::FromStr;
use tote_spec::DeviceRule;

/// `--cpu-period` and its kin: microseconds, 0 if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuBudget {
    /// `--cpu-period`: length of a scheduler period.
    pub period: u64,
    /// `--cpu-quota`: time within a period that all processes together may run; -1 means no limit.
    pub quota: i64,
    /// `--cpu-rt-period`: length of a period for processes with a real-time policy.
    pub realtime_period: u64,
    /// `--cpu-rt-runtime`
    pub realtime_runtime: i64,
}

/// `--blkio-weight` and its kin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// `--blkio-weight`: 10 to 1000; 0 leaves the kernel's default.
    pub weight: u16,
    /// `--blkio-weight-device`: 10 to 1000; 0 leaves the kernel's default.
    pub weights: Vec<DeviceLimit>,
    /// `--device-read-bps`: bytes per second.
    pub read_bps: Vec<DeviceLimit>,
    /// `--device-write-bps`: bytes per second.
    pub write_bps: Vec<DeviceLimit>,
    /// `--device-read-iops`: operations per second.
    pub read_iops: Vec<DeviceLimit>,
    /// `--device-write-iops`: operations per second.
    pub write_iops: Vec<DeviceLimit>,
}

/// A number for one block device of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimit {
    /// Path of the device node, below `/dev`.
    pub path: String,
    /// The limit or weight, in the unit of the option.
    pub value: u64,
}

/// Why a text is not a limit, in docker's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The text is not a number.
    #[error(transparent)]
    Integer(#[from] IntegerError),
    /// The text does not have exactly one colon.
    #[error("bad format: {0}: give DEVICE:NUMBER, such as /dev/sda:1mb")]
    Format(String),
    /// The path is not below `/dev`.
    #[error("bad format for device path: {0}: give DEVICE:NUMBER, such as /dev/sda:1mb")]
    Path(String),
    /// The rate is not a number of bytes.
    #[error(
        "invalid rate for device: {0}. The correct format is <device-path>:<number>[<unit>]. Number must be a positive \
         integer. Unit is optional and can be kb, mb, or gb"
    )]
    Bytes(String),
    /// The rate is not a number of operations.
    #[error(
        "invalid rate for device: {0}. The correct format is <device-path>:<number>. Number must be a positive integer"
    )]
    Operations(String),
    /// The weight for a device is out of range.
    #[error("invalid weight for device: {0}: give 10 to 1000, or 0 for the usual")]
    WeightOfDevice(String),
    /// The weight is out of range.
    #[error("range of blkio weight is from 10 to 1000: give one of these, or 0 for the usual")]
    Weight,
    /// The period is out of range.
    #[error("CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)")]
    Period,
    /// The quota is too small.
    #[error("CPU cfs quota can not be less than 1ms (i.e. 1000)")]
    Quota,
    /// The swappiness is out of range.
    #[error("invalid value: {0}, valid memory swappiness range is 0-100")]
    Swappiness(String),
    /// The text is not a rule for devices.
    #[error("invalid device cgroup format '{0}': give TYPE MAJOR:MINOR ACCESS, such as 'c 189:* rmw'")]
    Rule(String),
}

impl CpuBudget {
    /// Applies the option; returns whether its name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, LimitError> {
        match name {
            "cpu-period" => match parse_unsigned(value, i64::MAX)? {
                period @ (0 | 1000..=1_000_000) => self.period = period,
                _ => return Err(LimitError::Period),
            },
            "cpu-quota" => match parse_integer(value, i64::MIN..=i64::MAX)? {
                quota @ (-1 | 0 | 1000..) => self.quota = quota,
                _ => return Err(LimitError::Quota),
            },
            "cpu-rt-period" => self.realtime_period = parse_unsigned(value, i64::MAX)?,
            "cpu-rt-runtime" => self.realtime_runtime = parse_integer(value, -1..=i64::MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl BlockLimits {
    /// Applies the option; returns whether its name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, LimitError> {
        match name {
            "blkio-weight" => self.weight = weight(value).ok_or(LimitError::Weight)?,
            "blkio-weight-device" => self.weights.push(DeviceLimit::parse(value, |text, all| {
                let weight = weight(text).ok_or(LimitError::WeightOfDevice(all))?;
                Ok(weight.into())
            })?),
            "device-read-bps" => self.read_bps.push(bytes(value)?),
            "device-write-bps" => self.write_bps.push(bytes(value)?),
            "device-read-iops" => self.read_iops.push(operations(value)?),
            "device-write-iops" => self.write_iops.push(operations(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lists all devices that have a limit, each with the name of the option.
    pub fn devices(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("blkio-weight-device", &self.weights),
            ("device-read-bps", &self.read_bps),
            ("device-write-bps", &self.write_bps),
            ("device-read-iops", &self.read_iops),
            ("device-write-iops", &self.write_iops),
        ]
        .into_iter()
        .flat_map(|(option, limits)| limits.iter().map(move |limit| (option, limit.path.as_str())))
    }
}

impl DeviceLimit {
    fn parse(
        text: &str,
        number: impl FnOnce(&str, String) -> Result<u64, LimitError>,
    ) -> Result<Self, LimitError> {
        let (path, value) = match text.split_once(':') {
            Some((path, value)) if !value.contains(':') => (path, value),
            _ => return Err(LimitError::Format(text.to_owned())),
        };
        if !path.starts_with("/dev/") {
            return Err(LimitError::Path(text.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            value: number(value, text.to_owned())?,
        })
    }
}

fn bytes(text: &str) -> Result<DeviceLimit, LimitError> {
    DeviceLimit::parse(text, |number, all| {
        parse_size(number).map_err(|_| LimitError::Bytes(all))
    })
}

fn operations(text: &str) -> Result<DeviceLimit, LimitError> {
    DeviceLimit::parse(text, |number, all| {
        number.parse().map_err(|_| LimitError::Operations(all))
    })
}

fn weight(text: &str) -> Option<u16> {
    let weight = text.parse().ok()?;
    matches!(weight, 0 | 10..=1000).then_some(weight)
}

/// Parses `--memory-swappiness`: 0 to 100, or -1 for the kernel's default.
pub(crate) fn swappiness(text: &str) -> Result<Option<u64>, LimitError> {
    match text.parse() {
        Ok(-1) => Ok(None),
        Ok(number @ 0..=100_i64) => Ok(Some(number.unsigned_abs())),
        _ => Err(LimitError::Swappiness(text.to_owned())),
    }
}

/// A value of `--device-cgroup-rule`, which allows access to devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    /// The rule as written.
    pub text: String,
    /// The parsed rule.
    pub rule: DeviceRule,
}

impl FromStr for DeviceGrant {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let rule = || {
            let mut words = text.split(' ');
            let (kind, numbers, access) = (words.next()?, words.next()?, words.next()?);
            let (major, minor) = numbers.split_once(':')?;
            let number = |text: &str| match text {
                "*" => Some(None),
                _ => text.parse::<u32>().ok().map(|number| Some(i64::from(number))),
            };
            let is_rule = words.next().is_none()
                && matches!(kind, "a" | "b" | "c")
                && (1..=3).contains(&access.len())
                && access.chars().all(|letter| "rwm".contains(letter));
            is_rule.then_some(DeviceRule {
                allow: true,
                kind: Some(kind.to_owned()),
                major: number(major)?,
                minor: number(minor)?,
                access: Some(access.to_owned()),
            })
        };
        Ok(Self {
            text: text.to_owned(),
            rule: rule().ok_or_else(|| LimitError::Rule(text.to_owned()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str, value: &str) -> Result<BlockLimits, String> {
        let mut limits = BlockLimits::default();
        let known = limits.apply(name, value).map_err(|error| error.to_string())?;
        assert!(known, "{name}");
        Ok(limits)
    }

    #[test]
    fn limits_of_devices() {
        let limits = block("device-read-bps", "/dev/sda:1mb").unwrap();
        assert_eq!(limits.read_bps[0].value, 1 << 20);
        assert_eq!(
            limits.devices().collect::<Vec<_>>(),
            [("device-read-bps", "/dev/sda")]
        );
        assert_eq!(
            block("device-write-iops", "/dev/sda:7").unwrap().write_iops[0].value,
            7
        );
        assert_eq!(
            block("blkio-weight-device", "/dev/sda:10").unwrap().weights[0].value,
            10
        );
        assert_eq!(block("blkio-weight", "1000").unwrap().weight, 1000);
        for (name, value, said) in [
            ("device-read-bps", "/dev/sda", "bad format: /dev/sda"),
            ("device-read-bps", "/dev/sda:1:2", "bad format: /dev/sda:1:2"),
            ("device-write-bps", "sda:1", "bad format for device path: sda:1"),
            (
                "device-write-bps",
                "/dev/sda:x",
                "invalid rate for device: /dev/sda:x. The correct",
            ),
            (
                "device-read-iops",
                "/dev/sda:1k",
                "invalid rate for device: /dev/sda:1k. The correct",
            ),
            (
                "blkio-weight-device",
                "/dev/sda:9",
                "invalid weight for device: /dev/sda:9",
            ),
            ("blkio-weight", "1001", "range of blkio weight is from 10 to 1000"),
        ] {
            let error = block(name, value).unwrap_err();
            assert!(error.starts_with(said), "{name} {value}: {error}");
        }
    }

    #[test]
    fn processors() {
        let mut budget = CpuBudget::default();
        for (name, value) in [
            ("cpu-period", "50000"),
            ("cpu-quota", "-1"),
            ("cpu-rt-period", "1000000"),
            ("cpu-rt-runtime", "950000"),
        ] {
            assert!(budget.apply(name, value).unwrap(), "{name}");
        }
        assert_eq!((budget.period, budget.quota), (50_000, -1));
        assert_eq!(
            (budget.realtime_period, budget.realtime_runtime),
            (1_000_000, 950_000)
        );
        for (name, value) in [
            ("cpu-period", "999"),
            ("cpu-period", "1000001"),
            ("cpu-quota", "999"),
            ("cpu-quota", "-2"),
        ] {
            assert!(budget.apply(name, value).is_err(), "{name} {value}");
        }
    }

    #[test]
    fn swappiness_is_a_percentage() {
        assert_eq!(swappiness("-1"), Ok(None));
        assert_eq!(swappiness("100"), Ok(Some(100)));
        assert!(swappiness("101").is_err() && swappiness("x").is_err());
    }

    #[test]
    fn rules_for_devices() {
        let rule = |text: &str| text.parse::<DeviceGrant>().map(|grant| grant.rule);
        let found = rule("c 189:* rmw").unwrap();
        assert_eq!(
            (found.kind.as_deref(), found.major, found.minor),
            (Some("c"), Some(189), None)
        );
        for text in [
            "",
            "c 189:*",
            "x 1:2 r",
            "c 1:2 rwmr",
            "c 1:2 x",
            "c 1 r",
            "c 1:-2 r",
            "c  1:2 r",
            "c 1:2 r ",
        ] {
            assert!(rule(text).is_err(), "{text:?}");
        }
    }
}
