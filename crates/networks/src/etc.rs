//! Files below `/etc` that are each container's own.

use crate::Endpoint;
use crate::rootless::RELAYED;
use crate::{Caller, EngineError, RequestError};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use tote_bundle::{HostAddress, HostOptions, NetworkMode, RunOptions};
use tote_sys::visible;

/// `/etc/hosts`.
///
/// docker's: the name with the domain comes before the one without, and a container in networks has its name by each of its
/// addresses.
pub fn hosts(hostname: Option<&str>, options: &HostOptions, endpoints: &[Endpoint]) -> String {
    let mut text = String::from(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::\tip6-localnet\nff00::\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n",
    );
    if let Some(hostname) = hostname {
        text += &own_lines(&own_names(hostname, options), endpoints);
    }
    let gateway = endpoints.iter().find_map(Endpoint::host);
    let gateway = gateway.unwrap_or(Ipv4Addr::LOCALHOST);
    for entry in &options.added {
        match &entry.address {
            HostAddress::Ip(address) => text += &format!("{address}\t{}\n", entry.name),
            HostAddress::Gateway => text += &format!("{gateway}\t{}\n", entry.name),
        }
    }
    text
}

/// The names of a container in its own `/etc/hosts`.
fn own_names(hostname: &str, options: &HostOptions) -> String {
    match options.domainname.as_str() {
        "" => hostname.to_owned(),
        domain => format!("{hostname}.{domain} {hostname}"),
    }
}

/// The lines with a container's own addresses.
fn own_lines(names: &str, endpoints: &[Endpoint]) -> String {
    if endpoints.is_empty() {
        return format!("127.0.1.1\t{names}\n");
    }
    let addresses = endpoints.iter().flat_map(Endpoint::addresses);
    addresses.map(|address| format!("{address}\t{names}\n")).collect()
}

/// An `/etc/hosts` as it was, in which the container's own addresses are those of its networks now.
pub(crate) fn hosts_anew(
    text: &str,
    hostname: &str,
    options: &HostOptions,
    endpoints: &[Endpoint],
) -> String {
    let names = own_names(hostname, options);
    let is_added = |address: IpAddr| {
        let mut added = options.added.iter();
        added
            .any(|entry| entry.name == names && matches!(entry.address, HostAddress::Ip(ip) if ip == address))
    };
    let is_own = |line: &str| {
        let (address, rest) = line.trim_end_matches('\n').split_once('\t').unwrap_or_default();
        rest == names && address.parse().is_ok_and(|address| !is_added(address))
    };
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| is_own(line)).unwrap_or(lines.len());
    let (before, after) = lines.split_at(first);
    let mut anew = before.concat();
    if !anew.is_empty() && !anew.ends_with('\n') {
        anew.push('\n');
    }
    anew += &own_lines(&names, endpoints);
    anew.extend(after.iter().filter(|line| !is_own(line)).copied());
    anew
}

/// `/etc/resolv.conf`: what was asked for, and on the host's network the host's own where nothing was. In networks that is
/// the host's as far as another network namespace reaches its servers.
///
/// # Errors
/// Those of the host's file, but for one that this user may not see: a container without its servers finds no name.
pub fn resolv_conf(options: &RunOptions, caller: Caller) -> std::io::Result<Option<String>> {
    resolv_conf_of(options, caller, crate::has_names(options))
}

/// `/etc/resolv.conf` as [`resolv_conf`] has it, of a container with a resolver of its own or without one.
///
/// # Errors
/// As of [`resolv_conf`].
pub(crate) fn resolv_conf_of(
    options: &RunOptions,
    caller: Caller,
    has_names: bool,
) -> std::io::Result<Option<String>> {
    if options.host.no_dns {
        return Ok(None);
    }
    let relay = (caller == Caller::User).then_some(RELAYED);
    let asked = &options.host;
    let resolver_of = || match options.vm {
        Some(_) => tote_network::GUEST_RESOLVER,
        None => tote_network::RESOLVER,
    };
    let hosts = match options.network {
        NetworkMode::Host => own_file()?,
        NetworkMode::Networks(_) => {
            let hosts = own_file()?.unwrap_or_default();
            let reachable = reachable(&hosts, upstream, relay);
            if !has_names && leads_to_loopback(options, (&hosts, &reachable)) {
                let asked = HostOptions {
                    dns: vec![resolver_of().into()],
                    ..asked.clone()
                };
                return Ok(Some(resolver(&asked, &hosts)));
            }
            Some(reachable)
        }
        NetworkMode::None | NetworkMode::Container(_) => None,
    };
    if has_names {
        return Ok(Some(own(asked, resolver_of(), &own_file()?.unwrap_or_default())));
    }
    if asked.dns.is_empty() && asked.dns_search.is_empty() && asked.dns_options.is_empty() {
        return Ok(hosts);
    }
    Ok(Some(resolver(asked, hosts.as_deref().unwrap_or_default())))
}

