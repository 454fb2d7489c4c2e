//! Limits on the traffic of a container's links, by the time that bytes take: no less than the rate says. Each test has a machine of
//! its own, see [`super::networks`].

use super::networks::{NEEDS, prints};
use crate::context::Context;
use crate::need::Need;
use crate::promise::{Test, test};
use anyhow::Result;

const NEEDS_TC: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("ip"),
    Need::Program("tc"),
    Need::Program("nft"),
    Need::Program("perl"),
    Need::Program("busybox"),
];

pub(super) const TESTS: &[Test] = &[
    test(
        "rates::bytes_take_their_time_in_both_directions",
        NEEDS,
        both_directions,
    ),
    test("rates::only_an_administrator_lifts_the_limit", NEEDS_TC, kept),
    test("rates::a_limit_needs_a_link", NEEDS, nowhere),
];

/// A server that sends 300000 bytes at port 9001, and one at port 9002 that says when the client has sent all.
/// The server's link has the MTU of the machine's: a link of another one lets long packets pass only as parts of larger ones, and no
/// lost packet would ever come through.
const WORDS: &str = r#"
in_server ip link set s0 mtu 1400
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 9001, ReuseAddr => 1) or die;
while ($c = $s->accept) { print $c "x" x 300000; close $c }' >/dev/null 2>&1 & teller="$teller $!"
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 9002, ReuseAddr => 1) or die;
while ($c = $s->accept) { 1 while sysread $c, $b, 65536; print $c "all\n"; close $c }' >/dev/null 2>&1 & teller="$teller $!"
while ! in_server grep -q ':2329 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
while ! in_server grep -q ':232A 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
now() { perl -MTime::HiRes=time -e 'printf "%d", time * 1000'; }
# Whether a command takes at least 450 ms, which 300000 bytes do with 4 Mbit/s: 600 ms, less the burst.
slow() {
    start=$(now); "$@"
    [ $(($(now) - start)) -ge 450 ] && echo slow || echo fast
}
get() { tote exec $1 sh -c 'busybox nc 198.51.100.9 9001 </dev/null | wc -c'; }
put() { tote exec $1 sh -c 'head -c 300000 /dev/zero | busybox nc 198.51.100.9 9002'; }
"#;

fn both_directions(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --net-rate 4mbit --network bridge --name a "$IMAGE" sleep 300 >/dev/null
slow get a
slow put a
tote restart -t 0 a >/dev/null
slow get a
# What fits into a burst does not wait.
tote run -d --net-rate 4mbit --net-burst 1m --network bridge --name b "$IMAGE" sleep 300 >/dev/null
get b
put b
# The limit is of networks that come later, too.
tote network create web >/dev/null
tote network connect web a
tote network disconnect bridge a
slow get a
tote pod create --net-rate 4mbit --network bridge --name group >/dev/null
tote run -d --pod group --name member "$IMAGE" sleep 300 >/dev/null
slow put member
tote pod rm -f group >/dev/null
"#;
    let lines = "\
300000
slow
all
slow
300000
slow
300000
all
300000
slow
all
slow
";
    prints(cx, &format!("{WORDS}{script}"), lines)
}

fn kept(cx: &Context) -> Result<()> {
    let script = r#"
tc=$(command -v tc)
tote run --rm --net-rate 4mbit --network bridge host $tc qdisc del dev eth0 root 2>&1 | grep -o 'Operation not permitted'
tote run --rm --net-rate 4mbit --network bridge --cap-add NET_ADMIN host $tc qdisc del dev eth0 root && echo lifted
tote run --rm --net-rate 8gbit --net-burst 1m --network bridge host $tc qdisc show dev eth0 | grep -o 'rate 8Gbit burst 10'
tote run --rm --net-rate 80gbit --network bridge host $tc qdisc show dev eth0 | grep -o 'rate 80Gbit'
# What a container gets stays limited.
tote run -d --net-rate 4mbit --network bridge --cap-add NET_ADMIN --name a host sleep 300 >/dev/null
tote exec a $tc qdisc del dev eth0 root
slow get a
"#;
    let lines = "Operation not permitted\nlifted\nrate 8Gbit burst 10\nrate 80Gbit\n300000\nslow\n";
    prints(cx, &format!("{WORDS}{script}"), lines)
}

fn nowhere(cx: &Context) -> Result<()> {
    let script = r#"
for words in '--network none' '--network host' '' ; do tote run --rm --net-rate 4mbit $words "$IMAGE" true 2>&1 || echo $?; done
tote run --rm --net-burst 4k --network bridge "$IMAGE" true 2>&1 || echo $?
tote run --rm --net-rate fast --network bridge "$IMAGE" true 2>&1 | head -n 1
"#;
    let nowhere = "tote: cannot limit the rate of a network: --net-rate needs --network bridge or a network of its own\n125\n";
    let lines = format!(
        "{nowhere}{nowhere}{nowhere}tote: invalid burst: there is no --net-rate that it could be of\n125\n\
         tote: invalid argument \"fast\" for \"--net-rate\" flag: invalid rate 'fast': give bytes per second, such as 512k or 2mb, or bits per second, such as 10mbit\n"
    );
    prints(cx, &format!("{WORDS}{script}"), &lines)
}
