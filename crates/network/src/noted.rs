//! Destinations that the rules of an egress policy have noted.

use crate::filter::HEADER;
use crate::netlink::{Attribute, Message};
use std::net::IpAddr;
use std::time::Duration;

const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NFTA_SET_ELEM_EXPIRATION: u16 = 5;
const NFTA_SET_ELEM_EXPR: u16 = 7;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_COUNTER_PACKETS: u16 = 2;

/// A destination that packets of a container were for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The address.
    pub address: IpAddr,
    /// The number of the protocol in the IP header.
    pub protocol: u8,
    /// The port; 0 where the protocol has none.
    pub port: u16,
    /// How many packets there were.
    pub packets: u64,
    /// How long ago the last one was.
    pub ago: Duration,
}

impl Noted {
    /// The destinations in an NFT_MSG_NEWSETELEM.
    pub(crate) fn read_all(message: &Message) -> Vec<Self> {
        let rest = message.body.get(HEADER..).unwrap_or_default();
        let lists = Attribute::all(rest).filter(|attribute| attribute.kind == NFTA_SET_ELEM_LIST_ELEMENTS);
        let elements = lists.flat_map(|list| Attribute::all(list.value));
        elements.filter_map(|element| Self::read(element.value)).collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (mut key, mut lifetime, mut left, mut packets) = (None, 0, 0, 0);
        for attribute in Attribute::all(bytes) {
            match attribute.kind {
                NFTA_SET_ELEM_KEY => key = Attribute::all(attribute.value).next().map(|data| data.value),
                NFTA_SET_ELEM_TIMEOUT => lifetime = long(attribute.value)?,
                NFTA_SET_ELEM_EXPIRATION => left = long(attribute.value)?,
                NFTA_SET_ELEM_EXPR => {
                    let mut parts = Attribute::all(attribute.value);
                    let data = parts.find(|part| part.kind == NFTA_EXPR_DATA)?;
                    let mut counts = Attribute::all(data.value);
                    let count = counts.find(|part| part.kind == NFTA_COUNTER_PACKETS)?;
                    packets = long(count.value)?;
                }
                _ => {}
            }
        }
        let key = key?;
        let (address, rest) = key.split_at_checked(key.len().checked_sub(8)?)?;
        let address: IpAddr = match address.len() {
            4 => <[u8; 4]>::try_from(address).ok()?.into(),
            16 => <[u8; 16]>::try_from(address).ok()?.into(),
            _ => return None,
        };
        let [protocol, _, _, _, high, low, _, _] = *rest else {
            return None;
        };
        Some(Self {
            address,
            protocol,
            port: u16::from_be_bytes([high, low]),
            packets,
            ago: Duration::from_millis(u64::saturating_sub(lifetime, left)),
        })
    }
}

fn long(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Request, messages};

    #[test]
    fn an_element_is_read_as_the_kernel_writes_it() {
        let mut request = Request::new(1, &[5, 0, 0, 0]);
        request.nest(NFTA_SET_ELEM_LIST_ELEMENTS, &[], |list| {
            list.nest(1, &[], |element| {
                element.nest(NFTA_SET_ELEM_KEY, &[], |key| {
                    key.attribute(1, &[198, 51, 100, 9, 6, 0, 0, 0, 1, 187, 0, 0]);
                });
                element.attribute(NFTA_SET_ELEM_TIMEOUT, &5000u64.to_be_bytes());
                element.attribute(NFTA_SET_ELEM_EXPIRATION, &3000u64.to_be_bytes());
                element.nest(NFTA_SET_ELEM_EXPR, &[], |expression| {
                    expression.name(1, "counter");
                    expression.nest(NFTA_EXPR_DATA, &[], |counter| {
                        counter.attribute(1, &60u64.to_be_bytes());
                        counter.attribute(NFTA_COUNTER_PACKETS, &3u64.to_be_bytes());
                    });
                });
            });
        });
        let noted = Noted {
            address: "198.51.100.9".parse().unwrap(),
            protocol: 6,
            port: 443,
            packets: 3,
            ago: Duration::from_secs(2),
        };
        assert_eq!(Noted::read_all(&messages(&request.finish(0))[0]), [noted]);
        for length in 0..64 {
            assert_eq!(Noted::read(&[0xff; 64][..length]), None);
        }
    }
}
