//! Which container has which address.
//!
//! A lease is a symbolic link: it is called as the address, and its text is the container. symlink(2) fails where there is
//! one, so that the file system itself sees to it that no other container gets the address, in whatever order containers come and
//! go and wherever a process is killed.

use crate::subnet::{Address, Prefix};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The most addresses of a network that are tried for a container: all of an IPv4 network.
const MOST_TRIED: u128 = 1 << 32;

/// Reason why a container gets no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// docker's words.
    #[error("no available {protocol} addresses on this network's address pools: all of {range} are taken")]
    Full {
        /// `IPv4` or `IPv6`.
        protocol: &'static str,
        /// The addresses that containers may have.
        range: String,
    },
    /// docker's words.
    #[error("Address already in use: another container has {0}")]
    Taken(IpAddr),
    /// The address belongs to no host of the network.
    #[error(
        "no container can have the address {address}: the network is {subnet}, and {gateway} is the host's own"
    )]
    Outside {
        /// The address.
        address: IpAddr,
        /// The network.
        subnet: String,
        /// The gateway.
        gateway: IpAddr,
    },
    /// The file system's.
    #[error("failed to {attempt} {path}")]
    File {
        /// The attempt, as an infinitive.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        #[source]
        source: std::io::Error,
    },
}

/// The failure of an attempt at a file.
pub(crate) fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> LeaseError {
    let path = path.to_owned();
    move |source| LeaseError::File {
        attempt,
        path,
        source,
    }
}

/// The leases of one network: a directory.
#[derive(Clone, Debug)]
pub struct Leases {
    dir: PathBuf,
}

impl Leases {
    /// The leases in this directory, which exists.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Gives a container a free address of `range`. The search begins at a place that follows from `called`, so that another
    /// container that is called the same gets the same address again where that is free, and an address that was just given back
    /// is seldom the next one to be given away.
    ///
    /// # Errors
    /// [`LeaseError`].
    pub fn take<A: Address>(
        &self,
        (subnet, range): (Prefix<A>, Prefix<A>),
        gateway: A,
        (container, called): (&str, &str),
    ) -> Result<A, LeaseError> {
        let start = called.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.take_from(start.into(), (subnet, range), gateway, container)
    }

    /// Gives a container a free address of `range`, the one at the place `start` or the next one that is free.
    ///
    /// # Errors
    /// [`LeaseError`].
    pub fn take_from<A: Address>(
        &self,
        start: u128,
        (subnet, range): (Prefix<A>, Prefix<A>),
        gateway: A,
        container: &str,
    ) -> Result<A, LeaseError> {
        let start = start % range.size();
        for step in 0..range.size().min(MOST_TRIED) {
            let address = range.at(start.wrapping_add(step));
            if subnet.has_host(address) && address != gateway && self.make(address, container)? {
                return Ok(address);
            }
        }
        Err(LeaseError::Full {
            protocol: A::PROTOCOL,
            range: range.to_string(),
        })
    }

    /// Gives a container this address.
    ///
    /// # Errors
    /// [`LeaseError`].
    pub fn take_this<A: Address>(
        &self,
        address: A,
        (subnet, gateway): (Prefix<A>, A),
        container: &str,
    ) -> Result<(), LeaseError> {
        if !subnet.has_host(address) || address == gateway {
            return Err(LeaseError::Outside {
                address: address.into(),
                subnet: subnet.to_string(),
                gateway: gateway.into(),
            });
        }
        if self.make(address, container)? {
            Ok(())
        } else {
            Err(LeaseError::Taken(address.into()))
        }
    }

