//! Ways to open an address to a container that an egress policy holds, right ones and wrong ones, in the world of [`super::egress`].

use super::egress::prints;
use super::networks::NEEDS;
use crate::context::Context;
use crate::promise::{Test, test};
use anyhow::Result;

pub(super) const TESTS: &[Test] = &[
    test(
        "egress_opened::what_is_for_everybody_opens_nobody",
        NEEDS,
        everybody,
    ),
    test(
        "egress_opened::an_address_stays_open_as_long_as_it_is_used",
        NEEDS,
        used,
    )
    .slow(3)
    .waits(),
    test("egress_opened::a_false_sender_opens_nothing", NEEDS, false_sender),
    test(
        "egress_opened::a_false_neighbour_opens_nothing",
        NEEDS,
        false_neighbour,
    ),
    test(
        "egress_opened::a_connection_is_not_begun_by_what_is_over",
        NEEDS,
        begun_again,
    )
    .slow(2)
    .waits(),
    test("egress_opened::messages_of_arp_carry_nothing", NEEDS, arp),
    test(
        "egress_opened::messages_of_neighbours_carry_nothing",
        NEEDS,
        neighbours,
    ),
];

/// A datagram from a port of the container to a port of an address: what the sender is told within a second.
const SAY: &str = r#"
SAY='use IO::Socket::INET; ($from, $to, $port) = @ARGV;
$s = IO::Socket::INET->new(Proto => "udp", LocalPort => $from, PeerAddr => $to, PeerPort => $port) or die; $s->send("secret");
vec($ready = "", fileno $s, 1) = 1; print select($ready, undef, undef, 5) ? defined $s->recv($m, 99) ? $m : lc $! : "nothing", "\n"'
"#;

/// `raw TCP|UDP SOURCE PORT DESTINATION PORT`: one packet with a source of others, that begins to speak. `connect FROM ADDRESS PORT`: the first line of
/// a server, from a port of the container's.
const FALSE: &str = r#"
RAW='use Socket; ($kind, $from, $port, $to, $there) = @ARGV;
sub sum { my ($all, $sum) = (shift, 0); $sum += $_ for unpack "n*", $all . "\0" x (length($all) % 2); $sum = ($sum >> 16) + ($sum & 0xffff) for 1, 2; ~$sum & 0xffff }
$data = $kind eq "tcp" ? pack("nnNNCCnnn", $port, $there, 1, 0, 0x50, 2, 1024, 0, 0) : pack("nnnn", $port, $there, 12, 0) . "open";
$number = $kind eq "tcp" ? 6 : 17; $pseudo = inet_aton($from) . inet_aton($to) . pack("CCn", 0, $number, length $data);
substr $data, $kind eq "tcp" ? 16 : 6, 2, pack "n", sum($pseudo . $data);
socket $s, AF_INET, SOCK_RAW, 255 or die;
send $s, pack("CCnnnCCna4a4", 0x45, 0, 20 + length $data, 7, 0, 64, $number, 0, inet_aton($from), inet_aton($to)) . $data, 0, sockaddr_in(0, inet_aton($to)) or die "not sent: $!"'
CONNECT='use IO::Socket::INET; ($from, $to, $port) = @ARGV;
$s = IO::Socket::INET->new(PeerAddr => $to, PeerPort => $port, LocalPort => $from, ReuseAddr => 1, Timeout => 5); print $s ? <$s> : lc "$!\n"'
from() { tote exec a perl -e "$CONNECT" "$@"; }
say() { tote exec a perl -e "$SAY" "$@"; }
"#;

