//! Device rules: the meaning of a list, as lines for v1's files. `bpf` makes a program for v2 from the same meaning.

use std::fmt;
use thiserror::Error;
use tote_spec::DeviceRule;

pub(crate) const MKNOD: u8 = 1;
pub(crate) const READ: u8 = 2;
pub(crate) const WRITE: u8 = 4;
pub(crate) const ALL: u8 = MKNOD | READ | WRITE;

/// Reason why device rules cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// A type other than `a`, `b` and `c`.
    #[error("cannot read device rule {index}: type {kind:?} is not one of a, b, c")]
    Kind {
        /// Index of the rule in the list, from 0.
        index: usize,
        /// Type in the rule.
        kind: String,
    },
    /// A letter other than `r`, `w` and `m`.
    #[error("cannot read device rule {index}: access {access:?} is not made of r, w, m")]
    Access {
        /// Index of the rule in the list, from 0.
        index: usize,
        /// Access in the rule.
        access: String,
    },
    /// A number that no device has.
    #[error("cannot read device rule {index}: device number {number} is out of range")]
    Number {
        /// Index of the rule in the list, from 0.
        index: usize,
        /// Number in the rule.
        number: i64,
    },
    /// An exception to an exception: v1 would silently ignore it, so it is refused everywhere.
    #[error("cannot apply device rule {index} ({rule}): it makes a hole in the wider rule {wider}")]
    Hole {
        /// Index of the rule in the list, from 0.
        index: usize,
        /// The rule.
        rule: String,
        /// Rule that covers it.
        wider: String,
    },
}

/// Character or block devices; the numbers are those of the kernel's `BPF_DEVCG_DEV_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Block = 1,
    Char = 2,
}

/// Devices that an exception is about; `None` means every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Devices {
    pub(crate) kind: Kind,
    pub(crate) major: Option<u32>,
    pub(crate) minor: Option<u32>,
}

impl Devices {
    fn covers(self, other: Self) -> bool {
        self.kind == other.kind
            && self.major.is_none_or(|major| other.major == Some(major))
            && self.minor.is_none_or(|minor| other.minor == Some(minor))
    }
}

/// Meaning of a list of rules: a default, and exceptions that all say the opposite.
///
/// This is the model of the kernel's v1 controller. It decides for v2 as well, so that a container sees no
/// difference: later rules override, and a rule of type `a` discards everything before it, whatever numbers it has.
/// Before the first rule nothing is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) allow_by_default: bool,
    pub(crate) exceptions: Vec<(Devices, u8)>,
}

impl Access {
    pub(crate) fn from_rules(rules: &[DeviceRule]) -> Result<Self, DeviceError> {
        let mut access = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            let kind = match rule.kind.as_deref() {
                None | Some("a" | "") => {
                    access = Self {
                        allow_by_default: rule.allow,
                        exceptions: Vec::new(),
                    };
                    continue;
                }
                Some("b") => Kind::Block,
                // `u` is mknod(1)'s unbuffered character device, which the specification admits for nodes.
                Some("c" | "u") => Kind::Char,
                Some(other) => {
                    return Err(DeviceError::Kind {
                        index,
                        kind: other.to_owned(),
                    });
                }
            };
            let (major, minor) = (number(index, rule.major)?, number(index, rule.minor)?);
            let bits = letters(index, rule.access.as_deref())?;
            access.apply(index, rule.allow, Devices { kind, major, minor }, bits)?;
        }
        Ok(access)
    }

    /// Parses the rules in force from `devices.list`. A list that allows by default shows no exceptions: they are
    /// unknown.
    pub(crate) fn from_list(list: &str) -> Self {
        let mut access = Self::default();
        for line in list.lines() {
            let mut fields = line.split([' ', ':']);
            let kind = match fields.next() {
                Some("b") => Kind::Block,
                Some("c") => Kind::Char,
                Some("a") => {
                    return Self {
                        allow_by_default: true,
                        exceptions: Vec::new(),
                    };
                }
                _ => continue,
            };
            let mut number = || fields.next().and_then(|n| n.parse().ok());
            let (major, minor) = (number(), number());
            if let Ok(bits) = letters(0, fields.next()) {
                access.add(Devices { kind, major, minor }, bits);
            }
        }
        access
    }

    fn apply(&mut self, index: usize, allow: bool, devices: Devices, bits: u8) -> Result<(), DeviceError> {
        if allow != self.allow_by_default {
            self.add(devices, bits);
            return Ok(());
        }
        let wider = self
            .exceptions
            .iter()
            .find(|(d, b)| *d != devices && d.covers(devices) && b & bits != 0);
        if let Some(&(wider, wider_bits)) = wider {
            let (rule, wider) = (
                Line(devices, bits).to_string(),
                Line(wider, wider_bits).to_string(),
            );
            return Err(DeviceError::Hole { index, rule, wider });
        }
        for (_, old) in self.exceptions.iter_mut().filter(|(d, _)| *d == devices) {
            *old &= !bits;
        }
        self.exceptions.retain(|(_, bits)| *bits != 0);
        Ok(())
    }

    fn add(&mut self, devices: Devices, bits: u8) {
        match self.exceptions.iter_mut().find(|(d, _)| *d == devices) {
            Some((_, old)) => *old |= bits,
            None if bits != 0 => self.exceptions.push((devices, bits)),
            None => {}
        }
    }

    fn bits(&self, devices: Devices) -> u8 {
        self.exceptions
            .iter()
            .find(|(d, _)| *d == devices)
            .map_or(0, |(_, bits)| *bits)
    }

    /// Returns the lines that lead a v1 group from `now` to `self`: (whether into `devices.allow`, the line).
    ///
    /// Everything is denied for a moment only if the default changes or the exceptions in force are unknown.
    pub(crate) fn lines_from(&self, now: &Self) -> Vec<(bool, String)> {
        let mut lines = Vec::with_capacity(self.exceptions.len() + 1);
        let reset = now.allow_by_default || now.allow_by_default != self.allow_by_default;
        let none = Self::default();
        let now = if reset { &none } else { now };
        if reset {
            lines.push((self.allow_by_default, "a".to_owned()));
        }
        for &(devices, old) in &now.exceptions {
            let gone = old & !self.bits(devices);
            if gone != 0 {
                lines.push((self.allow_by_default, Line(devices, gone).to_string()));
            }
        }
        for &(devices, bits) in &self.exceptions {
            let gained = bits & !now.bits(devices);
            if gained != 0 {
                lines.push((!self.allow_by_default, Line(devices, gained).to_string()));
            }
        }
        lines
    }
}

