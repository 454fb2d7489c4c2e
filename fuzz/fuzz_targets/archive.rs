//! Any bytes as an archive, compressed or not: no panic, no endless reading, and the framing covers every byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Read;
use tote_archive::{Decoder, Expansion, Limits, Reader, Rebuild, Segment, Writer};

const LIMITS: Limits = Limits {
    entries: 10_000,
    total_bytes: 1 << 22,
    file_size: 1 << 20,
    path_length: 4095,
    path_depth: 512,
    xattr_bytes: 1 << 16,
    link_length: 4095,
    header_bytes: 1 << 16,
    sparse_extents: 1 << 10,
};

fuzz_target!(|bytes: &[u8]| {
    let limits = Expansion { ratio: 1000, free: 1 << 20, total: 1 << 22 };
    let mut plain = Vec::new();
    if let Ok(mut decoder) = Decoder::new(bytes, limits)
        && decoder.read_to_end(&mut plain).is_ok()
    {
        read(&plain);
    }
});

fn read(bytes: &[u8]) {
    let mut reader = Reader::with_framing(bytes, LIMITS, Vec::<Segment>::new());
    let mut writer = Writer::new(std::io::sink());
    let mut contents = Vec::new();
    loop {
        match reader.next_change() {
            Ok(Some(change)) => {
                let mut content = Vec::new();
                if reader.read_to_end(&mut content).is_err() {
                    return;
                }
                // Whatever was read can be written, but for names of attributes with an equals sign.
                if writer.change(&change).is_ok() {
                    std::io::copy(&mut &content[..], &mut writer).expect("content has its size");
                }
                contents.push(content);
            }
            Ok(None) => break,
            Err(_) => return,
        }
    }
    let segments = reader.into_parts().1;
    let mut again = Vec::new();
    let open = |content: tote_archive::Content| {
        let whole = &contents[usize::try_from(content.entry).expect("counted")];
        Ok(&whole[usize::try_from(content.offset).expect("within the limits")..])
    };
    Rebuild::new(segments.into_iter().map(Ok), open).read_to_end(&mut again).expect("contents are complete");
    assert!(again == bytes);
}
