//! Injected faults, by which tests let the store die.
//!
//! Every change to the file system is announced here first. In tests the n-th one can be made to fail, and all
//! later ones then fail too, so that nothing is cleaned up, as after a kill. In other builds the announcement does
//! nothing.

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

/// Lets this thread's store die after `steps` changes. Returns the result of `work`, and whether the store died.
#[cfg(test)]
pub(crate) fn dying_after<T>(steps: u64, work: impl FnOnce() -> T) -> (T, bool) {
    LIFE.with(|life| life.set(Life::Left(steps)));
    let result = work();
    let died = LIFE.with(|life| life.replace(Life::Endless)) == Life::Over;
    (result, died)
}
