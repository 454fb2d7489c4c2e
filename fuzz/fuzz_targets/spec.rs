//! Any text as a `config.json`: it reads back as it is written, or the error is one short line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_spec::Spec;

fuzz_target!(|text: &str| {
    match Spec::parse(text) {
        Ok(spec) => {
            let again = serde_json::to_string(&spec).expect("numbers and texts always have a JSON form");
            assert_eq!(Spec::parse(&again).expect("what was written can be read"), spec);
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.len() <= 1024 && !error.contains(char::is_control), "{error}");
        }
    }
});
