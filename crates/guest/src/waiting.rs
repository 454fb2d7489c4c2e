//! A container that is there for others alone: it has all that its plan makes, and a program that waits in the place of its own.
//!
//! ```text
//! order = "tote waiting 1\n" │ length (8, little-endian) │ program │ plan
//! ```

use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, fchmod, memfd_create};
use rustix::io::retry_on_intr;
use tote_sandbox::Plan;
use tote_sys::{Errno, Op};

/// Bytes before the program that waits and the plan, in the place of a plan.
const WAITING: &[u8] = b"tote waiting 1\n";

/// Bytes of the length.
const LENGTH: usize = 8;

/// Puts a program that waits before the plan of a container.
#[must_use]
pub fn waiting(program: &[u8], plan: &[u8]) -> Vec<u8> {
    let length = (program.len() as u64).to_le_bytes();
    [WAITING, &length, program, plan].concat()
}

/// Returns the program and the plan; `None` for another order.
pub(crate) fn parse(order: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = order.strip_prefix(WAITING)?.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// Has the plan execute the program. No process of the container can read it.
pub(crate) fn replace(plan: &mut Plan, program: &[u8]) -> Result<(), String> {
    let file = executable(program);
    let mut file = Some(file.map_err(|errno| format!("cannot make the program that waits: {errno}"))?);
    for op in &mut plan.ops {
        if let Op::Exec(exec) = op {
            exec.file = file.take();
        }
    }
    Ok(())
}

fn executable(program: &[u8]) -> Result<OwnedFd, Errno> {
    let memory = memfd_create(c"tote", MemfdFlags::CLOEXEC)?;
    let mut rest = program;
    while !rest.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(&memory, rest))?;
        rest = &rest[written..];
    }
    fchmod(&memory, Mode::from_raw_mode(0o111))?;
    // A file that is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back() {
        let order = waiting(b"program", b"plan");
        assert_eq!(parse(&order), Some((&b"program"[..], &b"plan"[..])));
        for cut in [
            0,
            WAITING.len() - 1,
            WAITING.len() + 3,
            WAITING.len() + LENGTH + 6,
        ] {
            assert_eq!(parse(&order[..cut]), None, "{cut}");
        }
    }
}
