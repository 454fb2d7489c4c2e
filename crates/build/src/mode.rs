//! `--chmod`: permission bits in octal digits, or changes to them in the syntax of chmod(1).

use crate::key::{Field, Key};

/// A value of `--chmod`: the permissions of a file, or changes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// Permission bits that replace the present ones.
    Bits(u32),
    /// Changes, applied one after the other.
    Changes(Vec<ModeChange>),
}

/// A `WHO OPERATION PERMISSIONS`, such as `go-w`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange {
    /// Bits that may change.
    mask: u32,
    operation: Operation,
    permissions: Vec<char>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add,
    Remove,
    Set,
}

impl FileMode {
    /// Parses up to four octal digits, or symbols such as `u=rwX,go=u-w`. An operation without letters before it
    /// applies to user, group and others; the umask is ignored.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).ok()?;
            return (bits <= 0o7777).then_some(Self::Bits(bits));
        }
        let mut changes = Vec::new();
        for clause in text.split(',') {
            let whom = clause.find(['+', '-', '='])?;
            let mask = clause[..whom]
                .chars()
                .try_fold(0, |mask, letter| Some(mask | whose(letter)?))?;
            let mask = if whom == 0 { 0o7777 } else { mask };
            for letter in clause[whom..].chars() {
                let operation = match letter {
                    '+' => Operation::Add,
                    '-' => Operation::Remove,
                    '=' => Operation::Set,
                    'r' | 'w' | 'x' | 'X' | 's' | 't' | 'u' | 'g' | 'o' => {
                        let last: &mut ModeChange = changes.last_mut()?;
                        last.permissions.push(letter);
                        continue;
                    }
                    _ => return None,
                };
                changes.push(ModeChange {
                    mask,
                    operation,
                    permissions: Vec::new(),
                });
            }
        }
        Some(Self::Changes(changes))
    }

    /// Computes the new permissions of a file that has `mode`.
    #[must_use]
    pub fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        match self {
            Self::Bits(bits) => *bits,
            Self::Changes(changes) => changes
                .iter()
                .fold(mode, |mode, change| change.apply(mode, is_dir)),
        }
    }

    /// Computes the permissions of directories that are created on the way to a destination: as docker's builder
    /// does, octal bits apply to them and symbolic changes do not.
    #[must_use]
    pub fn of_made_directories(mode: Option<&Self>) -> u32 {
        match mode {
            Some(Self::Bits(bits)) => *bits,
            _ => 0o755,
        }
    }
}

impl Field for FileMode {
    fn add_to(&self, key: &mut Key) {
        match self {
            Self::Bits(bits) => {
                "bits".add_to(key);
                bits.add_to(key);
            }
            Self::Changes(changes) => {
                "changes".add_to(key);
                changes.add_to(key);
            }
        }
    }
}

impl Field for ModeChange {
    fn add_to(&self, key: &mut Key) {
        self.mask.add_to(key);
        match self.operation {
            Operation::Add => "+",
            Operation::Remove => "-",
            Operation::Set => "=",
        }
        .add_to(key);
        self.permissions.iter().collect::<String>().add_to(key);
    }
}

/// Returns the bits that a letter before the operation selects.
fn whose(letter: char) -> Option<u32> {
    Some(match letter {
        'u' => 0o4700,
        'g' => 0o2070,
        'o' => 0o1007,
        'a' => 0o7777,
        _ => return None,
    })
}

impl ModeChange {
    fn apply(&self, mode: u32, is_dir: bool) -> u32 {
        let bits = |letter: &char| match letter {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            'X' if is_dir || mode & 0o111 != 0 => 0o111,
            's' => 0o6000,
            't' => 0o1000,
            'u' => (mode >> 6 & 7) * 0o111,
            'g' => (mode >> 3 & 7) * 0o111,
            'o' => (mode & 7) * 0o111,
            _ => 0,
        };
        let bits = self.permissions.iter().map(bits).fold(0, |all, bits| all | bits) & self.mask;
        match self.operation {
            Operation::Add => mode | bits,
            Operation::Remove => mode & !bits,
            Operation::Set => mode & !self.mask | bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FileMode;

    #[test]
    fn as_chmod_has_it() {
        for (text, mode, is_dir, expected) in [
            ("755", 0o600, false, 0o755),
            ("07777", 0, false, 0o7777),
            ("go-w", 0o666, false, 0o644),
            ("u+x", 0o644, false, 0o744),
            ("+x", 0o644, false, 0o755),
            ("a=rX", 0o644, false, 0o444),
            ("a=rX", 0o644, true, 0o555),
            ("a=rX", 0o744, false, 0o555),
            ("u=rwX,go=u-w", 0o700, true, 0o755),
            ("g=u,o=", 0o754, false, 0o770),
            ("u+s,g-s,+t", 0o2755, false, 0o5755),
            ("u=rw-r", 0o777, false, 0o277),
        ] {
            let parsed = FileMode::parse(text).unwrap();
            assert_eq!(parsed.apply(mode, is_dir), expected, "{text} on {mode:o}");
        }
        for bad in ["", "10000", "8", "rwx", "u", "z+x", "u+q", "u+x,", "0x7"] {
            assert_eq!(FileMode::parse(bad), None, "{bad}");
        }
    }
}
