//! Any bytes as a plan: an error, or a plan that has exactly these bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tote_sandbox::Plan;

fuzz_target!(|bytes: &[u8]| {
    let bytes = [b"tote plan 1\n", bytes].concat();
    if let Ok(plan) = Plan::from_bytes(&bytes, Vec::new()) {
        assert_eq!(plan.to_bytes().bytes, bytes);
        drop(plan.to_string());
    }
});
