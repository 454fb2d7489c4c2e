//! A parser for the part of an ELF file that tells a static executable from one that needs a dynamic linker:
//! elf(5).

use anyhow::{Context, Result, bail};

/// Type of the program header that names a dynamic linker.
const PT_INTERP: u32 = 3;

/// Returns the path of the dynamic linker that the executable asks for; `None` for a static one.
///
/// # Errors
/// The bytes are not a 64-bit little-endian ELF file, or end too early.
pub(crate) fn interpreter(file: &[u8]) -> Result<Option<String>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        bail!("not a 64-bit little-endian ELF file");
    }
    let table = number::<8>(file, 0x20)?;
    let entry_size = number::<2>(file, 0x36)?;
    let entries = number::<2>(file, 0x38)?;
    for index in 0..entries {
        let entry = (index.checked_mul(entry_size))
            .and_then(|offset| offset.checked_add(table))
            .context("a program header lies outside the file")?;
        if number::<4>(file, entry)? == usize::try_from(PT_INTERP)? {
            let start = number::<8>(file, entry.saturating_add(0x08))?;
            let size = number::<8>(file, entry.saturating_add(0x20))?;
            let name = bytes(file, start, size)?;
            let name = name.strip_suffix(b"\0").unwrap_or(name);
            return Ok(Some(String::from_utf8_lossy(name).into_owned()));
        }
    }
    Ok(None)
}

fn bytes(file: &[u8], start: usize, size: usize) -> Result<&[u8]> {
    let end = start.checked_add(size);
    end.and_then(|end| file.get(start..end))
        .with_context(|| format!("the ELF file ends before byte {start} + {size}"))
}

/// Reads an unsigned number of `SIZE` bytes.
fn number<const SIZE: usize>(file: &[u8], start: usize) -> Result<usize> {
    let mut wide = [0; 8];
    wide[..SIZE].copy_from_slice(bytes(file, start, SIZE)?);
    Ok(u64::from_le_bytes(wide).try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a header with a single program header of that type, and a name behind it.
    fn file(kind: u32, name: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(0x40, 0);
        file[0x20] = 0x40;
        file[0x36] = 56;
        file[0x38] = 1;
        file.extend(kind.to_le_bytes());
        file.resize(0x40 + 56, 0);
        file[0x48] = 0x40 + 56;
        file[0x60] = u8::try_from(name.len()).unwrap();
        file.extend(name);
        file
    }

    #[test]
    fn static_and_dynamic() {
        assert_eq!(interpreter(&file(1, b"/lib/ld.so\0")).unwrap(), None);
        assert_eq!(
            interpreter(&file(PT_INTERP, b"/lib/ld.so\0")).unwrap().as_deref(),
            Some("/lib/ld.so")
        );
    }

    #[test]
    fn every_shorter_file_is_an_error_not_a_panic() {
        let file = file(PT_INTERP, b"/lib/ld.so\0");
        for length in 0..file.len() {
            interpreter(&file[..length]).unwrap_err();
        }
    }

    #[test]
    fn huge_numbers_are_errors() {
        let mut file = file(PT_INTERP, b"x");
        for at in [0x20, 0x48, 0x60] {
            let mut broken = file.clone();
            broken[at..at + 8].fill(0xff);
            interpreter(&broken).unwrap_err();
        }
        file[0x36..0x3a].fill(0xff);
        interpreter(&file).unwrap();
        file[0x40] = 1;
        interpreter(&file).unwrap_err();
    }
}
