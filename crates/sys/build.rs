//! Compiles the first stage of guests, a program without a standard library, with the compiler of this crate.

use std::path::PathBuf;
use std::process::Command;
use std::{env, error::Error, fs};

/// Options of the compiler: the smallest static program, which the kernel maps at a fixed address.
const OPTIONS: [&str; 12] = [
    "--crate-type=bin",
    "--edition=2024",
    "-Copt-level=s",
    "-Cpanic=abort",
    "-Clto=fat",
    "-Ccodegen-units=1",
    "-Crelocation-model=static",
    "-Ctarget-feature=+crt-static",
    "-Cstrip=symbols",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-static",
    "-Clink-arg=-Wl,--build-id=none,-z,norelro,-z,noseparate-code",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=first");
    let out = PathBuf::from(env::var("OUT_DIR")?).join("first-stage");
    // Guests are machines with this processor.
    if env::var("CARGO_CFG_TARGET_ARCH")? != "x86_64" {
        return Ok(fs::write(out, [])?);
    }
    #[expect(clippy::disallowed_methods, reason = "cargo says which compiler")]
    let mut compiler = Command::new(env::var("RUSTC")?);
    compiler
        .args(["--crate-name=first", "first/main.rs", "--target"])
        .arg(env::var("TARGET")?)
        .args(OPTIONS)
        .arg("-o")
        .arg(&out);
    if env::var("CARGO_CFG_TARGET_ENV")? == "musl" {
        // The compiler would add the entry point of its musl.
        compiler.arg("-Clink-self-contained=no");
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    #[expect(clippy::disallowed_methods, reason = "cargo waits for the compiler as well")]
    let status = compiler.status()?;
    if !status.success() {
        return Err(format!("the first stage of guests cannot be compiled: {status}").into());
    }
    Ok(())
}
