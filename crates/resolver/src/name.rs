//! Names in messages of DNS, and the addresses that some of them say.

use crate::message::HEADER;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name, with the lengths of its labels and the zero at its end.
pub(crate) const LONGEST_NAME: usize = 255;
/// The longest label.
const LONGEST_LABEL: usize = 63;

/// The address that a name of `in-addr.arpa` or `ip6.arpa` stands for.
pub(crate) fn address_of(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(".ip6.arpa") {
        return ipv6(digits).map(IpAddr::V6);
    }
    let mut parts = name.strip_suffix(".in-addr.arpa")?.split('.');
    let mut octets = [0; 4];
    for octet in octets.iter_mut().rev() {
        let part = parts.next()?;
        // Numbers of addresses have no zeros in front.
        let is_number = part == "0" || !part.starts_with('0');
        *octet = part.parse().ok().filter(|_| is_number)?;
    }
    let address = Ipv4Addr::from(octets);
    parts.next().is_none().then(|| address.into())
}

/// The address whose hexadecimal digits are these, the last one first.
fn ipv6(digits: &str) -> Option<Ipv6Addr> {
    let mut bits = 0;
    let mut digits = digits.split('.');
    for place in 0..32 {
        let digit = digits.next().filter(|digit| digit.len() == 1)?;
        bits |= u128::from_str_radix(digit, 16).ok()? << (place * 4);
    }
    digits.next().is_none().then(|| Ipv6Addr::from_bits(bits))
}

/// The labels of the name behind the header, and where it ends. A pointer could lead nowhere but into the header.
pub(crate) fn labels(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels, at));
        }
        if length > LONGEST_LABEL || at + length - HEADER >= LONGEST_NAME {
            return None;
        }
        labels.push(bytes.get(at..at + length)?);
        at += length;
    }
}

/// The name of those labels, if containers, networks and addresses can be called so.
pub(crate) fn text(labels: &[&[u8]]) -> Option<String> {
    let labels: Option<Vec<_>> = labels
        .iter()
        .map(|label| std::str::from_utf8(label).ok())
        .collect();
    let labels = labels.filter(|labels| !labels.is_empty() && labels.iter().all(|label| is_label(label)))?;
    Some(labels.join(".").to_ascii_lowercase())
}

/// Whether a text can be one of the parts of a container's name that have dots between them.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    (1..=LONGEST_LABEL).contains(&text.len()) && text.bytes().all(is_letter)
}

/// A name as it stands in a message; `None` of one that none can have.
pub(crate) fn encoded(name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).ok().filter(|_| is_label(label))?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    (bytes.len() <= LONGEST_NAME).then_some(bytes)
}
