//! Ranges of ids that an unprivileged user may assign, subuid(5) and subgid(5).

use tote_spec::IdMapping;

/// Range: first id and count.
pub(crate) type Range = (u32, u32);

/// Parses the ranges of a user, whom the file gives by name or by number.
pub(crate) fn parse(text: &str, name: &str, uid: u32) -> Vec<Range> {
    let uid = uid.to_string();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let owner = fields.next()?;
            let (first, count) = (
                fields.next()?.trim().parse().ok()?,
                fields.next()?.trim().parse().ok()?,
            );
            let fits = u32::checked_add(first, count).is_some() && count > 0 && first > 0;
            (fits && (owner == name || owner == uid)).then_some((first, count))
        })
        .collect()
}

/// Builds the lines of a map: the user at `own`, the ranges on the other ids from 0.
pub(crate) fn map(own: u32, outside: u32, ranges: &[Range]) -> Vec<IdMapping> {
    let mut lines = Vec::with_capacity(ranges.len() + 2);
    let mut inside = 0u32;
    for &(mut first, mut count) in ranges {
        while count > 0 {
            if inside == own {
                lines.push(IdMapping::new(own, outside, 1));
                inside += 1;
            }
            let room = if inside < own {
                own - inside
            } else {
                u32::MAX - inside
            };
            let size = count.min(room);
            if size == 0 {
                return lines;
            }
            lines.push(IdMapping::new(inside, first, size));
            (inside, first, count) = (inside + size, first + size, count - size);
        }
    }
    if inside <= own {
        lines.push(IdMapping::new(own, outside, 1));
    }
    lines
}

/// The ids of a user namespace but for root's, one range for each line of its map: the kernel takes no line of a further map whose ids are in two
/// of them.
pub(crate) fn beyond_root(lines: &[IdMapping]) -> Vec<Range> {
    let ids = lines.iter().map(|line| {
        let root = u32::from(line.container_id == 0 && line.size > 0);
        (line.container_id + root, line.size - root)
    });
    ids.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_map_has_the_lines_of_the_first() {
        let user = map(0, 1000, &[(300_000, 10), (400_000, 20)]);
        assert_eq!(beyond_root(&user), [(1, 10), (11, 20)]);
        assert_eq!(
            map(5, 0, &beyond_root(&user)),
            [
                IdMapping::new(0, 1, 5),
                IdMapping::new(5, 0, 1),
                IdMapping::new(6, 6, 5),
                IdMapping::new(11, 11, 20)
            ]
        );
        assert_eq!(
            beyond_root(&[IdMapping::new(0, 0, u32::MAX)]),
            [(1, u32::MAX - 1)]
        );
        assert!(beyond_root(&map(0, 1000, &[])).is_empty());
    }

    #[test]
    fn ranges_by_name_and_number() {
        let text =
            "alice:100000:65536\nbob:1:2\n1000:300000:10\nalice:x:1\n\nalice:4294967295:2\nalice:5:0\n";
        assert_eq!(parse(text, "alice", 1000), [(100_000, 65536), (300_000, 10)]);
        assert!(parse("", "alice", 1000).is_empty());
    }

    #[test]
    fn the_user_is_root_inside() {
        assert_eq!(
            map(0, 1000, &[(100_000, 65536)]),
            [IdMapping::new(0, 1000, 1), IdMapping::new(1, 100_000, 65536)]
        );
        assert_eq!(map(0, 1000, &[]), [IdMapping::new(0, 1000, 1)]);
    }

    #[test]
    fn the_user_keeps_its_id() {
        assert_eq!(
            map(1000, 1000, &[(100_000, 65536)]),
            [
                IdMapping::new(0, 100_000, 1000),
                IdMapping::new(1000, 1000, 1),
                IdMapping::new(1001, 101_000, 64536)
            ]
        );
        assert_eq!(
            map(1000, 1000, &[(100_000, 10)]),
            [IdMapping::new(0, 100_000, 10), IdMapping::new(1000, 1000, 1)]
        );
    }
}
