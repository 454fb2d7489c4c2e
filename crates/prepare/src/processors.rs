//! How many processors this machine has.

/// How many processors are online; 1 where the machine does not say.
pub fn processors() -> u64 {
    counted_processors().unwrap_or(1)
}

/// Returns the number of processors that are online, if the kernel tells it.
pub fn counted_processors() -> Option<u64> {
    // absence: a figure that the spec may lack
    count(&std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?)
}

/// How many there are in a list such as `0-3,7`.
fn count(list: &str) -> Option<u64> {
    let mut count = 0_u64;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        for (list, expected) in [
            ("0-3,7\n", Some(5)),
            ("0\n", Some(1)),
            ("", None),
            ("3-1", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(count(list), expected, "{list:?}");
        }
    }
}
