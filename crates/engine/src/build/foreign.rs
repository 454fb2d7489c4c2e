//! Platforms whose programs this machine executes: its own, and those that binfmt_misc has an interpreter for.

use super::BuildFault;
use crate::EngineError;
use std::path::Path;
use tote_build::RunStep;
use tote_image::Platform;

/// Where the kernel shows what interpreters it was told of.
const BINFMT: &str = "/proc/sys/fs/binfmt_misc";

/// The names of qemu's interpreters there, after `qemu-`, and the architectures that they execute.
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

/// The platforms that a build can execute programs of: this machine's first, then those with an interpreter.
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

/// Explains a failed execution where the image is for another machine than this one: the kernel has no interpreter, or has
/// one that containers do not see.
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
