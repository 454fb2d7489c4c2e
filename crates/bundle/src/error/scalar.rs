//! Errors of simple values, which several options take.

use crate::value::{
    BooleanError, CpusError, CpusetError, DurationError, EmptyError, IntegerError, PairError, SignalError,
    SizeError, StreamError, TimezoneError, UlimitError, UmaskError,
};

/// Why a simple value is refused: a number, a size, a time.
#[expect(missing_docs, reason = "each variant is the error of the value's own module")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScalarError {
    #[error(transparent)]
    Empty(#[from] EmptyError),
    #[error(transparent)]
    Boolean(#[from] BooleanError),
    #[error(transparent)]
    Integer(#[from] IntegerError),
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error(transparent)]
    Cpus(#[from] CpusError),
    #[error(transparent)]
    Cpuset(#[from] CpusetError),
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error(transparent)]
    Signal(#[from] SignalError),
    #[error(transparent)]
    Ulimit(#[from] UlimitError),
    #[error(transparent)]
    Pair(#[from] PairError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Timezone(#[from] TimezoneError),
    #[error(transparent)]
    IdMap(#[from] crate::id_map::IdMapError),
    #[error(transparent)]
    Umask(#[from] UmaskError),
}
