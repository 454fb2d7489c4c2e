//! Section `.modinfo` of a module: `key=value` texts, each with a zero byte behind it.

/// Returns the texts of a module; `None` if it is not an ELF file of 64 bits with such a section.
pub(crate) fn modinfo(module: &[u8]) -> Option<impl Iterator<Item = (&str, &str)>> {
    module.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let table = usize::try_from(u64_at(module, 0x28)?).ok()?;
    let size = usize::from(u16_at(module, 0x3a)?);
    let count = usize::from(u16_at(module, 0x3c)?);
    let names = usize::from(u16_at(module, 0x3e)?);
    let section = |number: usize| {
        let header = module.get(table.checked_add(number.checked_mul(size)?)?..)?;
        header.get(..0x40)
    };
    let content = |header: &[u8]| {
        let at = usize::try_from(u64_at(header, 0x18)?).ok()?;
        let length = usize::try_from(u64_at(header, 0x20)?).ok()?;
        module.get(at..)?.get(..length)
    };
    let names = content(section(names)?)?;
    let found = (0..count).filter_map(section).find(|header| {
        let name = u32_at(header, 0).and_then(|at| names.get(at as usize..));
        name.is_some_and(|name| name.starts_with(b".modinfo\0"))
    })?;
    let texts = content(found)?.split(|byte| *byte == 0);
    Some(texts.filter_map(|text| std::str::from_utf8(text).ok()?.split_once('=')))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}
