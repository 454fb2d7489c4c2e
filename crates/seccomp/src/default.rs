//! Program of the default profile, compiled when this crate was built.

use crate::arch::Arch;
use crate::capability::CapSet;
use crate::compile::compile;
use crate::instruction::Instruction;
use crate::profile::{default_profile, relevant};
use std::borrow::Cow;

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Program of the default profile for docker's 14 capabilities ([`CapSet::DOCKER`]), on [`Arch::NATIVE`].
pub static DEFAULT: &[Instruction] = DOCKER;

/// Returns the default profile's program for these capabilities, on [`Arch::NATIVE`].
///
/// It is borrowed, without any work, if the capabilities are docker's 14, these with `CAP_SYS_ADMIN` or
/// `CAP_SYS_PTRACE`, all or none, apart from capabilities that make no difference to the profile.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "no set of capabilities makes the profile too long, and nothing else can fail"
)]
pub fn default_filter(capabilities: CapSet) -> Cow<'static, [Instruction]> {
    let relevant = relevant(capabilities);
    match PROGRAMS.iter().find(|program| program.0 == relevant) {
        Some(&(_, program)) => Cow::Borrowed(program),
        None => {
            let filter = compile(&default_profile(relevant, Arch::NATIVE), Arch::NATIVE);
            Cow::Owned(
                filter
                    .expect("its parts are constants, and all together they are a tenth of the limit")
                    .instructions,
            )
        }
    }
}