fn own_file() -> std::io::Result<Option<String>> {
    visible(std::fs::read_to_string("/etc/resolv.conf"))
}

fn upstream() -> Option<String> {
    // absence: the servers of the host's own file stay then, as without systemd-resolved
    std::fs::read_to_string("/run/systemd/resolve/resolv.conf").ok()
}

/// Whether a container without names of containers has a resolver all the same, which asks servers that only the host itself reaches:
/// such as dnsmasq or unbound at the host's loopback device, where no other server is left. Users' containers ask them by pasta.
pub(crate) fn is_forwarded(options: &RunOptions, caller: Caller) -> bool {
    let asks_none = options.host.no_dns || !options.host.dns.is_empty();
    if caller == Caller::User || options.network.attachments().is_empty() || asks_none {
        return false;
    }
    // absence: the file of the container, made before, leads to no resolver then
    let hosts = own_file().ok().flatten().unwrap_or_default();
    leads_to_loopback(options, (&hosts, &reachable(&hosts, upstream, None)))
}

/// Whether all of the host's servers are at its loopback device.
fn leads_to_loopback(options: &RunOptions, (hosts, reachable): (&str, &str)) -> bool {
    let has_server = |text: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.split_whitespace().next() == Some("nameserver"))
    };
    options.host.dns.is_empty() && has_server(hosts) && !has_server(reachable)
}

/// The resolv.conf of a container with a resolver of its own, as docker has it: `--dns` are servers that the resolver asks.
fn own(asked: &HostOptions, address: Ipv4Addr, hosts: &str) -> String {
    let asked = HostOptions {
        dns: vec![address.into()],
        ..asked.clone()
    };
    let text = resolver(&asked, hosts);
    let is_options = |line: &&str| line.split_whitespace().next() == Some("options");
    let mut words = text.lines().filter(is_options).flat_map(str::split_whitespace);
    if words.any(|word| word.starts_with("ndots:")) {
        return text;
    }
    // Names of containers have no dot.
    let mut given = false;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    for line in lines.iter_mut().filter(|line| is_options(&line.as_str())) {
        if !std::mem::replace(&mut given, true) {
            line.push_str(" ndots:0");
        }
    }
    if !given {
        lines.push("options ndots:0".to_owned());
    }
    lines.join("\n") + "\n"
}

/// The servers of a resolv.conf(5), in order. One whose address needs a link's name is left out.
pub fn servers(text: &str) -> impl Iterator<Item = IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse().ok()
    };
    text.lines().filter_map(server)
}

/// Whether containers of a user cannot ask this server of the machine: its address is one of the machine's own, in whichever of both network
/// namespaces this process is.
pub(crate) fn is_closed(server: IpAddr) -> bool {
    server.is_loopback() || tote_network::is_own(server)
}

/// Whether the first server of this resolv.conf(5) is one that containers of a user cannot ask themselves. It is the one that pasta asks for them.
pub(crate) fn is_relayed(hosts: &str) -> bool {
    servers(hosts).find(IpAddr::is_ipv4).is_none_or(is_closed)
}

/// The host's resolv.conf without servers on the host's loopback device, which only the host reaches. In place of
/// systemd-resolved's stub come the servers that it asks itself. With `relay`, this address stands for servers that are the machine itself.
fn reachable(hosts: &str, upstream: impl FnOnce() -> Option<String>, relay: Option<IpAddr>) -> String {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address = words.next().filter(|_| is_server)?.split('%').next()?;
        address.parse::<IpAddr>().ok()
    };
    let stub = IpAddr::from([127, 0, 0, 53]);
    let servers: Vec<_> = hosts.lines().filter_map(server).collect();
    let is_stub = servers == [stub];
    let text = is_stub
        .then(upstream)
        .flatten()
        .unwrap_or_else(|| hosts.to_owned());
    let mut relay = relay.map(|relay| (relay, format!("nameserver {relay}\n")));
    let lines = text.lines().map(|line| match (server(line), &relay) {
        (Some(address), Some(_)) if is_closed(address) => {
            relay.take().map(|(_, line)| line).unwrap_or_default()
        }
        (Some(address), None) if address.is_loopback() => String::new(),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// `/etc/localtime`, where a time zone is asked for.
pub fn localtime(options: &RunOptions) -> Result<Option<Vec<u8>>, EngineError> {
    let path = match options.timezone.as_deref() {
        None => return Ok(None),
        Some("local") => PathBuf::from("/etc/localtime"),
        Some(zone) => Path::new("/usr/share/zoneinfo").join(zone),
    };
    std::fs::read(&path).map(Some).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "tz",
            attempt: "read",
            path,
            source,
        })
    })
}

