//! The small languages that option values are written in, one file for each; all of them pure.

mod boolean;
mod cpus;
mod cpuset;
mod duration;
mod integer;
mod pair;
mod signal;
mod size;
mod stream;
mod text;
mod timezone;
mod ulimit;
mod umask;

pub use boolean::{BooleanError, parse_boolean};
pub use cpus::{CpusError, parse_cpus};
pub use cpuset::{CpusetError, parse_cpuset};
pub use duration::{DurationError, GoDurationError, parse_go_duration, parse_seconds};
pub(crate) use integer::parse_unsigned;
pub use integer::{IntegerError, parse_integer};
pub use pair::{PairError, parse_key_value, parse_label, parse_sysctl};
pub use signal::{Signal, SignalError};
pub(crate) use size::parse_decimal_size;
pub use size::{SizeError, parse_size};
pub use stream::{Stream, StreamError};
pub use text::EmptyError;
pub(crate) use text::not_empty;
pub use timezone::{TimezoneError, parse_timezone};
pub use ulimit::{Ulimit, UlimitError};
pub use umask::{UmaskError, parse_umask};
