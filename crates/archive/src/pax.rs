//! Extended headers of pax(1), `LENGTH KEY=VALUE\n`, with the keys that are needed here.

use crate::entry::Timestamp;
use crate::sparse::{SparseError, SparseMap};

/// Why an extended header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaxError {
    /// A record is not `LENGTH KEY=VALUE\n`.
    #[error("record at byte {0} is not \"LENGTH KEY=VALUE\"")]
    Record(usize),
    /// A known key has an invalid value.
    #[error("the value of {0} is invalid")]
    Value(&'static str),
    /// Names and values of extended attributes exceed the limit, which is given.
    #[error("extended attributes are over the limit of {0} bytes")]
    Attributes(u64),
    /// The map of a sparse file is invalid.
    #[error(transparent)]
    Sparse(#[from] SparseError),
}

/// The records of an extended header, which describe the member after it.
#[derive(Debug, Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link_path: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) sparse: SparseKeys,
    /// Attributes in libarchive's spelling, used unless star's spelling sets the same name.
    archive_xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    xattr_bytes: usize,
}

/// The `GNU.sparse.` keys of the three pax formats.
#[derive(Debug, Default)]
pub(crate) struct SparseKeys {
    pub(crate) major: Option<u64>,
    pub(crate) minor: Option<u64>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) real_size: Option<u64>,
    /// Offsets and lengths in turn, for versions 0.0 and 0.1.
    pub(crate) map: Vec<u64>,
}

impl SparseKeys {
    /// True if the map is at the start of the member's data.
    pub(crate) fn is_version_1(&self) -> bool {
        self.major == Some(1) && self.minor == Some(0)
    }

    /// True if the header contains a map.
    pub(crate) fn has_map(&self) -> bool {
        !self.map.is_empty()
    }
}

impl Pax {
    /// # Errors
    /// Parses all records, up to the first one that is malformed or impossible. Unknown keys are skipped.
    pub(crate) fn parse(bytes: &[u8], xattr_bytes: usize, extents: usize) -> Result<Self, PaxError> {
        let mut pax = Self::default();
        for record in (Records { bytes, at: 0 }) {
            let (key, value) = record?;
            pax.apply(key, value, xattr_bytes, extents)?;
        }
        let spare = std::mem::take(&mut pax.archive_xattrs);
        // Sort in place and stably: the last value of a name wins, and star's spelling comes last.
        let mut all = spare;
        all.append(&mut pax.xattrs);
        all.reverse();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|later, first| later.0 == first.0);
        pax.xattrs = all;
        Ok(pax)
    }

    fn apply(
        &mut self,
        key: &[u8],
        value: &[u8],
        xattr_bytes: usize,
        extents: usize,
    ) -> Result<(), PaxError> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.count(name.len() + value.len(), xattr_bytes)?;
            if name.is_empty() {
                return Err(PaxError::Value("SCHILY.xattr"));
            }
            self.xattrs.push((name.to_vec(), value.to_vec()));
            return Ok(());
        }
        if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            self.count(name.len() + value.len(), xattr_bytes)?;
            let name = percent_decoded(name).filter(|name| !name.is_empty() && !name.contains(&0));
            let value = base64_decoded(value);
            let (Some(name), Some(value)) = (name, value) else {
                return Err(PaxError::Value("LIBARCHIVE.xattr"));
            };
            self.archive_xattrs.push((name, value));
            return Ok(());
        }
        if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
            return self.sparse.apply(key, value, extents);
        }
        // An empty value cancels an earlier record.
        match key {
            b"path" => self.path = text(value, "path")?,
            b"linkpath" => self.link_path = text(value, "linkpath")?,
            b"size" => self.size = number(value, "size")?,
            b"uid" => self.uid = number(value, "uid")?,
            b"gid" => self.gid = number(value, "gid")?,
            b"mtime" if value.is_empty() => self.mtime = None,
            b"mtime" => self.mtime = Some(timestamp(value).ok_or(PaxError::Value("mtime"))?),
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize, limit: usize) -> Result<(), PaxError> {
        self.xattr_bytes = self.xattr_bytes.saturating_add(bytes);
        if self.xattr_bytes > limit {
            Err(PaxError::Attributes(limit as u64))
        } else {
            Ok(())
        }
    }
}

