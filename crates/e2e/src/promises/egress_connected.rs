//! Egress policies of containers that are connected with further networks while they run.

use super::egress::prints;
use super::networks::NEEDS;
use super::networks_killed::MORTAL;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "egress_connected::no_packet_passes_a_further_link_before_the_policy",
        NEEDS,
        at_once,
    ),
    test(
        "egress_connected::what_a_name_opened_is_open_by_each_link",
        NEEDS,
        shared,
    ),
    test(
        "egress_connected::a_network_with_ipv6_is_held_as_well",
        NEEDS,
        ipv6,
    ),
    test(
        "egress_connected::flushed_rules_come_back_for_all_links",
        NEEDS,
        flushed,
    ),
    test(
        "egress_connected::a_killed_connection_opens_nothing",
        &MORTAL,
        killed,
    ),
];

/// `peer NETWORK ADDRESS NAME` starts a container whose port 80 answers, and whose log has what comes to UDP port 9.
const PEERS: &str = r#"
peer() { tote run -d --network name=$1,ip=$2 --name $3 "$IMAGE" perl -MIO::Socket::INET -e '$| = 1;
if (fork) { $s = IO::Socket::INET->new(Listen => 9, LocalPort => 80, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c "peer\n"; close $c } }
$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 9) or die; while ($s->recv($m, 99)) { print "$m\n" }' >/dev/null
while ! tote exec $3 grep -q ':0050 00000000:0000 0A' /proc/net/tcp || ! tote exec $3 grep -q ':0009 00000000:0000 07' /proc/net/udp; do sleep 0.02; done; }
tote network create --subnet 192.168.77.0/24 lab >/dev/null
tote network create --subnet 192.168.78.0/24 more >/dev/null
peer more 192.168.78.10 near; peer more 192.168.78.11 open
"#;

