//! `--health-cmd` and its kin, merged with the image's health check.

use crate::SpecError;
use crate::error::ValueError;
use crate::image::ImageConfig;
use crate::options::RunOptions;
use crate::value::{GoDurationError, IntegerError, parse_boolean, parse_go_duration, parse_integer};

/// A container's health check; docker's `Healthcheck`. Times are nanoseconds; zero stands for the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healthcheck {
    /// `NONE`; or `CMD` and argv; or `CMD-SHELL` and a line. Empty if not given.
    pub test: Vec<String>,
    /// Time from the end of one check to the start of the next.
    pub interval: u64,
    /// Time after which a check that has not ended counts as failed.
    pub timeout: u64,
    /// Time after the start during which failures do not count.
    pub start_period: u64,
    /// The interval during the start period.
    pub start_interval: u64,
    /// Number of failures in a row that make a container unhealthy.
    pub retries: u64,
}

/// Options of `run` about the health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// `--no-healthcheck`.
    pub none: bool,
    /// All other options about it.
    pub check: Healthcheck,
}

/// Why a time is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The text is not a duration.
    #[error(transparent)]
    Duration(#[from] GoDurationError),
    /// The duration is negative.
    #[error("cannot be negative")]
    Negative,
    /// The duration is below docker's lower limit.
    #[error("cannot be less than 1ms")]
    Short,
}

impl HealthOptions {
    /// Applies an option by its long name; returns whether the name belongs to this group.
    pub(crate) fn apply(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        let check = &mut self.check;
        match name {
            "health-cmd" => check.test = test(value),
            "health-interval" => check.interval = time(value)?,
            "health-timeout" => check.timeout = time(value)?,
            "health-start-period" => check.start_period = time(value)?,
            "health-start-interval" => check.start_interval = time(value)?,
            "health-retries" => check.retries = retries(value)?,
            "no-healthcheck" => self.none = parse_boolean(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn test(line: &str) -> Vec<String> {
    match line {
        "" => Vec::new(),
        // podman's spelling of --no-healthcheck.
        "none" => vec!["NONE".to_owned()],
        line => vec!["CMD-SHELL".to_owned(), line.to_owned()],
    }
}

fn time(text: &str) -> Result<u64, HealthError> {
    let nanoseconds = parse_go_duration(text)?;
    match u64::try_from(nanoseconds) {
        Err(_) => Err(HealthError::Negative),
        Ok(1..1_000_000) => Err(HealthError::Short),
        Ok(nanoseconds) => Ok(nanoseconds),
    }
}

fn retries(text: &str) -> Result<u64, IntegerError> {
    parse_integer(text, 0..=i64::from(i32::MAX)).map(i64::unsigned_abs)
}

/// Returns a container's health check: each field from the options if they set it, else from the image. `None` if
/// neither defines a check, or the user turned it off.
///
/// # Errors
/// [`SpecError::Health`] for `--no-healthcheck` beside options of a check.
pub fn health_of(options: &RunOptions, image: &ImageConfig) -> Result<Option<Healthcheck>, SpecError> {
    let asked = &options.health;
    if asked.none {
        return if asked.check == Healthcheck::default() {
            Ok(None)
        } else {
            Err(SpecError::Health)
        };
    }
    let own = &asked.check;
    let base = image.healthcheck.clone().unwrap_or_default();
    let or = |own: u64, base: u64| if own == 0 { base } else { own };
    let check = Healthcheck {
        test: if own.test.is_empty() {
            base.test
        } else {
            own.test.clone()
        },
        interval: or(own.interval, base.interval),
        timeout: or(own.timeout, base.timeout),
        start_period: or(own.start_period, base.start_period),
        start_interval: or(own.start_interval, base.start_interval),
        retries: or(own.retries, base.retries),
    };
    let known = match check.test.first().map(String::as_str) {
        Some("CMD" | "CMD-SHELL") => check.test.len() > 1,
        _ => false,
    };
    Ok(known.then_some(check))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> RunOptions {
        let mut options = RunOptions::default();
        for (name, value) in given {
            options.set(name, value).unwrap();
        }
        options
    }

    fn image(test: &[&str]) -> ImageConfig {
        ImageConfig {
            healthcheck: Some(Healthcheck {
                test: test.iter().map(|word| (*word).to_owned()).collect(),
                interval: 5,
                retries: 2,
                ..Healthcheck::default()
            }),
            ..ImageConfig::default()
        }
    }

    #[test]
    fn options_over_the_image() {
        let given = options(&[("health-interval", "1m30s"), ("health-retries", "4")]);
        let check = health_of(&given, &image(&["CMD", "true"])).unwrap().unwrap();
        assert_eq!(check.test, ["CMD", "true"]);
        assert_eq!((check.interval, check.retries), (90_000_000_000, 4));
        let given = options(&[("health-cmd", "curl -f x || exit 1")]);
        let check = health_of(&given, &image(&["CMD", "true"])).unwrap().unwrap();
        assert_eq!(check.test, ["CMD-SHELL", "curl -f x || exit 1"]);
        assert_eq!((check.interval, check.retries), (5, 2));
    }

    #[test]
    fn none_at_all() {
        let none =
            |given: &[(&str, &str)], image: &ImageConfig| health_of(&options(given), image) == Ok(None);
        assert!(none(&[], &ImageConfig::default()));
        assert!(none(&[], &image(&["NONE"])));
        assert!(none(&[], &image(&["CMD"])));
        assert!(none(&[("no-healthcheck", "true")], &image(&["CMD", "true"])));
        assert!(none(&[("health-cmd", "none")], &image(&["CMD", "true"])));
        assert!(none(&[("health-interval", "1s")], &ImageConfig::default()));
        let both = options(&[("no-healthcheck", "true"), ("health-cmd", "x")]);
        assert_eq!(health_of(&both, &ImageConfig::default()), Err(SpecError::Health));
    }

    #[test]
    fn times_are_checked() {
        let mut options = RunOptions::default();
        for bad in ["-1s", "1us", "x", ""] {
            assert!(options.set("health-timeout", bad).is_err(), "{bad}");
        }
        options.set("health-timeout", "0").unwrap();
        assert!(options.set("health-retries", "-1").is_err());
    }
}
