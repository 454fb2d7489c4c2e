//! Times at which the operations of a birth are done.

use crate::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// Times in memory that parent and child share.
#[derive(Debug)]
pub(crate) struct Clock {
    times: &'static [AtomicU64],
}

impl Clock {
    pub(crate) fn new(length: usize) -> Result<Self, Errno> {
        let bytes = length.max(1) * size_of::<AtomicU64>();
        let (protection, flags) = (
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        // SAFETY: the mapping is `bytes` long, page-aligned, zeroed (valid for atomics), and never unmapped.
        let times = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), length) };
        Ok(Self { times })
    }

    /// Notes that an operation is done.
    pub(crate) fn mark(&self, op: usize) {
        if let Some(time) = self.times.get(op) {
            time.store(monotonic(), Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Vec<u64> {
        self.times
            .iter()
            .map(|time| time.load(Ordering::Relaxed))
            .collect()
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
