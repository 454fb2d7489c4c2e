//! Robust summaries of samples: order statistics, and bootstrap intervals of the median and of a ratio of medians.
//!
//! Start-up times have a hard floor and a long tail, so means depend more on other processes than on the program.
//! Therefore everything here is based on quantiles. Units are the caller's.

use crate::chance::Chance;
use serde::Serialize;

/// Number of resamples per interval: the ends of a 95% interval then rest on 100 resamples each.
const RESAMPLES: usize = 4000;

/// An interval with 95% confidence, by the percentile bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Summary of a candidate's samples of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Smallest sample.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Interval of the median.
    pub median_interval: Interval,
    /// 95th percentile.
    pub p95: f64,
    /// Distance between the quartiles.
    pub iqr: f64,
    /// Mean of the fastest three quarters: the statistic of the thesis' tool ("best 15 of 20"), for comparison
    /// only, since it hides a slow quarter.
    pub best_three_quarters_mean: f64,
}

/// Ratio of two medians.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median divided by median.
    pub of_medians: f64,
    /// Interval of the ratio.
    pub interval: Interval,
}

/// Computes the quantile `q` (0 to 1) of ascending samples, interpolated linearly between neighbours (Hyndman and
/// Fan, type 7). NaN without samples.
pub fn quantile(ascending: &[f64], q: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = q * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    ascending[below] + (ascending[above] - ascending[below]) * (place - below as f64)
}

/// Computes the median of samples in any order, which it may rearrange. NaN without samples.
pub fn median(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    quantile(samples, 0.5)
}

/// Summarises samples in any order; `None` without samples.
pub fn summarise(samples: &[f64], chance: &mut Chance) -> Option<Summary> {
    let mut ascending = samples.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let min = *ascending.first()?;
    let best = &ascending[..(ascending.len() * 3).div_ceil(4)];
    Some(Summary {
        n: samples.len(),
        min,
        median: quantile(&ascending, 0.5),
        median_interval: interval(chance, samples.len(), |rows| median(&mut pick(samples, rows))),
        p95: quantile(&ascending, 0.95),
        iqr: quantile(&ascending, 0.75) - quantile(&ascending, 0.25),
        best_three_quarters_mean: best.iter().sum::<f64>() / best.len() as f64,
    })
}

/// Computes the ratio of the medians of two candidates that were measured in the same rounds: `of[i]` and `to[i]`
/// belong to the same round. Rounds, not samples, are drawn again, so an influence on a whole round moves both
/// medians together and does not widen the interval. `None` if the lengths differ or there are no samples.
pub fn ratio(of: &[f64], to: &[f64], chance: &mut Chance) -> Option<Ratio> {
    if of.len() != to.len() || of.is_empty() {
        return None;
    }
    let divide = |of: &mut [f64], to: &mut [f64]| median(of) / median(to);
    Some(Ratio {
        of_medians: divide(&mut of.to_vec(), &mut to.to_vec()),
        interval: interval(chance, of.len(), |rows| {
            divide(&mut pick(of, rows), &mut pick(to, rows))
        }),
    })
}

fn pick(samples: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|&row| samples[row]).collect()
}

fn interval(chance: &mut Chance, n: usize, mut statistic: impl FnMut(&[usize]) -> f64) -> Interval {
    let mut rows = vec![0; n];
    let mut values: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            rows.fill_with(|| chance.below(n));
            statistic(&rows)
        })
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    Interval {
        low: quantile(&values, 0.025),
        high: quantile(&values, 0.975),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn quantiles_interpolate() {
        let cases: [(&[f64], f64, f64); 7] = [
            (&[5.0], 0.95, 5.0),
            (&[1.0, 2.0], 0.5, 1.5),
            (&[1.0, 2.0, 3.0], 0.5, 2.0),
            (&[1.0, 2.0, 3.0, 4.0], 0.25, 1.75),
            (&[0.0, 10.0], 0.95, 9.5),
            (&[1.0, 2.0, 3.0], 0.0, 1.0),
            (&[1.0, 2.0, 3.0], 1.0, 3.0),
        ];
        for (samples, q, expected) in cases {
            assert!(close(quantile(samples, q), expected), "{samples:?} at {q}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn summary_of_a_known_series_ignores_its_order() {
        let samples = [4.0, 1.0, 3.0, 2.0, 100.0];
        let summary = summarise(&samples, &mut Chance::new(1)).unwrap();
        assert_eq!((summary.n, summary.min, summary.median), (5, 1.0, 3.0));
        assert!(close(summary.iqr, 2.0));
        assert!(close(summary.p95, 80.8));
        assert!(close(summary.best_three_quarters_mean, 2.5));
        assert!(summary.median_interval.low <= 3.0 && summary.median_interval.high >= 3.0);
        assert_eq!(summarise(&[], &mut Chance::new(1)), None);
    }

    #[test]
    fn constant_samples_leave_no_doubt() {
        let summary = summarise(&[2.0; 20], &mut Chance::new(1)).unwrap();
        assert_eq!(summary.median_interval, Interval { low: 2.0, high: 2.0 });
        let ratio = ratio(&[3.0; 20], &[2.0; 20], &mut Chance::new(1)).unwrap();
        assert_eq!(
            (ratio.of_medians, ratio.interval.low, ratio.interval.high),
            (1.5, 1.5, 1.5)
        );
    }

    #[test]
    fn interval_of_the_median_covers_the_true_one_as_often_as_it_says() {
        let mut chance = Chance::new(42);
        let trials = 300;
        let covered = (0..trials)
            .filter(|_| {
                let samples: Vec<f64> = (0..50).map(|_| chance.below(1_000_000) as f64 / 1e6).collect();
                let found = summarise(&samples, &mut chance).unwrap().median_interval;
                found.low <= 0.5 && 0.5 <= found.high
            })
            .count();
        assert!((270..=297).contains(&covered), "{covered} of {trials}");
    }

    #[test]
    fn drift_shared_by_both_does_not_widen_the_ratio() {
        let mut chance = Chance::new(3);
        let slow: Vec<f64> = (0..50).map(|round| 10.0 + f64::from(round)).collect();
        let twice: Vec<f64> = slow.iter().map(|x| 2.0 * x).collect();
        let paired = ratio(&twice, &slow, &mut chance).unwrap();
        assert!(close(paired.of_medians, 2.0));
        assert!(close(paired.interval.low, 2.0) && close(paired.interval.high, 2.0));

        let mut elsewhere = slow.clone();
        elsewhere.rotate_left(25);
        let unpaired = ratio(&twice, &elsewhere, &mut chance).unwrap();
        assert!(
            unpaired.interval.high - unpaired.interval.low > 0.3,
            "{unpaired:?}"
        );
    }

    #[test]
    fn ratio_needs_the_same_rounds() {
        assert_eq!(ratio(&[1.0], &[1.0, 2.0], &mut Chance::new(1)), None);
        assert_eq!(ratio(&[], &[], &mut Chance::new(1)), None);
    }
}
