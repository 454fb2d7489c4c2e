//! Files at an URL outside of registries, for `ADD` in a Dockerfile.

use crate::client::Client;
use crate::error::Error;
use crate::http::{Answer, Call, address, failure};
use crate::wait::{Retry, retry_after};
use std::io::{self, Read};
use ureq::http::{Method, Uri};

/// Maximum number of redirects in a row.
const MAX_REDIRECTS: usize = 8;

/// A file being downloaded. Its content is not verified.
pub struct Download {
    reader: Box<dyn Read + Send>,
    uri: Uri,
    /// Number of bytes, if the server says so.
    pub length: Option<u64>,
    /// Time of the last change in seconds since 1970, if the server says so.
    pub modified: Option<i64>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download")
            .field("uri", &self.uri)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader
            .read(buffer)
            .map_err(|error| io::Error::other(failure(&self.uri, error.into())))
    }
}

impl Client {
    /// Requests the file at an HTTP or HTTPS address. No credentials are sent, and a redirect from an address with
    /// TLS to one without is refused.
    ///
    /// # Errors
    /// Failures of the connection, and an answer that is not a file.
    pub fn download(&self, url: &str) -> Result<Download, Error> {
        let start = address(url, url.split('#').next().unwrap_or_default())?;
        let host = start.authority().map_or("", |authority| authority.as_str());
        let is_http = matches!(start.scheme_str(), Some("http" | "https"));
        if !is_http || host.is_empty() || host.contains('@') {
            return Err(protocol(
                url,
                "it is no address of HTTP, or has a user's name in it",
            ));
        }
        let mut retry = Retry::new(&self.options);
        let answer = loop {
            match self.follow_file(url, &start) {
                Ok(answer) if matches!(answer.status(), 429 | 500 | 502 | 503 | 504) => {
                    let asked = answer.header("retry-after").and_then(retry_after);
                    if !retry.again(asked) {
                        break answer;
                    }
                }
                Ok(answer) => break answer,
                Err(error) if error.is_transient() && retry.again(None) => {}
                Err(error) => return Err(error),
            }
        };
        match answer.status() {
            200 => {}
            401 | 403 | 404 | 410 => return Err(answer.refusal(url, false)),
            status => return Err(protocol(url, &format!("the server answers {status}"))),
        }
        let modified = answer.header("last-modified").and_then(http_date);
        let body = answer.response.into_body();
        Ok(Download {
            length: body.content_length(),
            modified,
            uri: answer.uri,
            reader: Box::new(body.into_reader()),
        })
    }

    fn follow_file(&self, what: &str, start: &Uri) -> Result<Answer, Error> {
        let mut uri = start.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut call = Call::new(what, Method::GET, uri.clone());
            let answer = self.once(&uri, &mut call, None)?;
            if !matches!(answer.status(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let next = answer.location(what)?;
            if uri.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err(protocol(what, &format!("the server leads from TLS to {next}")));
            }
            uri = next;
        }
        Err(protocol(
            what,
            &format!("the server redirects more than {MAX_REDIRECTS} times"),
        ))
    }
}

fn protocol(what: &str, why: &str) -> Error {
    Error::Protocol {
        what: what.to_owned(),
        why: why.to_owned(),
    }
}

/// Parses a date of HTTP into seconds since 1970. Servers must use the first of the three forms, and clients must take all
/// (RFC 9110): `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
fn http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (date, time) = match words[..] {
        [_, day, month, year, time, "GMT"] => ([day, month, year], time),
        [_, date, time, "GMT"] => {
            let date: Vec<&str> = date.split('-').collect();
            (date.try_into().ok()?, time)
        }
        [_, month, day, time, year] => ([day, month, year], time),
        _ => return None,
    };
    let [day, month, year] = date;
    let year = match year.len() {
        2 => of_this_century(year.parse().ok()?),
        _ => year.parse().ok()?,
    };
    seconds_of((day.parse().ok()?, month, year), time)
}

/// Completes a year of two digits: one that seems to lie more than 50 years ahead is past (RFC 9110).
fn of_this_century(year: u16) -> u16 {
    let now = u16::try_from(1970 + tote_calendar::now().as_secs() / 31_556_952).unwrap_or(u16::MAX);
    let near = now / 100 * 100 + year;
    if near > now + 50 { near - 100 } else { near }
}

fn seconds_of((day, month, year): (u8, &str, u16), time: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    let mut numbers = time.split(':').map(|number| number.parse::<u8>().ok());
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let sane =
        (1..=31).contains(&day) && (1970..=9999).contains(&year) && hour < 24 && minute < 60 && second < 61;
    if !sane || numbers.next().is_some() {
        return None;
    }
    tote_calendar::seconds_of(&format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
    ))
}

#[cfg(test)]
mod tests {
    use super::http_date;

    #[test]
    fn dates() {
        for (text, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 12:00:00 GMT", Some(951_825_600)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Thursday, 02-Jan-20 03:04:05 GMT", Some(1_577_934_245)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Sun Nov 16 08:49:37 1994", Some(784_975_777)),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sunday, 06-Nov 08:49:37 GMT", None),
            ("Sun Nov 6 08:49:37 94 GMT x", None),
            ("Sun, 06 Nov 1994 08:49:37:1 GMT", None),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("Sun, 06 Nov 999999999999999999 08:49:37 GMT", None),
            ("", None),
        ] {
            assert_eq!(http_date(text), seconds, "{text}");
        }
    }
}