impl SparseKeys {
    fn apply(&mut self, key: &[u8], value: &[u8], extents: usize) -> Result<(), PaxError> {
        match key {
            b"major" => self.major = number(value, "GNU.sparse.major")?,
            b"minor" => self.minor = number(value, "GNU.sparse.minor")?,
            b"name" => self.name = text(value, "GNU.sparse.name")?,
            b"size" | b"realsize" => self.real_size = number(value, "GNU.sparse.realsize")?,
            // Version 0.0 repeats the keys: an offset and then its length.
            b"offset" | b"numbytes" => {
                if self.map.len().is_multiple_of(2) != (key == b"offset") {
                    return Err(PaxError::Value("GNU.sparse.offset"));
                }
                self.map
                    .push(number(value, "GNU.sparse.offset")?.unwrap_or_default());
            }
            // Version 0.1 has the whole map in one value.
            b"map" => {
                self.map.clear();
                for part in value.split(|byte| *byte == b',').filter(|_| !value.is_empty()) {
                    self.map.push(number(part, "GNU.sparse.map")?.unwrap_or_default());
                    SparseMap::check_count(self.map.len() / 2, extents)?;
                }
            }
            _ => {}
        }
        SparseMap::check_count(self.map.len() / 2, extents)?;
        Ok(())
    }
}

/// Iterator over the records of a header, as key and value.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), PaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let Some((key, value, len)) = record(rest) else {
            let at = std::mem::replace(&mut self.at, self.bytes.len());
            return Some(Err(PaxError::Record(at)));
        };
        self.at += len;
        Some(Ok((key, value)))
    }
}

/// Splits off the first record: key, value and length. NUL is allowed in values only; known keys refuse it there
/// too.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let digits = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let len: usize = decimal(&bytes[..digits])?;
    let body = bytes.get(digits + 1..len)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&body[..equals], &body[equals + 1..]);
    (!key.is_empty() && !key.contains(&0)).then_some((key, value, len))
}

fn text(value: &[u8], key: &'static str) -> Result<Option<Vec<u8>>, PaxError> {
    match value {
        b"" => Ok(None),
        _ if value.contains(&0) => Err(PaxError::Value(key)),
        _ => Ok(Some(value.to_vec())),
    }
}

fn number<T: std::str::FromStr>(value: &[u8], key: &'static str) -> Result<Option<T>, PaxError> {
    if value.is_empty() {
        return Ok(None);
    }
    decimal(value).map(Some).ok_or(PaxError::Value(key))
}

/// Parses digits only: without sign or spaces.
pub(crate) fn decimal<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    let digits = str::from_utf8(digits).ok()?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Parses decimal seconds, with an optional sign and fraction; digits beyond nanoseconds are cut off downwards.
fn timestamp(value: &[u8]) -> Option<Timestamp> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (whole, fraction) = match value.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&value[..dot], &value[dot + 1..]),
        None => (value, &[][..]),
    };
    let secs: i64 = decimal(whole)?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0_u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanos) {
        (false, _) => Timestamp { secs, nanos },
        (true, 0) => Timestamp { secs: -secs, nanos },
        (true, _) => Timestamp {
            secs: -secs - 1,
            nanos: 1_000_000_000 - nanos,
        },
    })
}

fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let hex = str::from_utf8(after.get(..2)?).ok()?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &after[2..];
        } else {
            out.push(*first);
        }
    }
    Some(out)
}

