//! Entries of a log as docker's json-file driver writes them, byte for byte.

use tote_calendar::Time;

/// Destination of the bytes of an entry, piece by piece.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Contents of an entry to write. Reading it gives a [`crate::Entry`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Bytes that the container wrote, without the line's end.
    pub(crate) bytes: &'a [u8],
    /// True if the line ended; a line of more than 16 KiB is several entries, of which only the last has the end.
    pub(crate) ends: bool,
    /// `stdout` or `stderr`.
    pub(crate) stream: &'static str,
    /// Time at which the first entry of the line was made.
    pub(crate) time: Time,
}

/// Writes a line as `{"log":"…\n","stream":"stdout","attrs":{…},"time":"…"}` and a line end. `attributes` is JSON.
pub(crate) fn encode(line: &Line<'_>, attributes: Option<&str>, sink: &mut impl Sink) {
    sink.put(b"{");
    if !line.bytes.is_empty() || line.ends {
        sink.put(b"\"log\":\"");
        escape(line.bytes, sink);
        sink.put(if line.ends { b"\\n\"," } else { b"\"," });
    }
    sink.put(b"\"stream\":\"");
    sink.put(line.stream.as_bytes());
    sink.put(b"\",");
    if let Some(attributes) = attributes {
        sink.put(b"\"attrs\":");
        sink.put(attributes.as_bytes());
        sink.put(b",");
    }
    sink.put(b"\"time\":\"");
    sink.put(line.time.text().as_bytes());
    sink.put(b"\"}\n");
}

/// Writes a line as `2026-01-02T03:04:05.000000000Z stdout F …` and a line end, with `P` for a part of a line. The
/// bytes are written unchanged: they contain no line end.
pub(crate) fn encode_plain(line: &Line<'_>, sink: &mut impl Sink) {
    sink.put(line.time.long_text().as_bytes());
    sink.put(b" ");
    sink.put(line.stream.as_bytes());
    sink.put(if line.ends { b" F " } else { b" P " });
    sink.put(line.bytes);
    sink.put(b"\n");
}

/// Escapes text as Go's encoder for HTML: `<`, `>` and `&` by number, and each byte of invalid UTF-8 as U+FFFD.
fn escape(bytes: &[u8], sink: &mut impl Sink) {
    for chunk in bytes.utf8_chunks() {
        escape_text(chunk.valid(), sink);
        for _ in chunk.invalid() {
            sink.put(b"\\ufffd");
        }
    }
}

fn escape_text(text: &str, sink: &mut impl Sink) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let mut length = 1;
        let numbered;
        let written: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            0..0x20 | b'<' | b'>' | b'&' => {
                numbered = [
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ];
                &numbered
            }
            // U+2028 and U+2029 end a line of JavaScript.
            0xe2 if bytes[at..].starts_with(b"\xe2\x80\xa8") => {
                length = 3;
                b"\\u2028"
            }
            0xe2 if bytes[at..].starts_with(b"\xe2\x80\xa9") => {
                length = 3;
                b"\\u2029"
            }
            _ => {
                at += 1;
                continue;
            }
        };
        sink.put(&bytes[start..at]);
        sink.put(written);
        at += length;
        start = at;
    }
    sink.put(&bytes[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8], ends: bool, attributes: Option<&str>) -> String {
        let line = Line {
            bytes,
            ends,
            stream: "stdout",
            time: Time(0),
        };
        let mut text = Vec::new();
        encode(&line, attributes, &mut text);
        String::from_utf8(text).unwrap()
    }

    /// The right side is the output of docker's Go encoder for the left.
    #[test]
    fn bytes_are_as_docker_writes_them() {
        let rest = "\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:00Z\"}\n";
        for (bytes, text) in [
            (b"hello".as_slice(), "hello"),
            (b"", ""),
            (b"\t\x00\x1b[0m\x7f\r", "\\u0009\\u0000\\u001b[0m\x7f\\r"),
            (b"<a href=\"x\">&\\", "\\u003ca href=\\\"x\\\"\\u003e\\u0026\\\\"),
            ("gr\u{fc}n \u{1f600}".as_bytes(), "gr\u{fc}n \u{1f600}"),
            ("\u{2028}\u{2029}\u{2027}".as_bytes(), "\\u2028\\u2029\u{2027}"),
            (b"\xff\xf0\x9f\x98x", "\\ufffd\\ufffd\\ufffd\\ufffdx"),
            (b"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"),
        ] {
            assert_eq!(
                encoded(bytes, true, None),
                format!("{{\"log\":\"{text}\\n\",{rest}"),
                "{bytes:?}"
            );
        }
        assert_eq!(
            encoded(b"part", false, None),
            format!("{{\"log\":\"part\",{rest}")
        );
        assert_eq!(
            encoded(b"x", true, Some("{\"tag\":\"t\"}")),
            "{\"log\":\"x\\n\",\"stream\":\"stdout\",\"attrs\":{\"tag\":\"t\"},\"time\":\"1970-01-01T00:00:00Z\"}\n"
        );
    }
}
