//! Times as ps(1) shows them.

use tote_calendar::Civil;

/// `HH:MM` of today, else `MonDD`, else the year. Seconds since 1970.
pub(crate) fn start(at: i64, now: i64, offset: i64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (at, now) = (at + offset, now + offset);
    let (then, today) = (Civil::of(at), Civil::of(now));
    let same_year = then.year == today.year;
    if same_year && (then.month, then.day) == (today.month, today.day) {
        format!("{:02}:{:02}", then.hour, then.minute)
    } else if same_year {
        format!("{}{:02}", MONTHS[usize::from(then.month) - 1], then.day)
    } else {
        then.year.to_string()
    }
}

/// `[DD-]HH:MM:SS`
pub(crate) fn total(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let text = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 {
        text
    } else {
        format!("{days:02}-{text}")
    }
}

/// `[[DD-]HH:]MM:SS`
pub(crate) fn elapsed(seconds: u64) -> String {
    match total(seconds).strip_prefix("00:") {
        Some(short) => short.to_owned(),
        None => total(seconds),
    }
}

/// `M:SS`
pub(crate) fn minutes(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// How many seconds local time is ahead of UTC at that moment, by a file of tzfile(5); 0 for an invalid file.
pub(crate) fn offset(file: &[u8], at: i64) -> i64 {
    zone(file, at).unwrap_or(0)
}

fn zone(file: &[u8], at: i64) -> Option<i64> {
    const HEADER: usize = 44;
    let counts = |file: &[u8]| -> Option<[usize; 6]> {
        file.starts_with(b"TZif").then_some(())?;
        let mut counts = [0; 6];
        for (count, bytes) in counts.iter_mut().zip(file.get(20..HEADER)?.chunks_exact(4)) {
            *count = u32::from_be_bytes(bytes.try_into().ok()?).try_into().ok()?;
        }
        Some(counts)
    };
    // The first part is of 32 bits, for the readers of long ago; from version 2 on another of 64 bits follows.
    let [utc, standard, leaps, times, types, letters] = counts(file)?;
    let skip = HEADER
        .checked_add(times.checked_mul(5)?)?
        .checked_add(types.checked_mul(6)?)?
        .checked_add(letters)?
        .checked_add(leaps.checked_mul(8)?)?
        .checked_add(standard)?
        .checked_add(utc)?;
    let (file, width) = match file.get(4)? {
        b'2'.. => (file.get(skip..)?, 8),
        _ => (file, 4),
    };
    let [.., times, types, _] = counts(file)?;
    let moments = file.get(HEADER..HEADER.checked_add(times.checked_mul(width)?)?)?;
    let kinds = file.get(HEADER + times * width..)?.get(..times)?;
    let rules = file
        .get(HEADER + times * (width + 1)..)?
        .get(..types.checked_mul(6)?)?;
    let moment = |bytes: &[u8]| match width {
        8 => bytes.try_into().map(i64::from_be_bytes).ok(),
        _ => bytes.try_into().map(i32::from_be_bytes).map(i64::from).ok(),
    };
    let past = moments
        .chunks_exact(width)
        .take_while(|bytes| moment(bytes).is_some_and(|moment| moment <= at));
    let kind = match past.count() {
        0 => 0,
        count => usize::from(*kinds.get(count - 1)?),
    };
    let rule = rules.chunks_exact(6).nth(kind)?;
    rule.get(..4)?
        .try_into()
        .map(i32::from_be_bytes)
        .map(i64::from)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        let now = 1_706_315_448; // 2024-01-27T00:30:48Z
        assert_eq!(start(now - 60, now, 0), "00:29");
        assert_eq!(start(now - 3600, now, 0), "Jan26");
        assert_eq!(start(now - 3600, now, 7200), "01:30");
        assert_eq!(start(now - 40 * 86_400, now, 0), "2023");
    }

    #[test]
    fn lengths() {
        assert_eq!(total(3661), "01:01:01");
        assert_eq!(total(90_061), "01-01:01:01");
        assert_eq!(
            (elapsed(61), elapsed(3661)),
            ("01:01".to_owned(), "01:01:01".to_owned())
        );
        assert_eq!(minutes(3661), "61:01");
    }

    /// Two rules, one second moment at 100.
    fn file(version: u8) -> Vec<u8> {
        let part = |wide: bool| {
            let mut part = b"TZif".to_vec();
            part.push(version);
            part.extend([0; 15]);
            for count in [0u32, 0, 0, 1, 2, 4] {
                part.extend(count.to_be_bytes());
            }
            if wide {
                part.extend(100i64.to_be_bytes());
            } else {
                part.extend(100i32.to_be_bytes());
            }
            part.push(1);
            for seconds in [3600i32, 7200] {
                part.extend(seconds.to_be_bytes());
                part.extend([0, 0]);
            }
            part.extend(b"ABC\0");
            part
        };
        let mut file = part(false);
        if version >= b'2' {
            file.extend(part(true));
        }
        file
    }

    #[test]
    fn zones() {
        for version in [0, b'2'] {
            let file = file(version);
            assert_eq!((offset(&file, 99), offset(&file, 100)), (3600, 7200), "{version}");
            for length in 0..file.len() {
                offset(&file[..length], 100); // whatever is missing, nothing panics
            }
        }
        assert_eq!(offset(b"no zone", 0), 0);
    }
}
