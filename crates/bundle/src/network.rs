//! `--network`: the networks that a container is in.

use crate::host::ContainerAlias;
use crate::link_option::{LinkOptionError, LinkOptions};
use crate::mount::csv;
use crate::name::is_restricted;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Name of the network that exists without being created, as docker's clients expect.
pub const DEFAULT_NETWORK: &str = "bridge";

/// Value of `--network` that says as much as its absence: [`DEFAULT_NETWORK`] where the machine and the user can have it, else a
/// loopback device.
pub const UNSAID: &str = "default";

/// Why a text is not a value of `--network`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkModeError {
    /// Neither a mode nor the name of a network.
    #[error(
        "invalid network {0:?}: give none, host, container:ID, pod, the name of a network, or name=NETWORK and what it is to have \
         there, such as name=web,ip=10.210.0.9"
    )]
    Form(String),
    /// An unknown part of the long form; docker's words.
    #[error(
        "invalid field {0}: a network takes name, alias, link, ip, ip6, mac-address, \
         driver-opt and gw-priority"
    )]
    Field(String),
    /// An invalid value in the long form.
    #[error("invalid {field} {value:?} of a network")]
    Value {
        /// `ip` or its like.
        field: &'static str,
        /// The value as written.
        value: String,
    },
    /// An invalid `driver-opt`.
    #[error(transparent)]
    Link(#[from] LinkOptionError),
    /// The network is named twice; docker's words.
    #[error("network {0:?} is specified multiple times")]
    Twice(String),
    /// Networks together with a mode that excludes them; docker's words.
    #[error("conflicting options: cannot attach both user-defined and non-user-defined network-modes")]
    Conflict,
    /// An address of the first network is given with the network, and by itself; docker's words.
    #[error("conflicting options: cannot specify both --{0} and per-network {0}")]
    Address(&'static str),
    /// An address of a container without a network of its own.
    #[error("conflicting options: --{0} needs --network with the name of a network")]
    Nowhere(&'static str),
}

/// Value of `--network` of a pod's member: the network of the pod. No network of containers has this name.
pub const POD_NETWORK: &str = "pod";

/// Value of `--network`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// A namespace with only a loopback device; the default.
    #[default]
    None,
    /// The host's namespace.
    Host,
    /// The namespace of another container, by id or name.
    Container(String),
    /// A namespace of the container's own with a link to each of these networks, at least one. The first network
    /// that leads out provides the default route, unless another one has a higher priority.
    Networks(Vec<NetworkAttachment>),
}

/// A network that a container is in, and the container's addresses and names there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkAttachment {
    /// The network's name, or the beginning of its id.
    pub network: String,
    /// Names that the container has in the network, beside its own.
    pub aliases: Vec<String>,
    /// Other containers of the network, by what this one calls them.
    pub links: Vec<ContainerAlias>,
    /// IPv4 address; `None` lets the network choose a free one.
    pub ip: Option<Ipv4Addr>,
    /// IPv6 address; `None` if not given.
    pub ip6: Option<Ipv6Addr>,
    /// Hardware address of the link; `None` derives it from the IP address.
    pub mac: Option<[u8; 6]>,
    /// Priority of the network's way out: the default route is by the network with the highest one.
    pub gw_priority: i64,
    /// `driver-opt`
    pub options: LinkOptions,
    /// True of `default`: where the machine or the user cannot have the network, the container goes without.
    pub is_optional: bool,
}

impl NetworkMode {
    /// Returns the networks; empty in every other mode.
    #[must_use]
    pub fn attachments(&self) -> &[NetworkAttachment] {
        match self {
            Self::Networks(attachments) => attachments,
            Self::None | Self::Host | Self::Container(_) => &[],
        }
    }

