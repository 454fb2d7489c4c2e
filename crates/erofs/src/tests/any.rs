//! Random trees and random damage.

use super::{File, Plain, What, check, opened};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Names and links from few letters, so that names meet.
fn trees() -> impl Strategy<Value = Plain> {
    let name = prop_oneof![
        proptest::collection::vec(33u8..128, 1..12).prop_map(|name| {
            let name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'/').collect();
            if name.is_empty() || name == b"." || name == b".." {
                b"dots".to_vec()
            } else {
                name
            }
        }),
        (1usize..256).prop_map(|length| vec![b'x'; length]),
    ];
    let kind = prop_oneof![
        Just(What::Directory(BTreeMap::new())),
        Just(What::Directory(BTreeMap::new())),
        (0u64..1 << 50).prop_map(What::File),
        proptest::collection::vec(1u8..255, 1..4096).prop_map(What::Symlink),
        (any::<bool>(), 0u32..4096, 1u32..1 << 20)
            .prop_map(|(block, major, minor)| What::Device(block, major, minor)),
        Just(What::Fifo),
    ];
    let xattrs = proptest::collection::btree_map(
        "[a-z]{1,40}",
        proptest::collection::vec(any::<u8>(), 0..300),
        0..6,
    );
    let one = (
        name,
        kind,
        (0u16..4096, any::<u32>(), any::<u32>()),
        (any::<i32>(), 0u32..1_000_000_000),
        xattrs,
        any::<usize>(),
        any::<bool>(),
    );
    proptest::collection::vec(one, 0..120).prop_map(|all| {
        let mut tree = Plain::new();
        let mut dirs = vec![0];
        for (name, kind, (mode, uid, gid), (secs, nanos), xattrs, place, again) in all {
            let dir = dirs[place % dirs.len()];
            let What::Directory(names) = &tree.0[dir].kind else {
                continue;
            };
            if names.contains_key(&name) {
                continue;
            }
            let last = tree.0.len() - 1;
            if again && !matches!(tree.0[last].kind, What::Directory(_)) {
                tree.link(dir, &name, last);
                continue;
            }
            let is_dir = matches!(kind, What::Directory(_));
            let of_user = matches!(kind, What::File(_) | What::Directory(_));
            let mut file = File {
                // The compared directories are those that this process may enter, also as a user.
                mode,
                owner: (uid & !(1 << 31), gid & !(1 << 31)),
                time: (i64::from(secs), nanos),
                xattrs: Vec::new(),
                kind,
            };
            if of_user {
                let own = xattrs
                    .into_iter()
                    .map(|(name, value)| (format!("user.{name}").into_bytes(), value));
                file.xattrs = own.collect();
                file.xattrs.push((b"trusted.shared".to_vec(), Vec::new()));
            }
            let number = tree.add(dir, &name, file);
            if is_dir {
                dirs.push(number);
            }
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_is_what_the_kernel_and_this_crate_read(tree in trees()) {
        check(&tree);
    }

    #[test]
    fn damage_is_an_error_and_nothing_worse(tree in trees(), hits in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..40), cut in any::<usize>()) {
        let mut bytes = tree.bytes().unwrap();
        for (at, byte) in hits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let looked = |bytes: &[u8]| {
            let image = opened(bytes)?;
            drop(image.find(b"dots/x/../y"));
            image.for_each(|found| image.xattr(found, b"user.a").map(drop))
        };
        drop(looked(&bytes));
        bytes.truncate(cut % bytes.len());
        drop(looked(&bytes));
    }
}
