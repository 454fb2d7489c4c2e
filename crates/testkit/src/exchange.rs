use crate::stop::Stop;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Request of a client.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method, such as `GET`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query after the question mark, in which only `%XX` is decoded.
    pub query: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Complete body.
    pub body: Vec<u8>,
    /// Number of earlier requests with the same method and path.
    pub nth: usize,
}

impl Request {
    /// Returns the value of a header; `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.query.split('&').filter_map(|pair| pair.split_once('='));
        parameters.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Reads a request from a connection; `None` at its end.
    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut request = Self {
            method,
            path: path.to_owned(),
            query: decoded(query),
            ..Self::default()
        };
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            request
                .headers
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = request
            .header("content-length")
            .and_then(|length| length.parse().ok());
        stream.take(length.unwrap_or(0)).read_to_end(&mut request.body)?;
        Ok(Some(request))
    }
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).expect("clients of tests encode as they should"));
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).expect("clients of tests speak UTF-8")
}

/// Reply to a client.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    cut: Option<usize>,
    chunked: bool,
    stop: Option<(usize, Stop)>,
}

impl Reply {
    /// Makes a reply without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            cut: None,
            chunked: false,
            stop: None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Closes the connection after this many bytes of the body.
    #[must_use]
    pub fn cut(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    /// Sends the body in chunks, without its length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Stops after this many bytes of a body that is not in chunks.
    #[must_use]
    pub fn stop(mut self, bytes: usize, stop: Stop) -> Self {
        self.stop = Some((bytes, stop));
        self
    }

    /// Sends the reply. True if the connection can be used for another request.
    pub(crate) fn write(&self, stream: &mut TcpStream, is_head: bool) -> std::io::Result<bool> {
        let mut head = format!("HTTP/1.1 {} Status\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let sized = self.headers.iter().any(|(name, _)| name == "content-length");
        if self.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        } else if !sized {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if is_head {
            return Ok(true);
        }
        let most = self.cut.unwrap_or(usize::MAX).min(self.body.len());
        if self.chunked {
            for chunk in self.body[..most].chunks(1000) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            if self.cut.is_none() {
                stream.write_all(b"0\r\n\r\n")?;
            }
        } else {
            let mut rest = &self.body[..most];
            if let Some((bytes, stop)) = &self.stop {
                let (first, last) = rest.split_at((*bytes).min(most));
                stream.write_all(first)?;
                stop.reach();
                rest = last;
            }
            stream.write_all(rest)?;
        }
        Ok(self.cut.is_none())
    }
}
