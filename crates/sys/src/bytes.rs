//! memcpy(3), memmove(3) and memcmp(3) where the C library is musl, for x86-64. The functions of musl copy short pieces by
//! `rep movsq`, which processors are slow to begin, and compare byte by byte. A command copies 1100 times, mostly less than
//! 64 bytes.
//!
//! One function is both memcpy and memmove: it reads a piece of up to 64 bytes whole before it writes, and goes through a
//! larger one in the direction in which it does not write over bytes that it has not read.

use std::arch::naked_asm;
use std::ffi::c_void;

/// Copies `count` bytes, which may overlap, from `source` to `target`, and returns `target`.
///
/// # Safety
/// `source` can be read for `count` bytes, and `target` written.
#[unsafe(naked)]
#[cfg_attr(target_env = "musl", unsafe(export_name = "memmove"))]
unsafe extern "C" fn copy(target: *mut c_void, source: *const c_void, count: usize) -> *mut c_void {
    naked_asm!(
        "mov rax, rdi",
        "cmp rdx, 16",
        "jb 20f",
        "cmp rdx, 32",
        "ja 30f",
        // A piece of 16 to 32 bytes is its first and its last 16, which may overlap. Shorter pieces are copied likewise.
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + rdx - 16], xmm1",
        "ret",
        "20:",
        "cmp edx, 8",
        "jb 21f",
        "mov rcx, [rsi]",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi], rcx",
        "mov [rdi + rdx - 8], r8",
        "ret",
        "21:",
        "cmp edx, 4",
        "jb 22f",
        "mov ecx, [rsi]",
        "mov r8d, [rsi + rdx - 4]",
        "mov [rdi], ecx",
        "mov [rdi + rdx - 4], r8d",
        "ret",
        "22:",
        "test edx, edx",
        "je 23f",
        // The first, the middle and the last one of 1 to 3 bytes.
        "mov r9, rdx",
        "shr r9",
        "movzx ecx, byte ptr [rsi]",
        "movzx r8d, byte ptr [rsi + r9]",
        "movzx r10d, byte ptr [rsi + rdx - 1]",
        "mov [rdi], cl",
        "mov [rdi + r9], r8b",
        "mov [rdi + rdx - 1], r10b",
        "23:",
        "ret",
        "30:",
        "cmp rdx, 64",
        "ja {large}",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + rdx - 32]",
        "movups xmm3, [rsi + rdx - 16]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + rdx - 32], xmm2",
        "movups [rdi + rdx - 16], xmm3",
        "ret",
        large = sym copy_large,
    )
}

/// Copies more than 64 bytes for [`copy`], which has set the result already.
///
/// # Safety
/// That of [`copy`], which alone goes on here.
#[unsafe(naked)]
unsafe extern "C" fn copy_large() {
    naked_asm!(
        // A target that begins within the source is written from its end on.
        "mov rcx, rdi",
        "sub rcx, rsi",
        "cmp rcx, rdx",
        "jb {backwards}",
        "cmp rdx, 2048",
        "ja 50f",
        // Forwards by 64 bytes, the last of which are read first, since the loop may write over them.
        "movups xmm4, [rsi + rdx - 64]",
        "movups xmm5, [rsi + rdx - 48]",
        "movups xmm6, [rsi + rdx - 32]",
        "movups xmm7, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 64]",
        "41:",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "add rsi, 64",
        "add rdi, 64",
        "cmp rdi, r8",
        "jb 41b",
        "movups [r8], xmm4",
        "movups [r8 + 16], xmm5",
        "movups [r8 + 32], xmm6",
        "movups [r8 + 48], xmm7",
        "ret",
        "50:",
        // For large pieces the processor's own loop is fast.
        "movups xmm0, [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 16]",
        "mov rcx, rdx",
        "shr rcx, 3",
        "rep movsq",
        "movups [r8], xmm0",
        "ret",
        backwards = sym copy_backwards,
    )
}

/// Copies more than 64 bytes for [`copy_large`] to a target that begins within the source.
///
/// # Safety
/// That of [`copy`], which alone goes on here.
#[unsafe(naked)]
unsafe extern "C" fn copy_backwards() {
    naked_asm!(
        // Backwards by 64 bytes, the first of which are read first.
        "movups xmm4, [rsi]",
        "movups xmm5, [rsi + 16]",
        "movups xmm6, [rsi + 32]",
        "movups xmm7, [rsi + 48]",
        "lea r8, [rdi + 64]",
        "lea r9, [rdi + rdx]",
        "lea rcx, [rsi + rdx]",
        "61:",
        "movups xmm0, [rcx - 16]",
        "movups xmm1, [rcx - 32]",
        "movups xmm2, [rcx - 48]",
        "movups xmm3, [rcx - 64]",
        "movups [r9 - 16], xmm0",
        "movups [r9 - 32], xmm1",
        "movups [r9 - 48], xmm2",
        "movups [r9 - 64], xmm3",
        "sub rcx, 64",
        "sub r9, 64",
        "cmp r9, r8",
        "ja 61b",
        "movups [rdi], xmm4",
        "movups [rdi + 16], xmm5",
        "movups [rdi + 32], xmm6",
        "movups [rdi + 48], xmm7",
        "ret",
    )
}

/// Copies bytes as [`copy`] does.
///
/// # Safety
/// That of [`copy`].
#[cfg(target_env = "musl")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(target: *mut c_void, source: *const c_void, count: usize) -> *mut c_void {
    naked_asm!("jmp {}", sym copy)
}

