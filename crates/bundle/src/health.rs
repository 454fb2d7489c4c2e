//! `--health-cmd` and its kin, and what the image says.

use crate::SpecError;
use crate::error::ValueError;
use crate::image::ImageConfig;
use crate::options::RunOptions;
use crate::value::{GoDurationError, IntegerError, parse_boolean, parse_go_duration, parse_integer};

/// How to see whether a container is well; docker's `Healthcheck`. Times are nanoseconds; zero is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healthcheck {
    /// `NONE`; `CMD` and argv; `CMD-SHELL` and a line. Empty: nothing is said about it.
    pub test: Vec<String>,
    /// From the end of one check to the start of the next.
    pub interval: u64,
    /// Until one has failed.
    pub timeout: u64,
    /// How long failures do not count after the start.
    pub start_period: u64,
    /// The interval meanwhile.
    pub start_interval: u64,
    /// How many failures in a row make a container unhealthy.
    pub retries: u64,
}

/// What the options say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthOptions {
    /// `--no-healthcheck`
    pub none: bool,
    /// All others.
    pub check: Healthcheck,
}

/// Why a time is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// No time.
    #[error(transparent)]
    Duration(#[from] GoDurationError),
    /// Less than nothing.
    #[error("cannot be negative")]
    Negative,
    /// docker's lower limit.
    #[error("cannot be less than 1ms")]
    Short,
}

impl HealthOptions {
    /// Takes an option by its long name; whether it is one of these.
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
        // podman's way to say the same as --no-healthcheck.
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

/// The check of a container: the options' where they say something, the image's for the rest; `None` where there is none
/// or nobody wants it.
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
