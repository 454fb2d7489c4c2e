//! Requests of HTTP to a container, from inside its network.

use super::SlimError;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Most bytes of an answer that are read.
const ANSWER: u64 = 64 << 10;

/// A request, and the status that passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    host: String,
    port: u16,
    path: String,
    /// Status that the answer must have; without it any below 400.
    status: Option<u16>,
}

impl std::fmt::Display for HttpProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(status) = self.status {
            write!(f, "{status}=")?;
        }
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Parses `[CODE=]http://HOST[:PORT][/PATH]`; a path or a port alone is one of `localhost`. A HOST other than an
/// address is a name of the container itself.
///
/// # Errors
/// [`SlimError::Url`].
pub fn parse_http_probe(text: &str) -> Result<HttpProbe, SlimError> {
    parse(text).ok_or_else(|| SlimError::Url(text.to_owned()))
}

fn parse(text: &str) -> Option<HttpProbe> {
    let (status, url) = match text.split_once('=') {
        Some((code, url)) if code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit()) => {
            (Some(code.parse().ok()?), url)
        }
        _ => (None, text),
    };
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest.to_owned(),
        Some(_) => return None,
        None if url.starts_with('/') => format!("localhost{url}"),
        None if url.starts_with(|first: char| first.is_ascii_digit()) => format!("localhost:{url}"),
        None => return None,
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok().filter(|port| *port != 0)?),
        _ => (authority, 80),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let path = if path.starts_with('?') {
        format!("/{path}")
    } else {
        path.to_owned()
    };
    let fits = is_plain(host) && is_plain(&path) && !host.contains('@');
    fits.then(|| HttpProbe {
        host: host.to_owned(),
        port,
        path,
        status,
    })
}

impl HttpProbe {
    /// Asks once. Returns whether the answer passes, and its first line or why it did not come.
    pub fn ask(&self, limit: Duration) -> (bool, String) {
        match self.answer(limit.max(Duration::from_millis(1))) {
            Ok(line) => (self.passes(&line), line),
            Err(error) => (
                false,
                format!("no answer from {}:{}: {error}", self.host, self.port),
            ),
        }
    }

    fn answer(&self, limit: Duration) -> std::io::Result<String> {
        // A name is only told to the server: the container is asked, whatever a resolver says of it.
        let addresses: Vec<SocketAddr> = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![(address, self.port).into()],
            Err(_) => vec![
                (Ipv4Addr::LOCALHOST, self.port).into(),
                (Ipv6Addr::LOCALHOST, self.port).into(),
            ],
        };
        let mut stream = Err(std::io::ErrorKind::NotFound.into());
        for address in addresses {
            stream = TcpStream::connect_timeout(&address, limit);
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let (path, host) = (&self.path, &self.host);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tote\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        match stream.take(ANSWER).read_to_end(&mut answer) {
            // A server may reset the connection after its answer.
            Err(error) if answer.is_empty() => return Err(error),
            _ => {}
        }
        let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).trim().to_owned())
    }

    fn passes(&self, line: &str) -> bool {
        let status = line
            .strip_prefix("HTTP/")
            .and_then(|rest| rest.split(' ').nth(1)?.parse::<u16>().ok());
        match (status, self.status) {
            (Some(status), Some(wanted)) => status == wanted,
            (Some(status), None) => (100..400).contains(&status),
            (None, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes() {
        for (text, shown) in [
            ("http://localhost/", Some("http://localhost:80/")),
            ("/health", Some("http://localhost:80/health")),
            ("8080/x?a=b", Some("http://localhost:8080/x?a=b")),
            ("404=http://web:81/no#x", Some("404=http://web:81/no")),
            ("http://h?x", Some("http://h:80/?x")),
            ("http://[::1]:8080", Some("http://::1:8080/")),
            ("https://localhost/", None),
            ("http://", None),
            ("http://a b/", None),
            ("http://a:0/", None),
            ("http://u@h/", None),
            ("word", None),
            ("", None),
        ] {
            let parsed = parse_http_probe(text).ok().map(|probe| probe.to_string());
            assert_eq!(parsed.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn answers() {
        let any = parse_http_probe("/").unwrap();
        let error_page = parse_http_probe("404=/").unwrap();
        for (line, passes, is_page) in [
            ("HTTP/1.1 200 OK", true, false),
            ("HTTP/1.0 301", true, false),
            ("HTTP/1.1 404 Not Found", false, true),
            ("HTTP/1.1 500 x", false, false),
            ("garbage", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (any.passes(line), error_page.passes(line)),
                (passes, is_page),
                "{line}"
            );
        }
    }
}
