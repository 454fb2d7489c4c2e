//! Calendar time for reports. (Durations come from `Instant`.)

use tote_calendar::Civil;

/// Returns the present time in nanoseconds since 1970; 0 for times before.
pub fn now_nanos() -> u64 {
    u64::try_from(tote_calendar::now().as_nanos()).unwrap_or(u64::MAX)
}

/// Formats seconds since 1970 as `YYYY-MM-DD HH:MM UTC`.
pub fn utc(seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        ..
    } = Civil::of(seconds.cast_signed());
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(951_782_399), "2000-02-28 23:59 UTC");
    }
}