/// Announcements of the machine, as those of its names are, reach all members of a network. They say nothing to one of them.
fn everybody(cx: &Context) -> Result<()> {
    let script = r#"
tote run -d --name a --egress none "$IMAGE" sleep 1000 >/dev/null
gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' a); own=$(tote inspect -f '{{.NetworkSettings.IPAddress}}' a)
cat > "$FILE.announce" <<'END'
use Socket; ($gateway, $own) = @ARGV; $| = 1;
socket $s, AF_INET, SOCK_DGRAM, 0; setsockopt $s, SOL_SOCKET, SO_REUSEADDR, 1; setsockopt $s, SOL_SOCKET, SO_BROADCAST, 1;
bind $s, sockaddr_in(5353, INADDR_ANY) or die; setsockopt $s, 0, 32, inet_aton($gateway) or die;
sub say { send $s, "announcement", 0, sockaddr_in(5353, inet_aton(shift)) or die "not sent: $!" }
say("224.0.0.251"); ($all = $gateway) =~ s/[.]\d+[.]\d+$/.255.255/; say($all);
print "announced\n"; recv $s, $m, 99, 0; say($own); print "told\n";
while ($from = recv $s, $m, 99, 0) { send $s, "answer", 0, $from }
END
mkfifo "$FILE.told"
perl "$FILE.announce" $gateway $own > "$FILE.told" & teller="$teller $!"
{ read line; echo $line
tote exec a perl -e "$SAY" 5353 $gateway 5353
# What the machine says to this container alone is something else.
perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1:5353")->send("go on")'
read line; echo $line
tote exec a perl -e "$SAY" 5353 $gateway 5353; } < "$FILE.told"
"#;
    let lines = "announced\nno route to host\ntold\nanswer\n";
    prints(cx, &format!("{SAY}{script}"), lines)
}

/// Answers of the world's server last a second, which counts as ten. A connection keeps its address open, packets that the other side refuses
/// do not; and without the option an address outlives its answer by ten minutes.
fn used(cx: &Context) -> Result<()> {
    let script = r#"
nsenter -t $server -n perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, LocalPort => 7000, ReuseAddr => 1) or die;
while ($c = $s->accept) { while (defined($l = <$c>)) { print $c $l } }' & teller="$teller $!"
while ! in_server grep -q ':1B58 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done
cat > "$FILE.uses" <<'END'
use IO::Socket::INET; use Time::HiRes qw(time sleep); $| = 1;
sub at { IO::Socket::INET->new(PeerAddr => shift, PeerPort => shift, Timeout => 2) }
$c = at("good.test", 7000) or die; $begin = time;
while (time - $begin < 22) { print $c "x\n"; <$c> eq "x\n" or die "the connection ended"; sleep 0.2 }
print at("198.51.100.9", 80) ? "open while it is used\n" : "closed\n"; close $c;
while (1) { at("198.51.100.9", 81) and die; sleep 0.2 }
END
cat > "$FILE.waits" <<'END'
use IO::Socket::INET;
sub at { IO::Socket::INET->new(PeerAddr => shift, PeerPort => 80, Timeout => 2) }
at("good.test") or die; sleep 14; print at("198.51.100.9") ? "open without the option\n" : "closed\n"
END
run() { tote run -d --name $1 --egress allow:good.test $3 "$IMAGE" perl -e "$(cat "$FILE.$2")" >/dev/null; }
run a uses "--egress-keep 4s"; run b waits ""
said() { while ! tote logs $1 2>&1 | grep .; do sleep 0.2; done; }
said b; said a
# The real server refuses port 81 as well: what the policy refuses is noted.
refused() { tote inspect -f '{{len .Egress.Refused}}' $1; }
for try in $(seq 150); do if [ $(refused a) -gt 0 ]; then echo closed; break; fi; sleep 0.2; done
tote inspect -f '{{.Egress.Keep}}' a b
tote run --rm --egress-keep 1h "$IMAGE" true 2>&1 | grep -o 'give --egress, too'
tote run --rm --egress none --egress-keep 10 "$IMAGE" true 2>&1 | grep -o 'is no time'
"#;
    let lines =
        "open without the option\nopen while it is used\nclosed\n4s\n600s\ngive --egress, too\nis no time\n";
    prints(cx, script, lines)
}

