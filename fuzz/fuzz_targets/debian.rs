//! Any bytes as a package of Debian: no panic, and no more than was there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use tote_archive::DebianPackage;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut package) = DebianPackage::open(Cursor::new(bytes)) else { return };
    if let Ok(text) = package.description() {
        assert!(text.len() <= 12 << 20);
    }
    if let Ok(mut files) = package.files() {
        while let Ok(Some(_)) = files.next_change() {}
    }
});
