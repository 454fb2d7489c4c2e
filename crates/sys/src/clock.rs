//! The zone that people on this machine live in: localtime(3).

/// Seconds that the local time is ahead of UTC, so many seconds after 1970; 0 where nothing is known.
#[must_use]
pub fn utc_offset(seconds: i64) -> i32 {
    // SAFETY: all-zero bytes are a valid tm.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are of ours and valid; the zone's name in `local` is not looked at.
    let known = unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    if known.is_null() {
        return 0;
    }
    i32::try_from(local.tm_gmtoff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_less_than_a_day() {
        assert!(utc_offset(0).abs() < 86400);
        assert_eq!(utc_offset(i64::MAX), 0, "no such year");
    }
}
