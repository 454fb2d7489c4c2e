//! Passes the linker the list of functions, `hot.ld`, that lie beside each other in the release binary.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=hot.ld");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bin=tote=-Wl,-T,{here}/hot.ld");
    }
}
