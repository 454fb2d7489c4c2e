//! Arithmetic between the specification, which uses cgroup v1's terms, and cgroup v2's files.

/// Range that the kernel takes for `cpu.shares`; it clamps silently to it.
pub(crate) const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;

/// Returns `cpu.weight` (1 to 10000, default 100) for `cpu.shares` (2 to 262144, default 1024).
///
/// The formula is that of runc and crun since 2025: a parabola over log2(shares) through the three points (2, 1),
/// (1024, 100) and (262144, 10000). The older linear one gave 39 for the default of 1024.
#[must_use]
pub fn weight_from_shares(shares: u64) -> u64 {
    if shares <= *SHARES.start() {
        return 1;
    }
    if shares >= *SHARES.end() {
        return 10_000;
    }
    let l = (shares as f64).log2();
    let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
    10f64.powf(exponent).ceil() as u64
}

/// Returns `io.weight` (1 to 10000) for blkio's weight (10 to 1000), linear; values outside are clamped.
#[must_use]
pub fn io_weight_from_blkio(weight: u16) -> u64 {
    let weight = u64::from(weight.clamp(10, 1000));
    1 + (weight - 10) * 9999 / 990
}

/// Value of `memory.swap.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapMax {
    /// Not asked for: the file stays unchanged.
    Unset,
    /// No limit.
    Max,
    /// Bytes of swap alone.
    Bytes(u64),
}

/// Converts memory and swap together, as v1 counts, to swap alone, for v2; in both, 0 is unset and -1 no limit.
///
/// # Errors
/// Description of the fault in the pair.
pub fn swap_max(memory_and_swap: i64, memory: i64) -> Result<SwapMax, &'static str> {
    match (memory_and_swap, memory) {
        // Unlimited memory with swap left out means both, as on v1.
        (0, -1) | (-1, _) => Ok(SwapMax::Max),
        (0, _) => Ok(SwapMax::Unset),
        (swap, _) if swap < 0 => Err("it is negative"),
        (swap, -1) => Ok(SwapMax::Bytes(swap.unsigned_abs())),
        (_, 0) => Err("there is no memory limit with it"),
        (_, memory) if memory < 0 => Err("the memory limit is negative"),
        (swap, memory) if swap < memory => Err("it counts memory too and must not be below the memory limit"),
        (swap, memory) => Ok(SwapMax::Bytes((swap - memory).unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_points() {
        let shares = [
            (0, 1),
            (2, 1),
            (1024, 100),
            (262_144, 10_000),
            (u64::MAX, 10_000),
            (512, 59),
            (2048, 174),
        ];
        for (shares, weight) in shares {
            assert_eq!(weight_from_shares(shares), weight, "{shares}");
        }
        for (blkio, io) in [(0, 1), (10, 1), (500, 4950), (1000, 10_000), (u16::MAX, 10_000)] {
            assert_eq!(io_weight_from_blkio(blkio), io, "{blkio}");
        }
        assert_eq!(swap_max(300, 100), Ok(SwapMax::Bytes(200)));
        assert_eq!(swap_max(100, 100), Ok(SwapMax::Bytes(0)));
        assert_eq!(swap_max(0, -1), Ok(SwapMax::Max));
        assert_eq!(swap_max(-1, 100), Ok(SwapMax::Max));
        assert_eq!(swap_max(0, 100), Ok(SwapMax::Unset));
        assert_eq!(swap_max(50, -1), Ok(SwapMax::Bytes(50)));
        for (swap, memory) in [(50, 100), (50, 0), (50, -2), (-2, 100), (i64::MIN, i64::MAX)] {
            assert!(swap_max(swap, memory).is_err(), "{swap} {memory}");
        }
    }

    proptest! {
        #[test]
        fn weights_are_monotone_and_in_range(a: u64, b in 0u64..300_000, c: u16, d: u16) {
            for (low, high) in [(a.min(b), a.max(b)), (b, b + 1)] {
                prop_assert!(weight_from_shares(low) <= weight_from_shares(high));
                prop_assert!((1..=10_000).contains(&weight_from_shares(high)));
            }
            prop_assert!(io_weight_from_blkio(c.min(d)) <= io_weight_from_blkio(c.max(d)));
            prop_assert!((1..=10_000).contains(&io_weight_from_blkio(c)));
        }

        #[test]
        fn swap_never_exceeds_the_sum(swap: i64, memory: i64) {
            if let Ok(SwapMax::Bytes(bytes)) = swap_max(swap, memory) {
                prop_assert!(i64::try_from(bytes).unwrap() <= swap);
            }
        }
    }
}
