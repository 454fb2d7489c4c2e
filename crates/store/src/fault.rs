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
    LIFE.with(|life| match life.get() {
        Life::Endless => Ok(()),
        Life::Left(0) | Life::Over => {
            life.set(Life::Over);
            Err(Errno::IO)
        }
        Life::Left(more) => {
            life.set(Life::Left(more - 1));
            Ok(())
        }
    })
}

#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Endless,
    Left(u64),
    Over,
}

#[cfg(test)]
thread_local! {
    static LIFE: std::cell::Cell<Life> = const { std::cell::Cell::new(Life::Endless) };
}

/// Lets this thread's store die after so many steps. Gives the result, and whether it came to that.
#[cfg(test)]
pub(crate) fn dying_after<T>(steps: u64, work: impl FnOnce() -> T) -> (T, bool) {
    LIFE.with(|life| life.set(Life::Left(steps)));
    let result = work();
    let died = LIFE.with(|life| life.replace(Life::Endless)) == Life::Over;
    (result, died)
}
