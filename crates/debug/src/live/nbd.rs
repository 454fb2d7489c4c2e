//! The server's side of NBD, as far as QEMU asks: one export, read-only.
//!
//! The format is that of doc/proto.md of the project nbd: numbers are big-endian, a client chooses the export by options, and then
//! sends requests. The client is an enemy.

use super::tree::Image;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";

/// The fixed form of the second handshake, without a gap of zeros.
const HANDSHAKE: u16 = 3;

/// Beginnings of an option and of its answer.
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x3_e889_0455_65a9;

/// Options.
const ABORT: u32 = 2;
const GO: u32 = 7;

/// Answers to options.
const ACK: u32 = 1;
const INFO: u32 = 3;
const UNSUPPORTED: u32 = 0x8000_0001;

/// Flags of the export: it has flags, and is read-only.
const FLAGS: u16 = 3;

/// Beginnings of a request and of its answer.
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Requests.
const READ: u16 = 0;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

/// Errors, by the numbers of Linux.
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

/// Longest data of an option.
const LONGEST_OPTION: u32 = 8 << 10;

/// Longest piece that is read at a time: clients ask for no more than this.
const LONGEST_READ: u32 = 32 << 20;

/// Answers until the client goes.
///
/// # Errors
/// The client is gone without a word, or speaks another language.
pub(super) fn serve(mut client: UnixStream, image: &Image) -> Result<(), Error> {
    if !begin(&mut client, image.size)? {
        return Ok(());
    }
    let mut data = Vec::new();
    loop {
        let mut request = [0; 28];
        client.read_exact(&mut request)?;
        let (magic, kind) = (u32_at(&request, 0), u16_at(&request, 6));
        if magic != REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
        let (handle, from, length) = (&request[8..16], u64_at(&request, 16), u32_at(&request, 24));
        let error = match kind {
            DISCONNECT => return Ok(()),
            FLUSH => 0,
            READ if length > LONGEST_READ
                || from.checked_add(length.into()).is_none_or(|end| end > image.size) =>
            {
                EINVAL
            }
            READ => {
                data.resize(length as usize, 0);
                u32::from(image.read(from, &mut data).is_err()) * EIO
            }
            _ => EPERM,
        };
        let mut answer = [&REPLY.to_be_bytes()[..], &error.to_be_bytes(), handle].concat();
        if kind == READ && error == 0 {
            answer.append(&mut data);
        }
        client.write_all(&answer)?;
    }
}

/// Lets the client choose the export; false if it does not want it.
fn begin(client: &mut UnixStream, size: u64) -> Result<bool, Error> {
    client.write_all(&[GREETING, &HANDSHAKE.to_be_bytes()[..]].concat())?;
    let mut flags = [0; 4];
    client.read_exact(&mut flags)?;
    loop {
        let mut option = [0; 16];
        client.read_exact(&mut option)?;
        let (magic, number, length) = (u64_at(&option, 0), u32_at(&option, 8), u32_at(&option, 12));
        if magic != OPTION || length > LONGEST_OPTION {
            return Err(ErrorKind::InvalidData.into());
        }
        // The only export is meant, whatever it is called.
        let mut data = vec![0; length as usize];
        client.read_exact(&mut data)?;
        match number {
            GO => {
                let export = [&[0, 0], &size.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat();
                answer(client, GO, (INFO, &export))?;
                answer(client, GO, (ACK, &[]))?;
                return Ok(true);
            }
            ABORT => {
                answer(client, ABORT, (ACK, &[]))?;
                return Ok(false);
            }
            other => answer(client, other, (UNSUPPORTED, &[]))?,
        }
    }
}

fn answer(client: &mut UnixStream, option: u32, (kind, data): (u32, &[u8])) -> Result<(), Error> {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let head = [option, kind, length].map(u32::to_be_bytes);
    client.write_all(&[&OPTION_REPLY.to_be_bytes()[..], head.as_flattened(), data].concat())
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Files, Part};
    use super::*;
    use std::fs;

    fn image() -> Image {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "of the file").unwrap();
        let part = Part {
            root: fs::File::open(dir.path()).unwrap().into(),
            at: None,
            public: false,
        };
        let image = Files::of(vec![part], None).unwrap().image().unwrap();
        // Read once, it stays open.
        image.read(0, &mut vec![0; image.size as usize]).unwrap();
        image
    }

    /// Says all that to a server; returns what it says, and how it ends.
    fn said(words: &[&[u8]]) -> (Vec<u8>, Result<(), ErrorKind>) {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        for word in words {
            ours.write_all(word).unwrap();
        }
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let end = serve(theirs, &image()).map_err(|error| error.kind());
        let mut answer = Vec::new();
        ours.read_to_end(&mut answer).unwrap();
        (answer, end)
    }

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        let length = data.len() as u32;
        [
            b"IHAVEOPT",
            &[number, length].map(u32::to_be_bytes).concat()[..],
            data,
        ]
        .concat()
    }

    fn request(kind: u16, from: u64, length: u32) -> Vec<u8> {
        let head = [
            &REQUEST.to_be_bytes()[..],
            &[0, 0],
            &kind.to_be_bytes(),
            b"a handle",
        ]
        .concat();
        [&head[..], &from.to_be_bytes(), &length.to_be_bytes()].concat()
    }

    const HELLO: &[u8] = &[0, 0, 0, 3];

    #[test]
    fn a_client_reads() {
        let image = image();
        let at = image.size - 4096;
        let words = [
            HELLO.to_vec(),
            option(8, b""),
            option(GO, &[0, 0, 0, 0, 0, 0]),
            request(READ, at, 11),
            request(READ, image.size - 1, 2),
            request(READ, u64::MAX, 2),
            request(1, 0, 1),
            request(DISCONNECT, 0, 0),
        ];
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (answer, end) = said(&words);
        assert_eq!(end, Ok(()));
        assert!(answer.starts_with(GREETING));
        // After the greeting come an answer to what is unknown, the export and its acknowledgement.
        let answer = &answer[18 + 20..];
        assert_eq!(answer[20 + 2..20 + 10], image.size.to_be_bytes());
        let mut answer = &answer[20 + 12 + 20..];
        for (error, data) in [
            (0, &b"of the file"[..]),
            (EINVAL, b""),
            (EINVAL, b""),
            (EPERM, b""),
        ] {
            assert_eq!(answer[..4], REPLY.to_be_bytes());
            assert_eq!(answer[4..8], error.to_be_bytes());
            assert!(answer[8..].starts_with(&[b"a handle", data].concat()), "{error}");
            answer = &answer[16 + data.len()..];
        }
        assert!(answer.is_empty());
    }

    #[test]
    fn another_language_ends_it() {
        let long = option(9, b"");
        let long = [&long[..12], &u32::MAX.to_be_bytes()].concat();
        let go = option(GO, &[0; 6]);
        for words in [
            &[HELLO, b"0123456789abcdef"][..],
            &[HELLO, &long],
            &[HELLO, &go, &[0; 28]],
        ] {
            assert_eq!(said(words).1, Err(ErrorKind::InvalidData));
        }
        assert_eq!(said(&[b"ab"]).1, Err(ErrorKind::UnexpectedEof));
        assert_eq!(said(&[HELLO, &option(ABORT, b"")]).1, Ok(()));
    }
}