/// A sender to a published port says himself who he is. The container may answer him, and does not connect to him for that.
fn false_sender(cx: &Context) -> Result<()> {
    let script = r#"
for own in 10.77.0.9 10.78.0.9 169.254.169.254; do in_server ip addr add $own/32 dev s0; done
ip route add 10.78.0.0/24 via 198.51.100.9
tote run -d --name a --egress none -p 8080:80 -p 8053:53/udp "$IMAGE" sleep 1000 >/dev/null
outside() { nsenter -t $server -n perl -e "$RAW" "$@"; }
for peer in 198.51.100.9 10.77.0.9 169.254.169.254; do
    outside tcp $peer 80 198.51.100.2 8080
    from 80 $peer 80
done
# Without a handshake nothing says that a sender is one of the link's own, such as the metadata of a cloud.
outside udp 169.254.169.254 443 198.51.100.2 8053
say 53 169.254.169.254 443
# Nor that it is in a private network, unless the machine knows a way there beside the default route.
outside udp 10.77.0.9 443 198.51.100.2 8053
say 53 10.77.0.9 443
if grep secret "$FILE.quic"; then exit 1; fi
outside udp 10.78.0.9 443 198.51.100.2 8053
# The server answers from another address.
say 53 10.78.0.9 443 >/dev/null
while ! grep secret "$FILE.quic"; do sleep 0.02; done
outside udp 198.51.100.9 443 198.51.100.2 8053
say 53 198.51.100.9 443
"#;
    let lines = "connection refused\nconnection refused\nconnection refused\nno route to host\n\
        no route to host\nsecret\nheard\n";
    prints(cx, &format!("{SAY}{FALSE}{script}"), lines)
}

/// A member of the network that no policy holds sends with the addresses of others: hosts outside, and the machine.
fn false_neighbour(cx: &Context) -> Result<()> {
    let script = r#"
in_server ip addr add 169.254.169.254/32 dev s0
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 9999) or die; while ($s->recv($m, 99)) { $s->send("machine") }' & teller="$teller $!"
while ! grep -q ':270F 00000000:0000 07' /proc/net/udp; do sleep 0.02; done
tote run -d --name a --egress none "$IMAGE" sleep 1000 >/dev/null
tote run -d --name b --network bridge "$IMAGE" sleep 1000 >/dev/null
own=$(tote inspect -f '{{.NetworkSettings.IPAddress}}' a); gateway=$(tote inspect -f '{{.NetworkSettings.Gateway}}' a)
neighbour() { tote exec b perl -e "$RAW" "$@"; }
neighbour tcp 169.254.169.254 80 $own 5555; from 5555 169.254.169.254 80
neighbour udp 169.254.169.254 443 $own 5001; say 5001 169.254.169.254 443
neighbour udp $gateway 9999 $own 5002; say 5002 $gateway 9999
# With its own address it is somebody who has begun to speak, as is a program of the machine.
perl -MIO::Socket::INET -e 'IO::Socket::INET->new(Proto => "udp", LocalPort => 9998, PeerAddr => shift, PeerPort => 5003)->send("open")' $own
perl -MIO::Socket::INET -e '$| = 1; $s = IO::Socket::INET->new(Proto => "udp", LocalPort => 9998) or die; print "listens\n"; while ($s->recv($m, 99)) { $s->send("machine as well") }' > "$FILE.as-well" & teller="$teller $!"
while ! grep -q listens "$FILE.as-well"; do sleep 0.02; done
say 5003 $gateway 9998
"#;
    let lines = "connection refused\nno route to host\nno route to host\nmachine as well\n";
    prints(cx, &format!("{SAY}{FALSE}{script}"), lines)
}

/// From one port of the container to one of a host whose name no longer has that address: connections that are over begin none.
fn begun_again(cx: &Context) -> Result<()> {
    let script = r#"
keep=--egress-keep=0
tote run --rm --egress allow:good.test $keep "$IMAGE" perl -MSocket -MIO::Socket::INET -MTime::HiRes=sleep -e '
sub at { $s = IO::Socket::INET->new(PeerAddr => shift, PeerPort => 80, LocalPort => 5555, ReuseAddr => 1, Timeout => 5) or return 0;
  <$s>; setsockopt $s, SOL_SOCKET, SO_LINGER, pack "ii", 1, 0; close $s; 1 }
at("good.test") or die "never open"; for (1 .. 250) { sleep 0.1; at("198.51.100.9") or last; $open = $_ } print $open > 50 && $open < 250 ? "closed\n" : "$open times\n"'
"#;
    prints(cx, script, "closed\n")
}