/// Decodes base64 in the standard alphabet, with or without padding.
fn base64_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let end = text
        .iter()
        .rposition(|byte| *byte != b'=')
        .map_or(0, |last| last + 1);
    let mut out = Vec::with_capacity(end / 4 * 3 + 2);
    for group in text[..end].chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = (bits << 6) | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        let [_, bytes @ ..] = bits.to_be_bytes();
        out.extend_from_slice(match group.len() {
            1 => return None,
            len => &bytes[..len - 1],
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<Pax, PaxError> {
        Pax::parse(text, 100, 10)
    }

    fn records(records: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (key, value) in records {
            let rest = format!(" {key}={value}\n");
            let len = (1..)
                .find(|digits| format!("{}", rest.len() + digits).len() == *digits)
                .unwrap()
                + rest.len();
            out.extend_from_slice(format!("{len}{rest}").as_bytes());
        }
        out
    }

    #[test]
    fn keys() {
        let pax = parse(&records(&[
            ("path", "ab"),
            ("path", "abc"),
            ("unknown", ""),
            ("uid", "1000"),
        ]))
        .unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"abc"[..]));
        assert_eq!(pax.uid, Some(1000));
        assert_eq!(
            parse(&records(&[("path", "ab"), ("path", "")])).unwrap().path,
            None
        );
        for bad in [
            ("uid", "-1"),
            ("uid", "4294967296"),
            ("gid", "x"),
            ("size", " 1"),
            ("path", "a\0"),
            ("mtime", "-"),
        ] {
            assert!(
                matches!(parse(&records(&[bad])), Err(PaxError::Value(_))),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn malformed_records() {
        assert_eq!(parse(b"11 path=ab\n5 a=b\n").unwrap_err(), PaxError::Record(11));
        for bad in [
            &b"x"[..],
            b"5 a=b",
            b"4 a=\n",
            b"6 ab=\nx",
            b"99999999999999999999 a=b\n",
            b"999 a=b\n",
            b"0 a=b\n",
            b"6 =ab\n",
            b"5 ab\n",
            b"-6 a=b\n",
            b"+6 a=b\n",
            b"7 a\0b=\n",
        ] {
            assert!(matches!(parse(bad), Err(PaxError::Record(_))), "{bad:?}");
        }
    }

    #[test]
    fn times() {
        for (text, time) in [
            ("0", Some((0, 0))),
            ("1350244992.023960108", Some((1_350_244_992, 23_960_108))),
            ("1.5", Some((1, 500_000_000))),
            ("1.0000000019", Some((1, 1))),
            ("-1", Some((-1, 0))),
            ("-1.25", Some((-2, 750_000_000))),
            ("-0.5", Some((-1, 500_000_000))),
            ("9223372036854775807", Some((i64::MAX, 0))),
            ("-9223372036854775807.1", Some((i64::MIN, 900_000_000))),
            ("9223372036854775808", None),
            ("", None),
            (".5", None),
            ("1.x", None),
            ("1e3", None),
            ("--1", None),
        ] {
            let time = time.map(|(secs, nanos)| Timestamp { secs, nanos });
            assert_eq!(timestamp(text.as_bytes()), time, "{text}");
        }
    }

    #[test]
    fn attributes() {
        let star = "SCHILY.xattr.user.a";
        let pax = parse(&records(&[
            (star, "1"),
            (star, "2\0"),
            ("LIBARCHIVE.xattr.user.%61", "YWI="),
        ]))
        .unwrap();
        assert_eq!(pax.xattrs, [(b"user.a".to_vec(), b"2\0".to_vec())]);
        let pax = parse(&records(&[(star, ""), ("LIBARCHIVE.xattr.user.%41", "YWI=")])).unwrap();
        assert_eq!(
            pax.xattrs,
            [
                (b"user.A".to_vec(), b"ab".to_vec()),
                (b"user.a".to_vec(), Vec::new())
            ]
        );
        assert_eq!(
            parse(&records(&[(star, &"x".repeat(106))])).unwrap_err(),
            PaxError::Attributes(100)
        );
        for bad in [
            ("SCHILY.xattr.", "x"),
            ("LIBARCHIVE.xattr.", "YWI="),
            ("LIBARCHIVE.xattr.a%0", ""),
            ("LIBARCHIVE.xattr.a", "*"),
        ] {
            assert!(
                matches!(parse(&records(&[bad])), Err(PaxError::Value(_))),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn maps() {
        let map = |list: &[(&str, &str)]| parse(&records(list)).map(|pax| pax.sparse.map);
        assert_eq!(
            map(&[("GNU.sparse.offset", "1"), ("GNU.sparse.numbytes", "2")]).unwrap(),
            [1, 2]
        );
        assert_eq!(map(&[("GNU.sparse.map", "1,2,3,4")]).unwrap(), [1, 2, 3, 4]);
        assert!(map(&[("GNU.sparse.numbytes", "2")]).is_err());
        assert!(map(&[("GNU.sparse.map", "1,x")]).is_err());
        assert!(matches!(
            map(&[("GNU.sparse.map", &vec!["1"; 22].join(","))]),
            Err(PaxError::Sparse(_))
        ));
    }

    #[test]
    fn base64() {
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("Zg==", Some(b"f")),
            ("Zg", Some(b"f")),
            ("Zm8=", Some(b"fo")),
        ] {
            assert_eq!(base64_decoded(text.as_bytes()).as_deref(), bytes);
        }
        assert_eq!(base64_decoded(b"Zm9vYmFy").as_deref(), Some(&b"foobar"[..]));
        for bad in ["Z", "Zm9vY", "Zm9*", "=Zg"] {
            assert_eq!(base64_decoded(bad.as_bytes()), None, "{bad}");
        }
    }
}
