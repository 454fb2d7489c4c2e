//! Points in time as docker shows them.

use tote_calendar::Time;

/// Formats a point in time, in nanoseconds since 1970, as docker does: the year 1 for never.
#[must_use]
pub fn moment(nanoseconds: u64) -> String {
    if nanoseconds == 0 {
        return "0001-01-01T00:00:00Z".to_owned();
    }
    Time(i128::from(nanoseconds)).text().to_string()
}
