//! Platforms whose programs this machine executes: its own, and those with an interpreter in binfmt_misc.

use super::BuildFault;
use crate::EngineError;
use std::path::Path;
use tote_build::RunStep;
use tote_image::Platform;

/// Directory in which the kernel lists the registered interpreters.
const BINFMT: &str = "/proc/sys/fs/binfmt_misc";

/// Names of qemu's interpreters there, after `qemu-`, and their platforms.
const INTERPRETERS: [(&str, &str); 9] = [
    ("aarch64", "linux/arm64"),
    ("arm", "linux/arm/v7"),
    ("i386", "linux/386"),
    ("loongarch64", "linux/loong64"),
    ("mips64el", "linux/mips64le"),
    ("ppc64le", "linux/ppc64le"),
    ("riscv64", "linux/riscv64"),
    ("s390x", "linux/s390x"),
    ("x86_64", "linux/amd64"),
];

/// Lists the platforms whose programs a build can execute: this machine's first, then those with an interpreter.
#[must_use]
pub fn build_platforms() -> Vec<Platform> {
    let here = Platform::host();
    let mut platforms = vec![here.clone()];
    for (name, platform) in INTERPRETERS {
        let Ok(platform) = platform.parse::<Platform>() else {
            continue;
        };
        let has_interpreter = || {
            let text = std::fs::read_to_string(Path::new(BINFMT).join(format!("qemu-{name}")));
            text.is_ok_and(|text| text.lines().next() == Some("enabled"))
        };
        if platform != here && (here.runs(&platform) || has_interpreter()) {
            platforms.push(platform);
        }
    }
    platforms
}

/// Explains a failed execution in an image for another platform: the kernel has no interpreter, or
/// containers cannot see it.
pub(super) fn explained(error: EngineError, step: &RunStep) -> EngineError {
    let machine = Platform::host();
    if machine.runs(&step.platform) || !error.is_unexecutable() {
        return error;
    }
    BuildFault::ForeignCommand {
        command: step.argv.join(" "),
        platform: step.platform.to_string(),
        machine: machine.to_string(),
        source: Box::new(error),
    }
    .into()
}
