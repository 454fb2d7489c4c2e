//! Which of what is not used a pruning is to remove.

use super::PruneFault;
use crate::EngineError;
use crate::look::{has_label, label};
use std::collections::BTreeMap;
use std::time::Duration;
use tote_calendar::Time;

/// Filters of a pruning.
#[derive(Clone, Debug, Default)]
pub struct PruneFilters {
    /// Older than this, nanoseconds since 1970.
    pub until: Option<i128>,
    /// Key, value, and whether it is to be there.
    labels: Vec<(String, Option<String>, bool)>,
    /// Only images know it: whether those with a name stay.
    pub dangling: Option<bool>,
}

impl PruneFilters {
    /// Parses the filters of a pruning.
    pub fn parse(texts: &[String]) -> Result<Self, EngineError> {
        let mut filters = Self::default();
        for text in texts {
            let wrong = || EngineError::Request(PruneFault::Filter(text.clone()).into());
            match text.split_once('=').ok_or_else(wrong)? {
                ("until", time) => {
                    let time = Time::parse(time, Time::now(), 0).map_err(|_| wrong())?;
                    filters.until = Some(filters.until.map_or(time.0, |until| until.min(time.0)));
                }
                (key @ ("label" | "label!"), text) if !text.is_empty() => {
                    let (name, value) = label(text);
                    filters.labels.push((name, value, key == "label"));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(filters)
    }

    /// Parses filters of a pruning of images.
    pub fn of_images(texts: &[String]) -> Result<Self, EngineError> {
        let (dangling, others): (Vec<_>, Vec<_>) = texts
            .iter()
            .cloned()
            .partition(|text| text.starts_with("dangling="));
        let mut filters = Self::parse(&others)?;
        for text in dangling {
            filters.dangling = Some(match text.as_str() {
                "dangling=true" | "dangling=1" => true,
                "dangling=false" | "dangling=0" => false,
                _ => return Err(EngineError::Request(PruneFault::Filter(text).into())),
            });
        }
        Ok(filters)
    }

    /// True if an object of that time, with these labels, is to be removed.
    pub fn fit(&self, created: i128, labels: &BTreeMap<String, String>) -> bool {
        self.until.is_none_or(|until| created < until) && self.fit_labels(labels)
    }

    /// True if these labels fit.
    pub fn fit_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut wanted = self.labels.iter();
        wanted.all(|(key, value, has)| has_label(labels, key, value.as_deref()) == *has)
    }

    /// How long ago `until` is.
    pub fn age(&self) -> Option<Duration> {
        let nanos = Time::now().0 - self.until?;
        Some(Duration::from_nanos(
            u64::try_from(nanos.max(0)).unwrap_or(u64::MAX),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn filters() {
        let labels = BTreeMap::from([("keep".to_owned(), "yes".to_owned())]);
        for (given, expected) in [
            (&[][..], true),
            (&["until=10"], true),
            (&["until=2"], false),
            (&["until=10", "until=2"], false),
            (&["label=keep"], true),
            (&["label=keep=no"], false),
            (&["label!=keep"], false),
            (&["label!=other", "until=10"], true),
        ] {
            let filters = PruneFilters::parse(&texts(given)).unwrap();
            assert_eq!(filters.fit(5_000_000_000, &labels), expected, "{given:?}");
        }
        for bad in ["until", "until=never", "label=", "name=x", "dangling=true"] {
            assert!(PruneFilters::parse(&texts(&[bad])).is_err(), "{bad}");
        }
        let images = PruneFilters::of_images(&texts(&["dangling=false", "label=x"])).unwrap();
        assert_eq!((images.dangling, images.labels.len()), (Some(false), 1));
        assert!(PruneFilters::of_images(&texts(&["dangling=perhaps"])).is_err());
    }
}
