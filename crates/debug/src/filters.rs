//! Filters that are kept for later sessions: to read a profile and to compile it takes a tenth of a session's start.
//!
//! A file is named by a hash of a profile's text, has that text in it, and never changes. Nothing is synced: a file whose checksum is wrong
//! counts as missing.

use crate::{EngineError, Home};
use std::hash::{DefaultHasher, Hasher as _};
use std::path::Path;
use tote_seccomp::{Filter, Instruction, MAX_INSTRUCTIONS};
use tote_state::closed;

/// Version of the files, and of the compiler; another one whenever it makes another filter of a profile than an earlier one.
const FORMAT: &str = "tote filter 1";

/// Number of filters that are kept. Each engine has one profile for almost all containers.
const MOST: usize = 32;

/// Number of bytes of an instruction.
const INSTRUCTION: usize = 8;

/// Returns the filter of a profile, which `compile` makes if it is not kept.
pub(super) fn compiled(
    home: &Home,
    profile: &str,
    compile: impl FnOnce() -> Option<Filter>,
) -> Option<Filter> {
    let dir = home.filters();
    let name = format!("{:016x}", sum(profile.as_bytes()));
    // absence: the filter is compiled again
    let kept = std::fs::read(dir.join(&name)).ok();
    if let Some(filter) = kept.and_then(|kept| parse(&kept, profile)) {
        return Some(filter);
    }
    let filter = compile()?;
    // Without it the next session compiles once more.
    tote_sys::best_effort(keep(&dir, &name, &written(&filter, profile)));
    Some(filter)
}

/// Removes all filters.
///
/// # Errors
/// [`EngineError::State`].
pub fn forget(home: &Home) -> Result<(), EngineError> {
    let dir = home.filters();
    for name in tote_state::record::names_in(&dir)? {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(EngineError::file("remove", &path))?,
        }
    }
    Ok(())
}

/// Writes a file under another name first: a session may read it at any time.
fn keep(dir: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    closed::directory(dir)?;
    // absence: a file too many takes little space
    let names = tote_state::record::names_in(dir).unwrap_or_default();
    if names.len() >= MOST {
        for name in names {
            tote_sys::best_effort(std::fs::remove_file(dir.join(name)));
        }
    }
    let making = dir.join(format!(".{name}-{}", std::process::id()));
    closed::write_new(&making, content)?;
    std::fs::rename(&making, dir.join(name))
}

/// Returns a sum of bytes. Of a filter's own text it names the file, whose text is compared as well, so it need not be a secure one.
fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(FORMAT.as_bytes());
    hasher.write(bytes);
    hasher.finish()
}

/// Returns a file: the profile's length and text, the flags, the program, and a sum of all these.
fn written(filter: &Filter, profile: &str) -> Vec<u8> {
    let mut bytes = (profile.len() as u64).to_le_bytes().to_vec();
    bytes.extend(profile.as_bytes());
    bytes.extend(filter.flags.to_le_bytes());
    for Instruction { code, jt, jf, k } in &filter.instructions {
        bytes.extend(code.to_le_bytes());
        bytes.extend([*jt, *jf]);
        bytes.extend(k.to_le_bytes());
    }
    let sum = sum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Reads what [`written`] has made of this profile; `None` for anything else.
fn parse(bytes: &[u8], profile: &str) -> Option<Filter> {
    let (content, sum_of_it) = bytes.split_last_chunk()?;
    let (length, rest) = content.split_first_chunk()?;
    if u64::from_le_bytes(*length) != profile.len() as u64 {
        return None;
    }
    let (flags, program) = rest.strip_prefix(profile.as_bytes())?.split_first_chunk()?;
    if sum(content) != u64::from_le_bytes(*sum_of_it) {
        return None;
    }
    let instruction = |bytes: &[u8]| {
        let [one, two, jt, jf, k @ ..] = bytes else {
            return None;
        };
        Some(Instruction {
            code: u16::from_le_bytes([*one, *two]),
            jt: *jt,
            jf: *jf,
            k: u32::from_le_bytes(k.try_into().ok()?),
        })
    };
    let instructions: Vec<Instruction> = program
        .chunks(INSTRUCTION)
        .map(instruction)
        .collect::<Option<_>>()?;
    if instructions.is_empty() || instructions.len() > MAX_INSTRUCTIONS {
        return None;
    }
    Some(Filter {
        instructions,
        flags: u32::from_le_bytes(*flags),
        notify: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tote_seccomp::{Arch, DEFAULT, compile};

    fn filter(k: u32) -> Filter {
        Filter {
            instructions: [
                DEFAULT,
                &[Instruction {
                    code: 6,
                    jt: 0,
                    jf: 0,
                    k,
                }],
            ]
            .concat(),
            flags: 4,
            notify: false,
        }
    }

    #[test]
    fn filters_are_read_as_they_were_written() {
        let bytes = written(&filter(0x7fff_0000), "text");
        assert_eq!(parse(&bytes, "text"), Some(filter(0x7fff_0000)));
        for other in ["texts", "tex", "", "other"] {
            assert_eq!(parse(&bytes, other), None, "{other}");
        }
        assert_eq!(parse(&bytes[..bytes.len() - 1], "text"), None);
        assert_eq!(parse(&bytes[1..], "text"), None);
        assert_eq!(parse(&[], "text"), None);
        let mut damaged = bytes;
        damaged[40] ^= 1;
        assert_eq!(parse(&damaged, "text"), None);
        let empty = Filter {
            instructions: Vec::new(),
            ..filter(0)
        };
        assert_eq!(
            parse(&written(&empty, ""), ""),
            None,
            "the kernel would refuse it"
        );
    }

    #[test]
    fn a_profile_is_compiled_once() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let made = |profile, k| compiled(&home, profile, || Some(filter(k)));
        assert_eq!(made("one", 1), Some(filter(1)));
        assert_eq!(made("one", 2), Some(filter(1)), "it is kept");
        assert_eq!(made("other", 3), Some(filter(3)));
        assert_eq!(compiled(&home, "bad", || None), None);
        for name in fs::read_dir(home.filters()).unwrap() {
            fs::write(name.unwrap().path(), "half a f").unwrap();
        }
        assert_eq!(made("one", 4), Some(filter(4)), "a damaged one is made anew");
        assert_eq!(made("one", 5), Some(filter(4)));
        forget(&home).unwrap();
        assert_eq!(fs::read_dir(home.filters()).unwrap().count(), 0);
        assert_eq!(made("one", 6), Some(filter(6)));
    }

    #[test]
    fn few_filters_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        for number in 0..3 * MOST {
            let profile = number.to_string();
            compiled(&home, &profile, || Some(filter(0))).unwrap();
            assert!(fs::read_dir(home.filters()).unwrap().count() <= MOST, "{number}");
        }
    }

    /// A compiler that makes other filters needs another number in [`FORMAT`].
    #[test]
    fn another_compiler_has_another_number() {
        let profile = r#"{"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
            "syscalls": [{"names": ["read", "write", "openat"], "action": "SCMP_ACT_ALLOW"},
            {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 2114060288, "op": "SCMP_CMP_MASKED_EQ"}]}]}"#;
        let filter = compile(&serde_json::from_str(profile).unwrap(), Arch::X86_64).unwrap();
        // Without the sum at the end, which is the standard library's.
        let bytes = written(&filter, "");
        let text = bytes[..bytes.len() - 8]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!(
            (FORMAT, text),
            ("tote filter 1", 0xb8a6_9c12_fe6d_381b),
            "{text:#x}"
        );
    }
}
