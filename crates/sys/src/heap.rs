//! The heap where the C library is musl, whose own allocator gets and gives back memory page by page: 50 system calls of a
//! start of a container.

use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: Heap = Heap::new();

/// Gives memory that is free at the end of the heap back to the kernel.
#[cfg(target_env = "musl")]
pub(crate) fn trim() {
    HEAP.trim();
}

/// An allocator that threads take by turns. Its lock is two instructions; the lock of `dlmalloc` itself is a call of
/// pthread_mutex_lock(3) and one of pthread_mutex_unlock(3), and a command allocates 800 times.
struct Heap(Mutex<Dlmalloc>);

impl Heap {
    const fn new() -> Self {
        Self(Mutex::new(Dlmalloc::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc> {
        // The allocator calls no code that panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trim(&self) {
        // SAFETY: only memory that is free goes back.
        unsafe { self.lock().trim(0) };
    }
}

// Each function stays one, because copies of them in all places that allocate make the program a megabyte larger.
// SAFETY: `Dlmalloc` keeps the contract of the trait, in which the caller promises for each function what the function of
// the same name of `Dlmalloc` wants; the lock is held for as long as that runs, and does not allocate.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe { self.lock().malloc(layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe { self.lock().free(place, layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe { self.lock().calloc(layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above.
        unsafe { self.lock().realloc(place, layout.size(), layout.align(), size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads allocate, grow, and free at once; each finds its own bytes.
    #[test]
    fn threads_take_it_by_turns() {
        let heap = Heap::new();
        let work = |thread: u8| {
            for round in 1..200_usize {
                let layout = Layout::array::<u8>(round * 37).unwrap();
                // SAFETY: the size is not 0.
                let place = unsafe { heap.alloc(layout) };
                // SAFETY: the place has that many bytes.
                unsafe { place.write_bytes(thread, layout.size()) };
                // SAFETY: the place is of this heap, with this layout.
                let place = unsafe { heap.realloc(place, layout, layout.size() * 2) };
                // SAFETY: the first half was written, and moved along.
                let bytes = unsafe { std::slice::from_raw_parts(place, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == thread));
                let layout = Layout::array::<u8>(layout.size() * 2).unwrap();
                // SAFETY: the place is of this heap, with this layout.
                unsafe { heap.dealloc(place, layout) };
                heap.trim();
            }
        };
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                scope.spawn(move || work(thread));
            }
        });
        let layout = Layout::array::<u64>(1000).unwrap();
        // SAFETY: the size is not 0.
        let zeroed = unsafe { heap.alloc_zeroed(layout) };
        // SAFETY: the place has that many bytes, which were zeroed.
        let bytes = unsafe { std::slice::from_raw_parts(zeroed, layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
