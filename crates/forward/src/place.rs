//! Where connections to programs begin.

use rustix::fd::BorrowedFd;
use std::net::IpAddr;

/// A network namespace in which connections begin.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The network namespace.
    pub network: BorrowedFd<'a>,
    /// The mark that leads packets for addresses of clients back to this process; `None` if programs cannot see these addresses.
    pub mark: Option<u32>,
    /// In the program's own network namespace, the address that a program sees in place of one that it must not see.
    pub gateway: Option<IpAddr>,
}

impl<'a> Place<'a> {
    /// The network namespace that the links of programs lead to.
    pub(crate) fn of_links(network: BorrowedFd<'a>, mark: Option<u32>) -> Self {
        Self {
            network,
            mark,
            gateway: None,
        }
    }
}

/// Network namespaces of programs, in which a connection to them passes no link.
pub trait Places: std::fmt::Debug {
    /// The place of the program that has this address; `None` if a connection has to come by the program's link.
    fn place(&mut self, to: IpAddr) -> Option<Place<'_>>;
}

/// Every program is reached by its link.
#[derive(Clone, Copy, Debug)]
pub struct ByLink;

impl Places for ByLink {
    fn place(&mut self, _: IpAddr) -> Option<Place<'_>> {
        None
    }
}
