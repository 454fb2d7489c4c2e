//! First message of an X client, in which it shows a cookie.
//!
//! A process beside the session can read the session's file of cookies by `/proc/PID/root`. So the session has a cookie that is good for nothing
//! but the way to the display that answers the session alone: on this way the display's own takes its place, as ssh(1) does with `-X`.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Number of bytes before the name and the text of the proof.
const HEAD: usize = 12;

/// The longest message of which a cookie is looked for, in bytes.
const LONGEST: usize = 4096;

/// The display's cookie, and the one that the session has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cookies {
    pub(super) display: Vec<u8>,
    pub(super) session: Vec<u8>,
}

impl Cookies {
    /// Invents the session's cookie.
    pub(super) fn of(display: &[u8]) -> Result<Self, Errno> {
        let mut session = vec![0; display.len()];
        let mut filled = 0;
        while filled < session.len() {
            filled += rustix::rand::getrandom(&mut session[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self {
            display: display.to_vec(),
            session,
        })
    }

    /// Puts the display's cookie in the place of the session's.
    fn exchange(&self, message: &mut [u8]) {
        let Some(text) = proof(message) else { return };
        if let Some(place) = message.get_mut(text).filter(|text| **text == *self.session) {
            place.copy_from_slice(&self.display);
        }
    }
}

/// Returns the length that a message has by its beginning; `None` for another one than an X client's, or one with an absurd proof.
fn length_of(beginning: &[u8]) -> Option<usize> {
    let (name, text) = lengths(beginning)?;
    let length = HEAD + padded(name) + padded(text);
    (length <= LONGEST).then_some(length)
}

/// Returns the lengths of the proof's name and of its text.
fn lengths(beginning: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| {
        let bytes = [*beginning.get(at)?, *beginning.get(at + 1)?];
        // The first byte says in which order the client writes numbers.
        match beginning.first()? {
            b'B' => Some(usize::from(u16::from_be_bytes(bytes))),
            b'l' => Some(usize::from(u16::from_le_bytes(bytes))),
            _ => None,
        }
    };
    Some((number(6)?, number(8)?))
}

/// Returns the place of the proof's text.
fn proof(message: &[u8]) -> Option<std::ops::Range<usize>> {
    let (name, text) = lengths(message)?;
    let begin = HEAD + padded(name);
    Some(begin..begin + text)
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// The first message on its way.
pub(super) struct Greeting<'a> {
    cookies: &'a Cookies,
    read: Vec<u8>,
}

impl<'a> Greeting<'a> {
    pub(super) fn new(cookies: &'a Cookies) -> Self {
        let read = Vec::new();
        Self { cookies, read }
    }

    /// Reads on. Returns what is to be passed on once it is whole, with the display's cookie, or turns out to be something else; `None`
    /// where it has to wait.
    pub(super) fn read(&mut self, client: impl AsFd) -> Result<Option<Vec<u8>>, Errno> {
        loop {
            let is_head = self.read.len() < HEAD;
            let wanted = if is_head {
                Some(HEAD)
            } else {
                length_of(&self.read)
            };
            let more = wanted.map_or(0, |wanted| wanted.saturating_sub(self.read.len()));
            if more == 0 {
                self.cookies.exchange(&mut self.read);
                return Ok(Some(std::mem::take(&mut self.read)));
            }
            let had = self.read.len();
            self.read.resize(had + more, 0);
            let got = recv(&client, &mut self.read[had..], RecvFlags::DONTWAIT);
            let got = got.map(|(_, got)| got);
            self.read.truncate(had + got.unwrap_or(0));
            match got {
                // The client has ended its side.
                Ok(0) => return Ok(Some(std::mem::take(&mut self.read))),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    fn message(order: u8, name: &[u8], cookie: &[u8]) -> Vec<u8> {
        let number = |number: usize| match order {
            b'B' => (number as u16).to_be_bytes(),
            _ => (number as u16).to_le_bytes(),
        };
        let mut made = vec![order, 0];
        for part in [
            number(11),
            number(0),
            number(name.len()),
            number(cookie.len()),
            [0, 0],
        ] {
            made.extend(part);
        }
        for text in [name, cookie] {
            made.extend(text);
            made.resize(made.len().next_multiple_of(4), 0);
        }
        made
    }

    #[test]
    fn the_displays_cookie_takes_the_place_of_the_sessions() {
        let cookies = Cookies {
            display: b"of the display!!".to_vec(),
            session: b"of the session!!".to_vec(),
        };
        let made = Cookies::of(&cookies.display).unwrap();
        assert!(made.session.len() == 16 && made.session != made.display);
        for order in [b'B', b'l'] {
            let of = |cookie: &[u8]| message(order, b"MIT-MAGIC-COOKIE-1", cookie);
            for (said, passed) in [
                (of(&cookies.session), of(&cookies.display)),
                (of(b"another cookie.."), of(b"another cookie..")),
                (of(b""), of(b"")),
            ] {
                let (mut client, relay) = UnixStream::pair().unwrap();
                let mut greeting = Greeting::new(&cookies);
                // What comes behind it is left for those who pass on descriptors.
                let all = [&said[..], b"behind"].concat();
                for (number, byte) in all.iter().enumerate() {
                    client.write_all(&[*byte]).unwrap();
                    let read = greeting.read(&relay).unwrap();
                    if number + 1 < said.len() {
                        assert_eq!(read, None);
                    } else {
                        assert_eq!(read, Some(passed));
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn anything_else_is_passed_on_as_it_is() {
        let cookies = Cookies {
            display: b"d".to_vec(),
            session: b"s".to_vec(),
        };
        let absurd = [b'B', 0, 0, 11, 0, 0, 255, 255, 255, 255, 0, 0];
        for said in [&b"GET / HTTP/1.0\r\n"[..], b"B", b"", &absurd] {
            let (mut client, relay) = UnixStream::pair().unwrap();
            client.write_all(said).unwrap();
            drop(client);
            let read = Greeting::new(&cookies).read(&relay).unwrap().unwrap();
            assert!(said.starts_with(&read) && (read.len() == said.len() || read.len() == HEAD));
        }
    }
}