fn number(index: usize, number: Option<i64>) -> Result<Option<u32>, DeviceError> {
    match number {
        None | Some(-1) => Ok(None),
        Some(n) => u32::try_from(n)
            .map(Some)
            .map_err(|_| DeviceError::Number { index, number: n }),
    }
}

fn letters(index: usize, access: Option<&str>) -> Result<u8, DeviceError> {
    let Some(access) = access else { return Ok(ALL) };
    let bits = access.bytes().try_fold(0, |bits, letter| match letter {
        b'r' => Some(bits | READ),
        b'w' => Some(bits | WRITE),
        b'm' => Some(bits | MKNOD),
        // Some bundles have this letter; other runtimes ignore it.
        b'a' => Some(bits),
        _ => None,
    });
    // Unknown letters must not become a rule that forbids nothing.
    match bits {
        Some(bits) if bits != 0 || access.is_empty() => Ok(bits),
        _ => Err(DeviceError::Access {
            index,
            access: access.chars().take(32).collect(),
        }),
    }
}

/// Line of `devices.allow`: `c 1:3 rwm`.
struct Line(Devices, u8);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Devices { kind, major, minor }, bits) = self;
        f.write_str(if *kind == Kind::Block { "b " } else { "c " })?;
        for (number, end) in [(major, ":"), (minor, " ")] {
            match number {
                Some(n) => write!(f, "{n}{end}")?,
                None => write!(f, "*{end}")?,
            }
        }
        let letters = [(READ, "r"), (WRITE, "w"), (MKNOD, "m")];
        letters
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .try_for_each(|(_, letter)| f.write_str(letter))
    }
}

/// Returns the rules for devices that docker and runc let every container use: nothing, and then the pseudo devices
/// that each root file system has (null, zero, full, random, urandom, tty, ptmx, the pts of devpts), `/dev/net/tun`,
/// which makes devices in the container's own network namespace only, and mknod(2) of any device, which opens
/// nothing.
///
/// An OCI runtime appends the exceptions to the rules of the bundle.
#[must_use]
pub fn default_device_rules() -> Vec<DeviceRule> {
    let rule = |allow, kind: &str, major, minor, access: &str| DeviceRule {
        allow,
        kind: Some(kind.to_owned()),
        major,
        minor,
        access: Some(access.to_owned()),
    };
    let mut rules = vec![
        rule(false, "a", None, None, "rwm"),
        rule(true, "c", None, None, "m"),
        rule(true, "b", None, None, "m"),
    ];
    for (major, minor) in [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200)] {
        rules.push(rule(true, "c", Some(major), Some(minor), "rwm"));
    }
    rules.push(rule(true, "c", Some(136), None, "rwm"));
    rules
}

#[cfg(test)]
mod tests;
