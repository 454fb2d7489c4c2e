//! The ELF file of a kernel, out of the image that boot loaders take (Documentation/x86/boot.rst of Linux).

use crate::{KernelError, lz4};
use std::io::{Cursor, Read as _};
use tote_archive::{Compression, Decoder, Expansion};

/// Bytes of a kernel at most.
const LIMIT: usize = 512 << 20;

/// Returns the ELF file of a kernel. An ELF file is one already.
pub(crate) fn vmlinux(image: Vec<u8>) -> Result<Vec<u8>, KernelError> {
    if is_elf(&image) {
        return Ok(image);
    }
    let payload = payload(&image)?;
    let vmlinux = decompress(payload)?;
    if !is_elf(&vmlinux) {
        return Err(KernelError::Image("what is in it is not an ELF file of x86_64"));
    }
    Ok(vmlinux)
}

/// Returns the compressed kernel in an image, without the size that the kernel's build puts behind it.
fn payload(image: &[u8]) -> Result<&[u8], KernelError> {
    const MAGIC: (usize, &[u8; 4]) = (0x202, b"HdrS");
    let number = |at: usize| {
        let bytes = image.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let short = KernelError::Image("it is cut off");
    if image.get(MAGIC.0..MAGIC.0 + 4) != Some(MAGIC.1) {
        return Err(KernelError::Image("it is neither a bzImage nor an ELF file"));
    }
    // The protocol says that 0 means 4.
    let sectors = match image.get(0x1f1) {
        Some(0) => 4,
        Some(sectors) => usize::from(*sectors),
        None => return Err(short),
    };
    let (Some(offset), Some(length)) = (number(0x248), number(0x24c)) else {
        return Err(short);
    };
    let begin = (sectors + 1) * 512 + offset;
    let payload = image.get(begin..).and_then(|rest| rest.get(..length));
    payload.ok_or(short)
}

fn decompress(payload: &[u8]) -> Result<Vec<u8>, KernelError> {
    if payload.starts_with(&lz4::MAGIC) {
        let kernel = lz4::decompress(payload, LIMIT);
        return kernel.ok_or(KernelError::Image("its LZ4 is damaged"));
    }
    if Compression::sniff(payload) == Compression::None && !is_elf(payload) {
        return Err(KernelError::Image("its compression is unknown"));
    }
    let limits = Expansion {
        total: LIMIT as u64,
        ..Expansion::default()
    };
    let mut decoder = Decoder::new(Cursor::new(payload), limits).map_err(KernelError::Decompress)?;
    let mut kernel = Vec::new();
    let read = decoder.read_to_end(&mut kernel);
    match read {
        Ok(_) => Ok(kernel),
        // The four bytes behind the stream are the size, which is not a further stream.
        Err(_) if ends_whole(&kernel, payload) => Ok(kernel),
        Err(source) => Err(KernelError::Decompress(source)),
    }
}

/// True if what was decompressed has the size that the last four bytes of the payload give.
fn ends_whole(kernel: &[u8], payload: &[u8]) -> bool {
    let size = payload.last_chunk::<4>().map(|size| u32::from_le_bytes(*size));
    size.is_some_and(|size| size as usize == kernel.len())
}

/// True for an ELF file of 64 bits for x86_64.
fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&[62, 0])
}
