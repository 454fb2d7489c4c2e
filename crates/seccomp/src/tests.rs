//! What programs do, seen from the kernel's side.

mod interpreter;
