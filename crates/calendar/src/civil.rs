//! Days of the Gregorian calendar.

/// Days from 1 March of the year 0 to 1 January 1970. Years begin in March, so that the leap day is a year's last.
const EPOCH: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats itself.
const ERA: i64 = 146_097;

/// Day, and time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year of the common era; years before it are zero and negative.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
}

impl Civil {
    /// Converts seconds since the beginning of 1970, or negative ones before it.
    #[must_use]
    pub fn of(seconds: i64) -> Self {
        let (days, time) = (seconds.div_euclid(86400) + EPOCH, seconds.rem_euclid(86400));
        let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Months from March on have 31, 30, 31, 30 and 31 days, repeatedly.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 {
            (year, month + 3)
        } else {
            (year + 1, month - 9)
        };
        Self {
            year: year + era * 400,
            month: small(month),
            day: small(day),
            hour: small(time / 3600),
            minute: small(time / 60 % 60),
            second: small(time % 60),
        }
    }
}

/// Narrows a number that is below 60.
fn small(number: i64) -> u8 {
    number.to_le_bytes()[0]
}

/// Counts the days of a month.
pub(crate) fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Counts the days from 1970 to a day, as the reverse of [`Civil::of`].
pub(crate) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}
