//! Time zone of this machine: localtime(3).

/// Returns by how many seconds local time was ahead of UTC at the given time, in seconds since 1970; 0 where the zone
/// is unknown.
#[must_use]
pub fn utc_offset(seconds: i64) -> i32 {
    // SAFETY: all-zero bytes are a valid tm.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to valid values of this function; the zone's name in `local` is never read.
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