    /// True of `default` alone, which is a loopback device where there can be no more.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::Networks(attachments) if attachments.iter().all(|one| one.is_optional))
    }

    /// True if the container has a network namespace of its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::None | Self::Networks(_))
    }

    /// Adds another value of the option. The last mode wins; networks accumulate.
    ///
    /// # Errors
    /// [`NetworkModeError`].
    pub(crate) fn add(&mut self, text: &str) -> Result<(), NetworkModeError> {
        match (self, text.parse()?) {
            (Self::Networks(own), Self::Networks(more)) => {
                if text == POD_NETWORK || own.iter().any(|one| one.network == POD_NETWORK) {
                    return Err(NetworkModeError::Conflict);
                }
                for attachment in more {
                    if own.iter().any(|one| one.network == attachment.network) {
                        return Err(NetworkModeError::Twice(attachment.network));
                    }
                    own.push(attachment);
                }
            }
            (Self::Networks(_), _) => return Err(NetworkModeError::Conflict),
            (slot, mode) => *slot = mode,
        }
        Ok(())
    }
}

impl FromStr for NetworkMode {
    type Err = NetworkModeError;

    fn from_str(text: &str) -> Result<Self, NetworkModeError> {
        let form = || NetworkModeError::Form(text.to_owned());
        match text {
            "none" => return Ok(Self::None),
            "host" => return Ok(Self::Host),
            _ => {}
        }
        if let Some(peer) = text.strip_prefix("container:") {
            return Some(peer.to_owned())
                .filter(|peer| !peer.is_empty())
                .map(Self::Container)
                .ok_or_else(form);
        }
        if let Some(text) = of_podman(text) {
            return text.parse();
        }
        let attachment = if text.contains('=') {
            long_form(text)?
        } else {
            named(text).ok_or_else(form)?
        };
        let is_word = matches!(attachment.network.as_str(), "none" | "host" | POD_NETWORK);
        if is_word && text.contains('=') {
            return Err(form());
        }
        Ok(Self::Networks(vec![attachment]))
    }
}

/// `--ip`, `--ip6` and `--mac-address`: addresses of the container in the first of its networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstAddresses {
    ip: Option<Ipv4Addr>,
    ip6: Option<Ipv6Addr>,
    mac: Option<[u8; 6]>,
}

