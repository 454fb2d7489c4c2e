//! Files below `/etc` that are each container's own.

use crate::EngineError;
use std::path::{Path, PathBuf};
use tote_bundle::{HostAddress, HostEntry, HostOptions, NetworkMode, RunOptions};

/// `/etc/hosts`.
///
/// docker's: the name with the domain comes before the one without.
pub(crate) fn hosts(hostname: Option<&str>, domain: &str, added: &[HostEntry]) -> String {
    let mut text = String::from(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::\tip6-localnet\nff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n",
    );
    if let Some(hostname) = hostname {
        text += &match domain {
            "" => format!("127.0.1.1\t{hostname}\n"),
            domain => format!("127.0.1.1\t{hostname}.{domain} {hostname}\n"),
        };
    }
    for entry in added {
        match &entry.address {
            HostAddress::Ip(address) => text += &format!("{address}\t{}\n", entry.name),
            HostAddress::Gateway => text += &format!("127.0.0.1\t{}\n", entry.name),
        }
    }
    text
}

/// `/etc/resolv.conf`: what was asked for, and on the host's network the host's own where nothing was.
pub(crate) fn resolv_conf(options: &RunOptions) -> Option<String> {
    let hosts = (options.network == NetworkMode::Host)
        .then(|| std::fs::read_to_string("/etc/resolv.conf").ok())
        .flatten();
    let asked = &options.host;
    if asked.dns.is_empty() && asked.dns_search.is_empty() && asked.dns_options.is_empty() {
        return hosts;
    }
    Some(resolver(asked, hosts.as_deref().unwrap_or_default()))
}

/// `/etc/localtime`, where a time zone is asked for.
pub(crate) fn localtime(options: &RunOptions) -> Result<Option<Vec<u8>>, EngineError> {
    let path = match options.timezone.as_deref() {
        None => return Ok(None),
        Some("local") => PathBuf::from("/etc/localtime"),
        Some(zone) => Path::new("/usr/share/zoneinfo").join(zone),
    };
    std::fs::read(&path)
        .map(Some)
        .map_err(|source| EngineError::File {
            option: "tz",
            attempt: "read",
            path,
            source,
        })
}

/// Servers, domains and options: of each kind what was asked for, or what the host has. `.` among the domains is none.
fn resolver(asked: &HostOptions, hosts: &str) -> String {
    let mut text = String::new();
    for address in &asked.dns {
        text += &format!("nameserver {address}\n");
    }
    let search: Vec<&str> = asked
        .dns_search
        .iter()
        .map(String::as_str)
        .filter(|domain| *domain != ".")
        .collect();
    for (keyword, words) in [
        ("search", search),
        ("options", asked.dns_options.iter().map(String::as_str).collect()),
    ] {
        if !words.is_empty() {
            text += &format!("{keyword} {}\n", words.join(" "));
        }
    }
    for line in hosts.lines() {
        let keeps = match line.split_whitespace().next() {
            Some("nameserver") => asked.dns.is_empty(),
            Some("search" | "domain") => asked.dns_search.is_empty(),
            Some("options") => asked.dns_options.is_empty(),
            Some(_) | None => false,
        };
        if keeps {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_name_the_container() {
        let text = hosts(Some("box"), "", &[]);
        assert!(
            text.starts_with("127.0.0.1\tlocalhost\n") && text.ends_with("127.0.1.1\tbox\n"),
            "{text}"
        );
    }
    #[test]
    fn a_domain_comes_with_the_name() {
        let text = hosts(Some("box"), "example.com", &[]);
        assert!(text.ends_with("\n127.0.1.1\tbox.example.com box\n"), "{text}");
    }

    #[test]
    fn what_is_not_said_is_the_hosts() {
        let hosts =
            "# a comment\nnameserver 9.9.9.9\ndomain old\nsearch a b\noptions ndots:1\nsortlist 1.2.3.4\n";
        for (pairs, expected) in [
            (
                &[("dns", "1.1.1.1")][..],
                "nameserver 1.1.1.1\ndomain old\nsearch a b\noptions ndots:1\n",
            ),
            (
                &[("dns-search", "x.y"), ("dns-search", "z")],
                "search x.y z\nnameserver 9.9.9.9\noptions ndots:1\n",
            ),
            (&[("dns-search", ".")], "nameserver 9.9.9.9\noptions ndots:1\n"),
            (
                &[("dns-option", "rotate"), ("dns-option", "ndots:3")],
                "options rotate ndots:3\nnameserver 9.9.9.9\ndomain old\nsearch a b\n",
            ),
        ] {
            let mut options = RunOptions::default();
            for (name, value) in pairs {
                options.set(name, value).unwrap();
            }
            assert_eq!(resolver(&options.host, hosts), expected, "{pairs:?}");
        }
        let mut options = RunOptions::default();
        assert_eq!(resolv_conf(&options), None);
        options.set("dns-search", "x.y").unwrap();
        assert_eq!(resolv_conf(&options).as_deref(), Some("search x.y\n"));
    }
}
