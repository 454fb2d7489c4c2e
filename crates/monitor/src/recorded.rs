//! Entries of a log as they are read.

use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tote_calendar::Time;

/// Stream of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Entry: output of a container, up to the end of a line or 16 KiB of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Text, with the line's end if there is one.
    pub text: Cow<'a, str>,
    /// Stream that it was written to.
    pub stream: Stream,
    /// Time of the entry.
    pub time: Time,
    /// Attributes of the container that its log options asked for.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow, default)]
    log: Cow<'a, str>,
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
    #[serde(default)]
    attrs: Option<BTreeMap<String, String>>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

impl<'a> Entry<'a> {
    /// Parses a line of a log; `None` if it is not an entry.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if line.first() != Some(&b'{') {
            return Self::parse_plain(line);
        }
        let written: Written<'a> = serde_json::from_slice(line).ok()?;
        Some(Self {
            stream: match &*written.stream {
                "stderr" => Stream::Stderr,
                _ => Stream::Stdout,
            },
            time: Time::from_rfc3339(&written.time)?,
            attributes: written.attrs.unwrap_or_default(),
            text: written.log,
        })
    }

    /// Converts it to an entry that does not borrow from the line.
    #[must_use]
    pub fn into_owned(self) -> Entry<'static> {
        Entry {
            text: Cow::Owned(self.text.into_owned()),
            stream: self.stream,
            time: self.time,
            attributes: self.attributes,
        }
    }

    /// Parses an entry of the k8s-file driver.
    fn parse_plain(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let mut field = || fields.next();
        let (time, stream, tag, text) = (field()?, field()?, field()?, field()?);
        let mut text = String::from_utf8_lossy(text);
        match tag {
            b"F" => text.to_mut().push('\n'),
            b"P" => {}
            _ => return None,
        }
        Some(Self {
            stream: match stream {
                b"stdout" => Stream::Stdout,
                b"stderr" => Stream::Stderr,
                _ => return None,
            },
            time: Time::from_rfc3339(str::from_utf8(time).ok()?)?,
            attributes: BTreeMap::new(),
            text,
        })
    }

    /// Returns the attributes as docker shows them: `key=value,key=value`, each escaped as in a URL's query.
    #[must_use]
    pub fn details(&self) -> String {
        let escaped = |(key, value): (&String, &String)| format!("{}={}", escape(key), escape(value));
        let details: Vec<_> = self.attributes.iter().map(escaped).collect();
        details.join(",")
    }
}

/// Escapes like Go's url.QueryEscape.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Line, encode, encode_plain};

    #[test]
    fn what_is_written_can_be_read() {
        for (bytes, text) in [
            (b"plain".as_slice(), "plain\n"),
            (b"\x1b[0m \"<&>\" \\ \r\t\x7f", "\x1b[0m \"<&>\" \\ \r\t\x7f\n"),
            ("\u{2028}gr\u{fc}n".as_bytes(), "\u{2028}gr\u{fc}n\n"),
            (b"\xff", "\u{fffd}\n"),
            (b"", "\n"),
        ] {
            let mut line = Vec::new();
            let time = Time(1_709_164_800_120_000_000);
            let written = Line {
                bytes,
                ends: true,
                stream: "stderr",
                time,
            };
            encode(&written, Some("{\"b\":\"x y\",\"a\":\"\u{e9}&\"}"), &mut line);
            let entry = Entry::parse(&line).unwrap();
            assert_eq!(
                (&*entry.text, entry.stream, entry.time),
                (text, Stream::Stderr, time)
            );
            assert_eq!(entry.details(), "a=%C3%A9%26,b=x+y");
        }
    }

    #[test]
    fn plain_lines() {
        let mut line = Vec::new();
        let time = Time(1_709_164_800_120_000_000);
        for (bytes, ends, text) in [
            (b"a  b {".as_slice(), true, "a  b {\n"),
            (b"", true, "\n"),
            (b"part\r", false, "part\r"),
            (b"\xff", true, "\u{fffd}\n"),
        ] {
            line.clear();
            let written = Line {
                bytes,
                ends,
                stream: "stderr",
                time,
            };
            encode_plain(&written, &mut line);
            let entry = Entry::parse(&line).unwrap();
            assert_eq!(
                (&*entry.text, entry.stream, entry.time),
                (text, Stream::Stderr, time)
            );
        }
        assert!(line.starts_with(b"2024-02-29T00:00:00.120000000Z stderr F "));
        // podman writes the local time.
        let entry = Entry::parse(b"2026-01-02T03:04:05.600000000+01:00 stdout F x\n").unwrap();
        assert_eq!((&*entry.text, entry.stream), ("x\n", Stream::Stdout));
        for line in [
            b"x stdout F x".as_slice(),
            b"2026-01-02T03:04:05Z stdin F x",
            b"2026-01-02T03:04:05Z stdout X x",
            b"2026-01-02T03:04:05Z stdout F",
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn what_others_write_is_read_or_passed_over() {
        let line = br#"{"time":"2026-01-02T03:04:05.6+01:00","stream":"stdout","log":"x","more":[1]}"#;
        assert_eq!(&*Entry::parse(line).unwrap().text, "x");
        for line in [
            b"".as_slice(),
            b"{",
            b"null",
            br#"{"log":"x","stream":"stdout"}"#,
            br#"{"log":"x","time":"yesterday"}"#,
            br#"{"log":"\ud800","time":"2026-01-02T03:04:05Z"}"#,
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }
}