/// The container sends to two members of the other network all the time, also by a packet socket as soon as there is a link.
fn at_once(cx: &Context) -> Result<()> {
    let script = r#"
flood() { tote run -d --network lab --name a --cap-add NET_RAW --cap-add NET_ADMIN "$@" "$IMAGE" perl -MSocket -e '
socket $udp, AF_INET, SOCK_DGRAM, 0; socket $packets, 17, SOCK_RAW, 0x0300 or die;
# Straight to the address of the peer, as the network derives the one for hardware from it.
sub ip { my ($from, $to, $data) = @_; my $udp = pack("nnnn", 5000, 9, 8 + length $data, 0) . $data;
  my $head = pack "CCnnnCCna4a4", 0x45, 0, 20 + length $udp, 7, 0, 64, 17, 0, inet_aton($from), inet_aton($to);
  my $sum = 0; $sum += $_ for unpack "n*", $head; $sum = ($sum >> 16) + ($sum & 0xffff) for 1, 2;
  substr $head, 10, 2, pack "n", ~$sum & 0xffff; $head . $udp }
while (1) { select undef, undef, undef, 0.0005;
  for ("192.168.78.10", "192.168.78.11") { send $udp, "routed", 0, sockaddr_in(9, inet_aton($_)) }
  if (open $file, "/sys/class/net/eth1/ifindex") { $index = <$file>; close $file;
    for ([10, "\2\x42\xc0\xa8\x4e\x0a"], [11, "\2\x42\xc0\xa8\x4e\x0b"]) {
      my ($last, $mac) = @$_; my $own = "\2\x42\xc0\xa8\x4e\x02";
      send $packets, $mac . $own . pack("n", 0x800) . ip("192.168.78.2", "192.168.78.$last", "framed"), 0, pack("SnlSCC", 17, 0x800, $index, 1, 0, 6) . $mac . "\0\0" } }
}' >/dev/null; }
heard() { for name in near open; do echo $name $(tote logs $name | sort -u); done; }
flood --egress allow:192.168.78.11:9
for round in 1 2 3; do
    tote network connect --ip 192.168.78.2 more a
    while ! tote logs open | grep -q framed || ! tote logs open | grep -q routed; do sleep 0.02; done
    tote network disconnect more a
done
heard
tote inspect -f '{{.Egress.Policy}} {{len .NetworkSettings.Networks}}' a
# The refused destination is noted as ever.
tote logs --egress a | grep -c 'udp 192.168.78.10:9 '
tote rm -f a >/dev/null
# Without a policy the same packets arrive.
flood; tote network connect --ip 192.168.78.2 more a
while ! tote logs near | grep -q framed || ! tote logs near | grep -q routed; do sleep 0.02; done
echo arrived
"#;
    let lines = "\
near
open framed routed
allow:192.168.78.11:9 1
1
arrived
";
    prints(cx, &[PEERS, script].concat(), lines)
}

fn shared(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network lab --name a --egress 'allow:good.test,open:80' "$IMAGE" sleep 300 >/dev/null
tote exec a sh -c "$TRY" - good.test 198.51.100.9 198.51.100.8 192.168.78.11
rules() { nft list table netdev tote-$(tote inspect -f '{{slice .Id 0 12}}' a) | grep -cE 'goto|accept'; }
tote network connect --gw-priority 1 more a
rules > "$FILE.rules"
tote exec a ip route | grep -o 'default via 192.168.78.1'
# The address that a name has opened is open without another question, and the list counts for members of the new network.
tote exec a sh -c "$TRY" - 198.51.100.9 198.51.100.8 192.168.78.10 192.168.78.11 open near 192.168.78.1
tote exec near sh -c "$TRY" - $(tote inspect -f '{{.NetworkSettings.Networks.more.IPAddress}}' a) | sed 's/^[0-9.]*/answered/'
# However often it comes and goes, there are as many rules.
for round in 1 2 3; do tote network disconnect more a; tote network connect --gw-priority 1 more a; done
rules | cmp "$FILE.rules" - && echo as many
tote exec a sh -c "$TRY" - 192.168.78.10 open
# A restart has both networks, and so has a container that was in none for a while.
tote restart -t 0 a >/dev/null
tote exec a sh -c "$TRY" - 192.168.78.10 open good.test
tote network disconnect more a; tote network disconnect lab a; tote network connect more a
tote exec a sh -c "$TRY" - 192.168.78.10 open 198.51.100.8
# Who is started without a network is connected with one once it is stopped.
tote network disconnect more a; tote restart -t 0 a >/dev/null; tote network connect more a 2>&1 | sed 's/.*: it was/it was/'
tote stop -t 0 a >/dev/null; tote network connect more a; tote start a >/dev/null
tote exec a sh -c "$TRY" - 192.168.78.10 open 198.51.100.8
"#;
    let lines = "\
good.test 198.51.100.2
198.51.100.9 198.51.100.2
198.51.100.8 connection refused
192.168.78.11 connection refused
default via 192.168.78.1
198.51.100.9 198.51.100.2
198.51.100.8 connection refused
192.168.78.10 connection refused
192.168.78.11 connection refused
open peer
near connection refused
192.168.78.1 connection refused
answered connection refused
as many
192.168.78.10 connection refused
open peer
192.168.78.10 connection refused
open peer
good.test 198.51.100.2
192.168.78.10 connection refused
open peer
198.51.100.8 connection refused
it was started without a network, so no process keeps the policy: stop it, connect it and start it
192.168.78.10 connection refused
open peer
198.51.100.8 connection refused
";
    prints(cx, &[PEERS, script].concat(), lines)
}

fn ipv6(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --subnet 192.168.79.0/24 --subnet fd00:79::/64 six >/dev/null
listen6() { tote run -d --network name=six,ip6=$1 --name $2 "$IMAGE" perl -MSocket=:all -e 'socket $s, AF_INET6, SOCK_STREAM, 0; setsockopt $s, SOL_SOCKET, SO_REUSEADDR, 1;
bind $s, pack_sockaddr_in6(80, IN6ADDR_ANY) or die; listen $s, 9; while (accept $c, $s) { syswrite $c, "six\n"; close $c }' >/dev/null
while ! tote exec $2 grep -q ':0050 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done; }
listen6 fd00:79::10 shut; listen6 fd00:79::11 wide
TRY6='for to in "$@"; do echo "$to $(timeout 5 perl -MSocket=:all -MTime::HiRes=time -e '\''$begin = time; socket $s, AF_INET6, SOCK_STREAM, 0;
$why = connect($s, pack_sockaddr_in6(80, inet_pton(AF_INET6, shift))) ? <$s> : lc $!; chomp $why; print $why, time - $begin < 1 ? "" : " late"'\'' "$to")"; done'
tote run -d --network lab --name a --egress 'allow:good.test,[fd00:79::11]:80' "$IMAGE" sleep 300 >/dev/null
tote exec a sh -c "$TRY" - good.test
tote network connect six a
while ! nft list table netdev tote-$(tote inspect -f '{{slice .Id 0 12}}' a) | grep -q 'set told-6'; do sleep 0.02; done
tote exec a sh -c "$TRY6" - fd00:79::10 fd00:79::11 fd00:79::10
tote exec a sh -c "$TRY" - 198.51.100.9 198.51.100.8
# The process of a first attempt is found there as well.
tote logs --egress a | grep -o 'tcp .fd00:79::10.:80 2 [0-9]*/perl' | sed 's/ [0-9]*.perl/ PID/'
"#;
    let lines = "\
good.test 198.51.100.2
fd00:79::10 connection refused
fd00:79::11 six
fd00:79::10 connection refused
198.51.100.9 198.51.100.2
198.51.100.8 connection refused
tcp [fd00:79::10]:80 2 PID
";
    prints(cx, &[PEERS, script].concat(), lines)
}

fn flushed(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --network lab --name a --egress 'allow:good.test,192.168.78.11:80' "$IMAGE" sleep 300 >/dev/null
tote network connect more a
tote exec a sh -c "$TRY" - good.test 192.168.78.10
rules() { nft -t list table netdev tote-$(tote inspect -f '{{slice .Id 0 12}}' a) 2>/dev/null | sort; }
rules > "$FILE.before"; grep -c 'device "tv' "$FILE.before"
nft flush ruleset
while ! rules > "$FILE.after" || ! cmp -s "$FILE.before" "$FILE.after"; do sleep 0.02; done; echo as before
tote exec a sh -c "$TRY" - 192.168.78.10 192.168.78.11 198.51.100.8
# What the name had opened is open again, once there are rules that translate addresses.
tote run --rm --network lab --network more "$IMAGE" true
tote exec a sh -c "$TRY" - 198.51.100.9
"#;
    let lines = "\
good.test 198.51.100.2
192.168.78.10 connection refused
4
as before
192.168.78.10 connection refused
192.168.78.11 peer
198.51.100.8 connection refused
198.51.100.9 198.51.100.2
";
    prints(cx, &[PEERS, script].concat(), lines)
}

fn killed(cx: &Context) -> Result<()> {
    let script = r#"
die() { point=$1; shift; { TOTE_FAULT=$point "$MORTAL" --root "$STATE" "$@" >/dev/null && echo "$point: alive"; } 2>/dev/null || true; }
tote run -d --network lab --name a --egress allow:192.168.78.11:80 "$IMAGE" sleep 300 >/dev/null
for point in connect-leased connect-held connect-linked connect-plugged; do
    die $point network connect more a
    # Whatever is there of it, the policy holds; the next command takes it back.
    tote exec a sh -c "$TRY" - 192.168.78.10
    tote run --rm --network none "$IMAGE" true
    echo $point $(tote exec a ls /sys/class/net) $(ls "$STATE/networks/more/leases" | wc -l)
    tote network connect more a
    tote exec a sh -c "$TRY" - 192.168.78.10 192.168.78.11
    tote network disconnect more a
done
"#;
    let lines = ["connect-leased", "connect-held", "connect-linked", "connect-plugged"].map(|point| {
        format!(
            "192.168.78.10 connection refused\n{point} eth0 lo 2\n192.168.78.10 connection refused\n192.168.78.11 peer\n"
        )
    });
    prints(cx, &[PEERS, script].concat(), &lines.concat())
}
