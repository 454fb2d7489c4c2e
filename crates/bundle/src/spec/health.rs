//! A container's health check: the user's options, merged with the image's.

use super::error::SpecError;
use crate::health::Healthcheck;
use crate::image::ImageConfig;
use crate::options::RunOptions;

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
}
