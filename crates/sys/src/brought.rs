//! Program that a taker brings to a parked sandbox.

use crate::{Exec, Program};
use std::ffi::{CStr, CString};

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

    /// Copies the program, for another process that executes it.
    pub(crate) fn to_exec(&self) -> Exec {
        let texts = |mut array: *const *const libc::c_char| {
            let mut texts = Vec::new();
            loop {
                // SAFETY: both arrays are in the mapping that is never unmapped, and a null pointer ends each of them.
                let text = unsafe { *array };
                if text.is_null() {
                    return texts;
                }
                // SAFETY: the pointer is that of a text in the mapping, which a zero ends.
                texts.push(CString::from(unsafe { CStr::from_ptr(text) }));
                // SAFETY: the null pointer, which was not here, is behind it in the same array.
                array = unsafe { array.add(1) };
            }
        };
        Exec {
            file: None,
            candidates: self.candidates().map(CString::from).collect(),
            program: Program::new(texts(self.argv), texts(self.envp)),
            never: None,
        }
    }
}
