//! Where tests let the store die.
//!
//! Every change to the file system is announced here first. In tests the n-th may be told to fail, and then all that
//! come after fail, too: what a killed process would have cleaned up stays as well. Elsewhere it is nothing at all.

use rustix::io::Errno;

/// Announces a change to the file system.
#[cfg(not(test))]
#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
pub(crate) fn step() -> Result<(), Errno> {
    Ok(())
}

#[cfg(test)]
pub(crate) fn step() -> Result<(), Errno> {
    LEFT.with(|left| match left.get() {
        None => Ok(()),
        Some(0) => Err(Errno::IO),
        Some(more) => {
            left.set(Some(more - 1));
            Ok(())
        }
    })
}

#[cfg(test)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Lets this thread's store die after so many steps. Gives the result, and whether it came to that.
#[cfg(test)]
pub(crate) fn dying_after<T>(steps: u64, work: impl FnOnce() -> T) -> (T, bool) {
    LEFT.with(|left| left.set(Some(steps)));
    let result = work();
    let died = LEFT.with(|left| left.replace(None)) == Some(0);
    (result, died)
}
