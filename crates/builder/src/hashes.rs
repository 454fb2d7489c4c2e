//! Hashes of a context's files, so that unchanged ones are not read again.

use super::workspace::make_dir;
use crate::Home;
use rustix::fs::Stat;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tote_store::sha256;
use tote_sys::best_effort;

/// Time after which a changed file can be trusted to change its time stamp with the next change.
const SETTLED: Duration = Duration::from_secs(2);

/// Limit of a file of hashes, in bytes.
const LIMIT: u64 = 256 << 20;

/// State of a file. Its time of change is the kernel's, and no program can set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stamp([u64; 5]);

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanos = |secs: i64, nanos: u64| {
            secs.cast_unsigned()
                .wrapping_mul(1_000_000_000)
                .wrapping_add(nanos)
        };
        Self([
            stat.st_dev,
            stat.st_ino,
            stat.st_size.cast_unsigned(),
            nanos(stat.st_mtime, stat.st_mtime_nsec),
            nanos(stat.st_ctime, stat.st_ctime_nsec),
        ])
    }

    /// Numbers of the file system and the inode.
    pub(crate) fn inode(&self) -> (u64, u64) {
        (self.0[0], self.0[1])
    }

    fn changed(&self) -> Duration {
        Duration::from_nanos(self.0[4])
    }
}

/// Hashes of one context.
#[derive(Debug)]
pub(crate) struct Hashes {
    path: PathBuf,
    known: HashMap<Stamp, [u8; 32]>,
    /// Hashes that this build has requested; only these are written.
    seen: HashMap<Stamp, [u8; 32]>,
}

impl Hashes {
    /// Reads the hashes of earlier builds of this directory.
    pub(crate) fn of(home: &Home, context: &Path) -> Self {
        let name = sha256(context.as_os_str().as_encoded_bytes()).hex();
        let path = home.builds().join("hashes").join(name);
        // absence: all files are hashed again
        let is_small = std::fs::metadata(&path).is_ok_and(|found| found.len() <= LIMIT);
        // absence: all files are hashed again
        let text = is_small.then(|| std::fs::read_to_string(&path).ok()).flatten();
        let known = text.iter().flat_map(|text| text.lines()).filter_map(parse);
        Self {
            known: known.collect(),
            path,
            seen: HashMap::new(),
        }
    }

    pub(crate) fn get(&mut self, stamp: &Stamp) -> Option<[u8; 32]> {
        let hash = *self.known.get(stamp)?;
        self.seen.insert(*stamp, hash);
        Some(hash)
    }

    /// Records the hash of a file that was in this state before it was read.
    pub(crate) fn put(&mut self, stamp: Stamp, hash: [u8; 32], begun: SystemTime) {
        let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        if stamp.changed() + SETTLED <= begun {
            self.seen.insert(stamp, hash);
        }
    }

    /// Writes the hashes that this build has requested. After a failure the next build reads all files.
    pub(crate) fn save(&self) {
        let Some(dir) = self.path.parent().filter(|_| self.seen != self.known) else {
            return;
        };
        let text = self.text();
        let fresh = self.path.with_extension(std::process::id().to_string());
        let written = make_dir(dir, 0o700).is_ok() && tote_state::closed::write_new(&fresh, text).is_ok();
        if written {
            best_effort(tote_state::record::clear(&self.path));
            best_effort(std::fs::rename(&fresh, &self.path));
        }
    }
}

impl Hashes {
    /// Formats the hashes that this build has requested, one on a line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (Stamp(numbers), hash) in &self.seen {
            for number in numbers {
                best_effort(write!(text, "{number} "));
            }
            for byte in hash {
                best_effort(write!(text, "{byte:02x}"));
            }
            text.push('\n');
        }
        text
    }

    /// Adds the hashes that another process of this build has requested.
    pub(crate) fn add(&mut self, text: &str) {
        self.seen.extend(text.lines().filter_map(parse));
    }
}

fn parse(line: &str) -> Option<(Stamp, [u8; 32])> {
    let mut words = line.split(' ');
    let mut numbers = [0; 5];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let text = words.next().filter(|text| text.len() == 64 && text.is_ascii())?;
    let mut hash = [0; 32];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    words.next().is_none().then_some((Stamp(numbers), hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(path: PathBuf) -> Hashes {
        Hashes {
            path,
            known: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hashes/one");
        let mut written = hashes(path.clone());
        let (old, new) = (Stamp([1, 2, 3, 4, 5]), Stamp([1, 2, 3, 4, 6_000_000_000]));
        let begun = UNIX_EPOCH + Duration::from_secs(7);
        written.put(old, [7; 32], begun);
        written.put(new, [8; 32], begun);
        written.save();
        let text = std::fs::read_to_string(path).unwrap();
        let known: HashMap<_, _> = text.lines().filter_map(parse).collect();
        // The other file may still change without a new time stamp.
        assert_eq!(known, HashMap::from([(old, [7; 32])]));
    }

    #[test]
    fn what_is_no_line_is_none() {
        let hash = "ab".repeat(32);
        assert!(parse(&format!("1 2 3 4 5 {hash}")).is_some());
        for bad in [
            String::new(),
            format!("1 2 3 4 {hash}"),
            format!("1 2 3 4 5 {hash} x"),
            format!("1 2 3 4 5 {}", &hash[1..]),
            format!("1 2 3 4 -5 {hash}"),
            "1 2 3 4 5 zz".to_owned(),
        ] {
            assert!(parse(&bad).is_none(), "{bad}");
        }
    }
}
