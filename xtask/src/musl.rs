//! musl, the C library of the shipped binary.
//!
//! Before `main`, glibc asks the processor 68 times what it is. In a virtual machine the hypervisor answers each time,
//! and `tote --version` takes twice as long. Where the compiler has no musl, the shipped binary has glibc and does the same.

use crate::program::{program, read, succeed};
use anyhow::Result;
use std::path::Path;

/// C compiler for musl. The build scripts of C libraries look for it under this name.
pub(crate) const COMPILER: &str = "musl-gcc";

/// Returns cargo's target with musl, or `None` if a compiler for Rust or C lacks it.
///
/// # Errors
/// The Rust compiler does not say where its libraries are.
pub(crate) fn target() -> Result<Option<String>> {
    let target = name();
    Ok((has_library(&target)? && has_compiler()).then_some(target))
}

/// Installs the Rust library for musl if it is missing; says so, and says what it means if that fails.
///
/// # Errors
/// The Rust compiler does not say where its libraries are.
pub(crate) fn prepare() -> Result<()> {
    let target = name();
    if !has_library(&target)? {
        println!("installing the Rust target {target}");
        if let Err(error) = succeed(program("rustup").args(["target", "add", &target])) {
            eprintln!("xtask: {error:#}");
        }
    }
    if self::target()?.is_none() {
        println!(
            "missing: the Rust target {target} or {COMPILER} (Debian package musl-tools): the binary gets glibc, with which \
             each command starts later"
        );
    }
    Ok(())
}

fn name() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

fn has_library(target: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let directory = read(program(rustc).args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(directory.trim()).try_exists()?)
}

/// True if the C compiler is in `PATH`.
fn has_compiler() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| {
        directory
            .join(COMPILER)
            .metadata()
            .is_ok_and(|found| found.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_installed_target_has_a_library() {
        assert!(has_library(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap());
        assert!(!has_library("riscv32i-unknown-none-elf").unwrap());
        has_library("no-such-target").unwrap_err();
    }
}