/// Compares `count` bytes: less than 0, 0, or more than 0, as the first bytes that differ do.
///
/// # Safety
/// Both can be read for `count` bytes.
#[unsafe(naked)]
#[cfg_attr(target_env = "musl", unsafe(export_name = "memcmp"))]
unsafe extern "C" fn compare(one: *const c_void, other: *const c_void, count: usize) -> i32 {
    naked_asm!(
        "cmp rdx, 16",
        "jb {short}",
        "10:",
        "movups xmm0, [rdi]",
        "movups xmm1, [rsi]",
        "pcmpeqb xmm0, xmm1",
        "pmovmskb ecx, xmm0",
        "sub ecx, 0xffff",
        "jne 12f",
        "add rdi, 16",
        "add rsi, 16",
        "sub rdx, 16",
        "cmp rdx, 16",
        "jae 10b",
        "test rdx, rdx",
        "je 11f",
        // The last 16 bytes, of which the first ones have been compared.
        "lea rdi, [rdi + rdx - 16]",
        "lea rsi, [rsi + rdx - 16]",
        "mov edx, 16",
        "jmp 10b",
        "11:",
        "xor eax, eax",
        "ret",
        "12:",
        // ecx is minus the bits of the bytes that differ, and has the same lowest bit: that of the first one.
        "bsf ecx, ecx",
        "movzx eax, byte ptr [rdi + rcx]",
        "movzx edx, byte ptr [rsi + rcx]",
        "sub eax, edx",
        "ret",
        short = sym compare_short,
    )
}

/// Compares less than 16 bytes for [`compare`].
///
/// # Safety
/// That of [`compare`], which alone goes on here.
#[unsafe(naked)]
unsafe extern "C" fn compare_short() {
    naked_asm!(
        "cmp edx, 8",
        "jb 21f",
        "mov rax, [rdi]",
        "mov rcx, [rsi]",
        "cmp rax, rcx",
        "jne 23f",
        "mov rax, [rdi + rdx - 8]",
        "mov rcx, [rsi + rdx - 8]",
        "cmp rax, rcx",
        "jne 23f",
        "xor eax, eax",
        "ret",
        "21:",
        "cmp edx, 4",
        "jb 22f",
        "mov eax, [rdi]",
        "mov ecx, [rsi]",
        "cmp eax, ecx",
        "jne 23f",
        "mov eax, [rdi + rdx - 4]",
        "mov ecx, [rsi + rdx - 4]",
        "cmp eax, ecx",
        "jne 23f",
        "xor eax, eax",
        "ret",
        "22:",
        "test edx, edx",
        "je 25f",
        "movzx eax, byte ptr [rdi]",
        "movzx ecx, byte ptr [rsi]",
        "sub eax, ecx",
        "jne 24f",
        "inc rdi",
        "inc rsi",
        "dec edx",
        "jmp 22b",
        "23:",
        // The byte that comes first decides.
        "bswap rax",
        "bswap rcx",
        "cmp rax, rcx",
        "sbb eax, eax",
        "or eax, 1",
        "24:",
        "ret",
        "25:",
        "xor eax, eax",
        "ret",
    )
}

/// Tells by 0 that bytes are equal, as [`compare`] does.
///
/// # Safety
/// That of [`compare`].
#[cfg(target_env = "musl")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const c_void, other: *const c_void, count: usize) -> i32 {
    naked_asm!("jmp {}", sym compare)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of bytes around each place where the functions do something else.
    fn counts() -> impl Iterator<Item = usize> {
        (0..=300).chain([1023, 2047, 2048, 2049, 2063, 4096, 5001])
    }

    fn noise(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 + at / 251 + 1) as u8).collect()
    }

    #[test]
    fn copies_are_those_of_the_standard_library() {
        for count in counts() {
            for (from, to) in [
                (0, 0),
                (0, 1),
                (1, 0),
                (3, 90),
                (90, 3),
                (64, 0),
                (0, 64),
                (0, 6000),
                (6001, 5),
            ] {
                let mut bytes = noise(12_000);
                let mut wanted = bytes.clone();
                wanted.copy_within(from..from + count, to);
                let start = bytes.as_mut_ptr();
                // SAFETY: the vector is longer than `from` and `count`.
                let source = unsafe { start.add(from) };
                // SAFETY: the vector is longer than `to` and `count`.
                let target = unsafe { start.add(to) };
                // SAFETY: as above.
                let returned = unsafe { copy(target.cast(), source.cast(), count) };
                assert_eq!(returned, target.cast());
                assert!(bytes == wanted, "{count} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn comparisons_are_those_of_the_standard_library() {
        for count in counts() {
            let one = noise(count);
            for place in (0..count).step_by((count / 67).max(1)).map(Some).chain([None]) {
                for (change, after) in [(1, 0), (0x80, 0), (1, 0xff)] {
                    let mut other = one.clone();
                    if let Some(place) = place {
                        other[place] ^= change;
                        // What comes after the first difference does not matter.
                        other[place + 1..].iter_mut().for_each(|byte| *byte ^= after);
                    }
                    // SAFETY: both have `count` bytes.
                    let found = unsafe { compare(one.as_ptr().cast(), other.as_ptr().cast(), count) };
                    assert_eq!(found.cmp(&0), one.cmp(&other), "{count} bytes, {place:?}");
                }
            }
        }
    }
}
