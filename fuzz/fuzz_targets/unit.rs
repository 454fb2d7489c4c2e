//! Any text as a unit file and as words: no panic, errors of one line, and what is written is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_unit::{Kind, Quadlet, Surroundings, UnitFile, quote, split};

fuzz_target!(|text: &str| {
    if let Ok(words) = split(text) {
        let line: Vec<String> = words.iter().map(|word| quote(word)).collect();
        assert_eq!(split(&line.join(" ")), Ok(words));
    }
    let file = match UnitFile::parse(text) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let written = file.to_string();
    assert_eq!(UnitFile::parse(&written).map(|file| file.to_string()), Ok(written));
    for kind in [Kind::Container, Kind::Volume, Kind::Pod] {
        let quadlet = Quadlet { kind, name: "a".to_owned(), path: "/etc/a".to_owned(), file: file.clone() };
        match quadlet.service(&Surroundings::default()) {
            Ok(made) => assert!(UnitFile::parse(&made.text).is_ok(), "{}", made.text),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
});
