//! Lookup of host names without libc.
//!
//! A static program must not call getaddrinfo(3): at run time it loads the modules that `/etc/nsswitch.conf` names,
//! of whatever C library the machine has. The lookup reads `/etc/hosts` and `/etc/resolv.conf` only. A machine with
//! another service for names makes that reachable by one of these files, as systemd-resolved does.

use crate::dns::{A, AAAA, Answer, ResolvConf, answer, hosts, question};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Maximum number of a host's addresses that are tried.
const MOST: usize = 16;

/// Files that the lookup reads.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    hosts: PathBuf,
    resolv_conf: PathBuf,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            hosts: PathBuf::from("/etc/hosts"),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
        }
    }
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let not_found = || ureq::Error::HostNotFound;
        let (scheme, authority) = uri.scheme().zip(uri.authority()).ok_or_else(not_found)?;
        let place = DefaultResolver::host_and_port(scheme, authority).ok_or_else(not_found)?;
        let (host, port) = place.rsplit_once(':').ok_or_else(not_found)?;
        let port = port.parse().map_err(|_| not_found())?;
        let limit = if timeout.after.is_not_happening() {
            Duration::from_secs(60)
        } else {
            *timeout.after
        };
        let found = self.look_up(host, Instant::now() + limit)?;
        let mut addresses = self.empty();
        for address in found.into_iter().take(MOST) {
            addresses.push(SocketAddr::new(address, port));
        }
        if addresses.is_empty() {
            return Err(not_found());
        }
        Ok(addresses)
    }
}

impl Names {
    /// Looks up the addresses of a host; an empty list if the name does not exist.
    ///
    /// # Errors
    /// All servers failed or did not answer.
    fn look_up(&self, host: &str, end: Instant) -> io::Result<Vec<IpAddr>> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse() {
            return Ok(vec![address]);
        }
        let text = read(&self.hosts)?;
        let known = hosts(&text, host);
        if !known.is_empty() {
            return Ok(known);
        }
        // RFC 6761: no name server is asked for localhost.
        let lower = host.trim_end_matches('.').to_ascii_lowercase();
        if lower == "localhost" || lower.ends_with(".localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let text = read(&self.resolv_conf)?;
        ask_for(&ResolvConf::parse(&text), host, end)
    }
}

/// Reads one of the files, either of which may be missing or not this user's to read.
fn read(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(String::new())
        }
        text => text,
    }
}

/// Reason why a name was not found: all name servers were silent. Each of them was asked more than once, so that an attempt more is
/// of no use.
#[derive(Debug, thiserror::Error)]
#[error("the name server {server} does not answer: {source}")]
pub(crate) struct Silent {
    server: IpAddr,
    source: io::Error,
}

impl Silent {
    /// True for an error that has this reason.
    pub(crate) fn is_reason_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Asks for each candidate of the name until one has addresses. Servers that are silent about the first question are asked no other
/// one.
fn ask_for(conf: &ResolvConf, host: &str, end: Instant) -> io::Result<Vec<IpAddr>> {
    let mut failure = None;
    for name in conf.candidates(host) {
        let mut found = Vec::new();
        for kind in [A, AAAA] {
            match ask_all(conf, &name, kind, end) {
                Ok(addresses) => found.extend(addresses),
                Err(error) if found.is_empty() && Silent::is_reason_of(&error) => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    failure.map_or(Ok(Vec::new()), Err)
}

/// Asks one server after the other until one answers.
fn ask_all(conf: &ResolvConf, name: &str, kind: u16, end: Instant) -> io::Result<Vec<IpAddr>> {
    let mut failure = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..conf.attempts {
        for server in &conf.servers {
            let left = end.saturating_duration_since(Instant::now()).min(conf.timeout);
            if left.is_zero() {
                return Err(failure);
            }
            // The id is random, so that an attacker who does not see the query can guess neither its id nor its
            // port.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "any sixteen bits of it are random"
            )]
            let id = RandomState::new().build_hasher().finish() as u16;
            let Some(question) = question(id, name, kind) else {
                return Ok(Vec::new());
            };
            let said = match by_datagram(*server, &question, left) {
                Ok(Answer::Truncated) => by_stream(*server, &question, left),
                said => said,
            };
            match said {
                Ok(Answer::Addresses(addresses)) => return Ok(addresses),
                Ok(Answer::NoName) => return Ok(Vec::new()),
                Ok(Answer::Truncated | Answer::Failed) => {
                    failure = io::Error::other(format!("the name server {} cannot say", server.ip()));
                }
                Err(source) => {
                    let server = server.ip();
                    failure = io::Error::new(source.kind(), Silent { server, source });
                }
            }
        }
    }
    Err(failure)
}

fn by_datagram(server: SocketAddr, question: &[u8], limit: Duration) -> io::Result<Answer> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let end = Instant::now() + limit;
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.send(question)?;
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut buffer) {
            // A socket reports its time limit as WouldBlock.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            received => received?,
        };
        if let Some(said) = answer(question, &buffer[..length]) {
            return Ok(said);
        }
    }
}

