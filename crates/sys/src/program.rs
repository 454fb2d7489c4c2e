//! Programs as execve(2) takes them.

use rustix::fd::OwnedFd;
use std::ffi::CString;

/// A program, its arguments and its environment.
#[derive(Debug)]
pub struct Exec {
    /// Executable that no path leads to; it is used in place of the paths.
    pub file: Option<OwnedFd>,
    /// Absolute or relative paths, tried in order as execvp(3) does.
    pub candidates: Vec<CString>,
    /// argv and environment.
    pub program: Program,
    /// Device and inode of an executable that must not be run: tote's own, which a container must not get hold of
    /// (CVE-2019-5736).
    pub never: Option<(u64, u64)>,
}

/// argv and environment with the pointer arrays that execve(2) wants.
pub struct Program {
    args: Vec<CString>,
    env: Vec<CString>,
    pub(crate) argv: Box<[*const libc::c_char]>,
    pub(crate) envp: Box<[*const libc::c_char]>,
}

impl Program {
    /// Prepares the arrays.
    #[must_use]
    pub fn new(args: Vec<CString>, env: Vec<CString>) -> Self {
        let pointers = |texts: &[CString]| {
            texts
                .iter()
                .map(|text| text.as_ptr())
                .chain([std::ptr::null()])
                .collect::<Box<[_]>>()
        };
        // The bytes of a CString are on the heap: moving the vectors into the value does not move them.
        Self {
            argv: pointers(&args),
            envp: pointers(&env),
            args,
            env,
        }
    }

    /// Returns the arguments.
    #[must_use]
    pub fn args(&self) -> &[CString] {
        &self.args
    }

    /// Returns the environment.
    #[must_use]
    pub fn env(&self) -> &[CString] {
        &self.env
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("args", &self.args)
            .field("env", &self.env)
            .finish()
    }
}