/// Questions for the hosts of a link pass between a container with a policy and a member without one, in the form that kernels give them and not many times
/// a second. Between two containers with policies nothing passes.
fn arp(cx: &Context) -> Result<()> {
    let script = r#"
member() { name=$1; shift; tote run -d --name $name --network bridge "$@" "$IMAGE" sleep 1000 >/dev/null; }
member a --egress allow:good.test; member b --egress none; member c
mac=$(tote inspect -f '{{.NetworkSettings.MacAddress}}' a)
counts() { nsenter -n -t $(tote inspect -f '{{.State.Pid}}' $1) nft "$2"; }
for name in b c; do counts $name "table netdev count { chain in { type filter hook ingress device eth0 priority 0
ether saddr $mac arp operation request meta length 28 counter
ether saddr $mac ether type arp counter
}
}"; done
cat > "$FILE.arp" <<'END'
use Socket; ($whom, $times) = @ARGV;
sub line { open my $file, shift; chomp(my $line = <$file>); $line }
sub binary { join "", map { chr hex } split /:/, shift }
($own) = `ip -4 -o addr show eth0` =~ /inet ([0-9.]+)/; ($from, $index) = (binary(line("/sys/class/net/eth0/address")), line("/sys/class/net/eth0/ifindex"));
socket my $packets, 17, SOCK_RAW, 0x0608 or die;
sub frame { send $packets, "\xff" x 6 . $from . pack("n", 0x806) . shift, 0, pack("SnlSCC", 17, 0x806, $index, 1, 0, 6) . "\xff" x 6 . "\0\0" or die "not sent: $!" }
sub message { my ($operation, $target, $about) = @_; pack("nnCCn", 1, 0x800, 6, 4, $operation) . $from . inet_aton($own) . $target . inet_aton($about) }
# Something behind it, in the place of the target's hardware address, about an address elsewhere, and another operation.
frame(message(1, "\0" x 6, $whom) . "x" x 1372); frame(message(1, "secret", $whom)); frame(message(1, "\0" x 6, "198.51.100.7")); frame(message(9, "\0" x 6, $whom));
frame(message(2, "\xff" x 6, $whom) . "x" x 18); frame(message(1, "\0" x 6, $whom)) for 1 .. $times;
print "sent\n"
END
tote exec a perl -e "$(cat "$FILE.arp")" 10.210.99.99 1
numbers() { nsenter -n -t $(tote inspect -f '{{.State.Pid}}' $1) nft list table netdev count | grep -o 'packets [0-9]*' | tr '\n' ' '; echo; }
echo b $(numbers b); echo c $(numbers c)
tote exec a perl -e "$(cat "$FILE.arp")" 10.210.99.99 2000
echo b $(numbers b)
# 100 at once, and 25 a second while it sends.
[ $(numbers c | cut -d ' ' -f 4) -lt 600 ] && echo few
# A member without a policy reaches it, and it the machine and what is beyond.
tote exec c busybox ping -c 1 -W 3 $(tote inspect -f '{{.NetworkSettings.IPAddress}}' a) | grep -o '1 packets received'
tote exec a sh -c "$TRY" - good.test
"#;
    let lines = "\
sent
b packets 0 packets 0
c packets 1 packets 1
sent
b packets 0 packets 0
few
1 packets received
good.test 198.51.100.2
";
    prints(cx, script, lines)
}