    /// Whether the lease was made; `false` where there is one.
    fn make(&self, address: impl Address, container: &str) -> Result<bool, LeaseError> {
        let path = self.dir.join(address.to_string());
        match rustix::fs::symlink(container, &path) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed("make", &path)(errno.into())),
        }
    }

    /// All leases: the address, and the container that has it. Other files are ignored.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn all(&self) -> Result<Vec<(IpAddr, String)>, LeaseError> {
        let fail = || failed("list", &self.dir);
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fail())?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail())?;
            let Some(address) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match std::fs::read_link(entry.path()) {
                Ok(container) => all.push((address, container.to_string_lossy().into_owned())),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed("read", &entry.path())(error)),
            }
        }
        Ok(all)
    }

    /// Takes a container's addresses back, and gives how many leases of others there are.
    ///
    /// # Errors
    /// [`LeaseError::File`].
    pub fn release(&self, container: &str) -> Result<usize, LeaseError> {
        let (own, others): (Vec<_>, Vec<_>) = self
            .all()?
            .into_iter()
            .partition(|(_, holder)| holder == container);
        for (address, _) in own {
            let path = self.dir.join(address.to_string());
            match tote_sys::remove_file(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(failed("remove", &path))?,
            }
        }
        Ok(others.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Subnet, Subnet6};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn leases() -> (tempfile::TempDir, Leases) {
        let dir = tempfile::tempdir().unwrap();
        let leases = Leases::new(dir.path().to_owned());
        (dir, leases)
    }

    #[test]
    fn an_address_that_is_asked_for_is_given_once() {
        let (_dir, leases) = leases();
        let subnet: Subnet = "10.7.0.0/24".parse().unwrap();
        let gateway = Ipv4Addr::new(10, 7, 0, 1);
        let asked = Ipv4Addr::new(10, 7, 0, 9);
        leases.take_this(asked, (subnet, gateway), "a").unwrap();
        let error = leases.take_this(asked, (subnet, gateway), "b").unwrap_err();
        assert!(error.to_string().starts_with("Address already in use"), "{error}");
        for wrong in ["10.7.0.1", "10.7.0.0", "10.7.0.255", "10.8.0.9"] {
            let error = leases
                .take_this(wrong.parse().unwrap(), (subnet, gateway), "b")
                .unwrap_err();
            assert!(matches!(error, LeaseError::Outside { .. }), "{wrong}");
        }
        assert_eq!(leases.release("a").unwrap(), 0);
        leases.take_this(asked, (subnet, gateway), "b").unwrap();
    }

    #[test]
    fn the_first_address_tried_is_the_former_one_of_that_name() {
        let (_dir, leases) = leases();
        let subnet: Subnet = "10.7.0.0/16".parse().unwrap();
        let gateway = Ipv4Addr::new(10, 7, 0, 1);
        let take = |id| leases.take((subnet, subnet), gateway, (id, "web")).unwrap();
        let first = take("a");
        leases.release("a").unwrap();
        assert_eq!(take("b"), first);
        // Where it is taken, the next one is given.
        assert_eq!(u32::from(take("c")), u32::from(first) + 1);
    }

    /// An event in the life of a container: it starts, it ends, its engine is killed, a sweep comes by.
    #[derive(Clone, Debug)]
    enum Event {
        Start(u8),
        End(u8),
        Crash(u8),
        Sweep,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (0u8..20).prop_map(Event::Start),
            3 => (0u8..20).prop_map(Event::End),
            2 => (0u8..20).prop_map(Event::Crash),
            1 => Just(Event::Sweep),
        ]
    }

    /// Lets containers live as the events say, in a network with room for `room` of them.
    fn live<A: Address + std::fmt::Debug>(
        (subnet, gateway, room): (Prefix<A>, A, usize),
        events: &[Event],
    ) -> Result<(), TestCaseError> {
        let (_dir, leases) = leases();
        let mut running = BTreeMap::new();
        let mut crashed = Vec::new();
        for event in events {
            match *event {
                Event::Start(n) if !running.contains_key(&n) && !crashed.contains(&n) => {
                    match leases.take((subnet, subnet), gateway, (&n.to_string(), &n.to_string())) {
                        Ok(address) => {
                            prop_assert!(subnet.has_host(address) && address != gateway);
                            prop_assert!(!running.values().any(|other| *other == address));
                            running.insert(n, address);
                        }
                        Err(LeaseError::Full { .. }) => {
                            prop_assert_eq!(running.len() + crashed.len(), room);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                Event::End(n) if running.remove(&n).is_some() => {
                    leases.release(&n.to_string()).unwrap();
                }
                Event::Crash(n) if running.remove(&n).is_some() => crashed.push(n),
                Event::Sweep => {
                    for n in crashed.drain(..) {
                        leases.release(&n.to_string()).unwrap();
                    }
                }
                _ => {}
            }
            prop_assert_eq!(leases.all().unwrap().len(), running.len() + crashed.len());
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_two_containers_have_one_address(events in proptest::collection::vec(event(), 1..120)) {
            let subnet: Subnet = "10.7.0.0/28".parse().unwrap();
            live((subnet, Ipv4Addr::new(10, 7, 0, 1), 13), &events)?;
            let subnet: Subnet6 = "fd00:7::/124".parse().unwrap();
            let gateway: Ipv6Addr = "fd00:7::1".parse().unwrap();
            live((subnet, gateway, 14), &events)?;
        }
    }
}
