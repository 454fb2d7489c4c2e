//! Program that a taker brings to a parked sandbox.

use std::ffi::CStr;

/// Program that a taker has brought. Its texts are in a mapping of their own, which is never unmapped.
pub(crate) struct Brought {
    pub(crate) candidates: &'static [u8],
    pub(crate) argv: *const *const libc::c_char,
    pub(crate) envp: *const *const libc::c_char,
}

impl Brought {
    /// Returns the paths to try, in order.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = &CStr> {
        self.candidates
            .split_inclusive(|byte| *byte == 0)
            .filter_map(|text| CStr::from_bytes_with_nul(text).ok())
    }
}