fn by_stream(server: SocketAddr, question: &[u8], limit: Duration) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    answer(question, &message).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts a server that knows only `a.lan`, answers each datagram about it as truncated, and ends after the
    /// given numbers of datagrams and streams.
    fn server(datagrams: usize, streams: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            for _ in 0..datagrams {
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                let mut said = buffer[..length].to_vec();
                let knows = said.windows(7).any(|part| part == b"\x01a\x03lan\0");
                (said[2], said[3]) = if knows { (0x83, 0x80) } else { (0x81, 0x83) };
                // The client must ignore this message, which does not answer its query.
                socket.send_to(b"nonsense", from).unwrap();
                socket.send_to(&said, from).unwrap();
            }
            for _ in 0..streams {
                let (mut stream, _) = listener.accept().unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut said = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut said).unwrap();
                (said[2], said[3]) = (0x81, 0x80);
                if said[said.len() - 3] == 1 {
                    said[7] = 1;
                    said.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 0, 7]);
                }
                let length = u16::try_from(said.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length[..], &said].concat()).unwrap();
            }
        });
        (address, thread)
    }

    /// A machine without a network has such servers, and a search list makes four questions of one name.
    #[test]
    fn silent_servers_are_asked_one_question() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut conf = ResolvConf::parse("search lan example");
        conf.servers = vec![server.local_addr().unwrap()];
        conf.timeout = Duration::from_millis(20);
        let error = ask_for(&conf, "nosuch", end()).unwrap_err();
        assert!(Silent::is_reason_of(&error), "{error}");
        server.set_nonblocking(true).unwrap();
        let mut asked = 0;
        while server.recv(&mut [0; 512]).is_ok() {
            asked += 1;
        }
        assert_eq!(asked, conf.attempts);
        let failed = crate::http::failure(&"https://nosuch/v2/".parse().unwrap(), ureq::Error::Io(error));
        assert!(!failed.is_transient(), "the whole request is not made again");
    }

    fn end() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn a_server_is_asked_and_asked_again_by_a_stream() {
        // First the name as it is, by datagram for both types; then the name in the search domain, by datagram and
        // by stream.
        let (address, thread) = server(3, 1);
        let mut conf = ResolvConf::parse("search lan");
        conf.servers = vec![address];
        conf.timeout = Duration::from_secs(10);
        assert!(ask_all(&conf, "b.lan", A, end()).unwrap().is_empty());
        assert!(ask_all(&conf, "a", AAAA, end()).unwrap().is_empty());
        let found = ask_all(&conf, "a.lan", A, end()).unwrap();
        assert_eq!(found, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
        thread.join().unwrap();
    }

    #[test]
    fn nobody_is_asked_for_what_is_known() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("hosts"), "10.1.2.3 registry.lan\n").unwrap();
        let names = Names {
            hosts: dir.path().join("hosts"),
            resolv_conf: dir.path().join("none"),
        };
        for (host, expected) in [
            ("registry.lan", &["10.1.2.3"][..]),
            ("192.0.2.1", &["192.0.2.1"]),
            ("[2001:db8::1]", &["2001:db8::1"]),
            ("localhost", &["127.0.0.1", "::1"]),
        ] {
            let found = names.look_up(host, end()).unwrap();
            let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{host}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut conf = ResolvConf::parse("");
        conf.servers = vec![socket.local_addr().unwrap()];
        drop(socket);
        let error = ask_for(&conf, "a.example", end()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the name server 127.0.0.1 does not answer: "),
            "{error}"
        );
    }
}
