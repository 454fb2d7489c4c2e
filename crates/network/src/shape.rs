//! Rates of links: a token bucket (tbf) at each end of a container's pair of links.
//!
//! The kernel shapes what a link sends. So the host's end limits what the container gets, and the container's own end what it sends.

use crate::netlink::{NLM_F_CREATE, NLM_F_EXCL, Request};

const RTM_NEWQDISC: u16 = 36;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Length of an Ethernet header in bytes, which the kernel counts with each packet.
const FRAME_HEADER: u32 = 14;
/// Parts of a second that packets wait at most, and that a burst takes where none is given.
const PATIENCE: u64 = 20;
/// Shortest burst that is chosen, and shortest queue, in bytes.
const USUAL_BURST: u64 = 32 << 10;

/// A limit on what passes a link, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may pass at once after a pause; `None` follows from the rate.
    pub burst: Option<u64>,
}

/// A request that limits what a link sends, which has no such limit yet.
pub(crate) fn shape(index: u32, mtu: u32, limit: Rate) -> Request {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    let mut request = Request::new(RTM_NEWQDISC, &header).flags(NLM_F_CREATE | NLM_F_EXCL);
    request.name(TCA_KIND, "tbf");
    let (burst, queue) = sizes(mtu, limit);
    request.nest(TCA_OPTIONS, &[], |options| {
        options.attribute(TCA_TBF_PARMS, &parameters(limit.rate, queue));
        if limit.rate > u64::from(u32::MAX) {
            options.attribute(TCA_TBF_RATE64, &limit.rate.to_ne_bytes());
        }
        options.attribute(TCA_TBF_BURST, &burst.to_ne_bytes());
    });
    request
}

/// The burst and the length of the queue, in bytes: each has room for at least one packet, because larger ones than the burst are
/// dropped.
fn sizes(mtu: u32, limit: Rate) -> (u32, u32) {
    let short = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let share = limit.rate / PATIENCE;
    let burst = limit.burst.unwrap_or(share.max(USUAL_BURST));
    let burst = short(burst).max(mtu.saturating_add(FRAME_HEADER));
    (burst, burst.saturating_add(short(share.max(USUAL_BURST))))
}

/// `struct tc_tbf_qopt`: the rate, no peak rate, the length of the queue. The burst is an attribute of its own.
fn parameters(rate: u64, queue: u32) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[1] = TC_LINKLAYER_ETHERNET;
    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
    bytes[8..12].copy_from_slice(&rate.to_ne_bytes());
    bytes[24..28].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_a_packet() {
        let limit = |rate, burst| Rate { rate, burst };
        assert_eq!(sizes(1500, limit(1000, Some(1))), (1514, 1514 + (32 << 10)));
        assert_eq!(sizes(9000, limit(1000, None)).0, 32 << 10);
        assert_eq!(sizes(1500, limit(20_000_000, None)), (1_000_000, 2_000_000));
        assert_eq!(sizes(1500, limit(u64::MAX, Some(u64::MAX))), (u32::MAX, u32::MAX));
    }
}
