//! `--uidmap` and `--gidmap`: ids of a container's user namespace, line by line.

use tote_spec::IdMapping;

/// Maps as given; `host_id` of a line counts among the ids of the caller's containers, of which 0 is the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMapOptions {
    /// `--uidmap`
    uid: Vec<IdMapping>,
    /// `--gidmap`
    gid: Vec<IdMapping>,
}

/// Why a text cannot be a line of a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdMapError {
    /// Wrong numbers.
    #[error(
        "invalid map {0:?}: give INSIDE:OUTSIDE:NUMBER, such as 0:1:1000, where OUTSIDE counts among your ids and 0 is yourself"
    )]
    Format(String),
    /// Two lines have an id in common.
    #[error("map {0:?} has ids of another line")]
    Overlap(String),
}

impl IdMapOptions {
    /// Maps the first users and groups, of these numbers, to themselves.
    #[must_use]
    pub fn of_all(users: u32, groups: u32) -> Self {
        Self {
            uid: vec![IdMapping::new(0, 0, users)],
            gid: vec![IdMapping::new(0, 0, groups)],
        }
    }

    /// True if no map is given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.uid.is_empty() && self.gid.is_empty()
    }

    /// Returns the lines for users and those for groups. As with podman, one of the two stands for both.
    #[must_use]
    pub fn both(&self) -> (&[IdMapping], &[IdMapping]) {
        match (self.uid.is_empty(), self.gid.is_empty()) {
            (true, false) => (&self.gid, &self.gid),
            (false, true) => (&self.uid, &self.uid),
            _ => (&self.uid, &self.gid),
        }
    }

    pub(crate) fn add_uids(&mut self, text: &str) -> Result<(), IdMapError> {
        add(&mut self.uid, text)
    }

    pub(crate) fn add_gids(&mut self, text: &str) -> Result<(), IdMapError> {
        add(&mut self.gid, text)
    }
}

fn add(lines: &mut Vec<IdMapping>, text: &str) -> Result<(), IdMapError> {
    let format = || IdMapError::Format(text.to_owned());
    let mut numbers = text.split(':').map(|number| number.parse::<u32>().ok());
    let mut number = || numbers.next().flatten().ok_or_else(format);
    let (inside, outside) = (number()?, number()?);
    let size = match text.matches(':').count() {
        1 => 1,
        2 => number()?,
        _ => return Err(format()),
    };
    let fits = |first: u32| first.checked_add(size).is_some();
    if size == 0 || !fits(inside) || !fits(outside) {
        return Err(format());
    }
    let meet = |one: u32, length: u32, other: u32| one < other + size && other < one + length;
    if lines
        .iter()
        .any(|line| meet(line.container_id, line.size, inside) || meet(line.host_id, line.size, outside))
    {
        return Err(IdMapError::Overlap(text.to_owned()));
    }
    lines.push(IdMapping::new(inside, outside, size));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut maps = IdMapOptions::default();
        assert!(maps.is_empty());
        maps.add_uids("0:1:1000").unwrap();
        maps.add_uids("1000:0").unwrap();
        let lines = [IdMapping::new(0, 1, 1000), IdMapping::new(1000, 0, 1)];
        assert_eq!(maps.both(), (&lines[..], &lines[..]));
        maps.add_gids("0:0:1").unwrap();
        assert_eq!(maps.both().1, [IdMapping::new(0, 0, 1)]);
        for text in [
            "",
            "0",
            "0:1:0",
            "a:1:1",
            "0:1:1:1",
            "4294967295:1:2",
            "5:@1000:1",
        ] {
            let refused = IdMapOptions::default().add_uids(text);
            assert_eq!(refused, Err(IdMapError::Format(text.to_owned())), "{text}");
        }
        for text in ["999:5000:1", "5000:1:1", "1001:999:3"] {
            assert_eq!(
                maps.add_uids(text),
                Err(IdMapError::Overlap(text.to_owned())),
                "{text}"
            );
        }
    }
}
