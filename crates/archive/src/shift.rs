//! Owners as two user namespaces of one user have them.
//!
//! A user's files on disk belong to the ids of the user's ranges. In the usual map the user itself is 0, and the ids of the ranges are the
//! others. In a namespace where the user keeps an id, root and all ids below that one are shifted by one: the
//! first id of the ranges is 0. An entry thus has other numbers in each of both, and so have the lists of rights and the
//! file capabilities that it may have.

use crate::Entry;

/// The ids that a user keeps in a namespace, in place of those of root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// User id.
    uid: u32,
    /// Group id.
    gid: u32,
}

impl Shift {
    /// Describes a namespace in which the user has these ids; `None` if it is the usual one.
    #[must_use]
    pub fn keeping(uid: u32, gid: u32) -> Option<Self> {
        ((uid, gid) != (0, 0)).then_some(Self { uid, gid })
    }

    /// Returns the ids that the user keeps.
    #[must_use]
    pub fn kept(self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Gives owners of that namespace the numbers that they have in the usual one.
    pub fn to_usual(self, uid: &mut u32, gid: &mut u32, xattrs: &mut [(Vec<u8>, Vec<u8>)]) {
        self.convert(to_usual, uid, gid, xattrs);
    }

    /// Gives the owners of an entry, which are those of the usual namespace, the numbers that they have in this one.
    pub fn restore(self, entry: &mut Entry) {
        self.convert(from_usual, &mut entry.uid, &mut entry.gid, &mut entry.xattrs);
    }

    fn convert(
        self,
        convert: fn(u32, u32) -> u32,
        uid: &mut u32,
        gid: &mut u32,
        xattrs: &mut [(Vec<u8>, Vec<u8>)],
    ) {
        *uid = convert(self.uid, *uid);
        *gid = convert(self.gid, *gid);
        for (name, value) in xattrs {
            match name.as_slice() {
                b"system.posix_acl_access" | b"system.posix_acl_default" => {
                    convert_rights(value, |uid| convert(self.uid, uid), |gid| convert(self.gid, gid));
                }
                b"security.capability" => convert_capabilities(value, |root| convert(self.uid, root)),
                _ => {}
            }
        }
    }
}

/// The number in the usual map of an id of a map in which the user keeps `kept`.
fn to_usual(kept: u32, id: u32) -> u32 {
    match id.cmp(&kept) {
        std::cmp::Ordering::Less => id + 1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => id,
    }
}

fn from_usual(kept: u32, id: u32) -> u32 {
    match id {
        0 => kept,
        id if id <= kept => id - 1,
        id => id,
    }
}

/// Converts the ids of a list of rights, as setxattr(2) takes it, see acl(5). One in another form stays as it is.
fn convert_rights(list: &mut [u8], uid: impl Fn(u32) -> u32, gid: impl Fn(u32) -> u32) {
    /// Kinds of entries that have an id, as in linux/posix_acl.h.
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    let Some((_version, entries)) = list.split_at_mut_checked(4) else {
        return;
    };
    for entry in entries.as_chunks_mut::<8>().0 {
        let [kind_low, kind_high, _, _, id @ ..] = entry;
        let old = u32::from_le_bytes(*id);
        let new = match u16::from_le_bytes([*kind_low, *kind_high]) {
            USER => uid(old),
            GROUP => gid(old),
            _ => continue,
        };
        *id = new.to_le_bytes();
    }
}

/// Converts the user who is root for file capabilities, as `vfs_ns_cap_data` of linux/capability.h has it.
fn convert_capabilities(value: &mut Vec<u8>, convert: impl Fn(u32) -> u32) {
    /// Revisions without and with such a user, and their sizes.
    const WITHOUT: (u32, usize) = (0x0200_0000, 20);
    const WITH: (u32, usize) = (0x0300_0000, 24);
    const REVISION: u32 = 0xff00_0000;
    let Some(magic) = value.first_chunk::<4>().copied().map(u32::from_le_bytes) else {
        return;
    };
    let root = match (magic & REVISION, value.len()) {
        WITHOUT => 0,
        WITH => value[WITHOUT.1..]
            .first_chunk::<4>()
            .copied()
            .map_or(0, u32::from_le_bytes),
        _ => return,
    };
    let root = convert(root);
    let (revision, _) = if root == 0 { WITHOUT } else { WITH };
    value.truncate(WITHOUT.1);
    value[..4].copy_from_slice(&(magic & !REVISION | revision).to_le_bytes());
    if root != 0 {
        value.extend_from_slice(&root.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryPath, Kind};

    /// Lines of a map: id inside, id outside, number.
    fn outside(map: &[(u32, u32, u32)], id: u32) -> Option<u32> {
        let line = map
            .iter()
            .find(|(inside, _, size)| id.checked_sub(*inside).is_some_and(|at| at < *size));
        line.map(|(inside, outside, _)| id - inside + outside)
    }

    /// Both numbers are one id of the machine, for maps as newuidmap(1) gets them: a range of ten ids from 100000 on.
    #[test]
    fn both_numbers_are_the_same_id_of_the_machine() {
        let usual = [(0, 1000, 1), (1, 100_000, 10)];
        for kept in [1, 5, 9, 10] {
            let keeping = [
                (0, 100_000, kept),
                (kept, 1000, 1),
                (kept + 1, 100_000 + kept, 10 - kept),
            ];
            for id in 0..=10 {
                let number = to_usual(kept, id);
                assert_eq!(outside(&keeping, id), outside(&usual, number), "{id} of {kept}");
                assert_eq!(from_usual(kept, number), id);
            }
        }
        // More than the ranges have: the ids between are nobody's.
        assert_eq!(
            (to_usual(5000, 5000), to_usual(5000, 0), to_usual(5000, 9)),
            (0, 1, 10)
        );
        assert_eq!(Shift::keeping(0, 0), None);
    }

    fn entry() -> Entry {
        let acl = [
            &2_u32.to_le_bytes()[..],
            &[1, 0, 7, 0, 255, 255, 255, 255],
            &[2, 0, 6, 0, 0, 0, 0, 0],
            &[8, 0, 6, 0, 7, 0, 0, 0],
            &[4, 0, 6, 0, 255, 255, 255, 255],
        ];
        let capability = [&0x0200_0001_u32.to_le_bytes()[..], &[0xff; 16]];
        Entry {
            uid: 1000,
            gid: 5,
            xattrs: vec![
                (b"security.capability".to_vec(), capability.concat()),
                (b"system.posix_acl_access".to_vec(), acl.concat()),
                (b"user.comment".to_vec(), vec![2, 0, 0, 0, 2, 0, 6, 0, 0, 0, 0, 0]),
            ],
            ..Entry::new(EntryPath::parse(b"f").unwrap(), Kind::Fifo)
        }
    }

    #[test]
    fn rights_and_capabilities_are_shifted_too() {
        let shift = Shift::keeping(1000, 7).unwrap();
        let mut shifted = entry();
        shift.to_usual(&mut shifted.uid, &mut shifted.gid, &mut shifted.xattrs);
        assert_eq!((shifted.uid, shifted.gid), (0, 6));
        let capability = &shifted.xattrs[0].1;
        assert_eq!((capability.len(), capability[3], capability[0]), (24, 3, 1));
        assert_eq!(capability[20..], 1_u32.to_le_bytes());
        let acl = &shifted.xattrs[1].1;
        assert_eq!((acl[16], acl[24]), (1, 0), "user 0 and group 7");
        assert_eq!(shifted.xattrs[2], entry().xattrs[2]);
        shift.restore(&mut shifted);
        assert_eq!(shifted, entry());
    }

    #[test]
    fn what_is_in_another_form_stays() {
        let odd = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
        let all = vec![
            odd("security.capability", &[1, 2]),
            odd("security.capability", &[0; 20]),
            odd("system.posix_acl_access", &[2, 0]),
        ];
        let mut shifted = all.clone();
        Shift::keeping(3, 3)
            .unwrap()
            .to_usual(&mut 0, &mut 0, &mut shifted);
        assert_eq!(shifted, all);
    }
}
