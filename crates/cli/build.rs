//! Passes the linker the list of functions, `hot.ld`, that lie beside each other in the release binary.

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=hot.ld");
    if !var("PROFILE").is_ok_and(|profile| profile == "release") {
        return;
    }
    match (var("CARGO_CFG_TARGET_ENV").as_deref(), lld()) {
        // The compiler links these programs with lld without being asked to.
        (Ok("gnu"), _) => {}
        (Ok("musl"), Some(directory)) => {
            println!("cargo::rustc-link-arg-bin=tote=-B{}", directory.display());
            println!("cargo::rustc-link-arg-bin=tote=-fuse-ld=lld");
        }
        _ => return,
    }
    let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bin=tote=-Wl,-T,{here}/hot.ld");
}

/// Returns the directory in which a C compiler finds the `ld.lld` that came with this Rust compiler; `None` if none came.
///
/// Only lld knows the order of sections that the list asks for.
fn lld() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "cargo says which compiler")]
    let output = Command::new(var("RUSTC").ok()?)
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = String::from_utf8(output.stdout).ok()?;
    let host = var("HOST").ok()?;
    let directory = Path::new(sysroot.trim()).join(format!("lib/rustlib/{host}/bin/gcc-ld"));
    directory
        .join("ld.lld")
        .try_exists()
        .unwrap_or(false)
        .then_some(directory)
}
