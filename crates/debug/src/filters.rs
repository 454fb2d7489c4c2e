//! Filters that are kept for later sessions: to read a profile and to compile it takes a tenth of a session's start.
//!
//! A file is named by the hash of a profile's text, and never changes. Nothing is synced: a file whose checksum is wrong counts as missing.

use crate::{EngineError, Home};
use std::path::Path;
use tote_seccomp::{DEFAULT, Filter, Instruction, MAX_INSTRUCTIONS};
use tote_state::closed;
use tote_store::sha256;

/// Version of the files, and of the compiler; another one whenever it would make another filter of a profile than an earlier one.
const FORMAT: &str = "tote filter 1\0";

/// Number of filters that are kept. Each engine has one profile for almost all containers.
const MOST: usize = 32;

/// Bytes of the flags before the program, of an instruction, and of the checksum after the program.
const FLAGS: usize = 4;
const INSTRUCTION: usize = 8;
const CHECKSUM: usize = 64;

/// Returns the filter of a profile, which `compile` makes if it is not kept.
pub(super) fn compiled(
    home: &Home,
    profile: &str,
    compile: impl FnOnce() -> Option<Filter>,
) -> Option<Filter> {
    let dir = home.filters();
    let name = name(profile);
    if let Some(filter) = std::fs::read(dir.join(&name)).ok().and_then(|kept| parse(&kept)) {
        return Some(filter);
    }
    let filter = compile()?;
    // Without it the next session compiles once more.
    tote_sys::best_effort(keep(&dir, &name, &filter));
    Some(filter)
}

/// Returns the name of a profile's file. Another compiler has most likely made another default filter.
fn name(profile: &str) -> String {
    let key = [FORMAT.as_bytes(), &program(DEFAULT), profile.as_bytes()].concat();
    sha256(&key).hex()
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

/// Writes a filter under another name first: a session may read it at any time.
fn keep(dir: &Path, name: &str, filter: &Filter) -> std::io::Result<()> {
    closed::directory(dir)?;
    let names = tote_state::record::names_in(dir).unwrap_or_default();
    if names.len() >= MOST {
        for name in names {
            tote_sys::best_effort(std::fs::remove_file(dir.join(name)));
        }
    }
    let making = dir.join(format!(".{name}-{}", std::process::id()));
    closed::write_new(&making, written(filter))?;
    std::fs::rename(&making, dir.join(name))
}

fn written(filter: &Filter) -> Vec<u8> {
    let mut bytes = filter.flags.to_le_bytes().to_vec();
    bytes.extend(program(&filter.instructions));
    let checksum = sha256(&bytes).hex();
    bytes.extend(checksum.as_bytes());
    bytes
}

fn program(instructions: &[Instruction]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(instructions.len() * INSTRUCTION);
    for Instruction { code, jt, jf, k } in instructions {
        bytes.extend(code.to_le_bytes());
        bytes.extend([*jt, *jf]);
        bytes.extend(k.to_le_bytes());
    }
    bytes
}

/// Reads what [`written`] has made; `None` for anything else.
fn parse(bytes: &[u8]) -> Option<Filter> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    if sha256(content).hex().as_bytes() != checksum {
        return None;
    }
    let (flags, program) = content.split_at_checked(FLAGS)?;
    let instruction = |bytes: &[u8]| {
        let [one, two, jt, jf, rest @ ..] = bytes else {
            return None;
        };
        Some(Instruction {
            code: u16::from_le_bytes([*one, *two]),
            jt: *jt,
            jf: *jf,
            k: u32::from_le_bytes(rest.try_into().ok()?),
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
        flags: u32::from_le_bytes(flags.try_into().ok()?),
        notify: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let bytes = written(&filter(0x7fff_0000));
        assert_eq!(parse(&bytes), Some(filter(0x7fff_0000)));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
        assert_eq!(parse(&bytes[1..]), None);
        assert_eq!(parse(&[]), None);
        let mut damaged = bytes;
        damaged[20] ^= 1;
        assert_eq!(parse(&damaged), None);
        let empty = Filter {
            instructions: Vec::new(),
            ..filter(0)
        };
        assert_eq!(parse(&written(&empty)), None, "the kernel would refuse it");
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
        let path = home.filters().join(name("one"));
        fs::write(&path, "half a f").unwrap();
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
}
