//! Limit of what a container may write to its standard streams.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that a container may still write. All copies of its output share one allowance.
#[derive(Clone, Debug)]
pub(crate) struct Allowance(Rc<Cell<Left>>);

#[derive(Clone, Copy, Debug)]
struct Left {
    bytes: u64,
    is_exceeded: bool,
}

impl Allowance {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Rc::new(Cell::new(Left {
            bytes,
            is_exceeded: false,
        })))
    }

    /// Takes from the allowance what the container has written; cuts off what is beyond it.
    pub(crate) fn spend(&self, written: &mut Vec<u8>) {
        let Left { bytes, is_exceeded } = self.0.get();
        let length = u64::try_from(written.len()).unwrap_or(u64::MAX);
        let spent = length.min(bytes);
        // It is not larger than the length.
        written.truncate(usize::try_from(spent).unwrap_or(usize::MAX));
        self.0.set(Left {
            bytes: bytes - spent,
            is_exceeded: is_exceeded || spent < length,
        });
    }

    /// Returns the bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.get().bytes
    }

    /// True if the container has written more than it may.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.0.get().is_exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_allowance_is_cut_off() {
        let allowance = Allowance::new(5);
        let other = allowance.clone();
        let mut written = b"abc".to_vec();
        allowance.spend(&mut written);
        assert_eq!(
            (&*written, other.left(), other.is_exceeded()),
            (&b"abc"[..], 2, false)
        );
        let mut written = b"de".to_vec();
        other.spend(&mut written);
        assert_eq!(
            (&*written, allowance.left(), allowance.is_exceeded()),
            (&b"de"[..], 0, false)
        );
        let mut written = b"f".to_vec();
        other.spend(&mut written);
        assert!(written.is_empty() && allowance.is_exceeded());
    }
}
