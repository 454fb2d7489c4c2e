//! Axes of plots: their extents and labels.

use super::Line;

/// Extent of lines: places, and values above 0.
pub(super) fn bounds_of(lines: &[Line]) -> Option<([f64; 2], [f64; 2])> {
    let points = || lines.iter().flat_map(|line| &line.1).copied();
    let (left, right) = bounds(points().map(|point| point.0))?;
    let (low, high) = bounds(points().map(|point| point.1).filter(|value| *value > 0.0))?;
    Some(([left, right], [low, high]))
}

/// Returns the least and the greatest of values; `None` without any.
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, value| match found {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// Chooses the values of a logarithmic axis that have a label: powers of ten, with their double and fivefold where few of them are on
/// the axis, and even steps where the axis is shorter than that.
pub(super) fn ticks(low: f64, high: f64) -> Vec<f64> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return vec![low];
    }
    let decades = (high / low).log10();
    if decades < 0.9 {
        let rough = (high - low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (low / step).ceil() as u64;
        return (first..)
            .map(|times| times as f64 * step)
            .take_while(|tick| *tick <= high)
            .take(10)
            .collect();
    }
    let times: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let all = powers.flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// Formats a number for an axis.
pub(super) fn short(value: f64) -> String {
    let cut = |value: f64, unit: &str| format!("{}{unit}", (value * 100.0).round() / 100.0);
    match value {
        value if value >= 1e6 => cut(value / 1e6, "M"),
        value if value >= 1e3 => cut(value / 1e3, "k"),
        value if value >= 0.1 || value == 0.0 => cut(value, ""),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_has_labels() {
        assert_eq!(ticks(0.8, 1250.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(4.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        assert!(ticks(3.1, 4.2).len() > 4, "{:?}", ticks(3.1, 4.2));
        for (low, high) in [(1.0, 1.001), (0.02, 0.19), (9.9, 10.2), (1e6, 8e6), (3.0, 31.0)] {
            assert!(
                ticks(low, high).len() > 1,
                "{low} to {high}: {:?}",
                ticks(low, high)
            );
        }
        assert_eq!(ticks(0.0, 1.0), [0.0]);
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let told = [0.0, 0.004, 7.25, 1500.0, 111_558_656.0].map(short);
        assert_eq!(told, ["0", "0.004", "7.25", "1.5k", "111.56M"]);
    }
}
