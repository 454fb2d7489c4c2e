//! Archives with random damage: an error is fine, a panic or an endless archive is not.

use proptest::prelude::*;
use std::io::Read;
use tote_archive::{Limits, Reader, Segment};

/// Reads an archive in both ways, and returns the number of changes; the framing must cover the input.
fn read_all(bytes: &[u8]) -> u64 {
    let limits = Limits {
        file_size: 1 << 20,
        total_bytes: 4 << 20,
        entries: 1000,
        ..Limits::default()
    };
    let mut reader = Reader::with_framing(bytes, limits, Vec::<Segment>::new());
    let mut changes = 0;
    let mut out = Vec::new();
    let whole = loop {
        match reader.next_change() {
            Ok(Some(_)) => changes += 1,
            Ok(None) => break true,
            Err(_) => break false,
        }
        out.clear();
        if changes % 2 == 0 && reader.read_to_end(&mut out).is_err() {
            break false;
        }
    };
    let segments = reader.into_parts().1;
    let framed: u64 = (segments.iter())
        .map(|segment| match segment {
            Segment::Inline(bytes) => bytes.len() as u64,
            Segment::Content(content) => content.len,
        })
        .sum();
    if whole {
        assert_eq!(framed, bytes.len() as u64);
    }
    changes
}

/// Builds a header with a right checksum.
fn header(name: &[u8], flag: u8, size: &[u8], magic: &[u8]) -> Vec<u8> {
    let mut block = vec![0_u8; 512];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(100)]);
    put(100, b"0000644\0");
    put(124, &size[..size.len().min(12)]);
    put(148, b"        ");
    put(156, &[flag]);
    put(157, b"target");
    put(257, magic);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

prop_compose! {
    fn member()(
        name in prop_oneof![Just(b"a".to_vec()), Just(b"d/.wh.x".to_vec()), proptest::collection::vec(any::<u8>(), 0..100)],
        flag in prop_oneof![Just(b'0'), Just(b'x'), Just(b'L'), Just(b'S'), Just(b'1'), Just(b'2'), Just(b'5'), any::<u8>()],
        magic in prop_oneof![Just(b"ustar\x0000".to_vec()), Just(b"ustar  \0".to_vec()), Just(b"".to_vec())],
        data in prop_oneof![
            Just(b"13 size=99999\n".to_vec()),
            Just(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n29 GNU.sparse.realsize=10000\n".to_vec()),
            Just(b"1\n5\n5\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..700),
        ],
        lie in prop_oneof![9 => Just(None), 1 => proptest::collection::vec(any::<u8>(), 12).prop_map(Some)],
    ) -> Vec<u8> {
        let size = lie.unwrap_or_else(|| format!("{:011o}", data.len()).into_bytes());
        let mut bytes = header(&name, flag, &size, &magic);
        bytes.extend_from_slice(&data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn members_of_any_kind(members in proptest::collection::vec(member(), 0..6), end in 0_usize..3) {
        let mut bytes = members.concat();
        bytes.resize(bytes.len() + end * 512, 0);
        read_all(&bytes);
    }

    #[test]
    fn bytes_of_any_kind(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        read_all(&bytes);
    }
}

#[test]
fn what_the_generator_makes_can_be_read() {
    let mut bytes = header(b"a", b'0', b"00000000003\0", b"ustar\x0000");
    bytes.extend_from_slice(b"abc");
    bytes.resize(1024, 0);
    bytes.extend(header(b"d/.wh.x", b'0', b"", b"ustar  \0"));
    assert_eq!(read_all(&bytes), 2);
}