/// Servers, domains and options: of each kind what was asked for, or what the host has. `.` among the domains stands for no domain.
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

    fn of(pairs: &[(&str, &str)]) -> HostOptions {
        let mut options = RunOptions::default();
        for (name, value) in pairs {
            options.set(name, value).unwrap();
        }
        options.host
    }

    #[test]
    fn hosts_name_the_container() {
        let text = hosts(Some("box"), &of(&[]), &[]);
        assert!(
            text.starts_with("127.0.0.1\tlocalhost\n") && text.ends_with("127.0.1.1\tbox\n"),
            "{text}"
        );
    }

    #[test]
    fn a_domain_comes_with_the_name() {
        let text = hosts(Some("box"), &of(&[("domainname", "example.com")]), &[]);
        assert!(text.ends_with("\n127.0.1.1\tbox.example.com box\n"), "{text}");
    }

    #[test]
    fn in_networks_the_name_has_the_addresses() {
        let endpoint = Endpoint {
            network: "bridge".to_owned(),
            network_id: String::new(),
            driver: crate::NetworkDriver::Bridge,
            link: String::new(),
            address: Ipv4Addr::new(10, 210, 3, 4),
            prefix: 16,
            gateway: Some(Ipv4Addr::new(10, 210, 0, 1)),
            gw_priority: 0,
            driver_opts: Default::default(),
            ipv6: Some(crate::Endpoint6 {
                address: "fd00:7::3:4".parse().unwrap(),
                prefix: 64,
                gateway: None,
            }),
            mac: String::new(),
            aliases: Vec::new(),
            links: Vec::new(),
            ports: Vec::new(),
            egress: false,
        };
        let text = hosts(Some("box"), &of(&[("add-host", "out:host-gateway")]), &[endpoint]);
        assert!(
            text.ends_with("\n10.210.3.4\tbox\nfd00:7::3:4\tbox\n10.210.0.1\tout\n"),
            "{text}"
        );
    }

    #[test]
    fn a_resolver_of_its_own_comes_before_all_servers() {
        let hosts = "nameserver 9.9.9.9\nsearch lan\noptions edns0 trust-ad\n";
        let text = own(&of(&[("dns", "1.1.1.1")]), tote_network::RESOLVER, hosts);
        assert_eq!(
            text,
            "nameserver 127.0.0.11\nsearch lan\noptions edns0 trust-ad ndots:0\n"
        );
        let text = own(
            &of(&[("dns-option", "ndots:2"), ("dns-search", ".")]),
            tote_network::RESOLVER,
            hosts,
        );
        assert_eq!(text, "nameserver 127.0.0.11\noptions ndots:2\n");
        assert_eq!(
            own(&of(&[]), tote_network::RESOLVER, ""),
            "nameserver 127.0.0.11\noptions ndots:0\n"
        );
        let all = "nameserver 127.0.0.53\n#nameserver 1.1.1.1\nnameserver fe80::1%eth0\nnameserver ::1 x\n";
        let found: Vec<_> = servers(all).map(|address| address.to_string()).collect();
        assert_eq!(found, ["127.0.0.53", "::1"]);
    }

    #[test]
    fn servers_on_the_loopback_device_are_left_out() {
        let stub = "nameserver 127.0.0.53\noptions edns0\nsearch lan\n";
        let upstream = || Some("# by systemd-resolved\nnameserver 9.9.9.9\nsearch lan\n".to_owned());
        assert!(reachable(stub, upstream, None).ends_with("\nnameserver 9.9.9.9\nsearch lan\n"));
        assert_eq!(reachable(stub, || None, None), "options edns0\nsearch lan\n");
        let own = "nameserver 127.0.0.1\nnameserver ::1\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n";
        assert_eq!(
            reachable(own, || None, None),
            "nameserver 192.0.2.1\nnameserver fe80::1%eth0\n"
        );
        // A user's containers ask them by pasta, which asks one.
        assert_eq!(
            reachable(own, || None, Some(RELAYED)),
            "nameserver 169.254.1.1\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n"
        );
        assert!(is_relayed(
            "nameserver ::1\nnameserver 127.0.0.5\nnameserver 192.0.2.1\n"
        ));
        assert!(is_relayed("") && !is_relayed("nameserver 192.0.2.1\nnameserver 127.0.0.5\n"));
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
        assert_eq!(resolv_conf(&options, Caller::Root).unwrap(), None);
        options.set("dns-search", "x.y").unwrap();
        assert_eq!(
            resolv_conf(&options, Caller::Root).unwrap().as_deref(),
            Some("search x.y\n")
        );
    }
}
