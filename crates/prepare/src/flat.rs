//! Executables of one page of machine code, without a heap or a library.

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// Sizes of ELF's file header and of one program header.
const HEADER: u16 = 64;
const SEGMENT: u16 = 56;

/// Load address.
const ADDRESS: u64 = 0x40_0000;

/// Returns the address at which the first part begins.
pub fn start() -> u64 {
    ADDRESS + u64::from(HEADER + SEGMENT)
}

/// Builds an executable: ELF's two headers, and the parts, the first of which begins with the first instruction.
#[must_use]
pub fn executable(parts: &[&[u8]]) -> Vec<u8> {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    let size = u64::from(HEADER + SEGMENT) + size as u64;
    let mut file = Vec::with_capacity(1024);
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"); // 64 bits, little endian, version 1
    for half in [2, MACHINE] {
        file.extend(half.to_le_bytes()); // an executable
    }
    file.extend(1_u32.to_le_bytes()); // version
    for word in [start(), u64::from(HEADER), 0] {
        file.extend(word.to_le_bytes()); // entry, program headers, no section headers
    }
    file.extend(0_u32.to_le_bytes()); // flags
    for half in [HEADER, SEGMENT, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1_u32, 5] {
        file.extend(word.to_le_bytes()); // load it, to be read and executed
    }
    for word in [0, ADDRESS, ADDRESS, size, size, 0x1_0000] {
        file.extend(word.to_le_bytes()); // from, to, to, bytes, bytes, alignment
    }
    parts.iter().for_each(|part| file.extend(*part));
    file
}
