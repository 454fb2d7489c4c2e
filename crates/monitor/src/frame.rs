//! Messages on a container's socket.
//!
//! The socket keeps messages apart (`SOCK_SEQPACKET`), so a frame is one message: a letter, then its contents, in the
//! byte order of the machine.
//!
//! ```text
//! client   A mask [rows cols]   from now on this client has these streams; `wait` has none
//!          I bytes              for the container's standard input
//!          E                    end of that input
//!          W rows cols          the size of the client's terminal
//!          K                    to a command in the foreground: let a monitor watch the container
//!          N                    the container is in other networks than before
//! monitor  O bytes              the container's standard output, or its terminal
//!          R bytes              its standard error
//!          D                    what the client has told is done
//!          X code [text]        the container has ended; the text is for people
//! ```

/// Most bytes after the letter of `I`, `O` and `R`.
pub const MOST: usize = 16 * 1024;

/// Streams of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// True if it sends standard input.
    pub stdin: bool,
    /// True if it gets standard output.
    pub stdout: bool,
    /// True if it gets standard error.
    pub stderr: bool,
}

impl Streams {
    /// All three streams.
    pub const ALL: Self = Self {
        stdin: true,
        stdout: true,
        stderr: true,
    };

    fn from_mask(mask: u8) -> Self {
        Self {
            stdin: mask & 1 != 0,
            stdout: mask & 2 != 0,
            stderr: mask & 4 != 0,
        }
    }

    fn mask(self) -> u8 {
        u8::from(self.stdin) | u8::from(self.stdout) << 1 | u8::from(self.stderr) << 2
    }
}

/// Rows and columns of a terminal.
pub type Size = (u16, u16);

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The client wants these streams, and has a terminal of that size.
    Attach(Streams, Option<Size>),
    /// Bytes for the container's standard input.
    Input(&'a [u8]),
    /// End of that input.
    EndOfInput,
    /// New size of the client's terminal.
    Resize(Size),
    /// Asks for a monitor; a command in the foreground closes the connection when there is one, or cannot be.
    Monitor,
    /// Tells a monitor that the container is in other networks than before; [`Report::Done`] follows.
    Networks,
}

impl<'a> Request<'a> {
    /// Parses one message; `None` for an invalid one.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        match message.split_first()? {
            (b'A', [mask @ 0..8]) => Some(Self::Attach(Streams::from_mask(*mask), None)),
            (b'A', [mask @ 0..8, size @ ..]) => {
                Some(Self::Attach(Streams::from_mask(*mask), Some(parse_size(size)?)))
            }
            (b'I', bytes) if bytes.len() <= MOST => Some(Self::Input(bytes)),
            (b'E', []) => Some(Self::EndOfInput),
            (b'K', []) => Some(Self::Monitor),
            (b'N', []) => Some(Self::Networks),
            (b'W', size) => Some(Self::Resize(parse_size(size)?)),
            _ => None,
        }
    }

    /// Returns the beginning of the message, and the part of the request that follows it.
    pub(crate) fn encode(self) -> (Head, &'a [u8]) {
        match self {
            Self::Attach(streams, None) => (Head::new(&[b'A', streams.mask()]), &[]),
            Self::Attach(streams, Some((rows, columns))) => {
                let [a, b] = rows.to_ne_bytes();
                let [c, d] = columns.to_ne_bytes();
                (Head::new(&[b'A', streams.mask(), a, b, c, d]), &[])
            }
            Self::Input(bytes) => (Head::new(b"I"), bytes),
            Self::EndOfInput => (Head::new(b"E"), &[]),
            Self::Monitor => (Head::new(b"K"), &[]),
            Self::Networks => (Head::new(b"N"), &[]),
            Self::Resize((rows, columns)) => {
                let [a, b] = rows.to_ne_bytes();
                let [c, d] = columns.to_ne_bytes();
                (Head::new(&[b'W', a, b, c, d]), &[])
            }
        }
    }
}

fn parse_size(bytes: &[u8]) -> Option<Size> {
    match bytes {
        [a, b, c, d] => Some((u16::from_ne_bytes([*a, *b]), u16::from_ne_bytes([*c, *d]))),
        _ => None,
    }
}

/// Message of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report<'a> {
    /// Bytes of the container's standard output or its terminal.
    Stdout(&'a [u8]),
    /// Bytes of its standard error.
    Stderr(&'a [u8]),
    /// The container has ended: docker's exit code, and one line for people or nothing.
    Ended(i32, &'a [u8]),
    /// Answer to a client whose news the monitor has followed.
    Done,
}

impl<'a> Report<'a> {
    /// Parses one message; `None` for an invalid one.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        match message.split_first()? {
            (b'O', bytes) if bytes.len() <= MOST => Some(Self::Stdout(bytes)),
            (b'R', bytes) if bytes.len() <= MOST => Some(Self::Stderr(bytes)),
            (b'D', []) => Some(Self::Done),
            (b'X', [a, b, c, d, text @ ..]) if text.len() <= MOST => {
                Some(Self::Ended(i32::from_ne_bytes([*a, *b, *c, *d]), text))
            }
            _ => None,
        }
    }

    /// Does the same as [`Request::encode`].
    pub(crate) fn encode(self) -> (Head, &'a [u8]) {
        match self {
            Self::Stdout(bytes) => (Head::new(b"O"), bytes),
            Self::Stderr(bytes) => (Head::new(b"R"), bytes),
            Self::Done => (Head::new(b"D"), &[]),
            Self::Ended(code, text) => {
                let [a, b, c, d] = code.to_ne_bytes();
                (Head::new(&[b'X', a, b, c, d]), &text[..text.len().min(MOST)])
            }
        }
    }
}

/// Letter of a message and the numbers after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    bytes: [u8; 6],
    length: usize,
}

impl Head {
    fn new(start: &[u8]) -> Self {
        let mut bytes = [0; 6];
        bytes[..start.len()].copy_from_slice(start);
        Self {
            bytes,
            length: start.len(),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole((head, rest): (Head, &[u8])) -> Vec<u8> {
        [head.bytes(), rest].concat()
    }

    #[test]
    fn what_is_written_can_be_read() {
        for mask in 0..8 {
            let streams = Streams::from_mask(mask);
            for request in [
                Request::Attach(streams, None),
                Request::Attach(streams, Some((24, 80))),
                Request::Input(b"ls\n"),
                Request::Input(b""),
                Request::EndOfInput,
                Request::Resize((65535, 1)),
                Request::Monitor,
                Request::Networks,
            ] {
                assert_eq!(Request::parse(&whole(request.encode())), Some(request));
            }
        }
        for report in [
            Report::Stdout(b"out"),
            Report::Stderr(b""),
            Report::Ended(137, b""),
            Report::Done,
            Report::Ended(-1, b"killed"),
        ] {
            assert_eq!(Report::parse(&whole(report.encode())), Some(report));
        }
    }

    #[test]
    fn everything_else_is_nothing() {
        let long = [b"I".as_slice(), &[0; MOST + 1]].concat();
        for message in [
            b"".as_slice(),
            b"A",
            b"A\x08",
            b"A\x01\x01",
            b"A\x01\x01\x02\x03\x04\x05",
            b"E ",
            b"W\x01\x02\x03",
            b"X",
            b"\xff",
            &long,
        ] {
            assert_eq!(Request::parse(message), None, "{message:?}");
        }
        assert_eq!(Report::parse(b"X\x01\x02\x03"), None);
        assert_eq!(Report::parse(b"A\x01"), None);
    }
}
