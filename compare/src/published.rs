//! Numbers that papers have published, which stand beside the measured ones as a series of their own.

use crate::tables::shipped;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// All numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) source: String,
    phases: Vec<PhaseTable>,
    sizes: Vec<SizeTable>,
    ratios: Vec<RatioTable>,
}

/// Ratios of other papers, each of two things of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatioTable {
    experiment: String,
    source: String,
    rows: Vec<(String, f64)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    experiment: String,
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SizeTable {
    experiment: String,
    places: Vec<f64>,
    rows: Vec<Vec<Value>>,
}

/// A line of a table: its label, and names or places with milliseconds.
pub(crate) type Labelled<T> = (String, Vec<(T, f64)>);

impl Published {
    /// Reads the numbers that are shipped.
    pub(crate) fn read() -> Result<Self> {
        toml::from_str(shipped::PUBLISHED).context("read the published numbers")
    }

    /// Returns the phases of an experiment.
    pub(crate) fn phases(&self, experiment: &str) -> Vec<Labelled<String>> {
        let tables = self.phases.iter().filter(|table| table.experiment == experiment);
        tables
            .flat_map(|table| lines(&table.rows, &table.names))
            .collect()
    }

    /// Iterates over the ratios that belong beside an experiment: label, ratio, source.
    pub(crate) fn ratios(&self, experiment: &str) -> impl Iterator<Item = (&str, f64, &str)> {
        let tables = self
            .ratios
            .iter()
            .filter(move |table| table.experiment == experiment);
        tables.flat_map(|table| {
            table
                .rows
                .iter()
                .map(|(label, ratio)| (&**label, *ratio, &*table.source))
        })
    }

    /// Returns the times of an experiment by size.
    pub(crate) fn sizes(&self, experiment: &str) -> Vec<Labelled<f64>> {
        let tables = self.sizes.iter().filter(|table| table.experiment == experiment);
        tables
            .flat_map(|table| lines(&table.rows, &table.places))
            .collect()
    }
}

fn lines<T: Clone>(rows: &[Vec<Value>], heads: &[T]) -> Vec<Labelled<T>> {
    let line = |row: &Vec<Value>| {
        let (label, numbers) = row.split_first()?;
        let numbers: Option<Vec<f64>> = numbers.iter().map(Value::as_f64).collect();
        Some((
            label.as_str()?.to_owned(),
            heads.iter().cloned().zip(numbers?).collect(),
        ))
    };
    rows.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_number_for_every_head() {
        let all = Published::read().unwrap();
        for table in &all.phases {
            assert!(
                table.rows.iter().all(|row| row.len() == table.names.len() + 1),
                "{}",
                table.experiment
            );
        }
        for table in &all.sizes {
            assert!(
                table.rows.iter().all(|row| row.len() == table.places.len() + 1),
                "{}",
                table.experiment
            );
        }
        assert_eq!(all.phases("hello-world").len(), 8);
        assert_eq!(all.sizes("io-read")[0].1[2], (100_000.0, 1323.0));
        assert!(all.sizes("hello-world").is_empty());
        let boot = all.ratios("http-server").next();
        assert!(boot.is_some_and(|(_, ratio, source)| ratio == 5.86 && !source.is_empty()));
    }
}