/// Neighbour discovery of IPv6 (RFC 4861) passes in the same way. The network has names, so its members are not apart: all that counts here is the form.
fn neighbours(cx: &Context) -> Result<()> {
    let script = r#"
tote network create --ipv6 --subnet fd00:77::/64 lab >/dev/null
tote run -d --name a --network lab --egress allow:good.test "$IMAGE" sleep 1000 >/dev/null; tote run -d --name c --network lab "$IMAGE" sleep 1000 >/dev/null
mac=$(tote inspect -f '{{.NetworkSettings.Networks.lab.MacAddress}}' a); there=$(tote inspect -f '{{.NetworkSettings.Networks.lab.GlobalIPv6Address}}' c)
nsenter -n -t $(tote inspect -f '{{.State.Pid}}' c) nft "table netdev count { chain in { type filter hook ingress device eth0 priority 0
ether saddr $mac icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } @th,48,16 0x1234 counter
ether saddr $mac icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } meta length > 72 counter
ether saddr $mac icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } @th,208,48 0x736563726574 counter
ether saddr $mac icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 flowlabel 7 counter
ether saddr $mac icmpv6 type nd-neighbor-solicit ip6 daddr ff02::1 @th,64,128 0xfd000077000000000000000000000abc counter
}
}"
cat > "$FILE.nd" <<'END'
use Socket qw(:DEFAULT inet_pton); ($there) = @ARGV;
sub line { open my $file, shift; chomp(my $line = <$file>); $line }
sub binary { join "", map { chr hex } split /:/, shift }
sub pton { inet_pton(AF_INET6, shift) }
($own) = `ip -6 -o addr show eth0 scope global` =~ /inet6 ([0-9a-f:]+)/;
($from, $index) = (binary(line("/sys/class/net/eth0/address")), line("/sys/class/net/eth0/ifindex"));
socket my $packets, 17, SOCK_RAW, 0xdd86 or die;
sub sum { my ($all, $sum) = (shift, 0); $sum += $_ for unpack "n*", $all . "\0" x (length($all) % 2); $sum = ($sum >> 16) + ($sum & 0xffff) for 1, 2; ~$sum & 0xffff }
sub frame { my ($to, $label, $data, $behind) = @_; substr $data, 2, 2, pack "n", sum(pton($own) . pton($to) . pack("NN", length $data, 58) . $data);
  my $mac = "\x33\x33\0\0\0\1";
  send $packets, $mac . $from . pack("n", 0x86dd) . pack("NnCC", 0x60000000 + $label, length $data, 58, 255) . pton($own) . pton($to) . $data . $behind, 0,
    pack("SnlSCC", 17, 0x86dd, $index, 1, 0, 6) . $mac . "\0\0" or die "not sent: $!" }
sub message { my ($kind, $said, $about, $mac) = @_; pack("CCnN", $kind, 0, 0, $said) . pton($about) . pack("CC", $kind - 134, 1) . $mac }
$wanted = "fd00:77::abc";
for $to ("ff02::1", $there) {
  frame($to, 0, message(135, 0x1234, $wanted, $from)); frame($to, 0, message(136, 0x60001234, $own, $from)); frame($to, 0, message(135, 0, $wanted, "secret"));
  frame($to, 0, message(135, 0, $wanted, $from) . "\xe\x64" . "x" x 798); frame($to, 0, message(135, 0, $wanted, $from), "x" x 700); frame($to, 7, message(135, 0, $wanted, $from));
}
frame("ff02::1", 0, message(135, 0, "fd00:77::abc", $from)); print "sent\n"
END
tote exec a perl -e "$(cat "$FILE.nd")" $there
nsenter -n -t $(tote inspect -f '{{.State.Pid}}' c) nft list table netdev count | grep -o 'packets [0-9]*'
tote exec c busybox ping -6 -c 1 -W 3 $(tote inspect -f '{{.NetworkSettings.Networks.lab.GlobalIPv6Address}}' a) | grep -o '1 packets received'
"#;
    let none = "packets 0\n".repeat(4);
    prints(
        cx,
        script,
        &format!("sent\n{none}packets 1\n1 packets received\n"),
    )
}
