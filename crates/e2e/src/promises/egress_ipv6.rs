//! Egress policies of containers with IPv6 addresses, on the machine of [`super::networks_ipv6`].

use super::networks_ipv6::{FORWARDING, prints};
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "egress_ipv6::addresses_that_are_named_are_open",
        FORWARDING,
        addresses,
    ),
    test("egress_ipv6::names_open_their_addresses", FORWARDING, names),
    test(
        "egress_ipv6::a_hostile_program_reaches_nothing_else",
        FORWARDING,
        hostile,
    ),
];

/// `TRY HOST PORT…` prints what the server says, or why it does not; a refusal comes within a second.
const TRY: &str = r#"
IMAGE=host
TRY='while [ $# -gt 0 ]; do timeout 5 perl -MIO::Socket::IP -MTime::HiRes=time -e '\''
$begin = time; $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1]) or $why = lc($@ || $!);
if ($s) { $why = <$s> // "nothing"; chomp $why } print "@ARGV $why", time - $begin < 1 ? "" : " late", "\n"'\'' "$1" "$2"; shift 2; done'
"#;

fn addresses(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 2001:db8::8/64 dev s0 nodad
run() { tote run --rm --network lab "$@"; }
run --egress 'allow:[2001:db8::9]:81,198.51.100.9:80' "$IMAGE" sh -c "$TRY" - 2001:db8::9 81 2001:db8::9 82 2001:db8::8 81 198.51.100.9 80 fd00:77::1 81
run --egress allow:2001:db8::/32 "$IMAGE" sh -c "$TRY" - 2001:db8::9 81
# The machine's own addresses and the network's members stay closed to what means all.
run --egress allow:::/0 "$IMAGE" sh -c "$TRY" - 2001:db8::9 81 2001:db8::2 81 fd00:77::1 81
run --egress none "$IMAGE" sh -c "$TRY" - 2001:db8::9 81
run --egress none "$IMAGE" busybox ping -6 -c 1 -W 1 2001:db8::9 >/dev/null 2>&1 || echo no echo
tote run --name a --network lab --egress none "$IMAGE" sh -c "$TRY" - 2001:db8::9 81
tote logs --egress a | cut -d ' ' -f 2- | sed 's, [0-9]*/perl$, PID/perl,'
tote run --name b --network lab --egress log "$IMAGE" sh -c "$TRY" - 2001:db8::9 81
tote logs --egress b
tote rm a b >/dev/null
"#;
    let lines = "\
2001:db8::9 81 2001:db8::2
2001:db8::9 82 connection refused
2001:db8::8 81 connection refused
198.51.100.9 80 198.51.100.2
fd00:77::1 81 connection refused
2001:db8::9 81 2001:db8::2
2001:db8::9 81 2001:db8::2
2001:db8::2 81 connection refused
fd00:77::1 81 connection refused
2001:db8::9 81 connection refused
no echo
2001:db8::9 81 connection refused
tcp [2001:db8::9]:81 1 PID/perl
2001:db8::9 81 2001:db8::2
tcp:[2001:db8::9]:81
";
    prints(cx, &format!("{TRY}{script}"), lines)
}

/// A server of DNS tells an outside address and a private one; the name of a container is that container's.
fn names(cx: &Context) -> Result<()> {
    let script = r#"
cat > "$FILE.dns" <<'END'
use Socket qw(:DEFAULT inet_pton); use IO::Socket::INET; $s = IO::Socket::INET->new(Proto => "udp", LocalAddr => "198.51.100.9", LocalPort => 53) or die;
%all = ("good.test" => "2001:db8::9", "evil.test" => "fd00:77::1");
while (defined $s->recv($q, 512)) { ($name, $at) = ("", 12);
  while ($n = ord substr $q, $at, 1) { $name .= "." . lc substr $q, $at + 1, $n; $at += $n + 1 } $name =~ s/^\.//;
  $six = unpack("n", substr $q, $at + 1, 2) == 28 && $all{$name};
  $s->send(substr($q, 0, 2) . pack("nnnnn", 0x8180, 1, $six ? 1 : 0, 0, 0) . substr($q, 12, $at - 7)
    . ($six ? pack("nnnNn", 0xc00c, 28, 1, 60, 16) . inet_pton(AF_INET6, $six) : "")) }
END
nsenter -t $server -n perl "$FILE.dns" & teller="$teller $!"
while ! in_server grep -q '096433C6:0035' /proc/net/udp; do sleep 0.02; done
tote run --rm --network lab --dns 198.51.100.9 --egress allow:good.test:81,evil.test "$IMAGE" sh -c "$TRY" - 2001:db8::9 81 good.test 81 good.test 82 evil.test 81
tote run -d --network lab --name db "$IMAGE" perl -MIO::Socket::IP -e '$s = IO::Socket::IP->new(Listen => 9, LocalHost => "::", LocalPort => 5432, V6Only => 1) or die; while ($c = $s->accept) { print $c "db\n"; close $c }' >/dev/null
while ! tote exec db grep -q ':1538 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done
address=$(tote inspect -f '{{.NetworkSettings.Networks.lab.GlobalIPv6Address}}' db)
tote run --rm --network lab --egress allow:db:5432 "$IMAGE" sh -c "$TRY" - db 5432
tote run --rm --network lab --egress allow:::/0 "$IMAGE" sh -c "$TRY" - $address 5432 | sed 's/^[^ ]*/address/'
"#;
    let lines = "\
2001:db8::9 81 connection refused
good.test 81 2001:db8::2
good.test 82 connection refused
evil.test 81 connection refused
db 5432 db
address 5432 connection refused
";
    prints(cx, &format!("{TRY}{script}"), lines)
}

/// A program with all rights over its network namespace sends frames of its own. The server's link and another member count.
fn hostile(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 2001:db8::8/64 dev s0 nodad
cat > "$FILE.server" <<'END'
table netdev count { chain in { type filter hook ingress device "s0" priority 0
ip6 daddr 2001:db8::8 counter
ether type ip6 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 daddr 2001:db8::9 ip6 saddr != fe80::/10 ip6 hoplimit != 255 counter
}
}
END
tote run -d --network lab --name other "$IMAGE" sleep 300 >/dev/null
other=$(tote inspect -f '{{.State.Pid}}' other)
cat > "$FILE.other" <<'END'
table netdev count { chain in { type filter hook ingress device "eth0" priority 0
ether daddr 33:33:00:00:00:01 icmpv6 type nd-neighbor-advert @th,64,128 0xfd000077000000000000000000000001 counter
}
}
END
cat > "$FILE.hostile" <<'END'
sub binary { join "", map { chr hex } split /:/, shift }
sub line { open my $file, shift; chomp(my $line = <$file>); $line }
sub pton { inet_pton(AF_INET6, shift) }
($own) = `ip -6 -o addr show eth0 scope global` =~ /inet6 ([0-9a-f:]+)/;
system "busybox ping -6 -c 1 -W 1 fd00:77::1 >/dev/null 2>&1"; ($mac) = `ip -6 neigh show fd00:77::1` =~ /lladdr (\S+)/ or die "no neighbour";
($to, $from, $index) = (binary($mac), binary(line("/sys/class/net/eth0/address")), line("/sys/class/net/eth0/ifindex"));
socket my $packets, 17, SOCK_RAW, 0x0300 or die "no packet socket";
sub sum { my ($all, $sum) = (shift, 0); $sum += $_ for unpack "n*", $all . "\0" x (length($all) % 2); $sum = ($sum >> 16) + ($sum & 0xffff) for 1, 2; ~$sum & 0xffff }
sub frame { my ($mac, $source, $destination, $next, $hops, $data) = @_;
  if ($next == 58) { substr $data, 2, 2, "\0\0"; substr $data, 2, 2, pack "n", sum(pton($source) . pton($destination) . pack("NN", length $data, 58) . $data) }
  send $packets, $mac . $from . pack("n", 0x86dd) . pack("NnCC", 0x60000000, length $data, $next, $hops) . pton($source) . pton($destination) . $data, 0,
    pack("SnlSCC", 17, 0x86dd, $index, 1, 0, 6) . $mac . "\0\0" or print "not sent: $!\n" }
$udp = pack("nnnn", 5000, 443, 12, 1) . "leak"; $evil = "2001:db8::8";
for (1 .. 2) {
  frame($to, $own, $evil, 17, 64, $udp); frame($to, $own, $evil, 6, 64, pack "nnNNCCnnn", 5000, 443, 1, 1, 0x50, $_, 1024, 0, 0) for 2, 16, 18, 4;
  frame($to, $own, $evil, 58, 255, pack("CCnN", $_, 0, 0, 7) . "leak" x 4) for 1, 3, 128, 129, 133, 134, 135, 136, 137, 143;
  # Further headers: options, a route, a fragment, no header at all.
  frame($to, $own, $evil, $_, 64, pack("CCnN", 17, 0, 0, 0) . $udp) for 0, 43, 44, 51, 60, 135; frame($to, $own, $evil, 59, 64, "leak");
  frame($to, $own, "2001:db8::9", 43, 64, pack("CCCCN", 17, 2, 0, 1, 0) . pton($evil) . $udp);
  # The messages of a link, to one that is not on it.
  frame($to, $own, "2001:db8::9", 58, 255, pack("CCnN", $_, 0, 0, 0) . pton($own)) for 135, 136;
  # Somebody else's addresses.
  frame($to, "fd00:77::1", $evil, 17, 64, $udp); frame($to, "2001:db8:1::1", $evil, 17, 64, $udp);
  frame(binary("33:33:00:00:00:01"), $_, "ff02::1", 58, 255, pack("CCnN", 136, 0, 0, 0x20000000) . pton("fd00:77::1") . "\2\1" . $from) for $own, "fd00:77::1";
}
system "nft flush ruleset; ip -6 addr add 2001:db8:1::2/64 dev eth0 nodad; ip -6 route add $evil dev eth0 2>/dev/null";
print "done\n"
END
count() { nsenter -t $server -n nft list table netdev count | grep -o 'packets [0-9]*'; nsenter -t $other -n nft list table netdev count | grep -o 'packets [0-9]*'; }
hostile() { tote run --rm --network lab --cap-add NET_ADMIN --cap-add NET_RAW --security-opt seccomp=unconfined "$@" "$IMAGE" perl -MSocket=:DEFAULT,inet_pton -e "$(cat "$FILE.hostile")" 2>&1; }
clear() { for pair in "$server server" "$other other"; do set -- $pair; nsenter -t $1 -n sh -c "nft delete table netdev count 2>/dev/null; nft -f '$FILE.$2'"; done; }
# Without a policy they arrive, once the machine has found the server's hardware address.
clear
while count | grep -q 'packets 0$'; do hostile >/dev/null; done
clear
hostile --egress 'allow:[2001:db8::9]:81,fd00:77::1'
# By the time that a packet of another container has come the same way, theirs would have.
tote run --rm --network lab "$IMAGE" busybox nc 2001:db8::9 81 </dev/null
count
"#;
    prints(
        cx,
        &format!("{TRY}{script}"),
        "done\n2001:db8::2\npackets 0\npackets 0\npackets 0\n",
    )
}
