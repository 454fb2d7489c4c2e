//! Errors of limits that each are valid alone.

/// Limits that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConflictingLimits {
    /// Two options that set the processor time.
    #[error(
        "conflicting options: --cpus and --cpu-period or --cpu-quota cannot both be set: give one of them"
    )]
    CpusAndPeriod,
    /// `--memory-swap` without `--memory`.
    #[error("you should always set the memory limit when using --memory-swap: give --memory too")]
    SwapWithoutMemory,
    /// The total of memory and swap is below the memory limit.
    #[error(
        "minimum memoryswap limit should be larger than memory limit: --memory-swap counts memory and swap together"
    )]
    SwapBelowMemory,
    /// The reservation is above the memory limit.
    #[error(
        "minimum memory limit can not be less than memory reservation limit: give --memory at least --memory-reservation"
    )]
    ReservationAboveMemory,
}
