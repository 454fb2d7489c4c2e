//! Arbitrary values: every choice is drawn from a sequence of numbers that begins with a seed.

use rustix::fd::OwnedFd;
use std::ffi::CString;

/// Source of arbitrary values, xorshift64*.
pub(super) struct Any(u64);

impl Any {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Draws a number below a limit.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }

    /// Draws a number; the ends of the range are frequent.
    pub(super) fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => u64::MAX,
            2 => self.below(300) as u64,
            _ => self.next(),
        }
    }

    pub(super) fn text(&mut self) -> String {
        let letters = ['a', '/', ' ', '\n', '\0', 'ä', '→'];
        (0..self.below(6))
            .map(|_| letters[self.below(letters.len())])
            .collect()
    }

    /// Draws a text of the kernel's, which may be no UTF-8.
    pub(super) fn c_string(&mut self) -> CString {
        let bytes = (0..self.below(6)).map(|_| 1 + self.below(255) as u8);
        CString::new(bytes.collect::<Vec<u8>>()).unwrap()
    }

    pub(super) fn descriptor(&mut self) -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }
}
