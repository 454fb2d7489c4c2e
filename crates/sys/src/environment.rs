//! The array of environment variables, environ(7), in place.

use std::ffi::c_char;

unsafe extern "C" {
    static environ: *mut *mut c_char;
}

/// Calls `visit` with each place of the array that holds the address of a variable, which is a string that ends with a zero.
///
/// # Safety
/// The process has one thread. `visit` leaves an address of such a string in the place.
pub(crate) unsafe fn visit_environment(mut visit: impl FnMut(&mut *mut c_char)) {
    // SAFETY: the process has one thread, so nothing changes the pointer or the array meanwhile.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return;
    }
    loop {
        // SAFETY: the array ends with a null pointer, which ends this loop, and is memory of this process that may be written.
        let place = unsafe { &mut *entry };
        if place.is_null() {
            return;
        }
        visit(place);
        // SAFETY: this entry was not the null pointer that ends the array, so there is a next one.
        entry = unsafe { entry.add(1) };
    }
}