impl FirstAddresses {
    /// Sets the option of that name; false if it has another name than these.
    ///
    /// # Errors
    /// [`NetworkModeError::Value`].
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, NetworkModeError> {
        let wrong = |field| NetworkModeError::Value {
            field,
            value: value.to_owned(),
        };
        match name {
            "ip" => self.ip = Some(value.parse().map_err(|_| wrong("ip"))?),
            "ip6" => self.ip6 = Some(value.parse().map_err(|_| wrong("ip6"))?),
            "mac-address" => self.mac = Some(mac(value).ok_or_else(|| wrong("mac-address"))?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the attachments with these addresses in the first one.
    ///
    /// # Errors
    /// [`NetworkModeError::Nowhere`] without an attachment, [`NetworkModeError::Address`] if it has another address.
    pub fn within(
        &self,
        attachments: &[NetworkAttachment],
    ) -> Result<Vec<NetworkAttachment>, NetworkModeError> {
        let mut attachments = attachments.to_vec();
        let given = [
            ("ip", self.ip.is_some()),
            ("ip6", self.ip6.is_some()),
            ("mac-address", self.mac.is_some()),
        ];
        let mut given = given
            .into_iter()
            .filter_map(|(name, is_given)| is_given.then_some(name));
        let Some(first) = attachments.first_mut() else {
            return given
                .next()
                .map_or(Ok(attachments), |name| Err(NetworkModeError::Nowhere(name)));
        };
        put(&mut first.ip, self.ip, "ip")?;
        put(&mut first.ip6, self.ip6, "ip6")?;
        put(&mut first.mac, self.mac, "mac-address")?;
        Ok(attachments)
    }
}

fn put<T>(slot: &mut Option<T>, value: Option<T>, name: &'static str) -> Result<(), NetworkModeError> {
    match value {
        Some(_) if slot.is_some() => Err(NetworkModeError::Address(name)),
        Some(value) => {
            *slot = Some(value);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Builds an attachment to the network `name`; `None` if the name is not valid.
fn named(name: &str) -> Option<NetworkAttachment> {
    let is_optional = name == UNSAID;
    let name = if is_optional { DEFAULT_NETWORK } else { name };
    is_restricted(name).then(|| NetworkAttachment {
        network: name.to_owned(),
        is_optional,
        ..NetworkAttachment::default()
    })
}

/// Parses docker's long form, `name=web,alias=www,ip=10.210.0.9`.
fn long_form(text: &str) -> Result<NetworkAttachment, NetworkModeError> {
    let form = || NetworkModeError::Form(text.to_owned());
    let (mut name, mut rest) = (None, NetworkAttachment::default());
    for field in csv::split(text).map_err(LinkOptionError::from)? {
        let (key, value) = field.split_once('=').ok_or_else(form)?;
        let wrong = |field| NetworkModeError::Value {
            field,
            value: value.to_owned(),
        };
        match key {
            "name" => name = Some(named(value).ok_or_else(form)?.network),
            "alias" if value.is_empty() => return Err(wrong("alias")),
            "alias" => rest.aliases.push(value.to_owned()),
            "link" => rest.links.push(value.parse().map_err(|_| wrong("link"))?),
            "ip" => rest.ip = Some(value.parse().map_err(|_| wrong("ip"))?),
            "ip6" => rest.ip6 = Some(value.parse().map_err(|_| wrong("ip6"))?),
            "mac-address" => rest.mac = Some(mac(value).ok_or_else(|| wrong("mac-address"))?),
            "driver-opt" => rest.options.add(value)?,
            "gw-priority" => rest.gw_priority = value.parse().map_err(|_| wrong("gw-priority"))?,
            other => return Err(NetworkModeError::Field(other.to_owned())),
        }
    }
    let network = name.ok_or_else(form)?;
    Ok(NetworkAttachment { network, ..rest })
}

/// Writes podman's `NAME:alias=a,ip=ADDRESS` in docker's long form; `None` if the text has another form.
fn of_podman(text: &str) -> Option<String> {
    let (name, fields) = text.split_once(':')?;
    if name.contains('=') || !fields.contains('=') {
        return None;
    }
    let mut long = format!("name={name}");
    for field in fields.split(',') {
        long += &match field.split_once('=') {
            // podman takes and ignores names in the network that has no names.
            Some(("alias", _)) if name == DEFAULT_NETWORK => continue,
            Some(("ip", address)) if address.contains(':') => format!(",ip6={address}"),
            Some(("mac", address)) => format!(",mac-address={address}"),
            Some(("interface_name", link)) => {
                format!(",driver-opt=com.docker.network.endpoint.ifname={link}")
            }
            _ => format!(",{field}"),
        };
    }
    Some(long)
}

/// Parses a hardware address: six bytes of two hexadecimal digits, between colons or dashes. A multicast address is
/// refused.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    (parts.next().is_none() && bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_network_takes_addresses_that_are_given_by_themselves() {
        let mut addresses = FirstAddresses::default();
        for (name, value) in [
            ("ip", "10.1.2.3"),
            ("ip6", "fd00::2"),
            ("mac-address", "02-42-0a-01-02-03"),
        ] {
            assert_eq!(addresses.set(name, value), Ok(true));
        }
        assert_eq!(addresses.set("hostname", "x"), Ok(false));
        assert!(addresses.set("ip", "fd00::2").is_err());
        let networks: NetworkMode = "web".parse().unwrap();
        let whole: NetworkMode = "name=web,ip=10.1.2.3,ip6=fd00::2,mac-address=02:42:0a:01:02:03"
            .parse()
            .unwrap();
        let found = addresses.within(networks.attachments()).unwrap();
        assert_eq!(found, whole.attachments());
        assert_eq!(
            addresses.within(whole.attachments()),
            Err(NetworkModeError::Address("ip"))
        );
        assert_eq!(addresses.within(&[]), Err(NetworkModeError::Nowhere("ip")));
        assert_eq!(FirstAddresses::default().within(&[]), Ok(vec![]));
    }

    #[test]
    fn podmans_form() {
        for (given, expected) in [
            ("web", None),
            ("container:web", None),
            ("name=web,driver-opt=a:b=c", None),
            ("web:alias=a,alias=b", Some("name=web,alias=a,alias=b")),
            ("bridge:alias=a", Some("name=bridge")),
            (
                "web:ip=10.1.2.3,ip=fd00::2,mac=02:42:0a:01:02:03",
                Some("name=web,ip=10.1.2.3,ip6=fd00::2,mac-address=02:42:0a:01:02:03"),
            ),
            (
                "web:interface_name=eth7",
                Some("name=web,driver-opt=com.docker.network.endpoint.ifname=eth7"),
            ),
        ] {
            assert_eq!(of_podman(given).as_deref(), expected, "{given}");
            if let Some(long) = expected {
                assert_eq!(given.parse::<NetworkMode>(), long.parse(), "{given}");
            }
        }
        assert!("web:beauty=a".parse::<NetworkMode>().is_err());
    }

    #[test]
    fn networks_are_named_or_described() {
        let mode = |text: &str| text.parse::<NetworkMode>();
        assert_eq!(mode("none"), Ok(NetworkMode::None));
        assert_eq!(mode("host"), Ok(NetworkMode::Host));
        assert_eq!(
            mode("container:web"),
            Ok(NetworkMode::Container("web".to_owned()))
        );
        for (text, is_optional) in [("bridge", false), ("default", true), ("name=bridge", false)] {
            let mode = mode(text).unwrap();
            assert_eq!(mode.attachments()[0].network, DEFAULT_NETWORK, "{text}");
            assert_eq!(mode.is_optional(), is_optional, "{text}");
        }
        let mut several = mode(UNSAID).unwrap();
        several.add("web").unwrap();
        assert!(!several.is_optional() && !NetworkMode::None.is_optional());
        let long = mode(
            "name=web,alias=a,alias=b,link=db:mysql,ip=10.1.2.3,ip6=fd00::2,mac-address=02:42:0a:01:02:03,gw-priority=-7",
        )
        .unwrap();
        assert_eq!(
            long.attachments(),
            [NetworkAttachment {
                network: "web".to_owned(),
                aliases: vec!["a".to_owned(), "b".to_owned()],
                links: vec!["db:mysql".parse().unwrap()],
                ip: Some(Ipv4Addr::new(10, 1, 2, 3)),
                ip6: Some("fd00::2".parse().unwrap()),
                mac: Some([2, 0x42, 10, 1, 2, 3]),
                gw_priority: -7,
                options: LinkOptions::default(),
                is_optional: false,
            }]
        );
    }

    #[test]
    fn other_texts_say_what_there_is() {
        for (text, words) in [
            ("", "the name of a network"),
            ("container:", "the name of a network"),
            ("ns:/run/netns/a", "the name of a network"),
            ("-web", "the name of a network"),
            ("alias=a", "the name of a network"),
            ("name=host", "the name of a network"),
            ("name=pod", "the name of a network"),
            ("name=web,alias", "the name of a network"),
            ("name=web,color=red", "invalid field color"),
            ("name=web,driver-opt=color=red", "unknown option"),
            ("name=web,\"driver-opt", "unterminated"),
            ("name=web,ip=1.2.3", "invalid ip"),
            ("name=web,gw-priority=high", "invalid gw-priority"),
            ("name=web,mac-address=01:00:00:00:00:00", "invalid mac-address"),
            ("name=web,mac-address=02:00:00:00:00", "invalid mac-address"),
        ] {
            let error = text.parse::<NetworkMode>().unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn networks_add_up_and_modes_do_not() {
        let mut mode = NetworkMode::default();
        mode.add("host").unwrap();
        mode.add("one").unwrap();
        mode.add("name=two,ip=10.0.0.2").unwrap();
        let names: Vec<_> = mode
            .attachments()
            .iter()
            .map(|one| one.network.as_str())
            .collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(mode.add("one"), Err(NetworkModeError::Twice("one".to_owned())));
        assert_eq!(mode.add("pod"), Err(NetworkModeError::Conflict));
        let mut of_pod: NetworkMode = "pod".parse().unwrap();
        assert_eq!(of_pod.add("one"), Err(NetworkModeError::Conflict));
        assert_eq!(mode.add("host"), Err(NetworkModeError::Conflict));
    }
}
