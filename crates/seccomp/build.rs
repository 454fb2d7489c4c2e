//! Compiles the default profile with the crate's own compiler, so that no container has to wait for it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "these modules belong to the library; not everything is needed here"
)]

#[path = "src/arch.rs"]
mod arch;
#[path = "src/capability.rs"]
mod capability;
#[path = "src/compile.rs"]
mod compile;
#[path = "src/condition.rs"]
mod condition;
#[path = "src/error.rs"]
mod error;
#[path = "src/graph.rs"]
mod graph;
#[path = "src/instruction.rs"]
mod instruction;
#[path = "src/profile/mod.rs"]
mod profile;
#[path = "src/ranges.rs"]
mod ranges;
#[path = "src/rules.rs"]
mod rules;
#[path = "src/table.rs"]
mod table;

use arch::Arch;
use capability::CapSet;
use compile::{MAX_INSTRUCTIONS, compile};
use instruction::Instruction;
use std::fmt::Write as _;
use std::{env, error::Error, fs, path::PathBuf};

/// Sets of capabilities that get a program compiled in advance.
const USUAL: &[(&str, CapSet)] = &[
    ("DOCKER", CapSet::DOCKER),
    ("DOCKER_AND_SYS_ADMIN", CapSet::DOCKER.union(CapSet::SYS_ADMIN)),
    ("DOCKER_AND_SYS_PTRACE", CapSet::DOCKER.union(CapSet::SYS_PTRACE)),
    ("ALL", CapSet::ALL),
    ("NONE", CapSet::EMPTY),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let target = env::var("CARGO_CFG_TARGET_ARCH")?;
    let arch = match target.as_str() {
        "x86_64" => Arch::X86_64,
        "x86" => Arch::X86,
        "aarch64" => Arch::Aarch64,
        "arm" => Arch::Arm,
        other => return Err(format!("no system call table for target architecture {other}").into()),
    };

    let mut source = String::new();
    let mut index = String::new();
    for &(name, capabilities) in USUAL {
        let filter = compile(&profile::default_profile(capabilities, arch), arch)?;
        let length = filter.instructions.len();
        writeln!(source, "static {name}: &[Instruction; {length}] = &[")?;
        for Instruction { code, jt, jf, k } in filter.instructions {
            writeln!(
                source,
                "    Instruction {{ code: {code:#x}, jt: {jt}, jf: {jf}, k: {k:#x} }},"
            )?;
        }
        writeln!(source, "];")?;
        let relevant = profile::relevant(capabilities).bits();
        writeln!(index, "    (CapSet::from_bits({relevant:#x}), {name}),")?;
    }
    writeln!(
        source,
        "static PROGRAMS: &[(CapSet, &[Instruction])] = &[\n{index}];"
    )?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("programs.rs"), source)?;
    Ok(())
}
