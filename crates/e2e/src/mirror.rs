//! Availability of packages: the configuration of the host's apt names the mirror, and the proxy.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

/// Limit of the time in which a host has to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// True if the first mirror in apt's lists accepts connections, or the proxy through which apt reaches it.
pub(crate) fn answers() -> bool {
    let Some(mirror) = mirror(&lists()) else {
        return false;
    };
    let config = std::process::Command::new("apt-config").arg("dump").output();
    let config = config.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let variable = std::env::var(format!("{}_proxy", mirror.scheme)).ok();
    let proxy = proxy(&mirror, &config.unwrap_or_default(), variable);
    let target = match proxy.as_deref().map(Address::parse) {
        Some(Some(proxy)) => proxy,
        Some(None) => return false,
        None => mirror,
    };
    let found = (target.host.as_str(), target.port).to_socket_addrs();
    found
        .into_iter()
        .flatten()
        .any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

/// Reads all of apt's lists, one after the other.
fn lists() -> String {
    let dir = std::fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<PathBuf> = dir.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, PathBuf::from("/etc/apt/sources.list"));
    let texts = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.collect::<Vec<_>>().join("\n")
}

/// Part of an address that a connection needs.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    scheme: String,
    host: String,
    port: u16,
}

impl Address {
    /// Parses `http://[USER@]HOST[:PORT][/…]`; the default scheme is plain HTTP.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let authority = rest.split(['/', '?', '#']).next()?;
        let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let default = if scheme == "https" { 443 } else { 80 };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (host, default),
        };
        let host = host.trim_matches(['[', ']']);
        (!host.is_empty()).then(|| Self {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
        })
    }
}

/// Finds the first mirror with a URL of HTTP or HTTPS.
fn mirror(lists: &str) -> Option<Address> {
    let lines = lists.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    let found = words.find(|word| word.starts_with("http://") || word.starts_with("https://"));
    Address::parse(found?)
}

/// Finds the proxy by apt's rules: the setting for the host, then that for the scheme, then the environment.
fn proxy(mirror: &Address, config: &str, variable: Option<String>) -> Option<String> {
    let said = |name: &str| {
        let mut lines = config.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        let value = value.trim_end_matches(';').trim_matches('"').to_owned();
        (!value.is_empty()).then_some(value)
    };
    let general = format!("Acquire::{}::Proxy", mirror.scheme);
    let found = said(&format!("{general}::{}", mirror.host))
        .or_else(|| said(&general))
        .or(variable.filter(|value| !value.is_empty()));
    found.filter(|value| value != "DIRECT" && value != "false")
}

#[cfg(test)]
mod tests {
    use super::{Address, mirror, proxy};

    fn address(scheme: &str, host: &str, port: u16) -> Address {
        Address {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn mirrors() {
        for (lists, found) in [
            (
                "# http://no.example/x\nTypes: deb\nURIs: https://one.example:8443/debian\n",
                Some(address("https", "one.example", 8443)),
            ),
            (
                "deb [arch=amd64] http://two.example/debian sid main",
                Some(address("http", "two.example", 80)),
            ),
            ("deb file:/srv/debian sid main", None),
            ("", None),
        ] {
            assert_eq!(mirror(lists), found, "{lists}");
        }
    }

    #[test]
    fn proxies() {
        let mirror = address("http", "one.example", 80);
        let general = "Acquire::http::Proxy \"http://u:p@proxy.example:3128/\";\n";
        let own = "Acquire::http::Proxy::one.example \"DIRECT\";\n";
        let variable = || Some("http://variable.example:1".to_owned());
        for (config, variable, found) in [
            (general.to_owned(), variable(), Some(("proxy.example", 3128))),
            (format!("{general}{own}"), variable(), None),
            (String::new(), variable(), Some(("variable.example", 1))),
            ("Acquire::http::Proxy \"\";\n".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            let found = found.map(|(host, port)| address("http", host, port));
            let proxy = proxy(&mirror, &config, variable);
            assert_eq!(proxy.as_deref().and_then(Address::parse), found, "{config}");
        }
    }
}
